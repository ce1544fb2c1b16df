/*
 * dong_circle_loop.h: a small network that has learnt to move two points a step along their circle,
 * fed its own answers: whether the two trajectories merge (docs/lab.md, dong-circle).
 */
#ifndef RS_LAB_DONG_CIRCLE_LOOP_H
#define RS_LAB_DONG_CIRCLE_LOOP_H

#include "base/context.h"

struct rs_kept_runs;

enum { RS_CIRCLE_STEPS = 300 };

/* The published block with its own skip and norm, or the theorem's: without norms. */
typedef enum rs_circle_kind {
    RS_CIRCLE_ATTENTION,     /* z <- Out(Attention(In(z))): a recurrent SAN, exactly */
    RS_CIRCLE_MLP,           /* z <- Out(MLP(Attention(In(z)))) */
    RS_CIRCLE_SKIP,          /* z <- Out(h + Attention(h)), h = In(z) */
    RS_CIRCLE_RELEASED,      /* z <- Out(LN(h + Attention(h))), h = LN(In(z)) */
    RS_CIRCLE_RELEASED_MLP,  /* with LN(a + MLP(a)) behind */
    RS_CIRCLE_RELEASED_SKIP, /* c <- c + f(c), of which f(c) is shown; trained with a batch's points
                                 added to those of the next */
    RS_CIRCLE_KINDS
} rs_circle_kind;
extern const char *const rs_circle_names[RS_CIRCLE_KINDS];

/* A run. Numbers alone: so they are kept. */
typedef struct rs_circle_run {
    double diverged; /* 1: its training did; 0 */
    double
        loss; /* squared error of a step at the end of training, sum over a sample, dropout off */
    /* |z_1 - z_2| behind t steps over that of t = 0; infinity where numbers were lost */
    double apart[RS_CIRCLE_STEPS + 1];
    double radius[RS_CIRCLE_STEPS + 1]; /* mean of |z_1| and |z_2|, over 0.3 */
    double
        stays; /* mean of min(apart, 1) over t = 1 .. 300: 0 where they merge at once, 1 where they
                     stay */
} rs_circle_run;

/* What is trained. rate: as JSON has it. */
typedef struct rs_circle_asked {
    rs_circle_kind kind;
    int width, steps;
    const char *rate;
    uint64_t seed;
} rs_circle_asked;
/* Trains and lets it run from sample 0; kept: what it has is taken from there, and what it has not is
 * added (kept_runs.h); or NULL. */
rs_status rs_circle_go(rs_circle_run *run, const rs_circle_asked *asked, struct rs_kept_runs *kept,
                       const rs_context *context, rs_error *err);

#endif
