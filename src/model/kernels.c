/* kernels.c: which table of kernels runs here. */
#include "model/kernels.h"

const rs_kernels_f32 *rs_kernels_f32_here(void)
{
    return &rs_kernels_f32_plain;
}

const rs_kernels_f64 *rs_kernels_f64_here(void)
{
    return &rs_kernels_f64_plain;
}
