/*
 * lab.h: published figures and tables, done again: a registry of experiments, each in a file of its
 * own, that set what was published beside what is measured here.
 *
 * Table `claims` has one row a claim: what the paper printed, what an independent calculation gave
 * (tests/oracle/), what this run measured or computed, and by how much they may
 * differ. Table `dong_verdicts` says what stands of the statements of one paper: the status of each
 * follows from the claims that ran for it.
 */
#ifndef RS_LAB_LAB_H
#define RS_LAB_LAB_H

#include "base/context.h"
#include "lab/data.h"
#include "observe/inputs.h"
#include "report/result.h"

/* A model that an experiment runs in place of random weights, and what it is fed. */
typedef struct rs_lab_model {
    const char *path; /* as it was named */
    const rs_network *network;
    const rs_inputs *inputs;
    bool trained; /* its weights are a checkpoint's */
} rs_lab_model;

/* How an experiment is run. */
typedef struct rs_lab_options {
    bool quick;                /* fewer repetitions, said in the result */
    struct rs_kept_runs *kept; /* finished runs of grids (kept_runs.h); NULL: none are kept */
    int64_t seeds;             /* of several the first so many; 0: all (training.h) */
    const rs_lab_model
        *model; /* [n_models] the first for an experiment that takes one; NULL: random
                                * weights */
    int32_t n_models;
    const rs_lab_data *data; /* what an experiment that takes data trains on; NULL: none */
    const char *named_text,
        *named_data; /* what the model reads, and the data, as they were named; or NULL */
} rs_lab_options;

/* What an experiment writes to. */
typedef struct rs_lab_report {
    rs_result *result;
    rs_table *claims;
    const char *experiment;         /* its id, for column `experiment` */
    const char *repeat;             /* the command that runs it alone; NULL */
    uint64_t seed;                  /* the first of its seeds */
    rs_table *verdicts;             /* NULL before the first statement */
    rs_table *draws;                /* kobayashi_draws; NULL before the first (kobayashi_pairs.h) */
    const char *statement;          /* what the claims are about (rs_lab_statement), or NULL */
    int64_t claimed, differ, fails; /* its claims; those that differ, and those that fail */
} rs_lab_report;

/* An experiment. */
typedef struct rs_lab_experiment {
    const char *id; /* "dong-depth-init" */
    const char *title;
    const char *source; /* the paper, its figure or table */
    const char *about;  /* what is done, in a sentence or two */
    rs_status (*run)(rs_lab_report *report, const rs_lab_options *options,
                     const rs_context *context, rs_error *err);
    /* About how long it takes on two cores, as it is and with --quick: measured, "12 s". */
    const char *takes, *takes_quick;
    const rs_table_kind *table; /* the table of its own, for rs_explain */
    int32_t takes_models;       /* how many of options->model it runs, at most */
} rs_lab_experiment;

/* All experiments, in the order of `lab list`. */
extern const rs_lab_experiment *const rs_lab_experiments[];
extern const size_t rs_lab_n_experiments;

/* What of options->data an experiment trains on: "text", "images", "text, images"; NULL: nothing. */
const char *rs_lab_takes_data(const rs_lab_experiment *experiment);
/* NULL: there is none of that name. */
const rs_lab_experiment *rs_lab_find(const char *id);
/* Fails where no experiment has the name `id`, or "all" (RS_E_NOT_FOUND names the nearest), and where
 * one does not take as many models, or the data, that it is offered (RS_E_USAGE). */
rs_status rs_lab_check(const char *id, int32_t models, bool data, rs_error *err);
/* Runs the experiment `id`, or "all". Errors: those of rs_lab_check; RS_E_USAGE also where options->data
 * has a kind that one experiment does not train on ("all" passes over it). */
rs_status rs_lab_run(rs_result *result, const char *id, const rs_lab_options *options,
                     const rs_context *context, rs_error *err);
/* Writes table `experiments`: id, title, source, about, and about how long each takes. */
rs_status rs_lab_list(rs_result *result, rs_error *err);

/*
 * A claim and its verdict. Where there is a number of an independent calculation, leaving it by
 * more than the tolerance is `fail`: this program is wrong. Otherwise, leaving the published number
 * by more than the tolerance is `differs_from_paper`. Else `pass`. NaN: there is no such number. A
 * measured number that is NaN fails.
 */
typedef struct rs_lab_claim {
    const char *text;
    double published, expected, measured;
    double tolerance; /* absolute difference that is allowed */
    bool at_most;     /* what is claimed is measured <= tolerance, not closeness */
    bool computed;    /* a formula gave `measured`, which stands in column `computed` */
} rs_lab_claim;
/* Adds table `claims`, without rows, for report->claims. */
rs_status rs_lab_open_claims(rs_lab_report *report, rs_error *err);
const char *rs_lab_verdict(const rs_lab_claim *claim);
/* Adds the row, and a finding unless it is a pass: fail is critical, a difference a warning. */
rs_status rs_lab_add_claim(rs_lab_report *report, const rs_lab_claim *claim, rs_error *err);
/* Adds the row of a claim that cannot be judged, and why: verdict `skipped`, nothing measured. Borrows
 * the reason: a literal. */
rs_status rs_lab_skip_claim(rs_lab_report *report, const rs_lab_claim *claim, const char *reason,
                            rs_error *err);
/*
 * Adds the row of an ordering: that a difference, whose standard error is `error`, is above 0. It
 * passes where it is above twice the error, fails where it is below minus that, and shows
 * `no_difference` between; an infinite error (one seed) shows nothing. Column tolerance has twice the
 * error. Of an error over seeds, which may be few, rs_lab_order_error (training.h) has what is given.
 */
rs_status rs_lab_order(rs_lab_report *report, const char *text, double difference, double error,
                       rs_error *err);
/* The same of an ordering that was published: the other way round it differs from the paper. */
rs_status rs_lab_order_published(rs_lab_report *report, const char *text, double difference,
                                 double error, rs_error *err);
/*
 * Claims that `measured` is at most `bound`. Where the claim is about our own data (`known`) a larger
 * number fails; of the user's data, or where only the paper says it, it differs from the paper, and
 * nothing is wrong with the program.
 */
rs_status rs_lab_at_most_where(rs_lab_report *report, bool known, const char *text, double measured,
                               double bound, rs_error *err);
/*
 * Names a statement of Dong, Cordonnier, Loukas 2021 that the claims from here on are about, to the
 * next statement; NULL: about none. It is "correct" where all of them pass, "false" where one
 * differs from the paper, "open" where one fails or none ran. Borrows the string: a literal.
 */
rs_status rs_lab_statement(rs_lab_report *report, const char *statement, rs_error *err);

extern const rs_lab_experiment rs_lab_dong_depth_init;
extern const rs_lab_experiment rs_lab_dong_depth_pretrained;
extern const rs_lab_experiment rs_lab_dong_paths;
extern const rs_lab_experiment rs_lab_dong_ensemble;
extern const rs_lab_experiment rs_lab_dong_ensembles;
extern const rs_lab_experiment rs_lab_dong_sorting;
extern const rs_lab_experiment rs_lab_dong_convex_hull;
extern const rs_lab_experiment rs_lab_dong_memorization;
extern const rs_lab_experiment rs_lab_dong_circle;
extern const rs_lab_experiment rs_lab_dong_perturbation_lemma;
extern const rs_lab_experiment rs_lab_causal_half_law;
extern const rs_lab_experiment rs_lab_relative_position_linear_rate;
extern const rs_lab_experiment rs_lab_equiangular_ode;
extern const rs_lab_experiment rs_lab_dobrushin_mask;
extern const rs_lab_experiment rs_lab_lambda_attention;
extern const rs_lab_experiment rs_lab_dong_skip_lower_bound;
extern const rs_lab_experiment rs_lab_dong_layernorm;
extern const rs_lab_experiment rs_lab_dong_mlp;
extern const rs_lab_experiment rs_lab_dong_lipschitz;
extern const rs_lab_experiment rs_lab_dong_heads;
extern const rs_lab_experiment rs_lab_dong_bounds;
extern const rs_lab_experiment rs_lab_dong_doubly_exponential;
extern const rs_lab_experiment rs_lab_graph_oversmoothing;
extern const rs_lab_experiment rs_lab_ssm_homogeneity;
extern const rs_lab_experiment rs_lab_ssm_rank_one_without_mu;
extern const rs_lab_experiment rs_lab_one_layer_collapse;
extern const rs_lab_experiment rs_lab_lambda_minus_three_halves;
extern const rs_lab_experiment rs_lab_consensus_threshold;
extern const rs_lab_experiment rs_lab_gate_reinjects;
extern const rs_lab_experiment rs_lab_lti_with_and_without_norm;
extern const rs_lab_experiment rs_lab_lrp_conservation;
extern const rs_lab_experiment rs_lab_lambda_theorem_4_3;
extern const rs_lab_experiment rs_lab_lambda_theorem_4_1;
extern const rs_lab_experiment rs_lab_lambda_figure_1;
extern const rs_lab_experiment rs_lab_lambda_figure_2;
extern const rs_lab_experiment rs_lab_lambda_figure_3;
extern const rs_lab_experiment rs_lab_lambda_table1_small;
extern const rs_lab_experiment rs_lab_kobayashi_fig1;
extern const rs_lab_experiment rs_lab_kobayashi_fig2;
extern const rs_lab_experiment rs_lab_kobayashi_fig4;
extern const rs_lab_experiment rs_lab_kobayashi_fig3;
extern const rs_lab_experiment rs_lab_kobayashi_table1_small;
extern const rs_lab_experiment rs_lab_kobayashi_fig5;
extern const rs_lab_experiment rs_lab_kobayashi_theorems;
extern const rs_lab_experiment rs_lab_certificate_global_minimum;
extern const rs_lab_experiment rs_lab_gqa_balance;
extern const rs_lab_experiment rs_lab_rope_planes;
extern const rs_lab_experiment rs_lab_heavy_ball_root;
extern const rs_lab_experiment rs_lab_product_penalty;
extern const rs_lab_experiment rs_lab_gap_width_collapse;
extern const rs_lab_experiment rs_lab_gap_fixed_dk;
extern const rs_lab_experiment rs_lab_gap_bert_init;
extern const rs_lab_experiment rs_lab_centred_identities;
extern const rs_lab_experiment rs_lab_oversmoothing_bound;
extern const rs_lab_experiment rs_lab_shaped_sde;
extern const rs_lab_experiment rs_lab_espa;
extern const rs_lab_experiment rs_lab_sas_at_init;
extern const rs_lab_experiment rs_lab_softmax_moment;
extern const rs_lab_experiment rs_lab_noci_fig1;
extern const rs_lab_experiment rs_lab_noci_lemma_3_2;
extern const rs_lab_experiment rs_lab_noci_theorem_3_3;
extern const rs_lab_experiment rs_lab_noci_hyperparameters;
extern const rs_lab_experiment rs_lab_xiong_last_layer;
extern const rs_lab_experiment rs_lab_noci_fig1_training;
extern const rs_lab_experiment rs_lab_noci_fig5_adam;
extern const rs_lab_experiment rs_lab_noci_table1_small;
extern const rs_lab_experiment rs_lab_gap_training;
extern const rs_lab_experiment rs_lab_skipless_train;
extern const rs_lab_experiment rs_lab_fusion_train;
extern const rs_lab_experiment rs_lab_alarms;

/* What the tables that all share can have, for rs_explain. */
extern const rs_table_kind rs_lab_experiments_kind, rs_lab_claims_kind, rs_lab_verdicts_kind,
    rs_lab_lambda_cells_kind, rs_lab_noci_density_kind, rs_lab_kobayashi_balance_kind,
    rs_lab_kobayashi_ends_kind, rs_lab_alarm_runs_kind, rs_lab_alarm_losses_kind,
    rs_lab_depth_albert_kind, rs_lab_depth_xlnet_kind, rs_lab_depth_ids_kind,
    rs_lab_pretrained_albert_kind, rs_lab_pretrained_xlnet_kind, rs_lab_pretrained_models_kind,
    rs_lab_noci_runs_kind, rs_lab_noci_recipes_kind, rs_lab_dong_sorting_lengths_kind,
    rs_lab_dong_sorting_runs_kind, rs_lab_dong_hull_lengths_kind, rs_lab_dong_hull_runs_kind,
    rs_lab_dong_memorization_lengths_kind, rs_lab_dong_memorization_runs_kind,
    rs_lab_dong_circle_runs_kind, rs_lab_kobayashi_draws_kind, rs_lab_kobayashi_heads_kind,
    rs_lab_table1_cells_kind, rs_lab_table1_runs_kind, rs_lab_fig3_layers_kind,
    rs_lab_fig3_seeds_kind, rs_lab_fig3_runs_kind, rs_lab_fig3_vision_runs_kind,
    rs_lab_lambda_ways_kind, rs_lab_lambda_runs_kind, rs_lab_lambda_starts_kind,
    rs_lab_lambda_seed_starts_kind, rs_lab_ensembles_lengths_kind, rs_lab_ensembles_lesions_kind,
    rs_lab_ensembles_seed_lengths_kind, rs_lab_ensembles_seed_lesions_kind, rs_lab_gap_ways_kind,
    rs_lab_gap_runs_kind, rs_lab_skipless_ways_kind, rs_lab_skipless_runs_kind,
    rs_lab_fusion_ways_kind, rs_lab_fusion_tokens_kind, rs_lab_fusion_runs_kind;

#endif
