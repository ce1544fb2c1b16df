/* scan.h: `rankscope scan`: the rank health of a checkpoint's weights as one result. */
#ifndef RS_SCAN_SCAN_H
#define RS_SCAN_SCAN_H

#include "base/context.h"
#include "recognise/model.h"
#include "report/result.h"
#include "scan/heads.h"

enum { RS_MAX_ENERGIES = 16 };

/* Thresholds of the findings; each can be set by --threshold CODE=VALUE. */
typedef struct rs_scan_thresholds {
    double qk_low_rank;       /* found when effective_rank / effective_rank_null is below this */
    double ov_low_rank;       /* the same for ov products */
    double dead_head;         /* found when frobenius_norm / the layer's median is below this */
    double decay_equilibrium; /* found when a layer's least balance_score is above this */
    double rank_falls; /* of a series: found when more than this share of the rank was lost */
} rs_scan_thresholds;

/* What a stored tensor met in a run over a text: the Gram of all tokens' rows. */
typedef struct rs_activations {
    const rs_tensor *tensor;
    bool output; /* of what it wrote, bias left out; else of what it read */
    int64_t n;
    double *gram; /* [n, n], both triangles */
} rs_activations;

struct rs_stored_matrices;

/* Is told what can be factorised, once tables energy and costs are there. */
typedef rs_status rs_energy_told(void *user, rs_result *result,
                                 const struct rs_stored_matrices *matrices, rs_error *err);

/* What a scan is to measure and say. */
typedef struct rs_scan_options {
    rs_heads_options heads;
    bool spectra;         /* tables heads and groups hold every singular value */
    const char *matrices; /* other tensors: "all", an extended regular expression; NULL: none */
    double energies[RS_MAX_ENERGIES]; /* fractions of --energy */
    size_t n_energies;
    const rs_activations *seen; /* [n_seen] what a run over a text showed; NULL: there was none */
    size_t n_seen;
    rs_energy_told *told; /* with energies alone; NULL: nobody asks */
    void *told_user;
    rs_scan_thresholds thresholds;
    const char *summary; /* name for table summary beside another command's; NULL: summary */
} rs_scan_options;

void rs_scan_defaults(rs_scan_options *options);

/* Fills `result` (made by rs_result_new("scan")) with the tables, figures and findings of
 * docs/contract.md, and its meta "model". */
rs_status rs_scan(rs_result *result, const rs_model *model, const rs_scan_options *options,
                  const rs_context *context, rs_error *err);

/* What a scan finds of products that were measured, and its verdict, without its tables. */
rs_status rs_scan_judge(rs_result *result, const rs_model *model, const rs_heads *heads,
                        const rs_scan_options *options, rs_error *err);
/* Says that no layer that was asked for has a product: RS_E_NO_PRODUCT. */
rs_status rs_scan_no_product(const rs_model *model, rs_error *err);
/* The "model" object of docs/contract.md, 2; unknown numbers are null. NULL: no memory. */
json_t *rs_scan_model_object(const rs_model *model);

/* A scan as the command line asks for it. */
typedef struct rs_scan_request {
    const char *path, *map;    /* the checkpoint, or the folder of a run; a --map file, or NULL */
    const char *const *others; /* [n_others] more of them: a series (scan/series.h) */
    size_t n_others;
    bool lenient;
    rs_scan_options options;
} rs_scan_request;

/* scan_path.c: adds the files of a checkpoint, and its folder, to what no output may replace. */
rs_status rs_scan_note_inputs(rs_input_files *files, const rs_checkpoint *checkpoint,
                              const char *path, rs_error *err);
/* Reads a --map file; *map is the caller's, NULL where path is. */
rs_status rs_scan_read_map(json_t **map, const char *path, rs_error *err);

/* scan_path.c: opens, scans and closes. inputs is filled as soon as the checkpoint is open. */
rs_status rs_scan_path(rs_result *result, rs_input_files *inputs, const rs_scan_request *request,
                       const rs_context *context, rs_error *err);

/* Says, once the weights have been read, whether the files (checkpoint may be NULL) changed
 * meanwhile: RS_E_CHANGED_WHILE_READ or RS_E_TRUNCATED_WHILE_MAPPED. A file that was only touched
 * becomes finding file_touched. */
rs_status rs_verify_checkpoint(rs_result *result, const rs_checkpoint *checkpoint, rs_error *err);

/* ---- parts, one file each ---- */

/* scan_tables.c */
rs_status rs_scan_head_tables(rs_result *result, const rs_heads *heads,
                              const rs_scan_options *options, rs_error *err);
rs_status rs_scan_summary(rs_result *result, const rs_heads *heads, const rs_scan_options *options,
                          rs_error *err);
/* Writes table tensors. used: a flag for each tensor of the checkpoint, set for those that this run
 * read (rs_scan_mark_used, rs_scan_matrices). */
rs_status rs_scan_tensors(rs_result *result, const rs_model *model, const bool *used,
                          rs_error *err);
void rs_scan_mark_used(bool *used, const rs_model *model, const rs_heads *heads, rs_fold fold);
/* scan_planes.c */
rs_status rs_scan_planes(rs_result *result, const rs_heads *heads, const rs_scan_options *options,
                         rs_error *err);
/* scan_ssm.c: table ssm and its findings, where the model has state-space mixers. */
rs_status rs_scan_ssm(rs_result *result, const rs_model *model, const rs_scan_options *options,
                      rs_error *err);
void rs_scan_mark_rests(bool *used, const rs_model *model, const rs_scan_options *options);
/* ssm_null.c: the expected value, over steps drawn by the law, of exp(-rate · step) or (rate 0) of
 * the step itself, where the step is the least or the greatest of n independent ones (n = 1: any). */
double rs_ssm_expected(const rs_step_law *law, double rate, double n, bool greatest);
/* scan_energy.c */
rs_status rs_scan_energy(rs_result *result, const rs_model *model, const rs_heads *heads,
                         const rs_scan_options *options, const rs_context *context, rs_error *err);
/* scan_matrices.c */
rs_status rs_scan_matrices(rs_result *result, bool *used, const rs_model *model,
                           const rs_scan_options *options, const rs_context *context,
                           rs_error *err);
/* scan_findings.c */
rs_status rs_scan_verdict(rs_result *result, const rs_heads *heads, const rs_scan_options *options,
                          rs_error *err);
/* True where a query-key or value-output product has less than the asked share of chance's effective
 * rank. */
bool rs_scan_lost_rank(const rs_head *head, const rs_scan_thresholds *thresholds);
/* The number of products of this kind that have a spectrum. */
size_t rs_scan_measured(const rs_heads *heads, const rs_product *kind);
/* Whether a finding of non-finite weights names that tensor already. */
bool rs_scan_already_said(const rs_result *result, const char *tensor);
rs_status rs_scan_findings(rs_result *result, const rs_model *model, const rs_heads *heads,
                           const rs_scan_options *options, rs_error *err);
/* A finding of a product, in table heads. */
rs_finding rs_scan_finding_for(const rs_product *product, rs_severity severity, const char *code);
/* "layer 3, head 5", with the stack and the kind of attention where they tell something; into text. */
const char *rs_scan_place(char *text, size_t size, const rs_product *product, bool with_head);
/* scan_figures.c */
rs_status rs_scan_figures(rs_result *result, const rs_heads *heads, rs_error *err);

/* The names of a kind of product: in a row of heads, groups or layers, and in words. */
const char *rs_product_name(rs_product_kind kind);  /* "qk" "ov" "cb" "io" */
const char *rs_product_title(rs_product_kind kind); /* "query-key", ... */

/* Columns stack, attention, layer, head and product of a row. */
typedef struct rs_scan_keys {
    const char *stack, *attention, *product;
    int32_t layer, head;
} rs_scan_keys;
rs_scan_keys rs_scan_keys_of(const rs_product *product, int32_t head);

/* True when two products are rows of one cell of table layers: same stack, attention, layer and
 * kind. */
bool rs_same_cell(const rs_product *a, const rs_product *b);

/* True when two products differ in layer and head alone. */
bool rs_same_kind(const rs_product *a, const rs_product *b);

/* The median of n > 0 values, which it reorders. */
double rs_median(double *values, size_t n);

/* What its tables can have, for rs_explain. */
extern const rs_table_kind rs_scan_heads_kind, rs_scan_groups_kind, rs_scan_layers_kind,
    rs_scan_summary_kind, rs_scan_tensors_kind, rs_scan_energy_kind, rs_scan_energy_totals_kind,
    rs_scan_costs_kind, rs_scan_matrices_kind, rs_scan_planes_kind, rs_scan_ssm_kind,
    rs_scan_spectra_kind, rs_scan_balance_kind;

#endif
