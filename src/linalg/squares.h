/* squares.h: small square matrices become bidiagonal, several at once. */
#ifndef RS_LINALG_SQUARES_H
#define RS_LINALG_SQUARES_H

#include "base/error.h"
#include "linalg/bidiagonal.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Collects matrices until there are as many of one size as a vector has lanes, and has each of them become
 * bidiagonal in a lane of its own (linalg/bidiagonalise.h): all take the same steps, none waits for
 * its own sums. A matrix's numbers do not depend on its company. Larger ones, and those that LAPACK
 * would rescale, do not wait. One of these per thread; start with {.room = ...}.
 */
enum { RS_SQUARES_AT_ONCE = 8 };
typedef struct rs_squares {
    double *room; /* rs_squares_room(largest n) doubles */
    int64_t n;    /* rows of those that wait */
    int count;
    rs_bidiagonal waiting[RS_SQUARES_AT_ONCE];
    double least[RS_SQUARES_AT_ONCE]; /* sums of squares that count as 0 */
} rs_squares;

size_t rs_squares_room(int64_t n);
size_t rs_squares_work(int64_t n);

/* Takes a matrix [n, n], n = out->n, and overwrites it: out->d [n] and out->e [n - 1] are a bidiagonal matrix
 * of its singular values when `finish` has returned; or out->n is 0 at once, and out->d has the
 * singular values, descending. work: rs_squares_work(n) doubles. RS_E_LAPACK. */
rs_status rs_squares_add(rs_squares *all, rs_bidiagonal *out, double *matrix, double *work,
                         rs_error *err);
/* All that waits becomes bidiagonal. */
void rs_squares_finish(rs_squares *all);

/* Test hook: vectors of at most so many lanes, 0: none wait; below 0: this processor's again. */
void rs_squares_use(int lanes);

#endif
