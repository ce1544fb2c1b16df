/* ssm_rest.c: what decides the decay at rest of a state-space mixer (docs/theory/ssm.md, 2-4): its
 * tensors, and the configuration's law and limits of steps. */
#include "recognise/builder.h"

#include <math.h>
#include <string.h>

/* The field's older name where the file has that, which counts; else `key`. */
static const char *name_of(const rs_builder *b, const char *key)
{
    const rs_forward *forward = b->family->forward;
    for (const rs_old_name *row = forward ? forward->old_names : NULL; row && row->key; row++)
        if (strcmp(row->key, key) == 0 && rs_fields_key(&b->fields, row->old)) return row->old;
    return key;
}

/* The field, or what the reference's configuration class has where the file is silent. */
static rs_status real_or(const rs_builder *b, const char *key, double silent, double *value)
{
    bool found;
    *value = silent;
    return rs_fields_real(&b->fields, name_of(b, key), value, &found, b->err);
}

static rs_status read_steps(rs_builder *b, rs_step_law *law)
{
    law->least = 0;
    law->most = INFINITY;
    RS_TRY(real_or(b, "time_step_min", 1e-3, &law->low));
    RS_TRY(real_or(b, "time_step_max", 0.1, &law->high));
    RS_TRY(real_or(b, "time_step_floor", 1e-4, &law->floor));
    if (b->family->facts & RS_FACT_STEP_FROM_MIN)
        law->least = law->low;
    else if (b->family->ssm == RS_SSM_SSD)
        RS_TRY(rs_fields_limits(&b->fields, "time_step_limit", &law->least, &law->most, b->err));
    if (law->low > 0 && law->high >= law->low) return RS_OK;
    return rs_fail(b->err, RS_E_CONFIG_SIZE, b->fields.path, NULL,
                   "no step lies between time_step_min %g and time_step_max %g", law->low,
                   law->high);
}

/* A configuration that cannot be read so hides the decays, not the products. */
static rs_status find_steps(rs_builder *b)
{
    if (read_steps(b, &b->model->steps) == RS_OK) return RS_OK;
    b->model->steps = (rs_step_law){NAN, NAN, NAN, NAN, NAN};
    return rs_notes_say(&b->model->notes, b->err, RS_WARN, "rest_unknown", NULL,
                        "%s: %s; table ssm has no decay and no step", b->err->where, b->err->what);
}

rs_status rs_ssm_rest_add(rs_builder *b, const rs_block *block, const rs_ssm_sizes *sizes)
{
    rs_model *model = b->model;
    bool by_head = b->family->ssm == RS_SSM_SSD;
    if (!model->n_rests) RS_TRY(find_steps(b));
    if (!RS_GROW(model->rests, model->n_rests, b->rests_capacity))
        return rs_fail_memory(b->err, "model", 0);
    rs_ssm_rest rest = {.layer = block->layer,
                        .by_head = by_head,
                        .channels = by_head ? sizes->heads : sizes->inner,
                        .states = by_head ? 1 : sizes->state,
                        .a_stored = b->checkpoint->format == RS_FORMAT_GGUF};
    rest.a = rs_block_tensor(b, block, RS_ROLE_SSM_A, RS_PART_WEIGHT);
    rest.d = rs_block_tensor(b, block, RS_ROLE_SSM_D, RS_PART_WEIGHT);
    rest.dt_bias = rs_block_tensor(b, block, RS_ROLE_SSM_DT_BIAS, RS_PART_WEIGHT);
    if (!rest.dt_bias) rest.dt_bias = rs_block_tensor(b, block, RS_ROLE_SSM_DT, RS_PART_BIAS);
    model->rests[model->n_rests++] = rest;
    return RS_OK;
}
