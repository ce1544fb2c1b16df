/*
 * theory.c: a network layer by layer, there and back (docs/theory/mean_field.md, 4 to 6).
 */
#include "predict/theory.h"

#include "base/memory.h"
#include "predict/ln.h"
#include "predict/theory_run.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- what no network has ---- */

static rs_status check_number(double value, const char *name, int32_t layer, rs_error *err)
{
    if (value >= 0 && isfinite(value)) return RS_OK;
    char where[64];
    snprintf(where, sizeof where, "layer %d: %s", (int)layer, name);
    return rs_fail(err, RS_E_BAD_OPTION, where, "a variance is a number that is not negative",
                   "%s is %g", name, value);
}

/* Of logits the variance has the temperature's inverse square. */
static rs_status check_temperature(double logit, int32_t layer, rs_error *err)
{
    char where[64];
    if (logit >= 0 && isfinite(logit)) return RS_OK;
    snprintf(where, sizeof where, "layer %d: temperature", (int)layer);
    return rs_fail(err, RS_E_BAD_OPTION, where, "a temperature is a number above 1e-150",
                   "no double holds what its logits are multiplied by, squared");
}

static rs_status check_branch(const rs_theory_branch *b, int32_t layer, rs_error *err)
{
    if (b->refused) return RS_OK;
    if (!isfinite(b->skip) || !isfinite(b->scale))
        return rs_fail(err, RS_E_BAD_OPTION, "skip and branch", NULL,
                       "layer %d has the skip %g and the branch %g", (int)layer, b->skip, b->scale);
    if (b->is_mlp) {
        RS_TRY(check_number(b->mlp.up, "w1", layer, err));
        if (b->mlp.gated) RS_TRY(check_number(b->mlp.gate, "wg", layer, err));
        return check_number(b->mlp.down, "w2", layer, err);
    }
    RS_TRY(check_number(b->attention.queries, "wq", layer, err));
    RS_TRY(check_number(b->attention.keys, "wk", layer, err));
    RS_TRY(check_number(b->attention.values, "wv", layer, err));
    RS_TRY(check_number(b->attention.output, "wo", layer, err));
    return check_temperature(b->attention.logit, layer, err);
}

static rs_status check_network(const rs_theory_network *net, rs_error *err)
{
    double n = (double)net->n, least = n > 1 ? -1 / (n - 1) : -1;
    if (net->n < 1 || net->d < 1 || net->n_layers < 0)
        return rs_fail(err, RS_E_BAD_OPTION, "sizes", NULL,
                       "%" PRId64 " tokens of width %" PRId64 " in %d layers are no network",
                       net->n, net->d, (int)net->n_layers);
    if (!(net->rho0 >= least * (1 + 1e-12) && net->rho0 <= 1))
        return rs_fail(err, RS_E_BAD_OPTION, "rho", "a correlation of n tokens is -1/(n-1) to 1",
                       "rho is %g for %" PRId64 " tokens", net->rho0, net->n);
    if (isnan(net->ln_square0) || net->ln_square0 == INFINITY)
        return rs_fail(err, RS_E_BAD_OPTION, "norm2", NULL, "the squared norm is no number");
    for (int32_t l = 0; l < net->n_layers; l++) {
        for (int32_t b = 0; b < net->layers[l].n_branches; b++)
            RS_TRY(check_branch(&net->layers[l].branches[b], l, err));
    }
    return RS_OK;
}

/* ---- rows ---- */

static const rs_theory_row empty_row = {NAN,
                                        NAN,
                                        NAN,
                                        NAN,
                                        NAN,
                                        NAN,
                                        NAN,
                                        NAN,
                                        NAN,
                                        NAN,
                                        NAN,
                                        RS_FORMULA_NONE,
                                        RS_FORMULA_NONE,
                                        RS_FORMULA_NONE,
                                        NULL,
                                        false};

double rs_theory_ratio(const rs_theory_row *row)
{
    return row->ln_value == -INFINITY ? NAN : row->ln_query - row->ln_value;
}

static bool needs_gram(const rs_theory_network *net)
{
    for (int32_t l = 0; l < net->n_layers; l++) {
        for (int32_t b = 0; b < net->layers[l].n_branches; b++) {
            const rs_theory_branch *branch = &net->layers[l].branches[b];
            const rs_theory_attention *op = &branch->attention;
            if (branch->refused || branch->is_mlp) continue;
            if (op->causal || op->window > 0 || op->pairs > 0) return true;
        }
    }
    return false;
}

/* Measured: an unmasked layer takes 30 µs whatever its size, one with a mask 65 ns for each pair of tokens,
 * a rotary one 10 ns for each three. A layer with a mask keeps two Gram matrices and a triangle. */
rs_theory_need rs_theory_need_of(const rs_theory_network *net)
{
    double n = (double)net->n, layers = net->n_layers, real = sizeof(double);
    bool turned = false;
    if (net->n <= 1 || !needs_gram(net))
        return (rs_theory_need){3e5 * layers, layers * (double)rs_theory_pairs_bytes()};
    for (int32_t l = 0; l < net->n_layers; l++)
        for (int32_t b = 0; b < net->layers[l].n_branches; b++)
            turned |= net->layers[l].branches[b].attention.pairs > 0;
    double each = turned ? 100 * n * n * n : 650 * n * n;
    return (rs_theory_need){each * layers, n * n * real * (17 + 2.5 * layers)};
}

rs_status rs_theory_run(rs_theory_row *rows, const rs_theory_network *network,
                        const rs_theory_settings *settings, rs_error *err)
{
    RS_TRY(check_network(network, err));
    for (int32_t l = 0; l <= network->n_layers; l++)
        rows[l] = empty_row;
    /* one token sees itself alone under any mask */
    if (network->n > 1 && needs_gram(network))
        return rs_theory_run_gram(rows, network, settings, err);
    return rs_theory_run_pairs(rows, network, settings, err);
}
