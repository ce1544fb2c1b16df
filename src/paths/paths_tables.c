/* paths_tables.c: the tables and figures of paths. */
#include "paths/paths_parts.h"
#include "report/figures.h"

#include <math.h>
#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool by_code(const rs_paths_run *run)
{
    return run->options->semantics == RS_PATHS_CODE;
}

static bool has_head(const rs_paths_run *run)
{
    return run->network->head.decoder.weight && !run->options->no_logits;
}

static double log10_of(double x)
{
    return x > 0 ? log10(x) : NAN;
}

/* ---- means over samples ---- */

typedef struct mean {
    double sum;
    int64_t n;
} mean;

static void add_value(mean *m, double x)
{
    if (isnan(x)) return;
    m->sum += x;
    m->n++;
}

static double value(const mean *m)
{
    return m->n ? m->sum / (double)m->n : NAN;
}

/* Σ over lengths of the norms of what they contribute. */
static double norms(const rs_path_sample *s, int32_t longest)
{
    double sum = 0;
    for (int32_t k = 0; k <= longest + 1; k++)
        sum += s->lengths[k].embedding.fro + s->lengths[k].source.fro;
    return sum;
}

rs_path_means rs_paths_mean(const rs_paths_run *run, int32_t length)
{
    enum {
        FRO,
        SHARE,
        SOURCE,
        SOURCE_SHARE,
        PROJECTION,
        SOURCE_PROJECTION,
        RESIDUAL,
        RANK1,
        ERROR,
        STATE,
        EMBEDDING,
        MEANS
    };
    mean m[MEANS] = {0};
    double nll = 0, top1 = 0, kl = 0, squares = 0, wrong = 0;
    int64_t scored = 0, tokens = 0;
    for (size_t i = 0; i < run->n_samples; i++) {
        const rs_path_sample *s = &run->samples[i];
        const rs_path_length none = {0}, *l = length < 0 ? &none : &s->lengths[length];
        const rs_path_outcome *o = &s->outcomes[length + 1];
        double all = norms(s, run->plan->longest);
        add_value(&m[FRO], l->embedding.fro);
        add_value(&m[SHARE], l->embedding.fro / all);
        add_value(&m[SOURCE], l->source.fro);
        add_value(&m[SOURCE_SHARE], l->source.fro / all);
        add_value(&m[PROJECTION], l->projection);
        add_value(&m[SOURCE_PROJECTION], l->source_projection);
        add_value(&m[RESIDUAL], l->embedding.residual);
        if (s->paths && length >= 0) add_value(&m[RANK1], s->paths[length][2].mean);
        add_value(&m[ERROR], l->cumulative_error);
        add_value(&m[STATE], o->state_error);
        add_value(&m[EMBEDDING], o->embedding_cosine);
        nll += o->nll;
        scored += o->scored;
        top1 += o->top1;
        kl += o->kl;
        tokens += o->tokens;
        squares += o->logit_squares;
        wrong += o->logit_error_squares;
    }
    return (rs_path_means){.fro = value(&m[FRO]),
                           .share = value(&m[SHARE]),
                           .source_fro = value(&m[SOURCE]),
                           .source_share = value(&m[SOURCE_SHARE]),
                           .projection = value(&m[PROJECTION]),
                           .source_projection = value(&m[SOURCE_PROJECTION]),
                           .residual = value(&m[RESIDUAL]),
                           .rank1 = value(&m[RANK1]),
                           .cumulative_error = value(&m[ERROR]),
                           .state_error = value(&m[STATE]),
                           .embedding_cosine = value(&m[EMBEDDING]),
                           .nll = scored ? nll / (double)scored : NAN,
                           .top1 = tokens ? top1 / (double)tokens : NAN,
                           .kl = tokens ? kl / (double)tokens : NAN,
                           .logit_error = squares > 0 ? sqrt(wrong / squares) : NAN};
}

/* ---- lengths ---- */

static const rs_column length_columns[] = {
    {"sample", RS_COLUMN_INT, "sample", NULL, NULL, NULL},
    {"length", RS_COLUMN_INT, "length", "heads", "heads that a path takes", NULL},
    {"count", RS_COLUMN_INT, "paths", NULL, "paths of that length; null above 2^63 - 1",
     "measured"},
    {"log10_count", RS_COLUMN_REAL, "log10 paths", NULL, NULL, "measured"},
    {"contribution_fro", RS_COLUMN_REAL, "contribution", NULL,
     "|Y|_F, Y = sum over the paths of that length of P_path X W_path (code: the normed sum of the "
     "sampled paths' states)",
     "measured"},
    {"log10_contribution_fro", RS_COLUMN_REAL, "log10 contribution", NULL, NULL, "measured"},
    {"residual_ratio", RS_COLUMN_REAL, "residual ratio", NULL, "|Y - mean of rows|_F / |Y|_F",
     "measured"},
    {"cumulative_error", RS_COLUMN_REAL, "cumulative error", NULL,
     "|sum of everything of length <= k - X|_F / |X|_F: paths of the embedding and of the sources",
     "measured"},
    {"residual_ratio_1inf", RS_COLUMN_REAL, "residual ratio, composite norm", NULL,
     "the same in sqrt(|.|_1 |.|_inf)", "measured"},
    {"share", RS_COLUMN_REAL, "share", NULL,
     "|Y|_F over the sum of these norms, embedding and sources, all lengths", "measured"},
    {"projection", RS_COLUMN_REAL, "projection", NULL,
     "<Y, X> / |X|^2: sums to 1 over lengths, embedding and sources", "measured"},
    {"source_fro", RS_COLUMN_REAL, "sources", NULL,
     "|Z|_F, Z = what sources (MLP outputs, biases, cross-attention) become along paths with that "
     "many heads above them",
     "measured"},
    {"source_residual_ratio", RS_COLUMN_REAL, "residual ratio of sources", NULL,
     "|Z - mean of rows|_F / |Z|_F", "measured"},
    {"source_share", RS_COLUMN_REAL, "share of sources", NULL, NULL, "measured"},
    {"source_projection", RS_COLUMN_REAL, "projection of sources", NULL, "<Z, X> / |X|^2",
     "measured"},
    {"cumulative_error_sources", RS_COLUMN_REAL, "cumulative error, sources whole", NULL,
     "the embedding's paths of length <= k and every path of the sources", "measured"},
    {"rank1_distance", RS_COLUMN_REAL, "rank-1 distance", NULL,
     "|P_path - its best rank one|_F / |P_path|_F, mean over the sampled paths", "measured"},
    {"rank1_distance_se", RS_COLUMN_REAL, "standard error", NULL, "of that mean", "measured"},
};

static rs_status length_row(rs_table *table, const rs_paths_run *run, const rs_path_sample *s,
                            int32_t k, rs_error *err)
{
    const rs_path_length *l = &s->lengths[k];
    double all = norms(s, run->plan->longest);
    bool code = by_code(run);
    size_t row = 0;
    RS_TRY(rs_table_add_row(table, &row, err));
    rs_table_set_int(table, row, 0, s->sample);
    rs_table_set_int(table, row, 1, k);
    rs_table_set_int(table, row, 2, run->plan->count[k]);
    const double reals[] = {
        run->plan->log_count[k] / log(10),
        l->embedding.fro,
        log10_of(l->embedding.fro),
        l->embedding.residual,
        code ? NAN : l->cumulative_error,
        l->embedding.residual_1inf,
        code ? NAN : l->embedding.fro / all,
        code ? NAN : l->projection,
        code ? NAN : l->source.fro,
        code ? NAN : l->source.residual,
        code ? NAN : l->source.fro / all,
        code ? NAN : l->source_projection,
        code ? NAN : l->cumulative_error_sources,
        s->paths ? s->paths[k][2].mean : NAN,
        s->paths ? s->paths[k][2].error : NAN,
    };
    for (size_t c = 0; c < COUNT(reals); c++)
        rs_table_set_real(table, row, 3 + c, reals[c]);
    return RS_OK;
}

static rs_status lengths(const rs_paths_run *run, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(run->result, "lengths", "Contribution by path length",
                               "What all paths of a length add to the state that leaves the last "
                               "layer, one row a sample and length.",
                               length_columns, COUNT(length_columns), &table, err));
    for (size_t i = 0; i < run->n_samples; i++)
        for (int32_t k = 0; k <= run->plan->longest; k++)
            RS_TRY(length_row(table, run, &run->samples[i], k, err));
    return RS_OK;
}

/* ---- sampled paths ---- */

#define SPREAD(name, title, formula)                                                               \
    {name, RS_COLUMN_REAL, title, NULL, formula ", mean", "measured"},                             \
        {name "_se",                                                                               \
         RS_COLUMN_REAL,                                                                           \
         title " (standard error)",                                                                \
         NULL,                                                                                     \
         "0 where every path was taken",                                                           \
         "measured"},                                                                              \
        {name "_median", RS_COLUMN_REAL, title " (median)", NULL, NULL, "measured"},               \
        {name "_median_low",                                                                       \
         RS_COLUMN_REAL,                                                                           \
         title " (median, low)",                                                                   \
         NULL,                                                                                     \
         "95% interval of the median by order statistics; null below six paths",                   \
         "measured"},                                                                              \
    {                                                                                              \
        name "_median_high", RS_COLUMN_REAL, title " (median, high)", NULL, NULL, "measured"       \
    }

static const rs_column path_columns[] = {
    {"sample", RS_COLUMN_INT, "sample", NULL, NULL, NULL},
    {"length", RS_COLUMN_INT, "length", "heads", NULL, NULL},
    {"paths", RS_COLUMN_INT, "paths measured", NULL, NULL, NULL},
    {"exhaustive", RS_COLUMN_BOOL, "all of them", NULL, "every path of that length was taken",
     NULL},
    SPREAD("contribution_fro", "contribution", "|P_path X W_path|_F of one path"),
    SPREAD("residual_ratio", "residual ratio", "|Y - mean of rows|_F / |Y|_F, Y of one path"),
    SPREAD("rank1_distance", "rank-1 distance", "|P - best rank one|_F / |P|_F, P = P_path"),
    SPREAD("rank1_distance_1inf", "rank-1 distance, composite norm",
           "|P - SVD_1(P)| / |P| in sqrt(|.|_1 |.|_inf)"),
};

static rs_status sampled(const rs_paths_run *run, rs_error *err)
{
    rs_table *table = NULL;
    if (!run->set) return RS_OK;
    RS_TRY(rs_result_add_table(run->result, "paths", "Single paths",
                               "Paths drawn uniformly among those of a length, each measured by "
                               "itself.",
                               path_columns, COUNT(path_columns), &table, err));
    for (size_t i = 0; i < run->n_samples; i++)
        for (int32_t k = 0; k <= run->plan->longest; k++) {
            size_t row = 0, column = 4;
            RS_TRY(rs_table_add_row(table, &row, err));
            rs_table_set_int(table, row, 0, run->samples[i].sample);
            rs_table_set_int(table, row, 1, k);
            rs_table_set_int(table, row, 2, (int64_t)(run->set->first[k + 1] - run->set->first[k]));
            rs_table_set_bool(table, row, 3, run->set->exhaustive[k]);
            for (int m = 0; m < RS_PATH_MEASURES; m++) {
                const rs_path_spread *s = &run->samples[i].paths[k][m];
                const double reals[] = {s->mean, s->error, s->median, s->low, s->high};
                for (size_t c = 0; c < COUNT(reals); c++)
                    rs_table_set_real(table, row, column++, reals[c]);
            }
        }
    return RS_OK;
}

/* ---- outcomes ---- */

#define OUTCOME_COLUMNS                                                                            \
    {"tokens", RS_COLUMN_INT, "tokens", NULL, NULL, NULL},                                         \
        {"state_rel_error",                                                                        \
         RS_COLUMN_REAL,                                                                           \
         "error of the state",                                                                     \
         NULL,                                                                                     \
         "|f(Y) - f(X)|_F / |f(X)|_F, f the final norm",                                           \
         "measured"},                                                                              \
        {"state_cosine", RS_COLUMN_REAL,     "cosine of the state",                                \
         NULL,           "mean over tokens", "measured"},                                          \
        {"embedding_cosine",                                                                       \
         RS_COLUMN_REAL,                                                                           \
         "cosine of the embedding",                                                                \
         NULL,                                                                                     \
         "of the pooled embeddings, where the model ships its pooling",                            \
         "measured"},                                                                              \
        {"nll", RS_COLUMN_REAL, "loss", "nats", "mean -ln p(next token)", "measured"},             \
        {"perplexity", RS_COLUMN_REAL, "perplexity", NULL, "exp(nll)", "measured"},                \
        {"top1_agreement",                                                                         \
         RS_COLUMN_REAL,                                                                           \
         "top-1 agreement",                                                                        \
         NULL,                                                                                     \
         "share of tokens whose most likely output is that of the model",                          \
         "measured"},                                                                              \
        {"kl", RS_COLUMN_REAL, "KL", "nats", "mean KL(model || this)", "measured"},                \
    {                                                                                              \
        "logit_rel_error", RS_COLUMN_REAL, "error of the logits", NULL,                            \
            "|logits - model's|_F / |model's|_F", "measured"                                       \
    }

static const rs_column truncated_columns[] = {
    {"sample", RS_COLUMN_INT, "sample", NULL, "null: all samples together", NULL},
    {"max_length", RS_COLUMN_INT, "paths up to", "heads", "null: the model as it is", NULL},
    OUTCOME_COLUMNS};
static const rs_column combined_columns[] = {
    {"sample", RS_COLUMN_INT, "sample", NULL, "null: all samples together", NULL},
    {"length", RS_COLUMN_INT, "length", "heads", "null: the model as it is", NULL},
    OUTCOME_COLUMNS};

static rs_status outcome_row(rs_table *table, int64_t sample, int64_t length,
                             const rs_path_means *m, int64_t tokens, double cosine, rs_error *err)
{
    size_t row = 0;
    RS_TRY(rs_table_add_row(table, &row, err));
    rs_table_set_int(table, row, 0, sample);
    rs_table_set_int(table, row, 1, length);
    rs_table_set_int(table, row, 2, tokens);
    const double reals[] = {m->state_error, cosine, m->embedding_cosine, m->nll, exp(m->nll),
                            m->top1,        m->kl,  m->logit_error};
    for (size_t c = 0; c < COUNT(reals); c++)
        rs_table_set_real(table, row, 3 + c, reals[c]);
    return RS_OK;
}

/* length -1: the network's own state. */
static rs_status outcome_rows(rs_table *table, const rs_paths_run *run, int32_t length,
                              rs_error *err)
{
    mean cosines = {0};
    int64_t tokens = 0, shown = length < 0 ? RS_NULL_INT : length;
    for (size_t i = 0; i < run->n_samples; i++) {
        const rs_path_sample *s = &run->samples[i];
        const rs_path_outcome *o = &s->outcomes[length + 1];
        double n = (double)o->tokens;
        rs_path_means one = {.state_error = o->state_error,
                             .embedding_cosine = o->embedding_cosine,
                             .nll = o->scored ? o->nll / (double)o->scored : NAN,
                             .top1 = o->top1 / n,
                             .kl = o->kl / n,
                             .logit_error = o->logit_squares > 0
                                                ? sqrt(o->logit_error_squares / o->logit_squares)
                                                : NAN};
        add_value(&cosines, o->state_cosine);
        tokens += o->tokens;
        RS_TRY(outcome_row(table, s->sample, shown, &one, o->tokens, o->state_cosine, err));
    }
    if (run->n_samples < 2) return RS_OK;
    rs_path_means all = rs_paths_mean(run, length);
    return outcome_row(table, RS_NULL_INT, shown, &all, tokens, value(&cosines), err);
}

static rs_status outcomes(const rs_paths_run *run, rs_error *err)
{
    rs_table *table = NULL;
    if (by_code(run))
        RS_TRY(rs_result_add_table(run->result, "combined", "Sampled paths combined",
                                   "The states of the sampled paths of a length added up, normed, "
                                   "and put through the model's final norm and head.",
                                   combined_columns, COUNT(combined_columns), &table, err));
    else
        RS_TRY(rs_result_add_table(run->result, "truncated", "The model with short paths alone",
                                   "Everything of length at most k (embedding and sources) put "
                                   "through the model's final norm and head.",
                                   truncated_columns, COUNT(truncated_columns), &table, err));
    for (int32_t k = -1; k <= run->plan->longest; k++)
        RS_TRY(outcome_rows(table, run, k, err));
    return RS_OK;
}

/* ---- sources by layer ---- */

static const rs_column source_columns[] = {
    {"sample", RS_COLUMN_INT, "sample", NULL, NULL, NULL},
    {"layer", RS_COLUMN_INT, "layer", NULL, "0 .. L-1", NULL},
    {"injected_fro", RS_COLUMN_REAL, "injected", NULL,
     "norm of what the layer's sources are when they leave the layer", "measured"},
    {"contribution_fro", RS_COLUMN_REAL, "contribution", NULL,
     "norm of what they are at the output, all paths together", "measured"},
    {"projection", RS_COLUMN_REAL, "projection", NULL, "<that, X> / |X|^2", "measured"},
};

static rs_status sources(const rs_paths_run *run, rs_error *err)
{
    rs_table *table = NULL;
    if (!run->options->by_layer) return RS_OK;
    RS_TRY(rs_result_add_table(run->result, "sources", "Sources by layer",
                               "What the MLP, the biases and the cross-attention of each layer "
                               "become at the output.",
                               source_columns, COUNT(source_columns), &table, err));
    for (size_t i = 0; i < run->n_samples; i++)
        for (int32_t l = 0; l < run->network->n_layers; l++) {
            const rs_path_sample *s = &run->samples[i];
            size_t row = 0;
            RS_TRY(rs_table_add_row(table, &row, err));
            rs_table_set_int(table, row, 0, s->sample);
            rs_table_set_int(table, row, 1, l);
            rs_table_set_real(table, row, 2, s->injection_fro[l]);
            rs_table_set_real(table, row, 3, s->injected_fro[l]);
            rs_table_set_real(table, row, 4, s->injected_projection[l]);
        }
    return RS_OK;
}

/* ---- summary ---- */

static const rs_column summary_columns[] = {
    {"length", RS_COLUMN_INT, "length", "heads", NULL, NULL},
    {"log10_count", RS_COLUMN_REAL, "log10 paths", NULL, NULL, NULL},
    {"share", RS_COLUMN_REAL, "share", NULL,
     "norm of the embedding's paths over all norms, mean over samples", NULL},
    {"source_share", RS_COLUMN_REAL, "sources", NULL, "the same of the sources' paths", NULL},
    {"residual_ratio", RS_COLUMN_REAL, "residual", NULL, "of the embedding's paths", NULL},
    {"rank1_distance", RS_COLUMN_REAL, "rank-1", NULL, "rank-1 distance of single paths", NULL},
    {"cumulative_error", RS_COLUMN_REAL, "error", NULL,
     "of the last state from paths up to that length", NULL},
    {"top1_agreement", RS_COLUMN_REAL, "top-1", NULL,
     "with the model, of the model with paths up to that length", NULL},
    {"nll", RS_COLUMN_REAL, "loss", "nats", NULL, NULL},
};
static const rs_column code_summary_columns[] = {
    {"length", RS_COLUMN_INT, "length", "heads", NULL, NULL},
    {"log10_count", RS_COLUMN_REAL, "log10 paths", NULL, NULL, NULL},
    {"residual_ratio", RS_COLUMN_REAL, "residual", NULL, "of the combined paths", NULL},
    {"rank1_distance", RS_COLUMN_REAL, "rank-1", NULL, "rank-1 distance of single paths", NULL},
    {"state_rel_error", RS_COLUMN_REAL, "error", NULL, "of the state behind the final norm", NULL},
    {"top1_agreement", RS_COLUMN_REAL, "top-1", NULL, "with the model", NULL},
    {"nll", RS_COLUMN_REAL, "loss", "nats", NULL, NULL},
};

/* All lengths of a model that is not deep; of a deep one 0 .. 8 and then ever fewer. */
static bool summarised(const rs_paths_run *run, int32_t k)
{
    enum { ALL = 32 };
    if (run->plan->longest <= ALL || k <= 8 || k == run->plan->longest) return true;
    int32_t step = 1;
    while (step * 8 < k)
        step *= 2;
    return k % step == 0;
}

static rs_status summary_table(const rs_paths_run *run, rs_error *err)
{
    rs_table *table = NULL;
    bool code = by_code(run),
         loss = run->samples && run->n_samples && run->samples[0].outcomes[0].scored > 0;
    size_t columns = code ? COUNT(code_summary_columns) : COUNT(summary_columns);
    columns -= !has_head(run) ? 2 : !loss;
    RS_TRY(rs_result_add_table(run->result, "summary", "Paths by length", "Mean over the samples.",
                               code ? code_summary_columns : summary_columns, columns, &table,
                               err));
    for (int32_t k = 0; k <= run->plan->longest && run->n_samples; k++) {
        if (!summarised(run, k)) continue;
        rs_path_means m = rs_paths_mean(run, k);
        double count = run->plan->log_count[k] / log(10);
        const double theorem[] = {
            count, m.share, m.source_share, m.residual, m.rank1, m.cumulative_error, m.top1, m.nll};
        const double chain[] = {count, m.residual, m.rank1, m.state_error, m.top1, m.nll};
        size_t row = 0;
        RS_TRY(rs_table_add_row(table, &row, err));
        rs_table_set_int(table, row, 0, k);
        for (size_t c = 1; c < columns; c++)
            rs_table_set_real(table, row, c, code ? chain[c - 1] : theorem[c - 1]);
    }
    return RS_OK;
}

rs_status rs_paths_tables(const rs_paths_run *run, rs_error *err)
{
    RS_TRY(summary_table(run, err));
    RS_TRY(lengths(run, err));
    RS_TRY(outcomes(run, err));
    RS_TRY(sampled(run, err));
    return sources(run, err);
}
