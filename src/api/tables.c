/* tables.c: the tables of all commands: what 'rankscope explain' tells of, and what --table can name. */
#include "api/command.h"
#include "certify/certify.h"
#include "compare/compare.h"
#include "compress/compress.h"
#include "lab/lab.h"
#include "paths/paths.h"
#include "predict/predict.h"
#include "probe/probe.h"
#include "report/beside.h"
#include "scan/scan.h"
#include "scan/series.h"
#include "train/instruments.h"
#include "train/train.h"

#include <string.h>

/* What several models beside each other have. */
static const rs_table_kind probe_models = {
    "probe", "models", {{rs_beside_columns, RS_BESIDE_COLUMNS, NULL}}};
static const rs_table_kind certify_models = {
    "certify", "models", {{rs_beside_columns, RS_BESIDE_COLUMNS, NULL}}};

/* In the order in which commands show them; those of the laboratory's experiments follow. What
 * probe's result has of another command, by --scan and --certify, it has under the name `beside`. */
static const struct {
    const rs_table_kind *kind;
    const char *beside; /* NULL: probe has no such table */
} tables[] = {{&rs_scan_summary_kind, "weights"},
              {&rs_scan_layers_kind, "layers"},
              {&rs_scan_heads_kind, "heads"},
              {&rs_scan_groups_kind, "groups"},
              {&rs_scan_planes_kind, "planes"},
              {&rs_scan_ssm_kind, "ssm"},
              {&rs_scan_energy_kind, NULL},
              {&rs_scan_energy_totals_kind, NULL},
              {&rs_scan_costs_kind, NULL},
              {&rs_scan_compression_kind, NULL},
              {&rs_scan_matrices_kind, NULL},
              {&rs_scan_tensors_kind, "tensors"},
              {&rs_scan_spectra_kind, "spectra"},
              {&rs_scan_balance_kind, "balance"},
              {&rs_series_trends_kind, NULL},
              {&rs_series_kind, NULL},
              {&rs_series_checkpoints_kind, NULL},
              {&rs_series_changed_kind, NULL},
              {&rs_series_apart_kind, NULL},
              {&rs_series_curves_kind, NULL},
              {&rs_probe_summary_kind, NULL},
              {&probe_models, NULL},
              {&rs_probe_components_kind, NULL},
              {&rs_probe_tokens_kind, NULL},
              {&rs_probe_attention_kind, NULL},
              {&rs_probe_rollout_kind, NULL},
              {&rs_probe_ranks_kind, NULL},
              {&rs_probe_mixing_kind, NULL},
              {&rs_probe_loss_kind, NULL},
              {&rs_probe_generate_kind, NULL},
              {&rs_probe_maps_kind, NULL},
              {&rs_probe_texts_kind, NULL},
              {&rs_probe_gradients_kind, NULL},
              {&rs_probe_gradient_ratios_kind, NULL},
              {&rs_probe_relevance_kind, NULL},
              {&rs_probe_conservation_kind, NULL},
              {&rs_probe_removal_kind, NULL},
              {&rs_probe_sweep_kind, NULL},
              {&rs_probe_sweep_ends_kind, NULL},
              {&rs_certify_summary_kind, "certificate"},
              {&certify_models, NULL},
              {&rs_certify_bounds_kind, "bounds"},
              {&rs_certify_chains_kind, "chains"},
              {&rs_certify_lambda_kind, "lambda"},
              {&rs_certify_intervals_kind, "intervals"},
              {&rs_certify_demands_kind, "demands"},
              {&rs_certify_recommendation_kind, NULL},
              {&rs_certify_recommendation_layers_kind, NULL},
              {&rs_certify_proof_kind, NULL},
              {&rs_certify_proof_numbers_kind, NULL},
              {&rs_certify_texts_kind, NULL},
              {&rs_paths_summary_kind, NULL},
              {&rs_paths_lengths_kind, NULL},
              {&rs_paths_truncated_kind, NULL},
              {&rs_paths_paths_kind, NULL},
              {&rs_paths_strongest_kind, NULL},
              {&rs_paths_edges_kind, NULL},
              {&rs_paths_sources_kind, NULL},
              {&rs_paths_lesions_kind, NULL},
              {&rs_paths_combined_kind, NULL},
              {&rs_paths_texts_kind, NULL},
              {&rs_compare_summary_kind, NULL},
              {&rs_compare_models_kind, NULL},
              {&rs_compare_layers_kind, NULL},
              {&rs_compare_heads_kind, NULL},
              {&rs_compare_missing_kind, NULL},
              {&rs_compare_tokens_kind, NULL},
              {&rs_compare_loss_kind, NULL},
              {&rs_compare_changed_kind, NULL},
              {&rs_train_log_kind, NULL},
              {&rs_train_plan_kind, NULL},
              {&rs_train_task_kind, NULL},
              {&rs_train_alarms_kind, NULL},
              {&rs_train_marks_kind, NULL},
              {&rs_train_ranks_kind, NULL},
              {&rs_train_layers_kind, NULL},
              {&rs_predict_answers_kind, NULL},
              {&rs_predict_forward_kind, NULL},
              {&rs_predict_backward_kind, NULL},
              {&rs_predict_remedies_kind, NULL},
              {&rs_predict_grid_kind, NULL},
              {&rs_predict_budget_kind, NULL},
              {&rs_predict_architecture_kind, NULL},
              {&rs_predict_presets_kind, NULL},
              {&rs_tokenize_ids_kind, NULL},
              {&rs_tokenize_summary_kind, NULL},
              {&rs_lab_experiments_kind, NULL},
              {&rs_lab_claims_kind, NULL},
              {&rs_lab_verdicts_kind, NULL},
              {&rs_lab_lambda_cells_kind, NULL},
              {&rs_lab_noci_density_kind, NULL},
              {&rs_lab_kobayashi_balance_kind, NULL},
              {&rs_lab_kobayashi_ends_kind, NULL},
              {&rs_lab_dong_sorting_lengths_kind, NULL},
              {&rs_lab_dong_sorting_runs_kind, NULL},
              {&rs_lab_dong_hull_lengths_kind, NULL},
              {&rs_lab_dong_hull_runs_kind, NULL},
              {&rs_lab_dong_memorization_lengths_kind, NULL},
              {&rs_lab_dong_memorization_runs_kind, NULL},
              {&rs_lab_dong_circle_runs_kind, NULL},
              {&rs_lab_kobayashi_draws_kind, NULL},
              {&rs_lab_kobayashi_heads_kind, NULL},
              {&rs_lab_table1_cells_kind, NULL},
              {&rs_lab_table1_runs_kind, NULL},
              {&rs_lab_fig3_layers_kind, NULL},
              {&rs_lab_fig3_seeds_kind, NULL},
              {&rs_lab_fig3_runs_kind, NULL},
              {&rs_lab_fig3_vision_runs_kind, NULL},
              {&rs_lab_lambda_ways_kind, NULL},
              {&rs_lab_lambda_runs_kind, NULL},
              {&rs_lab_lambda_starts_kind, NULL},
              {&rs_lab_lambda_seed_starts_kind, NULL},
              {&rs_lab_ensembles_lengths_kind, NULL},
              {&rs_lab_ensembles_lesions_kind, NULL},
              {&rs_lab_ensembles_seed_lengths_kind, NULL},
              {&rs_lab_ensembles_seed_lesions_kind, NULL},
              {&rs_lab_alarm_runs_kind, NULL},
              {&rs_lab_alarm_losses_kind, NULL},
              {&rs_lab_depth_albert_kind, NULL},
              {&rs_lab_depth_xlnet_kind, NULL},
              {&rs_lab_depth_ids_kind, NULL},
              {&rs_lab_pretrained_albert_kind, NULL},
              {&rs_lab_pretrained_xlnet_kind, NULL},
              {&rs_lab_pretrained_models_kind, NULL},
              {&rs_lab_noci_runs_kind, NULL},
              {&rs_lab_noci_recipes_kind, NULL},
              {&rs_lab_gap_ways_kind, NULL},
              {&rs_lab_gap_runs_kind, NULL},
              {&rs_lab_skipless_ways_kind, NULL},
              {&rs_lab_skipless_runs_kind, NULL},
              {&rs_lab_fusion_ways_kind, NULL},
              {&rs_lab_fusion_tokens_kind, NULL},
              {&rs_lab_fusion_runs_kind, NULL},
              {&rs_doctor_machine_kind, NULL},
              {&rs_doctor_speed_kind, NULL},
              {&rs_explain_words_kind, NULL},
              {&rs_explain_names_kind, NULL},
              {&rs_findings_kind, NULL}};

enum { TABLES = sizeof tables / sizeof *tables };

const rs_table_kind *rs_table_kind_at(size_t index)
{
    if (index < TABLES) return tables[index].kind;
    index -= TABLES;
    return index < rs_lab_n_experiments ? rs_lab_experiments[index]->table : NULL;
}

/* ---- by name ---- */

/* Names that are counted whether there is room for them or not. */
typedef struct list {
    char *text;
    size_t size, length;
} list;

static void add_letter(list *names, char letter)
{
    if (names->length + 1 < names->size) {
        names->text[names->length] = letter;
        names->text[names->length + 1] = 0;
    }
    names->length++;
}

static void add_name(list *names, const char *name)
{
    if (names->length) add_letter(names, '|');
    for (; *name; name++)
        add_letter(names, *name);
}

size_t rs_command_tables(char *text, size_t size, const char *command)
{
    list names = {text, size, 0};
    const rs_table_kind *kind;
    if (size) text[0] = 0;
    if (!command) return 0;
    for (size_t i = 0; (kind = rs_table_kind_at(i)); i++)
        if (strcmp(kind->command, command) == 0) add_name(&names, kind->name);
    for (size_t i = 0; strcmp(command, "probe") == 0 && i < TABLES; i++)
        if (tables[i].beside) add_name(&names, tables[i].beside);
    if (names.length) add_name(&names, rs_findings_kind.name);
    return names.length;
}
