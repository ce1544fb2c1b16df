/*
 * remedies.h: changes of an architecture that are said to keep tokens apart or gradients in balance,
 * as edits of its file; what each does, by theory and by trials, and at what price.
 */
#ifndef RS_PREDICT_REMEDIES_H
#define RS_PREDICT_REMEDIES_H

#include "predict/predict_parts.h"

/* ---- edits ---- */

typedef struct rs_remedy {
    const char *name;
    const char *says;    /* what is changed, as a reader of an architecture file says it */
    const char *at_init; /* what becomes of the function that is there at initialisation */
    /* Edits the file; *applies is false where it changes nothing, or is not for such an architecture.
     * RS_E_NO_MEMORY. */
    rs_status (*apply)(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err);
    bool fuses; /* the states of all layers are read side by side; the layers are as they were */
} rs_remedy;

/* Remedy i; NULL behind the last. */
const rs_remedy *rs_remedy_at(size_t i);
/* One by name; RS_E_BAD_OPTION names the nearest. */
rs_status rs_remedy_find(const rs_remedy **out, const char *name, size_t length, rs_error *err);

/* ---- what they do ---- */

/* What is compared of an architecture: by theory, or of networks that were drawn. */
typedef struct rs_remedy_side {
    rs_predict_found found; /* verdict unknown: there are no numbers */
    double apart, ratio;    /* log10(1 − ρ) at the end, least log10(gQ/gV) */
    double most;            /* apart is at most so much where rounding hides it; else NaN */
    double growth, back;    /* decades of ‖X‖², and of ‖∂L/∂X‖² on the way back */
    double keys;            /* fewest effective keys */
    bool idle;              /* queries of some layer have no gradient at all */
} rs_remedy_side;
rs_remedy_side rs_remedy_side_of(const rs_forecast *forecast);

/* The numbers of a side that trials compare, each a difference of two levels in decades. */
typedef enum rs_remedy_number {
    RS_REMEDY_APART,
    RS_REMEDY_RATIO,
    RS_REMEDY_GROWTH,
    RS_REMEDY_BACK,
    RS_REMEDY_NUMBERS
} rs_remedy_number;
/* By how much a number moves, in decades; where rounding hides one of the two, by how much at least. NaN:
 * not known. */
double rs_remedy_change(const rs_remedy_side *before, const rs_remedy_side *then,
                        rs_remedy_number number);
double rs_remedy_number_of(const rs_remedy_side *side, rs_remedy_number number);

typedef struct rs_remedied {
    const rs_remedy *remedy;
    bool fixed; /* its attention has no softmax, which could condense */
    bool made;  /* its file makes an architecture; note says why not */
    rs_remedy_side theory;
    bool measured; /* the rest of this part is of trials */
    bool beyond;   /* those without it left the doubles: theory's sides are compared */
    rs_remedy_side before, drawn;           /* without and with it, of the same random draws */
    double error[RS_REMEDY_NUMBERS];        /* standard errors of drawn, in decades */
    double change_error[RS_REMEDY_NUMBERS]; /* and of drawn - before, over pairs of trials */
    double parameters_ratio, time_ratio;
    char worse_at[64]; /* questions of which it makes the answer worse; empty: none */
    double score;      /* the larger, the more it helps; measured or not, not to be compared */
    char note[300];    /* why there are no numbers; empty: there are */
} rs_remedied;

typedef struct rs_remedies {
    rs_remedied *list; /* [n] those that were drawn first, the best first of each */
    size_t n, n_measured;
    bool left_out; /* nobody named any, and theory of all would take too long */
    /* of trials: how many, how wide their networks, and the architecture as it is; 0: there are none */
    int32_t trials;
    int64_t width;
    bool twin; /* narrower ones than the architecture says */
    rs_remedy_side now;
    double now_error[RS_REMEDY_NUMBERS];
} rs_remedies;

/* Whether all of the names are remedies. */
rs_status rs_remedies_check(const char *names, rs_error *err);
/* Runs the remedies of `names` (comma-separated; "all" or NULL: all that apply): by theory, and by trials
 * where the run has any: all that are named, or NULL: the three best by theory, all where it has no
 * verdict. RS_E_BAD_OPTION: no such name; errors of trials. On failure, too, it is to be freed. */
rs_status rs_remedies_run(rs_remedies *out, const rs_predict_run *run, const char *names,
                          rs_error *err);
void rs_remedies_free(rs_remedies *remedies);
/* Whether it is better than what it changes, and the number that shows it: one that moves by more than
 * theory's rounding, or twice the standard error of the change. */
bool rs_remedy_helps(const rs_remedied *remedied, const rs_predict_run *run);
/* What it is compared by, of trials or of theory: without it, and with it. */
rs_remedy_side rs_remedy_before(const rs_remedied *remedied, const rs_predict_run *run);
rs_remedy_side rs_remedy_then(const rs_remedied *remedied);
/* 1 − ρ of a side in words: "0.3", "10^-12.1", "below 10^-28", "nothing: states are 0". */
const char *rs_remedy_say_apart(char out[48], const rs_remedy_side *side);
/* Whether a number of trials moves by more than chance. */
bool rs_remedy_moves(const rs_remedied *remedied, rs_remedy_number number);

/* remedies_table.c */
rs_status rs_remedies_table(rs_result *result, const rs_predict_run *run, rs_error *err);

#endif
