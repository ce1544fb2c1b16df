/* dong_depth_kin.h: the other two panels of dong-depth-init, ALBERT and XLNet at initialisation. */
#ifndef RS_LAB_DONG_DEPTH_KIN_H
#define RS_LAB_DONG_DEPTH_KIN_H

#include "lab/lab.h"

/* Runs them and adds their tables, figures and claims. */
rs_status rs_lab_depth_kin(rs_lab_report *report, const rs_lab_options *options,
                           const rs_context *context, rs_error *err);

#endif
