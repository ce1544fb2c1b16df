/* arch_input.h: what the files share that draw an architecture's tokens; private to arch_*.c. */
#ifndef RS_NETWORK_ARCH_INPUT_H
#define RS_NETWORK_ARCH_INPUT_H

#include "network/arch.h"
#include "network/draw.h"

/* x *= length / |x|, and x -= (x.u) u for a unit vector u; [n]. */
void rs_input_scale(double *x, double length, int64_t n);
void rs_input_orthogonalise(double *x, const double *u, int64_t n);

/* arch_apart.c: whether so many tokens of such width can have the correlation "rho"
 * (RS_E_ARCH_SCHEMA), and those of a correlation below 0. */
rs_status rs_arch_input_check(const rs_arch *arch, rs_error *err);
rs_status rs_arch_input_apart(double *states, const rs_arch *arch, const rs_draw *stream,
                              rs_error *err);

#endif
