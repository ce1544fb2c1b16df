/* theory_pairs.c: networks without masks, by equally correlated tokens (docs/theory/mean_field.md, 4
 * and 5). */
#include "predict/ln.h"
#include "predict/mean_field.h"
#include "predict/theory_run.h"

#include "base/memory.h"

rs_status rs_theory_map(rs_activation_map **out, rs_theory_maps *maps, rs_gauss_kind kind,
                        rs_error *err)
{
    if (!maps->of[kind]) RS_TRY(rs_activation_map_open(&maps->of[kind], kind, err));
    *out = maps->of[kind];
    return RS_OK;
}

void rs_theory_maps_close(rs_theory_maps *maps)
{
    for (int k = 0; k < RS_GAUSS_KINDS; k++)
        rs_activation_map_close(maps->of[k]);
}

/* A branch as it ran. */
typedef struct step {
    double before, inside, after; /* divisors */
    rs_field_attention attention;
    rs_field_mlp mlp;
} step;

size_t rs_theory_pairs_bytes(void)
{
    return RS_THEORY_BRANCHES * sizeof(step);
}

typedef struct run {
    const rs_theory_network *net;
    const rs_theory_settings *settings;
    rs_theory_row *rows;
    double n, d;
    rs_pair x;
    double kappa;
    bool linear; /* what A.5 asks for has held so far */
    step *steps; /* [n_layers][RS_THEORY_BRANCHES] */
    rs_theory_maps maps;
} run;

/* What every network's branch has that A.5 and A.6.1 cover. */
static bool is_linear(const rs_theory_branch *b)
{
    const rs_theory_attention *op = &b->attention;
    if (b->before.on || b->inside.on || b->after.on) return false;
    if (b->scale == 0) return true;
    if (b->is_mlp) return b->mlp.kind == RS_GAUSS_LINEAR && !b->mlp.gated;
    return op->softmax == 0 || op->queries == 0 || op->keys == 0 || op->logit == 0;
}

static void put_row(run *r, int32_t l)
{
    rs_theory_row *row = &r->rows[l];
    double square = rs_pair_square(r->x, r->n), width = log(r->d);
    row->ln_square = rs_ln_times(square, width + log(r->n));
    row->ln_sum = rs_ln_times(r->x.mean, width + 2 * log(r->n));
    bool has = r->n > 1 && square != -INFINITY;
    row->rho = has ? rs_pair_rho(r->x, r->n) : NAN;
    row->ln_apart = has ? rs_pair_apart(r->x, r->n) : NAN;
    row->forward = l == 0      ? RS_FORMULA_INPUT
                   : r->linear ? RS_FORMULA_LINEAR_FORWARD
                               : RS_FORMULA_MEAN_FIELD;
}

/* What a branch adds, and what it ran on. reason: why there is no number. */
static rs_status run_op(run *r, step *s, rs_pair *out, const rs_theory_branch *b, rs_pair in,
                        const char **reason, rs_error *err)
{
    if (b->is_mlp) {
        rs_activation_map *map = NULL;
        RS_TRY(rs_theory_map(&map, &r->maps, b->mlp.kind, err));
        if (!rs_field_mlp_run(&s->mlp, map, &b->mlp, in, r->n)) *reason = RS_THEORY_TOO_FAR;
        *out = s->mlp.out;
        return RS_OK;
    }
    RS_TRY(rs_field_attend(&s->attention, &b->attention, in, r->n, r->kappa, r->settings, err));
    *out = rs_field_attended(&s->attention, &b->attention);
    return RS_OK;
}

/* κ of the page's section 5: how far branches of finite width turn centred tokens to each other. */
static void grow_kappa(run *r, const rs_theory_branch *b, rs_pair added)
{
    if (r->x.gap == -INFINITY) return;
    double share = exp(added.gap - r->x.gap);
    double growth = b->is_mlp ? 2 * share : share * (2 - share);
    /* where neither W_V nor W_O is there to mix features */
    bool still = b->attention.no_values && (b->attention.merged || b->attention.no_output);
    if (!b->is_mlp && still) return;
    r->kappa = fmin(r->kappa + growth * (1 + r->kappa) / r->d, 1);
}

static rs_status run_branch(run *r, step *s, const rs_theory_branch *b, const char **reason,
                            rs_error *err)
{
    rs_pair added = {-INFINITY, -INFINITY};
    r->linear = r->linear && is_linear(b);
    if (b->scale != 0) {
        s->before = rs_norm_divisor(&b->before, rs_pair_square(r->x, r->n));
        rs_pair in = rs_pair_divided(r->x, s->before);
        RS_TRY(run_op(r, s, &added, b, in, reason, err));
        if (*reason) return RS_OK;
        s->inside = rs_norm_divisor(&b->inside, rs_pair_square(added, r->n));
        added = rs_pair_times(rs_pair_divided(added, s->inside), rs_ln_square(b->scale));
    }
    r->x = rs_pair_add(rs_pair_times(r->x, rs_ln_square(b->skip)), added);
    grow_kappa(r, b, added);
    s->after = rs_norm_divisor(&b->after, rs_pair_square(r->x, r->n));
    r->x = rs_pair_divided(r->x, s->after);
    return RS_OK;
}

static void put_attention(rs_theory_row *row, const rs_field_attention *at)
{
    row->logit_deviation = exp(at->ln_deviation);
    row->keys = 1 / at->moments.second;
    row->rough = at->rough;
    if (at->rough) row->note = RS_THEORY_ROUGH;
}

static rs_formula condensed_formula(const rs_field_attention *at)
{
    return at->rough ? RS_FORMULA_CONDENSED_ROUGH : RS_FORMULA_CONDENSED;
}

/* false in *whole: a branch was refused. */
static rs_status run_layer(run *r, int32_t l, bool *whole, rs_error *err)
{
    const rs_theory_layer *layer = &r->net->layers[l];
    rs_formula condensed = RS_FORMULA_NONE;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_theory_branch *branch = &layer->branches[b];
        step *s = &r->steps[l * RS_THEORY_BRANCHES + b];
        const char *reason = branch->refused;
        if (!reason) RS_TRY(run_branch(r, s, branch, &reason, err));
        *whole = !reason;
        /* nothing comes back from behind it either */
        for (int32_t k = 0; reason && k <= r->net->n_layers; k++)
            r->rows[k].note = reason;
        if (reason) return RS_OK;
        if (branch->is_mlp || branch->scale == 0) continue;
        put_attention(&r->rows[l], &s->attention);
        if (s->attention.condensed) condensed = condensed_formula(&s->attention);
    }
    put_row(r, l + 1);
    if (condensed != RS_FORMULA_NONE) r->rows[l + 1].forward = condensed;
    return RS_OK;
}

/* ---- back ---- */

/* A map that is absent has no gradient, not one of 0. */
static void put_gradients(rs_theory_row *row, const rs_field_gradients *g,
                          const rs_theory_attention *op, bool linear)
{
    row->ln_query = g->ln_query;
    row->ln_key = g->ln_key;
    row->ln_value = op->no_values ? NAN : g->ln_value;
    row->ln_output = op->no_output ? NAN : g->ln_output;
    row->query = RS_FORMULA_BACKWARD;
    row->backward = linear ? RS_FORMULA_LINEAR_BACKWARD : RS_FORMULA_BACKWARD;
}

static rs_pair branch_back(run *r, rs_theory_row *row, const step *s, const rs_theory_branch *b,
                           rs_pair out, bool linear)
{
    rs_pair skip = rs_pair_times(rs_pair_divided(out, s->after), rs_ln_square(b->skip));
    rs_pair in = rs_pair_times(rs_pair_divided(out, s->after), rs_ln_square(b->scale));
    rs_field_gradients g = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, {-INFINITY, -INFINITY}};
    if (b->scale == 0) {
        /* the weights of a branch of scale 0 have no gradient, whatever it holds */
        if (!b->is_mlp) put_gradients(row, &g, &b->attention, linear);
        return skip;
    }
    in = rs_pair_divided(in, s->inside);
    if (b->is_mlp) {
        in = rs_field_mlp_back(&s->mlp, in, r->n);
    } else {
        rs_field_attention_back(&g, &s->attention, &b->attention, in, r->n, r->d);
        put_gradients(row, &g, &b->attention, linear);
        in = g.in;
    }
    return rs_pair_add(skip, rs_pair_divided(in, s->before));
}

static bool is_condensed(const run *r, int32_t l)
{
    const rs_theory_layer *layer = &r->net->layers[l];
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_theory_branch *branch = &layer->branches[b];
        if (!branch->is_mlp && branch->scale != 0 &&
            r->steps[l * RS_THEORY_BRANCHES + b].attention.condensed)
            return true;
    }
    return false;
}

static void put_state_gradient(run *r, int32_t l, rs_pair g, bool linear)
{
    rs_theory_row *row = &r->rows[l];
    row->ln_state = rs_ln_times(rs_pair_square(g, r->n), log(r->n) + log(r->d));
    if (l == r->net->n_layers || row->backward == RS_FORMULA_NONE)
        row->backward = linear ? RS_FORMULA_LINEAR_BACKWARD : RS_FORMULA_BACKWARD;
}

static void run_back(run *r)
{
    const rs_theory_network *net = r->net;
    rs_pair g = {-log(r->n), 0}; /* ⟨G, X⟩, entries of G independent N(0, 1) */
    bool linear = r->linear;
    if (r->settings->after_final_norm) {
        g = rs_pair_divided(g, rs_norm_divisor(&net->final_norm, rs_pair_square(r->x, r->n)));
        linear = linear && !net->final_norm.on;
    }
    put_state_gradient(r, net->n_layers, g, linear);
    for (int32_t l = net->n_layers - 1; l >= 0; l--) {
        const rs_theory_layer *layer = &net->layers[l];
        if (is_condensed(r, l)) {
            for (int32_t k = 0; k <= l; k++)
                r->rows[k].note = r->rows[k].rough ? RS_THEORY_BOTH : RS_THEORY_CONDENSED;
            return;
        }
        for (int32_t b = layer->n_branches - 1; b >= 0; b--)
            g = branch_back(r, &r->rows[l], &r->steps[l * RS_THEORY_BRANCHES + b],
                            &layer->branches[b], g, linear);
        put_state_gradient(r, l, g, linear);
    }
}

static void start(run *r)
{
    double n = r->n, gap = 1 - r->net->rho0, mean = (1 + (n - 1) * r->net->rho0) / n;
    /* −1/(n−1) is no double: what is left is its rounding */
    if (fabs(mean) < 4e-16) mean = 0;
    r->x.mean = r->net->ln_square0 + log(n > 1 ? mean : 1);
    r->x.gap = n > 1 ? r->net->ln_square0 + log(gap) : -INFINITY;
}

rs_status rs_theory_run_pairs(rs_theory_row *rows, const rs_theory_network *network,
                              const rs_theory_settings *settings, rs_error *err)
{
    size_t n_steps = (size_t)network->n_layers * RS_THEORY_BRANCHES;
    run r = {.net = network,
             .settings = settings,
             .rows = rows,
             .n = (double)network->n,
             .d = (double)network->d,
             .kappa = 1 / (double)network->d,
             .linear = true};
    r.steps = rs_calloc(n_steps, sizeof *r.steps);
    if (!r.steps) return rs_fail_memory(err, "theory", n_steps * sizeof *r.steps);
    start(&r);
    put_row(&r, 0);
    bool whole = true;
    rs_status status = RS_OK;
    for (int32_t l = 0; l < network->n_layers && whole && status == RS_OK; l++)
        status = run_layer(&r, l, &whole, err);
    if (status == RS_OK && whole) run_back(&r);
    rs_theory_maps_close(&r.maps);
    rs_free(r.steps);
    return status;
}
