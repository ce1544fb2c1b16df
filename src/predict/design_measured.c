/* design_measured.c: see design_measured.h. */
#include "predict/design_measured.h"

#include "network/op_traits.h"
#include "predict/theory_network.h"

#include <math.h>

/* What one network is made of. */
typedef struct maker {
    rs_init *init;
    bool measures; /* laws are of what is stored, not of a plan */
} maker;

static bool is_drawn(const rs_dense *map)
{
    return map && map->weight && !map->weight->fixed;
}

/* ---- maps and norms ---- */

static rs_status law_of_map(rs_weight_law *out, const maker *m, const rs_dense *map, rs_error *err)
{
    double square;
    if (!m->measures) {
        *out = *rs_init_law(map->weight);
        return RS_OK;
    }
    RS_TRY(rs_theory_stored.map(NULL, &square, map, err));
    *out = (rs_weight_law){.kind = RS_LAW_NORMAL, .deviation = sqrt(square)};
    return RS_OK;
}

/* A matrix of its own, whatever it shared with others. */
static rs_status make_map(rs_dense *map, const maker *m, rs_role role, int32_t layer, rs_error *err)
{
    rs_weight_law law;
    const int64_t shape[] = {map->out, map->in};
    const rs_tensor *weight;
    RS_TRY(law_of_map(&law, m, map, err));
    RS_TRY(rs_init_tensor_by(&weight, m->init, role, layer, &law, 2, shape, err));
    *map = (rs_dense){.weight = weight,
                      .rows = map->out,
                      .cols = map->in,
                      .out_is_row = true,
                      .in = map->in,
                      .out = map->out,
                      .run = map->out,
                      .stride = map->out};
    return RS_OK;
}

static rs_status make_norm(rs_norm_op *norm, const maker *m, int32_t layer, rs_error *err)
{
    double square;
    rs_weight_law law;
    if (norm->kind == RS_NORM_NONE || !norm->gain) {
        norm->bias = NULL;
        return RS_OK;
    }
    if (m->measures) {
        RS_TRY(rs_theory_stored.gain(NULL, &square, norm, err));
        law = (rs_weight_law){.kind = RS_LAW_NORMAL, .mean = sqrt(square)};
    } else {
        law = *rs_init_law(norm->gain);
    }
    if (norm->kind == RS_NORM_RMSNORM_PLUS_ONE) norm->kind = RS_NORM_RMSNORM;
    norm->bias = NULL;
    return rs_init_tensor_by(&norm->gain, m->init, RS_ROLE_NORM_MIXER, layer, &law, 1, &norm->dim,
                             err);
}

/* ---- layers ---- */

static rs_status make_branch(rs_branch *branch, const maker *m, int32_t layer, rs_error *err)
{
    const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
    for (size_t i = 0; i < weights->n; i++) {
        rs_dense *map = rs_weight_map_to_fill(&weights->rows[i], branch);
        if (is_drawn(map)) RS_TRY(make_map(map, m, weights->rows[i].role, layer, err));
    }
    RS_TRY(make_norm(&branch->before, m, layer, err));
    RS_TRY(make_norm(&branch->inside, m, layer, err));
    return make_norm(&branch->after, m, layer, err);
}

/* The maps of a branch that another layer has as well; skips and scales are its own. */
static void share_branch(rs_branch *branch, const rs_branch *with)
{
    const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
    for (size_t i = 0; i < weights->n; i++) {
        rs_dense *map = rs_weight_map_to_fill(&weights->rows[i], branch);
        const rs_dense *same = rs_weight_map(&weights->rows[i], with);
        if (is_drawn(map) && same) *map = *same;
    }
    branch->before = with->before;
    branch->inside = with->inside;
    branch->after = with->after;
}

/* The first layer with the weights of this one, itself if there is none before it. */
static int32_t first_with(const rs_network *network, int32_t l)
{
    int32_t k = 0;
    while (network->layers[k].stored != network->layers[l].stored)
        k++;
    return k;
}

static rs_status make_layers(rs_network *network, const maker *m, rs_error *err)
{
    for (int32_t l = 0; l < network->n_layers; l++) {
        rs_layer *layer = &network->layers[l];
        const rs_layer *first = &network->layers[first_with(network, l)];
        for (int32_t b = 0; b < layer->n_branches; b++) {
            if (first != layer && first->n_branches == layer->n_branches)
                share_branch(&layer->branches[b], &first->branches[b]);
            else
                RS_TRY(make_branch(&layer->branches[b], m, l, err));
        }
    }
    return make_norm(&network->final_norm, m, network->n_layers, err);
}

static rs_status make(rs_network **out, const maker *m, const rs_network *from, rs_error *err)
{
    RS_TRY(rs_network_copy(out, from, err));
    rs_status status = make_layers(*out, m, err);
    if (status == RS_OK) return RS_OK;
    rs_network_close(*out);
    *out = NULL;
    return status;
}

rs_status rs_measured_plan(rs_network **out, rs_init *init, const rs_network *stored, rs_error *err)
{
    const maker m = {.init = init, .measures = true};
    return make(out, &m, stored, err);
}

rs_status rs_measured_draw(rs_network **out, rs_init *init, const rs_network *plan, rs_error *err)
{
    const maker m = {.init = init};
    rs_network *counted;
    rs_init_plan(init);
    RS_TRY(make(&counted, &m, plan, err));
    rs_status status = rs_init_start(init, counted, err);
    rs_network_close(counted);
    return status == RS_OK ? make(out, &m, plan, err) : status;
}
