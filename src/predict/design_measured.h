/*
 * design_measured.h: networks like one that is stored: every map of its layers normal, of the mean square
 * that the stored one has, gains their root mean square, no biases. Theory and trials speak of these
 * (docs/predict.md, What it reads).
 */
#ifndef RS_PREDICT_DESIGN_MEASURED_H
#define RS_PREDICT_DESIGN_MEASURED_H

#include "network/network.h"

/* The laws, measured of what `stored` has; init, which has been told to plan, owns them. What is no map
 * and no norm around an op, and all outside of the layers but the final norm, stays `stored`'s, which
 * must outlive it. RS_E_NO_MEMORY; errors of decoding. */
rs_status rs_measured_plan(rs_network **out, rs_init *init, const rs_network *stored,
                           rs_error *err);
/* Such a network, of the laws of a plan, which must outlive it; init owns the numbers. Errors of drawing
 * (RS_E_MEMORY_LIMIT before the first number is drawn). */
rs_status rs_measured_draw(rs_network **out, rs_init *init, const rs_network *plan, rs_error *err);

#endif
