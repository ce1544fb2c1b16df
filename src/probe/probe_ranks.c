/* probe_ranks.c: variants whose attention is cut to a lower rank, and which of them keep the loss. */
#include "probe/probe_ranks.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- variants ---- */

static rs_status add_variant(rs_variant *out, const char *entry, const rs_edit *base,
                             rs_arena *arena, rs_error *err)
{
    char *name = rs_arena_alloc(arena, strlen(entry) + sizeof "rank-", 1);
    if (!name) return rs_fail_memory(err, "variants", 0);
    sprintf(name, "rank-%s", entry);
    *out = (rs_variant){.name = name, .edit = *base};
    return rs_edit_option(&out->edit, "attention-rank", entry, err);
}

rs_status rs_probe_rank_variants(rs_variant **variants, size_t *n, const char *text,
                                 const rs_edit *base, rs_arena *arena, rs_error *err)
{
    size_t entries = 1;
    for (const char *at = text; *at; at++)
        entries += *at == ',';
    rs_variant *all = rs_arena_alloc(arena, *n + entries, sizeof *all);
    if (!all) return rs_fail_memory(err, "variants", 0);
    memcpy(all, *variants, *n * sizeof *all);
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char entry[64];
        snprintf(entry, sizeof entry, "%.*s", (int)strcspn(at, ","), at);
        RS_TRY(add_variant(&all[*n], entry, base, arena, err));
        for (size_t i = 0; i < *n; i++)
            if (strcmp(all[i].name, all[*n].name) == 0)
                return rs_fail(err, RS_E_BAD_OPTION, "--attention-rank", NULL,
                               "\"%s\" is given twice", entry);
        ++*n;
    }
    *variants = all;
    return RS_OK;
}

/* ---- last states ---- */

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_last_states *s = user;
    (void)err;
    s->first = s->inputs->begin[batch->first];
    return RS_OK;
}

static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    rs_last_states *s = user;
    (void)site, (void)err;
    if (layer != s->layers) return RS_OK;
    double *kept = s->kept + s->first * s->d;
    for (int64_t i = 0; i < view->rows * s->d; i++) {
        double x = view->precision == RS_PRECISION_F32 ? (double)((const float *)view->data)[i]
                                                       : ((const double *)view->data)[i];
        if (s->keeps) kept[i] = x;
        s->off += (x - kept[i]) * (x - kept[i]);
        s->all += kept[i] * kept[i];
    }
    return RS_OK;
}

rs_status rs_last_states_open(rs_last_states *s, const rs_network *network, const rs_inputs *inputs,
                              rs_error *err)
{
    size_t count;
    *s = (rs_last_states){
        .listener = {.tap = {.user = s, .sites = 1u << RS_SITE_BLOCK_OUT, .state = hear_state},
                     .begin = begin_batch},
        .inputs = inputs,
        .layers = network->n_layers,
        .d = network->d_model};
    if (!rs_size_mul((size_t)inputs->begin[inputs->samples], (size_t)s->d, &count))
        return rs_fail_memory(err, "last states", SIZE_MAX);
    s->kept = rs_malloc(count, sizeof *s->kept);
    return s->kept ? RS_OK : rs_fail_memory(err, "last states", count * sizeof *s->kept);
}

void rs_last_states_begin(rs_last_states *s, bool keeps)
{
    s->keeps = keeps;
    s->off = s->all = 0;
}

double rs_last_states_distance(const rs_last_states *s)
{
    return s->all > 0 ? sqrt(s->off / s->all) : (double)NAN;
}

void rs_last_states_close(rs_last_states *s)
{
    rs_free(s->kept);
    s->kept = NULL;
}

/* ---- what is kept ---- */

/* A row of table attention_ranks. */
typedef struct rank_cells {
    const char *variant, *kept;
    int64_t rank;
    double energy, nll, rise, distance;
} rank_cells;

static const rs_column rank_columns[] = {
    {.name = "variant", RS_CELL(rank_cells, variant)},
    {.name = "rank",
     RS_CELL(rank_cells, rank),
     .formula = "most rank of every head's P; null where energy is given"},
    {.name = "energy",
     RS_CELL(rank_cells, energy),
     .formula = "share of Σσ² that the rank of every head's P keeps; null where rank is given"},
    {.name = "nll",
     RS_CELL(rank_cells, nll),
     .unit = "nats",
     .formula = "mean of −ln p(next token); null without a head that predicts it"},
    {.name = "loss_rise",
     RS_CELL(rank_cells, rise),
     .formula = "nll over that of the model without the cut, less 1"},
    {.name = "state_distance",
     RS_CELL(rank_cells, distance),
     .formula = "‖X − X₀‖_F/‖X₀‖_F of the last states, X₀ those without the cut"},
    {.name = "kept",
     RS_CELL(rank_cells, kept),
     .formula = "yes: loss_rise, or without a loss state_distance, is at most 0.01 (--threshold "
                "attention_rank=X)"},
};
const rs_table_kind rs_probe_ranks_kind = {"probe", "attention_ranks", {RS_PART(rank_columns)}};

/* Of variant v, beside variant 0, which is not cut. */
static rank_cells cells_of(const rs_probed *variants, size_t v, const rs_probe_options *options)
{
    const rs_probed *at = &variants[v];
    const rs_measured *m = at->measured, *whole = variants[0].measured;
    rank_cells c = {.variant = at->name,
                    .rank = at->edit->attention_rank > 0 ? at->edit->attention_rank : RS_NULL_INT,
                    .energy =
                        at->edit->attention_energy > 0 ? at->edit->attention_energy : (double)NAN,
                    .nll = m->scored ? m->nll : (double)NAN,
                    .rise = m->scored ? m->nll / whole->nll - 1 : (double)NAN,
                    .distance = at->distance};
    double loss = m->scored ? c.rise : c.distance;
    c.kept = loss <= options->thresholds.attention_rank ? "yes" : "no";
    return c;
}

rs_status rs_probe_rank_table(rs_result *result, const rs_probed *variants, size_t n,
                              const rs_probe_options *options, rs_error *err)
{
    rs_table *table;
    if (!options->ranks) return RS_OK;
    RS_TRY(rs_result_add_table(result, "attention_ranks", "Attention of lower rank",
                               "Every head's softmax replaced by its best approximation of that "
                               "rank, without what the mask hides",
                               rank_columns, sizeof rank_columns / sizeof *rank_columns, &table,
                               err));
    for (size_t v = 0; v < n; v++) {
        if (!variants[v].edit || !rs_edit_cuts_attention(variants[v].edit)) continue;
        const rank_cells cells = cells_of(variants, v, options);
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

/* Whether entry a asks for less than b: ranks before shares. */
static bool is_less(const rs_probed *a, const rs_probed *b)
{
    const rs_edit *x = a->edit, *y = b->edit;
    if ((x->attention_rank > 0) != (y->attention_rank > 0)) return x->attention_rank > 0;
    if (x->attention_rank > 0) return x->attention_rank < y->attention_rank;
    return x->attention_energy < y->attention_energy;
}

static const char *entry_of(const rs_probed *v)
{
    return v->name + sizeof "rank-" - 1;
}

static void say_loss(char *text, size_t size, const rank_cells *c, const rs_measured *whole)
{
    if (!isnan(c->nll))
        snprintf(text, size, "%.4g \xe2\x86\x92 %.4g nats, %+.2g %%", whole->nll, c->nll,
                 100 * c->rise);
    else
        snprintf(text, size, "%.2g %% away", 100 * c->distance);
}

bool rs_probe_rank_answer(char *text, size_t size, double *value, const rs_probed *variants,
                          size_t n, const rs_probe_options *options)
{
    const rs_probed *least = NULL, *below = NULL, *most = NULL;
    char first[96], second[96] = "";
    if (!options->ranks) return false;
    for (size_t v = 0; v < n; v++) {
        const rs_probed *at = &variants[v];
        if (!at->edit || !rs_edit_cuts_attention(at->edit)) continue;
        rank_cells c = cells_of(variants, v, options);
        if (strcmp(c.kept, "yes") == 0 && (!least || is_less(at, least))) least = at;
        if (!most || is_less(most, at)) most = at;
    }
    for (size_t v = 0; v < n && least; v++)
        if (variants[v].edit && rs_edit_cuts_attention(variants[v].edit) &&
            is_less(&variants[v], least) && (!below || is_less(below, &variants[v])))
            below = &variants[v];
    const rs_measured *whole = variants[0].measured;
    const char *what = most->measured->scored ? "the loss" : "the last state";
    const rs_probed *told = least ? least : most;
    rank_cells c = cells_of(variants, (size_t)(told - variants), options);
    say_loss(first, sizeof first, &c, whole);
    if (below) {
        rank_cells b = cells_of(variants, (size_t)(below - variants), options);
        say_loss(second, sizeof second, &b, whole);
    }
    *value = least ? (c.rank != RS_NULL_INT ? (double)c.rank : c.energy) : (double)NAN;
    snprintf(text, size, "%s %s%s of attention %s %s within %.3g %%: %s%s%s%s%s.",
             least ? "Rank" : "None: not even rank", entry_of(told),
             told->edit->attention_energy > 0 ? " of the energy" : "", "keeps", what,
             100 * options->thresholds.attention_rank, first, below ? "; rank " : "",
             below ? entry_of(below) : "", below ? " does not: " : "", second);
    return true;
}
