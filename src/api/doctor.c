/* doctor.c: rs_doctor: is this machine set up so that timings mean something? */
#include "api/command.h"
#include "base/cpu.h"
#include "engine/kernels.h"
#include "linalg/blas.h"
#include "linalg/peak.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Set in the environment by a program that followed rs_better_blas_core. */
static const char RESCUED[] = "RANKSCOPE_BLAS_RESCUED";

const char *rs_better_blas_core(void)
{
    if (getenv("OPENBLAS_CORETYPE")) return NULL;
    return rs_blas_better_core(rs_blas_core(), rs_cpu_vector_level(), rs_cpu_is_amd());
}

/* A row of table machine. */
typedef struct fact {
    const char *name, *value;
} fact;
static const rs_column fact_columns[] = {{.name = "fact", RS_CELL(fact, name)},
                                         {.name = "value", RS_CELL(fact, value)}};

/* A row of table rates. */
typedef struct rate_row {
    const char *operation;
    int32_t threads;
    double gflops, peak, percent;
} rate_row;
static const rs_column rate_columns[] = {
    {.name = "operation", RS_CELL(rate_row, operation)},
    {.name = "threads", RS_CELL(rate_row, threads)},
    {.name = "gflops",
     RS_CELL(rate_row, gflops),
     .unit = "GFLOP/s",
     .formula =
         "2 m n k / seconds, best of three; m = n = k = 1024 where no shape is named; a shape is "
         "tokens x outputs x inputs"},
    {.name = "peak",
     RS_CELL(rate_row, peak),
     .unit = "GFLOP/s",
     .formula = "measured fused multiply-add from registers"},
    {.name = "percent", RS_CELL(rate_row, percent), .unit = "%", .formula = "100 · gflops / peak"},
};

static rs_status add_facts(rs_result *result, const rs_context *context, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "machine", "Machine", "What rankscope found", fact_columns,
                               2, &table, err));
    char cpu[64], threads[96], memory[96];
    rs_cpu_name(cpu, sizeof cpu);
    snprintf(threads, sizeof threads, "%d used, %d processors available", context->threads,
             omp_get_num_procs());
    double page = (double)sysconf(_SC_PAGESIZE);
    snprintf(memory, sizeof memory, "%.1f GiB",
             page * (double)sysconf(_SC_PHYS_PAGES) / 1073741824.0);
    const char *rescued = getenv(RESCUED), *forced = getenv("OPENBLAS_CORETYPE");
    const char *chosen_by = rescued  ? "set by rankscope: OpenBLAS had chosen a slower one"
                            : forced ? "set by OPENBLAS_CORETYPE"
                                     : "chosen by OpenBLAS";
    const fact facts[] = {{"rankscope", rs_version()},
                          {"processor", cpu},
                          {"vector instructions", rs_cpu_level_name(rs_cpu_vector_level())},
                          {"BLAS", rs_blas_config()},
                          {"BLAS kernel", rs_blas_core()},
                          {"kernel", chosen_by},
                          {"forward kernels", rs_kernels_f32_here()->level},
                          {"threads", threads},
                          {"memory", memory}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        RS_TRY(rs_table_append(table, &facts[i], err));
    return RS_OK;
}

static rs_status add_rate(rs_table *table, const char *operation, int threads, double gflops,
                          double peak, rs_error *err)
{
    const rate_row row = {operation, threads, gflops, peak, 100.0 * gflops / peak};
    return rs_table_append(table, &row, err);
}

typedef struct rates {
    double best;    /* dgemm with all threads */
    double percent; /* single-threaded sgemm of its peak */
} rates;

/* The products of a forward pass of BERT-base's shape, 1024 tokens, on all threads. */
static rs_status add_layer_rates(rs_table *table, const rs_context *context, rs_error *err)
{
    static const struct {
        const char *name;
        int64_t outputs, inputs;
    } shapes[] = {{"sgemm 1024x768x768 (attention of BERT-base)", 768, 768},
                  {"sgemm 1024x3072x768 (MLP up)", 3072, 768},
                  {"sgemm 1024x768x3072 (MLP down)", 768, 3072}};
    double peak = rs_peak_fma_f32(context->threads), rate;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        RS_TRY(rs_check_cancelled(context, err));
        RS_TRY(rs_rate_gemm_shape(&rate, 1024, shapes[i].outputs, shapes[i].inputs,
                                  context->threads, err));
        RS_TRY(add_rate(table, shapes[i].name, context->threads, rate, peak, err));
    }
    return RS_OK;
}

static rs_status measure_rates(rates *out, rs_result *result, const rs_context *context,
                               rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "speed", "Speed",
                               "Matrix multiplication beside the measured peak", rate_columns,
                               sizeof rate_columns / sizeof *rate_columns, &table, err));
    int counts[2] = {1, context->threads};
    for (int i = 0; i < (context->threads > 1 ? 2 : 1); i++) {
        double single, twice, peak32 = rs_peak_fma_f32(counts[i]),
                              peak64 = rs_peak_fma_f64(counts[i]);
        RS_TRY(rs_check_cancelled(context, err));
        RS_TRY(rs_rate_sgemm(&single, 1024, counts[i], err));
        RS_TRY(rs_rate_dgemm(&twice, 1024, counts[i], err));
        RS_TRY(add_rate(table, "sgemm", counts[i], single, peak32, err));
        RS_TRY(add_rate(table, "dgemm", counts[i], twice, peak64, err));
        if (i == 0) out->percent = 100.0 * single / peak32;
        out->best = twice;
    }
    return add_layer_rates(table, context, err);
}

static rs_status add_findings(rs_result *result, const rates *measured, rs_error *err)
{
    rs_finding finding = {.layer = RS_NULL_INT,
                          .head = RS_NULL_INT,
                          .value = NAN,
                          .threshold = NAN,
                          .table = "speed"};
    char message[300], hint[200];
    const char *better = rs_better_blas_core();
    if (better) {
        snprintf(message, sizeof message,
                 "OpenBLAS uses its %s kernel where this processor runs %s", rs_blas_core(),
                 better);
        snprintf(hint, sizeof hint, "set OPENBLAS_CORETYPE=%s", better);
        finding.severity = RS_WARN;
        finding.code = "blas_kernel";
    } else if (measured->percent < 50) {
        snprintf(message, sizeof message,
                 "sgemm reaches %.0f %% of the processor's peak with the %s kernel",
                 measured->percent, rs_blas_core());
        snprintf(hint, sizeof hint,
                 "try OPENBLAS_CORETYPE=Haswell, Zen or SkylakeX; on a busy machine measure again");
        finding.severity = RS_WARN;
        finding.code = "blas_slow";
        finding.value = measured->percent;
        finding.threshold = 50;
    } else {
        snprintf(message, sizeof message,
                 "sgemm reaches %.0f %% of the processor's peak with the %s kernel",
                 measured->percent, rs_blas_core());
        snprintf(hint, sizeof hint, "nothing to do");
        finding.severity = RS_INFO;
        finding.code = "blas_ok";
        finding.value = measured->percent;
        finding.threshold = 50;
    }
    finding.message = message;
    finding.hint = hint;
    return rs_result_add_finding(result, &finding, err);
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    rates measured = {0};
    rs_result_show(result, "machine,speed");
    RS_TRY(add_facts(result, task->context, err));
    RS_TRY(measure_rates(&measured, result, task->context, err));
    RS_TRY(add_findings(result, &measured, err));
    return rs_set_machine(result, task->context->threads, measured.best, err);
}

static const rs_command command = {
    .name = "doctor", .size = sizeof(rs_doctor_settings), .fill = fill};

void rs_doctor_settings_init(rs_doctor_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_doctor(rs_result **out, const rs_doctor_settings *settings, rs_error *err)
{
    return rs_answer_path(out, &command, NULL, settings, err);
}
