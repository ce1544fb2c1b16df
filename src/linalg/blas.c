/* blas.c: facts about the BLAS we run on. */
#include "linalg/blas.h"

const char *rs_blas_core(void)
{
    return openblas_get_corename();
}

const char *rs_blas_config(void)
{
    return openblas_get_config();
}

void rs_blas_set_threads(int threads)
{
    openblas_set_num_threads(threads);
}
