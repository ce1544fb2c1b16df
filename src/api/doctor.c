/* doctor.c: rs_doctor: is this machine set up so that timings mean something? */
#include "api/command.h"
#include "base/cpu.h"
#include "engine/kernels.h"
#include "linalg/blas.h"
#include "linalg/peak.h"
#include "report/canvas.h"

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
const rs_table_kind rs_doctor_machine_kind = {"doctor", "machine", {RS_PART(fact_columns)}};

/* A row of table rates. */
typedef struct rate_row {
    const char *operation;
    int32_t threads;
    double gflops, peak, percent, spread;
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
    {.name = "spread",
     RS_CELL(rate_row, spread),
     .unit = "%",
     .formula = "how far the slowest of the three runs was below the fastest; a machine at rest "
                "stays within a few percent"},
};
const rs_table_kind rs_doctor_speed_kind = {"doctor", "speed", {RS_PART(rate_columns)}};

static rs_status add_facts(rs_result *result, const rs_context *context, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "machine", "Machine", "What rankscope found", fact_columns,
                               2, &table, err));
    rs_table_show_few(table, 5);
    char cpu[64], threads[96], memory[96], pictures[96];
    rs_cpu_name(cpu, sizeof cpu);
    snprintf(threads, sizeof threads, "%d used, %d processors available", context->threads,
             omp_get_num_procs());
    double page = (double)sysconf(_SC_PAGESIZE);
    snprintf(memory, sizeof memory, "%.1f GiB",
             page * (double)sysconf(_SC_PHYS_PAGES) / 1073741824.0);
    const char *cairo = rs_canvas_png_version();
    snprintf(pictures, sizeof pictures, "%s%s",
             cairo ? "drawn by Cairo " : "no Cairo here: --png is refused", cairo ? cairo : "");
    const char *rescued = getenv(RESCUED), *forced = getenv("OPENBLAS_CORETYPE");
    const char *chosen_by = rescued  ? "set by rankscope: OpenBLAS had chosen a slower one"
                            : forced ? "set by OPENBLAS_CORETYPE"
                                     : "chosen by OpenBLAS";
    /* the first ones are those that the verdict rests on: a terminal shows them unasked */
    const fact facts[] = {{"processor", cpu},
                          {"vector instructions", rs_cpu_level_name(rs_cpu_vector_level())},
                          {"BLAS kernel", rs_blas_core()},
                          {"kernel", chosen_by},
                          {"threads", threads},
                          {"forward kernels", rs_kernels_f32_here()->level},
                          {"memory", memory},
                          {"BLAS", rs_blas_config()},
                          {"PNG pictures", pictures},
                          {"rankscope", rs_version()}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        RS_TRY(rs_table_append(table, &facts[i], err));
    return RS_OK;
}

/* What the table of rates comes to. */
typedef struct rates {
    double best;          /* dgemm with all threads, GFLOP/s */
    double percent;       /* single-threaded sgemm of its peak */
    double spread;        /* largest disagreement of repeats, % */
    double above;         /* largest percent of a peak */
    const char *disagree; /* the operations these two were of */
    const char *too_fast;
} rates;

/* Figures beyond these say that something else had the processor meanwhile: the repeats disagree, or
 * the peak was measured at a worse moment than the product. */
enum { MOST_SPREAD = 25, MOST_PERCENT = 105, LEAST_PERCENT = 50 };

static rs_status add_rate(rs_table *table, rates *all, const char *operation, int threads,
                          rs_gemm_rate rate, double peak, rs_error *err)
{
    const rate_row row = {
        operation, threads, rate.gflops, peak, 100.0 * rate.gflops / peak, 100.0 * rate.spread};
    if (row.spread > all->spread) all->spread = row.spread, all->disagree = operation;
    if (row.percent > all->above) all->above = row.percent, all->too_fast = operation;
    return rs_table_append(table, &row, err);
}

/* The products of a forward pass of BERT-base's shape, 1024 tokens, on all threads. */
static rs_status add_layer_rates(rs_table *table, rates *all, const rs_context *context,
                                 rs_error *err)
{
    static const struct {
        const char *name;
        int64_t outputs, inputs;
    } shapes[] = {{"sgemm 1024x768x768 (attention of BERT-base)", 768, 768},
                  {"sgemm 1024x3072x768 (MLP up)", 3072, 768},
                  {"sgemm 1024x768x3072 (MLP down)", 768, 3072}};
    double peak = rs_peak_fma_f32(context->threads);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        rs_gemm_rate rate;
        RS_TRY(rs_check_cancelled(context, err));
        RS_TRY(rs_rate_gemm_shape(&rate, 1024, shapes[i].outputs, shapes[i].inputs,
                                  context->threads, err));
        RS_TRY(add_rate(table, all, shapes[i].name, context->threads, rate, peak, err));
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
    rs_table_show_few(table, 4); /* the squares */
    int counts[2] = {1, context->threads};
    for (int i = 0; i < (context->threads > 1 ? 2 : 1); i++) {
        rs_gemm_rate single, twice;
        double peak32 = rs_peak_fma_f32(counts[i]), peak64 = rs_peak_fma_f64(counts[i]);
        RS_TRY(rs_check_cancelled(context, err));
        RS_TRY(rs_rate_sgemm(&single, 1024, counts[i], err));
        RS_TRY(rs_rate_dgemm(&twice, 1024, counts[i], err));
        RS_TRY(add_rate(table, out, "sgemm", counts[i], single, peak32, err));
        RS_TRY(add_rate(table, out, "dgemm", counts[i], twice, peak64, err));
        if (i == 0) out->percent = 100.0 * single.gflops / peak32;
        out->best = twice.gflops;
    }
    return add_layer_rates(table, out, context, err);
}

/* ---- what they say ---- */

/* Text and verdict in one: the finding repeats the answer beside the numbers it rests on. */
typedef struct diagnosis {
    char answer[300], next[200];
    rs_verdict verdict;
} diagnosis;

static void say_busy(diagnosis *d, const rates *r)
{
    bool disagree = r->spread > MOST_SPREAD;
    if (disagree)
        snprintf(d->answer, sizeof d->answer,
                 "This machine is busy: three runs of %s differ by %.0f %%, so no figure here says "
                 "much.",
                 r->disagree, r->spread);
    else
        snprintf(d->answer, sizeof d->answer,
                 "This machine is busy: %s ran at %.0f %% of the peak that was measured just "
                 "before, so no figure here says much.",
                 r->too_fast, r->above);
    snprintf(d->next, sizeof d->next, "measure again when nothing else runs");
    d->verdict = (rs_verdict){.code = "machine_busy",
                              .severity = RS_WARN,
                              .value = disagree ? r->spread : r->above,
                              .threshold = disagree ? MOST_SPREAD : MOST_PERCENT};
}

static void say_kernel(diagnosis *d, const rates *r, const char *better)
{
    snprintf(d->answer, sizeof d->answer,
             "No: OpenBLAS uses its %s kernel where this processor runs %s.", rs_blas_core(),
             better);
    snprintf(d->next, sizeof d->next, "set OPENBLAS_CORETYPE=%s", better);
    d->verdict = (rs_verdict){.code = "blas_kernel",
                              .severity = RS_WARN,
                              .value = r->percent,
                              .threshold = LEAST_PERCENT};
}

static void say_rate(diagnosis *d, const rates *r)
{
    bool slow = r->percent < LEAST_PERCENT;
    snprintf(d->answer, sizeof d->answer,
             "%s: sgemm reaches %.0f %% of this processor's peak with the %s kernel.",
             slow ? "No" : "This machine is set up well", r->percent, rs_blas_core());
    if (slow) snprintf(d->next, sizeof d->next, "try OPENBLAS_CORETYPE=Haswell, Zen or SkylakeX");
    d->verdict = (rs_verdict){.code = slow ? "blas_slow" : "blas_ok",
                              .severity = slow ? RS_WARN : RS_INFO,
                              .value = r->percent,
                              .threshold = LEAST_PERCENT};
}

/* What a busy machine measured is called neither fine nor slow; a kernel is old all the same. */
static void diagnose(diagnosis *d, const rates *r)
{
    const char *better = rs_better_blas_core();
    *d = (diagnosis){.next = ""};
    if (better)
        say_kernel(d, r, better);
    else if (r->spread > MOST_SPREAD || r->above > MOST_PERCENT)
        say_busy(d, r);
    else
        say_rate(d, r);
    d->verdict.answer = d->answer;
    d->verdict.next = d->next[0] ? d->next : NULL;
}

static rs_status answer(rs_result *result, const rates *measured, rs_error *err)
{
    diagnosis d;
    diagnose(&d, measured);
    rs_finding finding = rs_finding_of((rs_severity)d.verdict.severity, d.verdict.code);
    finding.value = d.verdict.value;
    finding.threshold = d.verdict.threshold;
    finding.message = d.answer;
    finding.hint = d.verdict.next;
    finding.table = "speed";
    RS_TRY(rs_result_set_verdict(result, &d.verdict, err));
    return d.verdict.severity > RS_INFO ? rs_result_add_finding(result, &finding, err) : RS_OK;
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    rates measured = {0};
    rs_result_show(result, "machine,speed");
    RS_TRY(add_facts(result, task->context, err));
    RS_TRY(measure_rates(&measured, result, task->context, err));
    RS_TRY(answer(result, &measured, err));
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
