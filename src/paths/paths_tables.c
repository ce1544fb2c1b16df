/* paths_tables.c: the tables and figures of paths. */
#include "paths/paths_parts.h"
#include "report/figures.h"

#include <math.h>
#include <string.h>

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

/* A row of table lengths. */
typedef struct length_cells {
    int64_t sample, count;
    int32_t length;
    rs_path_length of;
    double log_count, log_fro, share, source_share;
    rs_path_spread rank1;
} length_cells;

static const rs_column length_columns[] = {
    RS_COLUMN(length_cells, sample, "sample", "sample", NULL, NULL, NULL),
    RS_COLUMN(length_cells, length, "length", "length", "heads", "heads that a path takes", NULL),
    RS_COLUMN(length_cells, count, "count", "paths", NULL,
              "paths of that length; null above 2^63 - 1", "measured"),
    RS_COLUMN(length_cells, log_count, "log10_count", "log10 paths", NULL, NULL, "measured"),
    RS_COLUMN(length_cells, of.embedding.fro, "contribution_fro", "contribution", NULL,
              "|Y|_F, Y = sum over the paths of that length of P_path X W_path (code: the normed "
              "sum of the "
              "sampled paths' states)",
              "measured"),
    RS_COLUMN(length_cells, log_fro, "log10_contribution_fro", "log10 contribution", NULL, NULL,
              "measured"),
    RS_COLUMN(length_cells, of.embedding.residual, "residual_ratio", "residual ratio", NULL,
              "|Y - mean of rows|_F / |Y|_F", "measured"),
    RS_COLUMN(length_cells, of.cumulative_error, "cumulative_error", "cumulative error", NULL,
              "|sum of everything of length <= k - X|_F / |X|_F: paths of the embedding and of the "
              "sources",
              "measured"),
    RS_COLUMN(length_cells, of.embedding.residual_1inf, "residual_ratio_1inf",
              "residual ratio, composite norm", NULL, "the same in sqrt(|.|_1 |.|_inf)",
              "measured"),
    RS_COLUMN(length_cells, share, "share", "share", NULL,
              "|Y|_F over the sum of these norms, embedding and sources, all lengths", "measured"),
    RS_COLUMN(length_cells, of.projection, "projection", "projection", NULL,
              "<Y, X> / |X|^2: sums to 1 over lengths, embedding and sources", "measured"),
    RS_COLUMN(length_cells, of.source.fro, "source_fro", "sources", NULL,
              "|Z|_F, Z = what sources (MLP outputs, biases, cross-attention) become along paths "
              "with that "
              "many heads above them",
              "measured"),
    RS_COLUMN(length_cells, of.source.residual, "source_residual_ratio",
              "residual ratio of sources", NULL, "|Z - mean of rows|_F / |Z|_F", "measured"),
    RS_COLUMN(length_cells, source_share, "source_share", "share of sources", NULL, NULL,
              "measured"),
    RS_COLUMN(length_cells, of.source_projection, "source_projection", "projection of sources",
              NULL, "<Z, X> / |X|^2", "measured"),
    RS_COLUMN(length_cells, of.cumulative_error_sources, "cumulative_error_sources",
              "cumulative error, sources whole", NULL,
              "the embedding's paths of length <= k and every path of the sources", "measured"),
    RS_COLUMN(length_cells, rank1.mean, "rank1_distance", "rank-1 distance", NULL,
              "|P_path - its best rank one|_F / |P_path|_F, mean over the sampled paths",
              "measured"),
    RS_COLUMN(length_cells, rank1.error, "rank1_distance_se", "standard error", NULL,
              "of that mean", "measured"),
};
const rs_table_kind rs_paths_lengths_kind = {"paths", "lengths", {RS_PART(length_columns)}};

static rs_status length_row(rs_table *table, const rs_paths_run *run, const rs_path_sample *s,
                            int32_t k, rs_error *err)
{
    const rs_path_length *l = &s->lengths[k];
    double all = norms(s, run->plan->longest);
    length_cells cells;
    rs_columns_clear(length_columns, COUNT(length_columns), &cells);
    if (!by_code(run)) {
        cells.of = *l;
        cells.share = l->embedding.fro / all;
        cells.source_share = l->source.fro / all;
    }
    cells.of.embedding = l->embedding;
    cells.sample = s->sample;
    cells.length = k;
    cells.count = run->plan->count[k];
    cells.log_count = run->plan->log_count[k] / log(10);
    cells.log_fro = log10_of(l->embedding.fro);
    if (s->paths) cells.rank1 = s->paths[k][2];
    return rs_table_append(table, &cells, err);
}

static rs_status lengths(const rs_paths_run *run, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(run->result, "lengths", "Contribution by path length",
                               "What all paths of a length add to the state that leaves the last "
                               "layer, one row a sample and length.",
                               length_columns, COUNT(length_columns), &table, err));
    rs_table_show_first(
        table, "sample,length,count,share,contribution_fro,cumulative_error,residual_ratio");
    for (size_t i = 0; i < run->n_samples; i++)
        for (int32_t k = 0; k <= run->plan->longest; k++)
            RS_TRY(length_row(table, run, &run->samples[i], k, err));
    return RS_OK;
}

/* ---- sampled paths ---- */

/* A row of table paths. */
typedef struct path_cells {
    int64_t sample, paths;
    int32_t length;
    bool exhaustive;
    rs_path_spread spread[RS_PATH_MEASURES];
    rs_path_cosine cosine;
} path_cells;

#define SPREAD(measure, name, title, formula)                                                      \
    RS_COLUMN(path_cells, spread[measure].mean, name, title, NULL, formula ", mean", "measured"),  \
        RS_COLUMN(path_cells, spread[measure].error, name "_se", title " (standard error)", NULL,  \
                  "0 where every path was taken", "measured"),                                     \
        RS_COLUMN(path_cells, spread[measure].median, name "_median", title " (median)", NULL,     \
                  NULL, "measured"),                                                               \
        RS_COLUMN(path_cells, spread[measure].low, name "_median_low", title " (median, low)",     \
                  NULL, "95% interval of the median by order statistics; null below six paths",    \
                  "measured"),                                                                     \
        RS_COLUMN(path_cells, spread[measure].high, name "_median_high", title " (median, high)",  \
                  NULL, NULL, "measured")

static const rs_column path_columns[] = {
    RS_COLUMN(path_cells, sample, "sample", "sample", NULL, NULL, NULL),
    RS_COLUMN(path_cells, length, "length", "length", "heads", NULL, NULL),
    RS_COLUMN(path_cells, paths, "paths", "paths measured", NULL, NULL, NULL),
    RS_COLUMN(path_cells, exhaustive, "exhaustive", "all of them", NULL,
              "every path of that length was taken", NULL),
    SPREAD(0, "contribution_fro", "contribution", "|P_path X W_path|_F of one path"),
    SPREAD(1, "residual_ratio", "residual ratio", "|Y - mean of rows|_F / |Y|_F, Y of one path"),
    SPREAD(2, "rank1_distance", "rank-1 distance", "|P - best rank one|_F / |P|_F, P = P_path"),
    SPREAD(3, "rank1_distance_1inf", "rank-1 distance, composite norm",
           "|P - SVD_1(P)| / |P| in sqrt(|.|_1 |.|_inf)"),
    RS_COLUMN(path_cells, cosine.mean, "cosine", "cosine", NULL,
              "<Y, Z> / (|Y|_F |Z|_F), mean over the pairs of different paths; null without a pair",
              "measured"),
    RS_COLUMN(path_cells, cosine.error, "cosine_se", "cosine (standard error)", NULL,
              "over draws of paths; 0 where every path was taken", "measured"),
    RS_COLUMN(path_cells, cosine.null, "cosine_null", "cosine (null)", NULL,
              "1/sqrt(n d pairs), and more where paths were drawn twice: of independent Gaussian "
              "matrices drawn like that the mean cosine is 0 +- this",
              "predicted"),
};
const rs_table_kind rs_paths_paths_kind = {"paths", "paths", {RS_PART(path_columns)}};

static rs_status sampled(const rs_paths_run *run, rs_error *err)
{
    rs_table *table = NULL;
    if (!run->set) return RS_OK;
    RS_TRY(rs_result_add_table(run->result, "paths", "Single paths",
                               "Paths drawn uniformly among those of a length, each measured by "
                               "itself.",
                               path_columns, COUNT(path_columns), &table, err));
    rs_table_show_first(table, "sample,length,paths,contribution_fro,residual_ratio,rank1_distance,"
                               "cosine,cosine_null");
    for (size_t i = 0; i < run->n_samples; i++)
        for (int32_t k = 0; k <= run->plan->longest; k++) {
            path_cells cells = {.sample = run->samples[i].sample,
                                .length = k,
                                .paths = (int64_t)(run->set->first[k + 1] - run->set->first[k]),
                                .exhaustive = run->set->exhaustive[k]};
            memcpy(cells.spread, run->samples[i].paths[k], sizeof cells.spread);
            cells.cosine = run->samples[i].cosines[k];
            RS_TRY(rs_table_append(table, &cells, err));
        }
    return RS_OK;
}

/* ---- outcomes ---- */

/* A row of tables truncated and combined. */
typedef struct outcome_cells {
    int64_t sample, length, tokens;
    rs_path_means of;
    double cosine, perplexity;
} outcome_cells;

#define OUTCOME(member, name, title, unit, formula)                                                \
    RS_COLUMN(outcome_cells, member, name, title, unit, formula, "measured")
#define OUTCOME_COLUMNS(length_name, length_title)                                                 \
    RS_COLUMN(outcome_cells, sample, "sample", "sample", NULL, "null: all samples together",       \
              NULL),                                                                               \
        RS_COLUMN(outcome_cells, length, length_name, length_title, "heads",                       \
                  "null: the model as it is", NULL),                                               \
        RS_COLUMN(outcome_cells, tokens, "tokens", "tokens", NULL, NULL, NULL),                    \
        OUTCOME(of.state_error, "state_rel_error", "error of the state", NULL,                     \
                "|f(Y) - f(X)|_F / |f(X)|_F, f the final norm"),                                   \
        OUTCOME(cosine, "state_cosine", "cosine of the state", NULL, "mean over tokens"),          \
        OUTCOME(of.embedding_cosine, "embedding_cosine", "cosine of the embedding", NULL,          \
                "of the pooled embeddings, where the model ships its pooling"),                    \
        OUTCOME(of.nll, "nll", "loss", "nats", "mean -ln p(next token)"),                          \
        OUTCOME(perplexity, "perplexity", "perplexity", NULL, "exp(nll)"),                         \
        OUTCOME(of.top1, "top1_agreement", "top-1 agreement", NULL,                                \
                "share of tokens whose most likely output is that of the model"),                  \
        OUTCOME(of.kl, "kl", "KL", "nats", "mean KL(model || this)"),                              \
        OUTCOME(of.logit_error, "logit_rel_error", "error of the logits", NULL,                    \
                "|logits - model's|_F / |model's|_F")

static const rs_column truncated_columns[] = {OUTCOME_COLUMNS("max_length", "paths up to")};
const rs_table_kind rs_paths_truncated_kind = {"paths", "truncated", {RS_PART(truncated_columns)}};
static const rs_column combined_columns[] = {OUTCOME_COLUMNS("length", "length")};
const rs_table_kind rs_paths_combined_kind = {"paths", "combined", {RS_PART(combined_columns)}};

/* length -1: the network's own state. */
static rs_status outcome_rows(rs_table *table, const rs_paths_run *run, int32_t length,
                              rs_error *err)
{
    mean cosines = {0};
    int64_t tokens = 0;
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
        const outcome_cells cells = {s->sample, length,          o->tokens,
                                     one,       o->state_cosine, exp(one.nll)};
        RS_TRY(rs_table_append(table, &cells, err));
    }
    if (run->n_samples < 2) return RS_OK;
    rs_path_means all = rs_paths_mean(run, length);
    const outcome_cells cells = {RS_NULL_INT, length, tokens, all, value(&cosines), exp(all.nll)};
    return rs_table_append(table, &cells, err);
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
    rs_table_show_first(table,
                        "sample,max_length,state_rel_error,perplexity,top1_agreement,state_cosine");
    for (int32_t k = -1; k <= run->plan->longest; k++)
        RS_TRY(outcome_rows(table, run, k, err));
    return RS_OK;
}

/* ---- sources by layer ---- */

/* A row of table sources. */
typedef struct source_cells {
    int64_t sample;
    int32_t layer;
    double injected, contribution, projection;
} source_cells;

static const rs_column source_columns[] = {
    RS_COLUMN(source_cells, sample, "sample", "sample", NULL, NULL, NULL),
    RS_COLUMN(source_cells, layer, "layer", "layer", NULL, "0 .. L-1", NULL),
    RS_COLUMN(source_cells, injected, "injected_fro", "injected", NULL,
              "norm of what the layer's sources are when they leave the layer", "measured"),
    RS_COLUMN(source_cells, contribution, "contribution_fro", "contribution", NULL,
              "norm of what they are at the output, all paths together", "measured"),
    RS_COLUMN(source_cells, projection, "projection", "projection", NULL, "<that, X> / |X|^2",
              "measured"),
};
const rs_table_kind rs_paths_sources_kind = {"paths", "sources", {RS_PART(source_columns)}};

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
            const source_cells cells = {s->sample, l, s->injection_fro[l], s->injected_fro[l],
                                        s->injected_projection[l]};
            RS_TRY(rs_table_append(table, &cells, err));
        }
    return RS_OK;
}

/* ---- summary ---- */

/* A row of table summary. */
typedef struct summary_cells {
    int32_t length;
    double log_count;
    rs_path_means of;
} summary_cells;

static const rs_column summary_columns[] = {
    RS_COLUMN(summary_cells, length, "length", "length", "heads", NULL, NULL),
    RS_COLUMN(summary_cells, log_count, "log10_count", "log10 paths", NULL, NULL, NULL),
    RS_COLUMN(summary_cells, of.share, "share", "share", NULL,
              "norm of the embedding's paths over all norms, mean over samples", NULL),
    RS_COLUMN(summary_cells, of.source_share, "source_share", "sources", NULL,
              "the same of the sources' paths", NULL),
    RS_COLUMN(summary_cells, of.residual, "residual_ratio", "residual", NULL,
              "of the embedding's paths", NULL),
    RS_COLUMN(summary_cells, of.rank1, "rank1_distance", "rank-1", NULL,
              "rank-1 distance of single paths", NULL),
    RS_COLUMN(summary_cells, of.cumulative_error, "cumulative_error", "error", NULL,
              "of the last state from paths up to that length", NULL),
    RS_COLUMN(summary_cells, of.top1, "top1_agreement", "top-1", NULL,
              "with the model, of the model with paths up to that length", NULL),
    RS_COLUMN(summary_cells, of.nll, "nll", "loss", "nats", NULL, NULL),
};
static const rs_column code_summary_columns[] = {
    RS_COLUMN(summary_cells, length, "length", "length", "heads", NULL, NULL),
    RS_COLUMN(summary_cells, log_count, "log10_count", "log10 paths", NULL, NULL, NULL),
    RS_COLUMN(summary_cells, of.residual, "residual_ratio", "residual", NULL,
              "of the combined paths", NULL),
    RS_COLUMN(summary_cells, of.rank1, "rank1_distance", "rank-1", NULL,
              "rank-1 distance of single paths", NULL),
    RS_COLUMN(summary_cells, of.state_error, "state_rel_error", "error", NULL,
              "of the state behind the final norm", NULL),
    RS_COLUMN(summary_cells, of.top1, "top1_agreement", "top-1", NULL, "with the model", NULL),
    RS_COLUMN(summary_cells, of.nll, "nll", "loss", "nats", NULL, NULL),
};
const rs_table_kind rs_paths_summary_kind = {
    "paths", "summary", {RS_PART(summary_columns), RS_PART(code_summary_columns)}};

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
        const summary_cells cells = {k, run->plan->log_count[k] / log(10), rs_paths_mean(run, k)};
        RS_TRY(rs_table_append(table, &cells, err));
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
