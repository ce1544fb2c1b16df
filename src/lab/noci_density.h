/*
 * noci_density.h: the density of ‖X‖² over networks at initialisation, a part of experiment noci-fig1.
 */
#ifndef RS_LAB_NOCI_DENSITY_H
#define RS_LAB_NOCI_DENSITY_H

#include "lab/lab.h"

/* Adds the table, its figure and the claims. */
rs_status rs_noci_density(rs_lab_report *report, const rs_lab_options *options,
                          const rs_context *context, rs_error *err);

#endif
