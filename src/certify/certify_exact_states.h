/*
 * certify_exact_states.h: how far, at most, what a state-space mixer adds in exact arithmetic is from
 * what the float64 pass added, from a tapped state that is taken as exact (docs/certificates.md, C11).
 *
 * The branch is evaluated once more by plain loops, with a radius beside each number; the distance
 * of the result from what was tapped, and its radius, are the bound. So nothing is assumed about how
 * the engine computes.
 */
#ifndef RS_CERTIFY_CERTIFY_EXACT_STATES_H
#define RS_CERTIFY_CERTIFY_EXACT_STATES_H

#include "certify/certify_radius.h"
#include "engine/forward.h"

/* A branch on a batch. */
typedef struct rs_exact_states {
    const rs_branch *branch;
    const double *read;    /* [rows, d] the tapped state that its first norm reads */
    const double *added;   /* [rows, d] as told at RS_MOMENT_ADDED: before the branch's scale */
    const rs_batch *batch; /* its samples' first rows */
    const rs_context *context;
} rs_exact_states;

/* Why there is no such bound for the branch; NULL: there is. */
const char *rs_exact_states_unbounded(const rs_branch *branch);

/* error [samples]: the largest distance of a row (2-norm), 0 for a sample without rows, infinite
 * where nothing is known. Only where rs_exact_states_unbounded is NULL. Does not depend on the number
 * of threads. */
rs_status rs_exact_states_added(double *error, const rs_exact_states *at, rs_error *err);
/* The bytes that takes on a batch of so many rows, which hardly grow beyond one panel. */
double rs_exact_states_bytes(const rs_branch *branch, int64_t rows, int threads);

/* ---- what each kind of mixer does (private to certify_exact_*.c) ---- */

/* Some rows of a batch, and what is made of them. */
typedef struct rs_states_panel {
    const rs_branch *branch;
    const rs_context *context;
    rs_arena *arena;
    int64_t most;      /* rows of any panel, at most */
    rs_radius_rows in; /* behind the norm before the op */
    rs_states_part *parts;
    int64_t n_parts;
    rs_radius_map out; /* what the op gives */
} rs_states_panel;

enum { RS_STATES_CHUNK = 64, RS_STATES_PANEL = 512 }; /* tokens */

/* A kind: opened once a branch, then handed the panels in their order. What it asks for comes from
 * the panel's arena. */
typedef struct rs_states_kind {
    rs_status (*open)(void **mixer, const rs_states_panel *panel, rs_error *err);
    rs_status (*run)(void *mixer, rs_states_panel *panel, rs_error *err);
    /* How many doubles it asks for, maps that are being applied left out. */
    double (*size)(const rs_branch *branch, double rows, int threads);
} rs_states_kind;
extern const rs_states_kind rs_states_ssd, rs_states_s6;

#endif
