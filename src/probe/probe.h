/*
 * probe.h: `rankscope probe`: what happens to the tokens on their way through a model, and what
 * holds them apart.
 *
 * rs_probe measures every variant of a network over the same inputs (observe/measure.h) and writes
 * tables, figures and findings into a result.
 */
#ifndef RS_PROBE_PROBE_H
#define RS_PROBE_PROBE_H

#include "observe/needs.h"
#include "observe/relevance.h"
#include "observe/stack.h"
#include "observe/store.h"
#include "report/result.h"
#include "text/tokenizer.h"

/* ---- a whole probe: variants, tables, findings ---- */

/* Thresholds of the findings; each can be set by --threshold CODE=VALUE. */
typedef struct rs_probe_thresholds {
    double token_collapse;        /* found when a state's relative_residual is below this */
    double slow_collapse;         /* the verdict when less than this share of it is left */
    double attention_sink;        /* found when first_token_weight is above this, beyond its null */
    double uniform_attention;     /* found when entropy over its maximum is above this */
    double condensed_attention;   /* found when entropy over its maximum is below this */
    double attention_rank;        /* a lower rank keeps the loss that rises by this share at most */
    double low_rank_attention;    /* found when the effective rank over its null is below this */
    double vanishing_qk_gradient; /* found when gQ or gK over gV is below this */
    double gradient_imbalance;    /* found when norms of first and last layer are further apart */
} rs_probe_thresholds;

/* What to probe and say. */
typedef struct rs_probe_options {
    rs_input_source source;
    rs_measure_options measure; /* with the precision */
    rs_edit edit;               /* edits of all variants */
    bool edited;                /* `edit` changes something */
    const char *variants;       /* text of --variants; NULL: the network with `edit` alone */
    const char *ranks;          /* text of --attention-rank; NULL: none */
    const char *sweep;          /* text of --sweep; NULL: none */
    bool grad;                  /* tables gradients and gradient_ratios */
    rs_loss_request loss;       /* of those; its seed is the run's */
    rs_gradient_plan back;      /* their way back; `several` is not read */
    bool relevance;             /* tables relevance, conservation and removal */
    const char *explained;      /* outputs that relevance explains, as --target has them; or NULL */
    rs_stack_bounds_of *bounds; /* what the weights say, for what a sweep proves; NULL: nothing */
    const rs_map_choice *maps;  /* [n_maps] heads of --attention-maps, borrowed */
    size_t n_maps;
    const char *taps, *output; /* safetensors files to write; or NULL */
    const rs_network *twin;    /* the same untrained, for the null of table attention; or NULL */
    int64_t generate;          /* tokens to continue each sample by; 0: none */
    rs_probe_thresholds thresholds;
} rs_probe_options;

void rs_probe_defaults(rs_probe_options *options);
/* probe_needs.c: adds up the memory of a run with these options. */
rs_run_need rs_probe_need;

/* Listeners from outside to the pass of the model with options->edit and nothing else: variant
 * "full", or the one that runs where none are listed. `heard` is set when they have heard it; a list
 * without "full" has no such pass. */
typedef struct rs_probe_guests {
    rs_listener *const *listeners; /* [n] */
    size_t n;                      /* RS_PROBE_GUESTS at most */
    bool heard;
} rs_probe_guests;
enum { RS_PROBE_GUESTS = 3 };

/*
 * Fills `result` with the tables, figures and findings of docs/contract.md, probe, and its meta
 * "inputs" and "run". tokenizer may be NULL (ids have no text then). files: inputs never to
 * overwrite. guests: NULL, nobody.
 */
rs_status rs_probe(rs_result *result, const rs_network *network, const rs_inputs *inputs,
                   const rs_tokenizer *tokenizer, const rs_probe_options *options,
                   const rs_input_files *files, rs_probe_guests *guests, const rs_context *context,
                   rs_error *err);

/* ---- parts, one file each ---- */

/* A variant that has run. */
typedef struct rs_probed {
    const char *name;
    rs_measured *measured;
    rs_relevance *relevance;   /* NULL: it was not asked for */
    const rs_network *network; /* with the variant's edits */
    const rs_edit *edit;       /* those; NULL: unknown */
    double distance; /* of its last states from the first variant's (probe_ranks.h); NaN: unknown */
    const struct rs_map_keeper *maps; /* attention matrices that were kept, or NULL */
} rs_probed;

/* How the relative residual of the states falls from layer to layer (probe_tables.c). */
typedef struct rs_decay {
    const rs_token_row *first, *last; /* states 0 and L, or the last that is finite; or NULL */
    double per_layer; /* geometric mean of the factors of the `steps` layers before the floor */
    int32_t steps;
    double worst;                        /* least factor of one layer */
    double log10_per_layer, log10_worst; /* logarithms of both, which may be below every double */
    int32_t worst_at;                    /* state that the least factor leads to */
    int32_t floor_from; /* first state whose residual is rounding; -1: there is none */
} rs_decay;
rs_decay rs_probe_decay(const rs_measured *measured, int32_t layers);
/* The logarithm to base 10 of a row's relative residual: of the mean, or in the residual precision
 * the mean of the samples' logarithms. -inf: zero; NaN: undefined, or beyond the exponents. */
double rs_probe_log10(const rs_token_row *row);

/* probe_tables.c */
rs_status rs_probe_tables(rs_result *result, const rs_probed *variants, size_t n,
                          const rs_probe_options *options, rs_error *err);
/* probe_mixing.c: table mixing, where it has a row. */
rs_status rs_probe_mixing(rs_result *result, const rs_probed *variants, size_t n, rs_error *err);
/* probe_gradients.c, probe_gradient_findings.c: tables and findings of gradients, where they were
 * taken. */
rs_status rs_probe_gradients(rs_result *result, const rs_probed *variants, size_t n, rs_error *err);
rs_status rs_probe_gradient_findings(rs_result *result, const rs_probed *variants, size_t n,
                                     const rs_probe_options *options, const rs_targets *targets,
                                     rs_error *err);
/* probe_relevance.c, probe_relevance_findings.c: the same of relevance. stand_in: of removal curves,
 * or -1. */
rs_status rs_probe_relevance(rs_result *result, const rs_probed *variants, size_t n,
                             const rs_inputs *inputs, const rs_tokenizer *tokenizer, rs_error *err);
rs_status rs_probe_relevance_findings(rs_result *result, const rs_probed *variants, size_t n,
                                      const rs_probe_options *options, const rs_inputs *inputs,
                                      int32_t stand_in, rs_error *err);
/* probe_findings.c, probe_summary.c */
rs_status rs_probe_findings(rs_result *result, const rs_probed *variants, size_t n,
                            const rs_probe_options *options, rs_error *err);
rs_status rs_probe_summary(rs_result *result, const rs_probed *variants, size_t n,
                           const rs_probe_options *options, rs_error *err);
/* probe_figures.c */
rs_status rs_probe_figures(rs_result *result, const rs_probed *variants, size_t n,
                           const rs_probe_options *options, rs_error *err);

/* What its tables can have, for rs_explain. */
extern const rs_table_kind rs_probe_tokens_kind, rs_probe_attention_kind, rs_probe_rollout_kind,
    rs_probe_loss_kind, rs_probe_maps_kind, rs_probe_summary_kind, rs_probe_generate_kind,
    rs_probe_components_kind, rs_probe_mixing_kind, rs_probe_sweep_kind, rs_probe_sweep_ends_kind,
    rs_probe_gradients_kind, rs_probe_gradient_ratios_kind, rs_probe_relevance_kind,
    rs_probe_conservation_kind, rs_probe_removal_kind, rs_probe_ranks_kind;

#endif
