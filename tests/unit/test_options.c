/*
 * test_options.c: what the command line says reaches the library: for each row of its table and each
 * command that has it, the program with the option gives the JSON that a call with the settings
 * filled by hand gives, and another one than without it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "linalg/blas.h"

#include "cli/cli.h"

#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define MODEL RS_TEST_DATA "/forward/bert"
#define OTHER RS_TEST_DATA "/forward/gpt2" /* as wide as MODEL */
#define DECODER RS_TEST_DATA "/forward/llama_bias_tied"
#define TOKENIZER RS_TEST_DATA "/tokenizer/bert.json"
#define TEXT RS_TEST_DATA "/forward/bert/config.json"
static const char *const several[] = {TEXT, TOKENIZER};

/* ---- the settings by hand ---- */

static const rs_intervention edits[] = {
    {"no-skip", NULL},
    {"no-mlp", NULL},
    {"no-mlp-branch", NULL},
    {"no-norm", NULL},
    {"no-mask", NULL},
    {"no-gate", NULL},
    {"no-inner-norm", NULL},
    {"norm-placement", "post"},
    {"lambda", "mixer:0.5"},
    {"residual-scale", "1/sqrt(L)"},
    {"center-attention", NULL},
    {"remove-gap", NULL},
    {"uniform-attention", NULL},
    {"shaped", "0.1,0.7,0.2"},
    {"attention-rescale", "0.5"},
    {"temperature", "2"},
    {"ablate", "0:1"},
    {"depth", "3"},
    {"fusion", "max"},
};

static void set_edit(cli_args *s, const char *name)
{
    size_t i = 0;
    while (strcmp(edits[i].name, name) != 0)
        i++;
    s->common.run.edits = &edits[i];
    s->common.run.n_edits = 1;
}

static const double energies[] = {0.5, 0.9};
static const rs_threshold dead_heads[] = {{"dead_head", 1.5}, {"qk_low_rank", 1}},
                          halvings[] = {{"halving", 0.001}, {"critical_below", 0.5}},
                          sinks[] = {{"attention_sink", 0}, {"token_collapse", 0.99}};
static const rs_threshold falling_ranks[] = {{"rank_falls", 0.5}};
static const rs_threshold falls[] = {{"rank_fell", 0}, {"turned_away", 9}};
static const rs_map_choice maps[] = {{0, 1}, {1, 0}};

/* What an option does to the result. */
enum {
    SHOWS,     /* it differs from the result without the option */
    UNSEEN,    /* it is the same: the option is about the run, or changes nothing in this model */
    EITHER,    /* the last bits may differ: older BLAS kernels add by how many rows there are */
    OWN_INPUTS /* the option brings the inputs; the result without it is another */
};

/* Each: a name, commands, option, words ("": a flag; the option is given for each line), what it does, the settings by hand in s. */
#define CASES(X)                                                                                   \
    X(threads, CLI_ALL & ~CLI_DOCTOR, "threads", "1", UNSEEN, s->common.call.threads = 1)          \
    X(memory, CLI_SCAN | CLI_FED | CLI_PREDICT, "memory", "64MiB", UNSEEN,                         \
      s->common.call.memory = (uint64_t)64 << 20)                                                  \
    X(too_little, CLI_SCAN | CLI_FED | CLI_PREDICT, "memory", "1K", SHOWS,                         \
      s->common.call.memory = 1024)                                                                \
    X(seed, CLI_SCAN | CLI_FED | CLI_LAB | CLI_PREDICT, "seed", "7", SHOWS,                        \
      s->common.call.seed = 7)                                                                     \
    X(no_seed, CLI_TOKENIZE | CLI_EXPLAIN, "seed", "7", UNSEEN, s->common.call.seed = 7)           \
    X(spectra, CLI_SCAN, "spectra", "", SHOWS, s->scan.spectra = true)                             \
    X(matrices, CLI_SCAN, "matrices", "all", SHOWS, s->scan.matrices = "all")                      \
    X(pattern, CLI_SCAN, "matrices", "query", SHOWS, s->scan.matrices = "query")                   \
    X(attention, CLI_SCAN, "matrices", "attention", UNSEEN, s->scan.matrices = NULL)               \
    X(layers, CLI_SCAN, "layers", "0-0", SHOWS, s->scan.last_layer = 0)                            \
    X(layer, CLI_SCAN, "layers", "1", SHOWS, (s->scan.first_layer = 1, s->scan.last_layer = 1))    \
    X(tol, CLI_SCAN, "tol", "0.5", SHOWS, s->scan.tolerance = 0.5)                                 \
    X(energy, CLI_SCAN, "energy", "0.5,0.9", SHOWS,                                                \
      (s->scan.energies = energies, s->scan.n_energies = 2))                                       \
    X(fold_norms, CLI_SCAN, "fold-norms", "", SHOWS, s->scan.fold_norms = true)                    \
    X(with_bias, CLI_SCAN, "with-bias", "", SHOWS, s->scan.with_bias = true)                       \
    X(map, CLI_SCAN, "map", "map.json", SHOWS, s->scan.map = "map.json")                           \
    X(lenient, CLI_SCAN, "lenient", "", UNSEEN, s->scan.lenient = true)                            \
    X(threshold, CLI_SCAN, "threshold", "dead_head=1.5,qk_low_rank=1", SHOWS,                      \
      (s->scan.thresholds = dead_heads, s->scan.n_thresholds = 2))                                 \
    X(falling, CLI_SCAN, "threshold", "rank_falls=0.5", UNSEEN,                                    \
      (s->scan.thresholds = falling_ranks, s->scan.n_thresholds = 1))                              \
    X(scan_text, CLI_SCAN, "text", TEXT, SHOWS, (s->scan.texts = several, s->scan.n_texts = 1))    \
    X(scan_seq_len, CLI_SCAN, "seq-len", "4", SHOWS, s->scan.seq_len = 4)                          \
    X(scan_samples, CLI_SCAN, "samples", "1", SHOWS, s->scan.samples = 1)                          \
    X(scan_precision, CLI_SCAN, "precision", "f64", UNSEEN, s->scan.precision = RS_PRECISION_F64)  \
    X(scan_write, CLI_SCAN, "write", "written", SHOWS, s->scan.write = "written")                  \
    X(text, CLI_FED, "text", TEXT, OWN_INPUTS, s->common.run.text = TEXT)                          \
    X(texts, CLI_FED, "text", TEXT "\n" TOKENIZER, OWN_INPUTS,                                     \
      (s->common.run.texts = several, s->common.run.n_texts = 2))                                  \
    X(tokens, CLI_FED, "tokens", "ids.json", OWN_INPUTS, s->common.run.tokens = "ids.json")        \
    X(images, CLI_FED, "images", "no.npy", OWN_INPUTS, s->common.run.images = "no.npy")            \
    X(states, CLI_FED, "states", "states.json", OWN_INPUTS, s->common.run.states = "states.json")  \
    X(states_as, CLI_FED, "states-as", "embeddings", SHOWS,                                        \
      s->common.run.states_as = RS_STATES_AS_EMBEDDINGS)                                           \
    X(random, CLI_FED, "random", "3", OWN_INPUTS, s->common.run.random = 3)                        \
    X(seq_len, CLI_FED, "seq-len", "4", SHOWS, s->common.run.seq_len = 4)                          \
    X(samples, CLI_FED, "samples", "1", UNSEEN, s->common.run.samples = 1)                         \
    X(batch, CLI_PROBE, "batch", "1", SHOWS, s->common.run.batch = 1)                              \
    X(own_batch, CLI_CERTIFY | CLI_COMPARE, "batch", "1", EITHER, s->common.run.batch = 1)         \
    X(encoder_states, CLI_FED, "encoder-states", "no.npy", SHOWS,                                  \
      s->common.run.encoder_states = "no.npy")                                                     \
    X(init, CLI_RUNS, "init", "xavier", SHOWS, s->common.run.init = "xavier")                      \
    X(run_lenient, CLI_FED, "lenient", "", UNSEEN, s->common.run.lenient = true)                   \
    X(no_skip, CLI_RUNS, "no-skip", "", SHOWS, set_edit(s, "no-skip"))                             \
    X(no_mlp, CLI_RUNS, "no-mlp", "", SHOWS, set_edit(s, "no-mlp"))                                \
    X(no_mlp_branch, CLI_RUNS, "no-mlp-branch", "", SHOWS, set_edit(s, "no-mlp-branch"))           \
    X(no_norm, CLI_RUNS, "no-norm", "", SHOWS, set_edit(s, "no-norm"))                             \
    X(no_mask, CLI_RUNS, "no-mask", "", SHOWS, set_edit(s, "no-mask"))                             \
    X(no_gate, CLI_RUNS, "no-gate", "", SHOWS, set_edit(s, "no-gate"))                             \
    X(no_inner_norm, CLI_RUNS, "no-inner-norm", "", SHOWS, set_edit(s, "no-inner-norm"))           \
    X(norm_placement, CLI_RUNS, "norm-placement", "post", SHOWS, set_edit(s, "norm-placement"))    \
    X(lambda, CLI_RUNS, "lambda", "mixer:0.5", SHOWS, set_edit(s, "lambda"))                       \
    X(residual_scale, CLI_RUNS, "residual-scale", "1/sqrt(L)", SHOWS,                              \
      set_edit(s, "residual-scale"))                                                               \
    X(center, CLI_RUNS, "center-attention", "", SHOWS, set_edit(s, "center-attention"))            \
    X(remove_gap, CLI_RUNS, "remove-gap", "", SHOWS, set_edit(s, "remove-gap"))                    \
    X(uniform, CLI_RUNS, "uniform-attention", "", SHOWS, set_edit(s, "uniform-attention"))         \
    X(shaped, CLI_RUNS, "shaped", "0.1,0.7,0.2", SHOWS, set_edit(s, "shaped"))                     \
    X(rescale, CLI_RUNS, "attention-rescale", "0.5", SHOWS, set_edit(s, "attention-rescale"))      \
    X(temperature, CLI_RUNS, "temperature", "2", SHOWS, set_edit(s, "temperature"))                \
    X(ablate, CLI_PROBE | CLI_PATHS, "ablate", "0:1", SHOWS, set_edit(s, "ablate"))                \
    X(depth, CLI_RUNS, "depth", "3", SHOWS, set_edit(s, "depth"))                                  \
    X(fusion, CLI_PROBE, "fusion", "max", SHOWS, set_edit(s, "fusion"))                            \
    X(variants, CLI_PROBE, "variants", "full,san", SHOWS, s->probe.variants = "full,san")          \
    X(compat, CLI_PROBE, "compat", "dong2021-code", SHOWS, s->probe.compat = "dong2021-code")      \
    X(centre, CLI_PROBE, "residual-centre", "lp", SHOWS, s->probe.centre = RS_CENTRE_LP)           \
    X(median, CLI_PROBE, "residual-centre", "median", SHOWS, s->probe.centre = RS_CENTRE_MEDIAN)   \
    X(attention_maps, CLI_PROBE, "attention-maps", "0:1,1:0", SHOWS,                               \
      (s->probe.maps = maps, s->probe.n_maps = 2))                                                 \
    X(taps, CLI_PROBE, "taps", "taps.safetensors", UNSEEN, s->probe.taps = "taps.safetensors")     \
    X(output, CLI_PROBE, "output", "out.safetensors", SHOWS, s->probe.output = "out.safetensors")  \
    X(generate, CLI_PROBE, "generate", "2", SHOWS, s->probe.generate = 2)                          \
    X(no_spectral, CLI_PROBE, "no-spectral", "", SHOWS, s->probe.no_spectral = true)               \
    X(no_attention, CLI_PROBE, "no-attention", "", SHOWS, s->probe.no_attention = true)            \
    X(mixing, CLI_PROBE, "mixing", "", SHOWS, s->probe.mixing = true)                              \
    X(no_mixing, CLI_PROBE, "no-mixing", "", UNSEEN, s->probe.no_mixing = true)                    \
    X(sweep, CLI_PROBE, "sweep", "lambda=-2:2:3", SHOWS, s->probe.sweep = "lambda=-2:2:3")         \
    X(attention_rank, CLI_PROBE, "attention-rank", "2,90%", SHOWS,                                 \
      s->probe.attention_rank = "2,90%")                                                           \
    X(quadratic, CLI_PROBE, "quadratic", "", UNSEEN, s->probe.quadratic = true)                    \
    X(no_loss, CLI_PROBE, "no-loss", "", UNSEEN, s->probe.no_loss = true)                          \
    X(paths_no_loss, CLI_PATHS, "no-loss", "", SHOWS, s->paths.no_loss = true)                     \
    X(lesions, CLI_PATHS, "lesions", "", SHOWS, s->paths.lesions = true)                           \
    X(scan, CLI_PROBE, "scan", "", SHOWS, s->probe.scan = true)                                    \
    X(certify, CLI_PROBE, "certify", "", SHOWS, s->probe.certify = true)                           \
    X(probe_rigorous, CLI_PROBE, "rigorous", "", SHOWS, s->probe.rigorous = true)                  \
    X(null_twin, CLI_PROBE, "null", "random", SHOWS, s->probe.null = "random")                     \
    X(probe_fast, CLI_PROBE, "fast", "", SHOWS, s->probe.fast = true)                              \
    X(probe_threshold, CLI_PROBE, "threshold", "attention_sink=0,token_collapse=0.99", SHOWS,      \
      (s->probe.thresholds = sinks, s->probe.n_thresholds = 2))                                    \
    X(precision, CLI_PROBE, "precision", "f64", SHOWS, s->probe.precision = RS_PRECISION_F64)      \
    X(residual, CLI_PROBE, "precision", "residual", SHOWS,                                         \
      s->probe.precision = RS_PRECISION_RESIDUAL)                                                  \
    X(grad, CLI_PROBE, "grad", "", SHOWS, s->probe.grad = true)                                    \
    X(loss, CLI_PROBE, "loss", "random", SHOWS, s->probe.loss = RS_GRAD_LOSS_RANDOM)               \
    X(loss_at, CLI_PROBE, "loss-at", "final", SHOWS, s->probe.loss_at = RS_GRAD_AT_FINAL)          \
    X(target, CLI_PROBE, "target", "3", SHOWS, s->probe.target = "3")                              \
    X(freeze_attention, CLI_PROBE, "freeze-attention", "", SHOWS,                                  \
      s->probe.freeze_attention = true)                                                            \
    X(freeze_norm, CLI_PROBE, "freeze-norm", "", SHOWS, s->probe.freeze_norm = true)               \
    X(recompute, CLI_PROBE, "recompute", "", SHOWS, s->probe.recompute = true)                     \
    X(relevance, CLI_PROBE, "relevance", "", SHOWS, s->probe.relevance = true)                     \
    X(max_length, CLI_PATHS, "max-length", "1", SHOWS, s->paths.max_length = 1)                    \
    X(no_length, CLI_PATHS, "max-length", "0", SHOWS, s->paths.max_length = 0)                     \
    X(paths, CLI_PATHS, "paths", "3", SHOWS, s->paths.paths = 3)                                   \
    X(no_paths, CLI_PATHS, "paths", "0", SHOWS, s->paths.paths = 0)                                \
    X(semantics, CLI_PATHS, "semantics", "code", SHOWS, s->paths.semantics = RS_PATHS_CODE)        \
    X(sources, CLI_PATHS, "sources", "", SHOWS, s->paths.sources = true)                           \
    X(rigorous, CLI_CERTIFY, "rigorous", "", UNSEEN, s->certify.rigorous = true)                   \
    X(fast, CLI_CERTIFY, "fast", "", SHOWS, s->certify.fast = true)                                \
    X(kept, CLI_CERTIFY, "kept", "0.25", SHOWS, s->certify.kept = 0.25)                            \
    X(recommend, CLI_CERTIFY, "recommend", "0.25", SHOWS, s->certify.recommend = 0.25)             \
    X(steps, CLI_CERTIFY, "steps", "0:1,1:0", SHOWS,                                               \
      (s->certify.steps = maps, s->certify.n_steps = 2))                                           \
    X(layers_of, CLI_COMPARE, "layers", "0-0", SHOWS, s->compare.last_layer = 0)                   \
    X(subspace, CLI_COMPARE, "subspace", "1", SHOWS, s->compare.subspace = 1)                      \
    X(tol_of, CLI_COMPARE, "tol", "0.5", SHOWS, s->compare.tolerance = 0.5)                        \
    X(folded, CLI_COMPARE, "fold-norms", "", SHOWS, s->compare.fold_norms = true)                  \
    X(biased, CLI_COMPARE, "with-bias", "", SHOWS, s->compare.with_bias = true)                    \
    X(fallen, CLI_COMPARE, "threshold", "rank_fell=0,turned_away=9", SHOWS,                        \
      (s->compare.thresholds = falls, s->compare.n_thresholds = 2))                                \
    X(text_of, CLI_TOKENIZE, "text", TEXT, OWN_INPUTS, s->tokenize.text = TEXT)                    \
    X(texts_of, CLI_TOKENIZE, "text", TEXT "\n" TOKENIZER, OWN_INPUTS,                             \
      (s->tokenize.texts = several, s->tokenize.n_texts = 2))                                      \
    X(no_special, CLI_TOKENIZE, "no-special", "", SHOWS, s->tokenize.no_special = true)            \
    X(model, CLI_LAB, "model", MODEL, SHOWS, s->lab.model = MODEL)                                 \
    X(model_text, CLI_LAB, "text", TEXT, SHOWS, s->lab.text = TEXT)                                \
    X(own_data, CLI_LAB, "data", TEXT, SHOWS, s->lab.data = TEXT)                                  \
    X(quick, CLI_LAB, "quick", "", SHOWS, s->lab.quick = true)                                     \
    X(seeds, CLI_LAB, "seeds", "2", SHOWS, s->lab.seeds = 2)                                       \
    X(lab_db, CLI_LAB, "db", "runs.db", UNSEEN, s->lab.db = "runs.db")                             \
    X(law, CLI_PREDICT, "init", "xavier", SHOWS, s->predict.init = "xavier")                       \
    X(no_law, CLI_PREDICT, "init", "default", UNSEEN, s->predict.init = "default")                 \
    X(tokens_of, CLI_PREDICT, "seq-len", "9", SHOWS, s->predict.seq_len = 9)                       \
    X(final, CLI_PREDICT, "loss-at", "final", SHOWS, s->predict.loss_at = RS_GRAD_AT_FINAL)        \
    X(halving, CLI_PREDICT, "threshold", "halving=0.001,critical_below=0.5", SHOWS,                \
      (s->predict.thresholds = halvings, s->predict.n_thresholds = 2))                             \
    X(remedies, CLI_PREDICT, "remedies", "rezero", SHOWS, s->predict.remedies = "rezero")          \
    X(trials, CLI_PREDICT, "trials", "3", SHOWS, s->predict.trials = 3)                            \
    X(no_trials, CLI_PREDICT, "trials", "0", SHOWS, s->predict.trials = 0)                         \
    X(full_size, CLI_PREDICT, "full-size", "", UNSEEN, s->predict.full_size = true)                \
    X(fields, CLI_PREDICT, "explain", "", SHOWS, s->predict.explain = true)                        \
    X(grid, CLI_PREDICT, "grid", "depth=1:2", SHOWS, s->predict.grid = "depth=1:2")                \
    X(shapes, CLI_PREDICT, "budget", "20k", SHOWS, s->predict.budget = 20000)                      \
    X(both, CLI_PREDICT, "preset", "moe", SHOWS, s->predict.preset = "moe")

#define SETTER(name, commands, option, words, does, by_hand)                                       \
    static void set_##name(cli_args *s)                                                            \
    {                                                                                              \
        by_hand;                                                                                   \
    }
CASES(SETTER)

#define ROW(name, commands, option, words, does, by_hand)                                          \
    {commands, option, words, does, set_##name},
static const struct option_case {
    unsigned commands;
    const char *option, *words;
    int does;
    void (*set)(cli_args *s);
} cases[] = {CASES(ROW)};
enum { N_CASES = sizeof cases / sizeof *cases };

/* What a command is asked beside the option: its input, and what makes it quick. */
static const struct {
    unsigned bit;
    const char *input, *second;
} inputs[] = {{CLI_SCAN, DECODER, NULL},          {CLI_PROBE, MODEL, NULL},
              {CLI_CERTIFY, MODEL, NULL},         {CLI_PATHS, MODEL, NULL},
              {CLI_COMPARE, MODEL, OTHER},        {CLI_TOKENIZE, TOKENIZER, NULL},
              {CLI_LAB, "run", "dong-layernorm"}, {CLI_EXPLAIN, "dead_head", NULL},
              {CLI_PREDICT, "arch.json", NULL}};
enum { N_INPUTS = sizeof inputs / sizeof *inputs };

/* ---- both ways ---- */

/* What was given: a result's JSON without what names the run or hangs on its threads; or a
 * status. */
typedef struct answer {
    json_t *result; /* NULL: it failed */
    rs_error err;
} answer;

static void strip(json_t *result)
{
    static const char *const names[] = {"args", "started", "seconds", "machine"},
                             *const of_run[] = {"pass_seconds", "sweep_seconds",
                                                "relevance_seconds", "peak_activation_bytes",
                                                "measure_bytes"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        json_object_del(result, names[i]);
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++)
        json_object_del(json_object_get(result, "run"), of_run[i]);
}

static answer ask_library(int at, const struct option_case *c)
{
    static cli_args args; /* its settings alone are used */
    const cli_command *command = NULL;
    answer a = {0};
    rs_result *result;
    char *text;
    for (size_t i = 0; i < cli_n_commands; i++)
        if (cli_commands[i].bit == inputs[at].bit) command = &cli_commands[i];
    memset(&args, 0, sizeof args);
    args.input = inputs[at].input;
    args.second = inputs[at].second;
    if (inputs[at].bit == CLI_COMPARE) args.others[args.n_others++] = inputs[at].second;
    command->init(&args);
    bool bare = c && c->does == OWN_INPUTS;
    if ((inputs[at].bit & CLI_FED) && !bare) args.common.run.random = 2;
    if (inputs[at].bit == CLI_TOKENIZE && !bare) args.tokenize.text = TOKENIZER;
    if (inputs[at].bit == CLI_PROBE) args.probe.hold = false;
    if (c) c->set(&args);
    if (command->ask(&result, &args, &a.err) != RS_OK) return a;
    assert_int_equal(rs_result_text(&text, NULL, result, RS_FORM_JSON, NULL), RS_OK);
    a.result = json_loads(text, 0, NULL);
    assert_non_null(a.result);
    strip(a.result);
    rs_text_free(text);
    rs_result_free(result);
    return a;
}

static int run_program(const char **words)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, "program.out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, "program.err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(posix_spawn(&pid, words[0], &files, NULL, (char **)(uintptr_t)words, environ),
                     0);
    posix_spawn_file_actions_destroy(&files);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The program's own words: "rankscope: error: WHERE: WHAT [status]; HINT". */
static void read_error(rs_error *err)
{
    char text[4096];
    FILE *file = fopen("program.err", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    char *name = strrchr(text, '[');
    assert_non_null(name);
    size_t length = strcspn(name + 1, "]");
#define IF_NAMED(status_, number, code, name_)                                                     \
    if (strlen(name_) == length && memcmp(name + 1, name_, length) == 0) err->status = status_;
    RS_STATUS_LIST(IF_NAMED)
    *name = 0;
    snprintf(err->what, sizeof err->what, "%.1000s", text);
}

static answer ask_program(int at, const struct option_case *c)
{
    const char *words[16] = {RS_PROGRAM, NULL};
    char option[4][600];
    int n = 1, given = 0;
    bool bare = c && c->does == OWN_INPUTS;
    answer a = {0};
    for (size_t i = 0; i < cli_n_commands; i++)
        if (cli_commands[i].bit == inputs[at].bit) words[n++] = cli_commands[i].name;
    words[n++] = inputs[at].input;
    if (inputs[at].second) words[n++] = inputs[at].second;
    if ((inputs[at].bit & CLI_FED) && !bare) words[n++] = "--random=2";
    if (inputs[at].bit == CLI_TOKENIZE && !bare) words[n++] = "--text=" TOKENIZER;
    words[n++] = "--quiet";
    words[n++] = "--json=program.json";
    for (const char *line = c ? c->words : NULL; line && given < 4;) {
        int length = (int)strcspn(line, "\n");
        snprintf(option[given], sizeof option[given], "--%s%s%.*s", c->option, length ? "=" : "",
                 length, line);
        words[n++] = option[given++];
        line = line[length] ? line + length + 1 : NULL;
    }
    unlink("program.json");
    int code = run_program(words);
    if (code != 0) {
        read_error(&a.err);
        assert_int_equal(code, rs_status_exit_code(a.err.status));
        return a;
    }
    a.result = json_load_file("program.json", 0, NULL);
    assert_non_null(a.result);
    strip(a.result);
    return a;
}

static bool same(const answer *a, const answer *b)
{
    if (!a->result || !b->result) return !a->result && !b->result && a->err.status == b->err.status;
    return json_equal(a->result, b->result);
}

static void forget(answer *a)
{
    json_decref(a->result);
    a->result = NULL;
}

static char folder[] = "options_XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("..") == 0 ? system(command) : -1;
}

/* Samples of 3 tokens and of 1, as wide as MODEL. */
static void write_states(void)
{
    enum { WIDTH = 15 };
    FILE *file = fopen("states.json", "w");
    assert_non_null(file);
    for (int i = 0; i < 4 * WIDTH; i++)
        fprintf(file, "%s%.3f%s",
                i == 0           ? "[[["
                : i % WIDTH == 0 ? "["
                                 : "",
                (i * 7 % 31) / 31.0,
                i == 4 * WIDTH - 1       ? "]]]"
                : i == 3 * WIDTH - 1     ? "]], ["
                : i % WIDTH == WIDTH - 1 ? "], "
                                         : ", ");
    assert_int_equal(fclose(file), 0);
}

static void write_inputs(void)
{
    static const struct {
        const char *name, *text;
    } files[] = {
        {"ids.json", "[[3, 1, 4, 1, 5], [2, 6]]"},
        {"map.json", "{\"nothing\": 1}"},
        {"arch.json", "{\"depth\": 3, \"d_model\": 16, \"heads\": 2, \"norm\": \"post\"}"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *file = fopen(files[i].name, "w");
        assert_true(file && fputs(files[i].text, file) >= 0 && fclose(file) == 0);
    }
}

static void every_option_reaches_the_library(void **state)
{
    (void)state;
    int wrong = 0;
    write_inputs();
    write_states();
    for (int at = 0; at < N_INPUTS; at++) {
        answer plain = ask_library(at, NULL);
        if (!plain.result) fail_msg("%s: %s", plain.err.where, plain.err.what);
        for (int i = 0; i < N_CASES; i++) {
            if (!(cases[i].commands & inputs[at].bit)) continue;
            answer by_hand = ask_library(at, &cases[i]), said = ask_program(at, &cases[i]);
            if (!same(&by_hand, &said))
                fail_msg("%s --%s %s: the library: %s, the program: %s", inputs[at].input,
                         cases[i].option, cases[i].words,
                         by_hand.result ? "a result" : by_hand.err.what,
                         said.result ? "another result" : said.err.what);
            if (!said.result && !strstr(said.err.what, by_hand.err.what))
                fail_msg("--%s: %s | %s", cases[i].option, said.err.what, by_hand.err.what);
            if (cases[i].does != EITHER && same(&by_hand, &plain) != (cases[i].does == UNSEEN)) {
                print_error("%s --%s %s: the result is %sthe same without it\n", inputs[at].input,
                            cases[i].option, cases[i].words, cases[i].does == UNSEEN ? "not " : "");
                wrong++;
            }
            forget(&by_hand);
            forget(&said);
        }
        forget(&plain);
    }
    assert_int_equal(wrong, 0);
}

/* ---- the table ---- */

/* Options that are about the program: what is written where, and what is shown meanwhile. */
static bool is_of_the_settings(const cli_option *option)
{
    return option->offset >= offsetof(cli_args, common) &&
           option->offset < offsetof(cli_args, edits);
}

static void no_option_is_left_out(void **state)
{
    (void)state;
    /* results of these two have timings */
    unsigned bits = CLI_ALL & ~(unsigned)(CLI_DOCTOR | CLI_TRAIN);
    for (size_t i = 0; i < cli_n_options; i++) {
        unsigned seen = 0;
        for (int k = 0; k < N_CASES; k++)
            if (strcmp(cases[k].option, cli_options[i].name) == 0) seen |= cases[k].commands;
        if (is_of_the_settings(&cli_options[i]) && (cli_options[i].commands & bits & ~seen))
            fail_msg("no case for --%s", cli_options[i].name);
    }
}

/* ---- what the text shows ---- */

/* Each: option, words, and the settings by hand in s. */
#define SHOWN(X)                                                                                   \
    X(table, "table", "heads,layers", s->tables = "heads,layers")                                  \
    X(columns, "columns", "head,product,stable_rank", s->columns = "head,product,stable_rank")     \
    X(sort, "sort", "effective_rank:asc", s->sort = "effective_rank:asc")                          \
    X(where, "where", "product=qk,layer<1", s->where = "product=qk,layer<1")                       \
    X(top, "top", "2", s->top = 2)                                                                 \
    X(wide, "wide", "", s->wide = true)                                                            \
    X(verbose, "verbose", "", s->verbose = true)

#define SHOWN_SETTER(name, option, words, by_hand)                                                 \
    static void show_##name(rs_output_settings *s)                                                 \
    {                                                                                              \
        by_hand;                                                                                   \
    }
SHOWN(SHOWN_SETTER)
#define SHOWN_ROW(name, option, words, by_hand) {option, words, show_##name},
static const struct {
    const char *option, *words;
    void (*set)(rs_output_settings *s);
} shown[] = {SHOWN(SHOWN_ROW)};

/* The text behind the line that names the input where the program wrote it. */
static void read_text(char *text, size_t size, const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    do
        assert_non_null(fgets(text, (int)size, file));
    while (strncmp(text, "rankscope scan", 14) != 0);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
}

static void write_by_hand(const rs_result *result, void (*set)(rs_output_settings *s))
{
    rs_output_settings settings;
    rs_error err;
    rs_output_settings_init(&settings, sizeof settings);
    settings.text = true;
    settings.tables = "heads";
    if (set) set(&settings);
    fflush(stdout);
    int keep = dup(STDOUT_FILENO), file = open("hand.out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(keep >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    rs_status status = rs_result_write((rs_result *)(uintptr_t)result, &settings, &err);
    assert_true(dup2(keep, STDOUT_FILENO) >= 0);
    close(keep);
    close(file);
    if (status != RS_OK) fail_msg("%s: %s", err.where, err.what);
}

static void the_text_is_what_the_library_shows(void **state)
{
    static char plain[1 << 18], by_hand[1 << 18], said[1 << 18];
    char option[200];
    rs_scan_settings settings;
    rs_result *result;
    (void)state;
    setenv("LC_ALL", "C", 1);
    /* The program would take a better kernel where there is one, whose last bits are others. */
    setenv("OPENBLAS_CORETYPE", rs_blas_core(), 0);
    unsetenv("COLUMNS");
    rs_scan_settings_init(&settings, sizeof settings);
    assert_int_equal(rs_scan_checkpoint(&result, DECODER, &settings, NULL), RS_OK);
    write_by_hand(result, NULL);
    read_text(plain, sizeof plain, "hand.out");
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        snprintf(option, sizeof option, "--%s%s%s", shown[i].option, shown[i].words[0] ? "=" : "",
                 shown[i].words);
        const char *words[] = {RS_PROGRAM, "scan", DECODER, "--table=heads", option, NULL};
        write_by_hand(result, shown[i].set);
        read_text(by_hand, sizeof by_hand, "hand.out");
        assert_int_equal(run_program(words), 0);
        read_text(said, sizeof said, "program.out");
        assert_string_equal(by_hand, said);
        if (strcmp(by_hand, plain) == 0) fail_msg("--%s changes nothing", shown[i].option);
    }
    rs_result_free(result);
}

/* Every option of how the text is shaped has a row above. */
static void no_shape_is_left_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_n_options; i++) {
        size_t at = cli_options[i].offset, k = 0;
        bool shapes =
            at == offsetof(cli_args, output.tables) ||
            (at >= offsetof(cli_args, output.columns) && at < offsetof(cli_args, output.height));
        while (k < sizeof shown / sizeof *shown && strcmp(shown[k].option, cli_options[i].name))
            k++;
        if (shapes && k == sizeof shown / sizeof *shown)
            fail_msg("no case for --%s", cli_options[i].name);
    }
}

/* ---- words that are no value ---- */

static rs_status parse(cli_args *args, const char *command, const char *word, rs_error *err)
{
    char copy[600], input[] = "model", *words[] = {input, copy};
    snprintf(copy, sizeof copy, "%s", word);
    return cli_parse(args, cli_find_command(command), 2, words, err);
}

static void sizes_of_memory(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } rows[] = {{"1", 1},
                {"4096", 4096},
                {"1K", 1024},
                {"1kB", 1024},
                {"1.5M", 1572864},
                {"2GiB", (uint64_t)2 << 30},
                {"3t", (uint64_t)3 << 40},
                {"7b", 7},
                {"", 0},
                {"0", 0},
                {"-1", 0},
                {" 1", 0},
                {"1 G", 0},
                {"1iB", 0},
                {"1Q", 0},
                {"1GBx", 0},
                {"inf", 0},
                {"1e30", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static cli_args args;
        rs_error err;
        char word[64];
        snprintf(word, sizeof word, "--memory=%s", rows[i].text);
        rs_status status = parse(&args, "scan", word, &err);
        if ((status == RS_OK) != (rows[i].bytes > 0) || args.common.call.memory != rows[i].bytes)
            fail_msg("\"%s\": %llu", rows[i].text, (unsigned long long)args.common.call.memory);
        if (status != RS_OK) assert_string_equal(err.where, "--memory");
    }
}

static void wrong_words_are_refused(void **state)
{
    static const char *const rows[][2] = {{"scan", "--layers="},
                                          {"scan", "--layers=1-"},
                                          {"scan", "--layers=-1"},
                                          {"scan", "--layers=2-1"},
                                          {"scan", "--layers=1-2x"},
                                          {"scan", "--layers=99999999999"},
                                          {"scan", "--layers=+1"},
                                          {"scan", "--tol=nan"},
                                          {"scan", "--tol=-1"},
                                          {"scan", "--tol=1x"},
                                          {"scan", "--energy=0"},
                                          {"scan", "--energy=0.5,"},
                                          {"scan", "--energy=,0.5"},
                                          {"scan", "--energy=inf"},
                                          {"scan", "--threshold=dead_head=inf"},
                                          {"scan", "--threshold=dead_head=-1"},
                                          {"scan", "--threshold=token_collapse=1"},
                                          {"scan", "--threshold=dead_head"},
                                          {"probe", "--threshold=dead_head=1"},
                                          {"probe", "--attention-maps="},
                                          {"probe", "--attention-maps=1:"},
                                          {"probe", "--attention-maps=1:2,"},
                                          {"probe", "--attention-maps=-1:2"},
                                          {"probe", "--attention-maps=1:99999999999"},
                                          {"probe", "--generate=4097"},
                                          {"probe", "--generate=0"},
                                          {"probe", "--residual-centre="},
                                          {"probe", "--precision=f"},
                                          {"probe", "--random=1073741825"},
                                          {"certify", "--kept=1"},
                                          {"certify", "--kept=0"},
                                          {"certify", "--kept=nan"},
                                          {"certify", "--recommend=1"},
                                          {"certify", "--recommend=0"},
                                          {"certify", "--recommend=nan"},
                                          {"certify", "--steps="},
                                          {"certify", "--steps=1:"},
                                          {"certify", "--steps=1:2,"},
                                          {"certify", "--steps=-1:2"},
                                          {"certify", "--precision=f32"},
                                          {"compare", "--subspace=0"},
                                          {"compare", "--threshold=token_collapse=1"},
                                          {"paths", "--max-length=-1"},
                                          {"paths", "--paths=1048577"},
                                          {"scan", "--threads=0"},
                                          {"scan", "--threads=4097"},
                                          {"scan", "--seed=-1"},
                                          {"scan", "--seed=9223372036854775808"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static cli_args args;
        rs_error err;
        rs_status status = parse(&args, rows[i][0], rows[i][1], &err);
        if (status != RS_E_BAD_OPTION || strncmp(err.where, rows[i][1], strlen(err.where)) != 0)
            fail_msg("%s %s: %s, %s", rows[i][0], rows[i][1], rs_status_name(status), err.where);
    }
}

/* A list longer than its place is refused, not cut. */
static void lists_have_an_end(void **state)
{
    static const struct {
        const char *command, *option, *item;
        int most;
    } rows[] = {{"scan", "--energy=", "0.5", CLI_MOST_ENERGIES},
                {"scan", "--threshold=", "dead_head=1", CLI_MOST_THRESHOLDS},
                {"probe", "--attention-maps=", "1:2", CLI_MOST_MAPS},
                {"certify", "--steps=", "1:2", CLI_MOST_MAPS}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int extra = 0; extra < 2; extra++) {
            static cli_args args;
            rs_error err;
            char word[600];
            int n = snprintf(word, sizeof word, "%s", rows[i].option);
            for (int k = 0; k < rows[i].most + extra; k++)
                n +=
                    snprintf(word + n, sizeof word - (size_t)n, "%s%s", k ? "," : "", rows[i].item);
            rs_status status = parse(&args, rows[i].command, word, &err);
            assert_int_equal(status, extra ? RS_E_BAD_OPTION : RS_OK);
        }
}

/* ---- what the result remembers of it ---- */

static void words_are_echoed(void **state)
{
    static char word[][40] = {"mod\"el\\\x01", "--lambda=mixer:0.5", "--no-skip", "--lambda=2",
                              "--random=3",    "--text=\xff",        "--seed=9",  "--threads=2"};
    (void)state;
    static cli_args args;
    rs_error err;
    char *words[sizeof word / sizeof *word];
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        words[i] = word[i];
    assert_int_equal(cli_parse(&args, cli_find_command("probe"),
                               (int)(sizeof words / sizeof *words), words, &err),
                     RS_OK);
    char *text = cli_echo(&args);
    json_t *echoed = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *wanted =
        json_pack("{s:s, s:[s, s], s:b, s:i, s:i, s:i}", "input", "mod\"el\\\x01", "lambda",
                  "mixer:0.5", "2", "no-skip", 1, "random", 3, "seed", 9, "threads", 2);
    if (!json_equal(echoed, wanted)) fail_msg("%s", text);
    json_decref(echoed);
    json_decref(wanted);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_option_is_left_out),
        cmocka_unit_test(the_text_is_what_the_library_shows),
        cmocka_unit_test(no_shape_is_left_out),
        cmocka_unit_test(sizes_of_memory),
        cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(lists_have_an_end),
        cmocka_unit_test(words_are_echoed),
        cmocka_unit_test(every_option_reaches_the_library),
    };
    return cmocka_run_group_tests_name("options", tests, enter_folder, leave_folder);
}
