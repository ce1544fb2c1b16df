/*
 * blas.h: the one place where BLAS and LAPACK are named. Everything is row-major for the caller; a
 * row-major matrix is handed to LAPACK as its transpose, which has the same singular values, so
 * nothing is ever copied to transpose it.
 */
#ifndef RS_LINALG_BLAS_H
#define RS_LINALG_BLAS_H

#include "base/cpu.h"

#include <cblas.h>
#include <lapacke.h>

/* The kernel that OpenBLAS chose ("Zen"), and its configuration string. */
const char *rs_blas_core(void);
const char *rs_blas_config(void);
/* The kernel to ask for (OPENBLAS_CORETYPE) when the `chosen` one uses narrower vectors than a
 * processor of that level and maker offers; NULL when the choice is fine or unknown to be bad.
 * x86-64 only. */
const char *rs_blas_better_core(const char *chosen, rs_cpu_level level, bool amd);

#endif
