/* network_multipliers.c: numbers of a configuration by which outputs of maps are multiplied. */
#include "network/network_build.h"

#include <math.h>

/* One number of the field; 1 where it is absent. */
static rs_status number_of(rs_net_builder *nb, const rs_multiplier *row, int entry, double *value)
{
    const rs_fields *fields = &nb->b->fields;
    const json_t *json = rs_fields_key(fields, row->field);
    *value = 1;
    if (!json) return RS_OK;
    if (row->count == 0) return rs_net_real(nb, row->field, value);
    const json_t *number = json_array_get(json, (size_t)entry);
    *value = json_number_value(number);
    if (json_array_size(json) == (size_t)row->count && json_is_number(number) && isfinite(*value))
        return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_SIZE, fields->path, RS_CONFIG_HINT,
                   "%s must be a list of %d numbers", row->field, row->count);
}

/* Multiplies what is there already: f(W (g x) + b) is f g W x + f b. */
static rs_status apply_row(rs_net_builder *nb, const rs_multiplier *row, rs_dense_factor *factors,
                           int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        double value;
        RS_TRY(number_of(nb, row, row->each ? i : row->entry, &value));
        factors[i].weight *= value;
        if (!row->input) factors[i].bias *= value;
    }
    return RS_OK;
}

rs_status rs_net_multiply(rs_net_builder *nb, rs_role role, const rs_branch *branch, rs_dense *map)
{
    rs_dense_factor factors[RS_NET_STRETCHES];
    int64_t units[RS_NET_STRETCHES] = {map->out};
    int32_t n = role == RS_ROLE_SSM_IN && branch->kind == RS_BRANCH_SSD
                    ? rs_net_ssd_stretches(units, &branch->ssd)
                    : 1;
    bool plain = true;
    for (int32_t i = 0; i < n; i++)
        factors[i] = (rs_dense_factor){units[i], 1, 1};
    for (const rs_multiplier *row = nb->forward->multipliers; row && row->field; row++)
        if (row->role == role) RS_TRY(apply_row(nb, row, factors, n));
    for (int32_t i = 0; i < n; i++)
        plain = plain && factors[i].weight == 1 && factors[i].bias == 1;
    if (plain) return RS_OK;
    rs_dense_factor *kept = rs_arena_alloc(nb->network->arena, (size_t)n, sizeof *kept);
    if (!kept) return rs_fail_memory(nb->err, "network", (size_t)n * sizeof *kept);
    for (int32_t i = 0; i < n; i++) {
        kept[i] = factors[i];
        if (!isfinite(factors[i].weight) || !isfinite(factors[i].bias))
            return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                           "its multipliers of %s multiply to more than any double",
                           rs_role_name(role));
    }
    map->factors = kept;
    map->n_factors = n;
    return RS_OK;
}
