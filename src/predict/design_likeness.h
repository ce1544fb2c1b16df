/*
 * design_likeness.h: a published configuration as an architecture file, so that what is asked of one
 * can be asked of a changed one.
 */
#ifndef RS_PREDICT_DESIGN_LIKENESS_H
#define RS_PREDICT_DESIGN_LIKENESS_H

#include "predict/design.h"

/* The layers of a published design whose laws are known, as an architecture file (the caller's) that is
 * fed states of its input's law. Variances are kept as the numbers they are. *out is NULL where no such
 * file says the same: layers that differ, an operation that theory does not cover. RS_E_NO_MEMORY. */
rs_status rs_design_likeness(json_t **out, const rs_design *design, rs_error *err);

#endif
