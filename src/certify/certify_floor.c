/* certify_floor.c: which states of a pass are rounding, by probe's rule. */
#include "certify/certify_parts.h"
#include "observe/gather.h"

#include "base/memory.h"

#include <math.h>

/* The residual behind the mixer is not measured here: it marks nothing by itself. */
static void mark_sample(rs_certify_pass *pass, int64_t s, bool *marks, double *residuals)
{
    int32_t layers = pass->network->n_layers;
    rs_certify_state *states = &pass->states[s * (layers + 1)];
    /* rows of probe's table: state 0, then behind the block and behind the mixer of each layer */
    residuals[0] = states[0].relative_residual;
    for (int32_t l = 0; l < layers; l++) {
        residuals[2 * l + 1] = states[l + 1].relative_residual;
        residuals[2 * l + 2] = NAN;
    }
    rs_floor_marks(marks, residuals, 1, pass->network, rs_residual_floor(RS_PRECISION_F64));
    for (int32_t l = 0; l <= layers; l++)
        states[l].at_floor = states[l].at_floor || marks[l == 0 ? 0 : 2 * l - 1];
}

rs_status rs_certify_mark_floor(rs_certify_pass *pass, rs_error *err)
{
    size_t rows = 2 * (size_t)pass->network->n_layers + 1;
    double *residuals = rs_malloc(rows, sizeof *residuals);
    bool *marks = rs_malloc(rows, sizeof *marks);
    rs_status status = RS_OK;
    if (!residuals || !marks)
        status = rs_fail_memory(err, "marks of rounding", rows * sizeof *residuals);
    for (int64_t s = 0; status == RS_OK && s < pass->samples; s++)
        if (pass->tokens[s] > 0) mark_sample(pass, s, marks, residuals);
    rs_free(marks);
    rs_free(residuals);
    return status;
}
