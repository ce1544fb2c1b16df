/* options.c: the commands and options of the program, as data. */
#include "cli/cli.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(cli_args, field)

const cli_option cli_options[] = {
    {"json", "FILE|-", CLI_TEXT, AT(json), CLI_ALL, NULL, NULL,
     "Write the whole result as JSON; '-' is standard output, which then carries nothing else."},
    {"csv", "DIR", CLI_TEXT, AT(csv), CLI_ALL, NULL, NULL,
     "Write every table as DIR/TABLE.csv; the directory is made if it is not there."},
    {"html", "FILE|-", CLI_TEXT, AT(html), CLI_ALL, NULL, NULL,
     "Write a report that opens in any browser without a network: figures, findings, tables."},
    {"table", "NAME[,NAME]", CLI_TEXT, AT(tables), CLI_ALL, NULL, NULL,
     "Show these tables in the terminal ('all' for every one) instead of the summary alone."},
    {"spectra", NULL, CLI_FLAG, AT(spectra), CLI_SCAN, NULL, NULL,
     "Add every singular value: column singular_values in tables heads and groups, plane_norms in "
     "planes."},
    {"matrices", "attention|all|REGEX", CLI_TEXT, AT(matrices), CLI_SCAN, "attention", NULL,
     "Besides the head products, analyse every 2-D weight ('all') or those whose name matches an "
     "extended regular "
     "expression: table matrices, with WeightWatcher's columns by its own definitions."},
    {"layers", "A-B", CLI_TEXT, AT(layers), CLI_SCAN, "all", NULL,
     "Only layers A to B, counted from 0, both included; a single number is one layer."},
    {"tol", "T", CLI_TEXT, AT(tol), CLI_SCAN, "max(rows, cols) x epsilon", NULL,
     "numerical_rank counts singular values above T times the largest. The default's epsilon is "
     "that of the stored "
     "type: float64 for F64, float32 for all others."},
    {"energy", "E[,E...]", CLI_TEXT, AT(energy), CLI_SCAN, NULL, NULL,
     "Table energy: for each fraction E (0 < E <= 1) of the squared singular values, the rank that "
     "keeps it and the "
     "parameters saved by factorising there, such as 0.9,0.95,0.99."},
    {"fold-norms", NULL, CLI_FLAG, AT(fold_norms), CLI_SCAN, NULL, NULL,
     "Analyse the products as the model applies them: the gain of the norm before a projection "
     "(and LayerNorm's centring) "
     "and QK-norm gains are folded in. Default: the stored weights alone."},
    {"with-bias", NULL, CLI_FLAG, AT(with_bias), CLI_SCAN, NULL, NULL,
     "Append each projection's bias to its weight as one more input feature."},
    {"map", "FILE.json", CLI_TEXT, AT(map), CLI_SCAN, NULL, NULL,
     "Name the tensors of a model that is not recognised; the format is described in docs/map.md."},
    {"lenient", NULL, CLI_FLAG, AT(lenient), CLI_SCAN, NULL, NULL,
     "Accept a safetensors file with bytes behind its last tensor (a warning instead of an "
     "error)."},
    {"threshold", "CODE=X[,CODE=X]", CLI_TEXT, AT(threshold), CLI_SCAN,
     "qk_low_rank=0.5,ov_low_rank=0.5,dead_head=0.05,decay_equilibrium=0.9", NULL,
     "When a finding is raised: qk_low_rank and ov_low_rank where effective_rank is below X times "
     "that of random weights of "
     "the same shape; dead_head where the norm is below X times the layer's median; "
     "decay_equilibrium where every head's "
     "balance_score is above X."},
    {"text", "FILE", CLI_TEXT, AT(text), CLI_TOKENIZE, NULL, NULL,
     "The text to tokenise. Bytes that are not UTF-8 become U+FFFD, one for each broken part."},
    {"no-special", NULL, CLI_FLAG, AT(no_special), CLI_TOKENIZE, NULL, NULL,
     "Leave out the tokens that the model puts around a text ([CLS], <bos>); those that the text "
     "spells out are still recognised."},
    {"threads", "N", CLI_COUNT, AT(threads), CLI_ALL, "all cores, at most 64", NULL,
     "Number of threads."},
    {"seed", "N", CLI_COUNT, AT(seed), CLI_ALL, "0", NULL,
     "Seed of every random draw (the baselines by chance); the same for any number of threads."},
    {"precision", "f32|f64|residual", CLI_CHOICE, AT(precision), CLI_SCAN, "f64",
     "f32|f64|residual",
     "Arithmetic of forward passes. scan has none: it accumulates in float64 whatever is asked, "
     "and refuses residual."},
    {"progress", "auto|always|never", CLI_CHOICE, AT(progress), CLI_ALL, "auto",
     "auto|always|never",
     "A progress bar on standard error; auto shows it on a terminal for work of over two seconds."},
    {"color", "auto|always|never", CLI_CHOICE, AT(color), CLI_ALL, "auto", "auto|always|never",
     "Colours in the terminal table; auto means on a terminal, unless NO_COLOR is set."},
    {"fail-on", "none|warn|critical", CLI_CHOICE, AT(fail_on), CLI_ALL, "none",
     "none|warn|critical",
     "Exit with 3 when a finding is at least that severe: for scripts that watch a training run."},
    {"quiet", NULL, CLI_FLAG, AT(quiet), CLI_ALL, NULL, NULL,
     "Print no table and no progress; files are still written."},
    {"help", NULL, CLI_FLAG, AT(help), CLI_ALL, NULL, NULL, "Show this text."},
    {"version", NULL, CLI_FLAG, AT(version), CLI_ALL, NULL, NULL, "Show the version."},
};
const size_t cli_n_options = sizeof cli_options / sizeof *cli_options;

const cli_command cli_commands[] = {
    {"scan", CLI_SCAN, "PATH",
     "rank health of a checkpoint's weights: every head's QK and OV spectrum",
     "Reads a checkpoint and gives, for every layer and head, the singular values of the query-key "
     "product W_Q W_K^T and of the "
     "value-output product W_V W_O (state-space layers: C B^T and in-out), the rank measures that "
     "follow, how balanced the two "
     "factors are (weight decay drives them to balance and then acts as a nuclear-norm penalty), "
     "and what random weights of the "
     "same shape would give.\n"
     "PATH is a Hugging Face directory (config.json with model.safetensors, whole or sharded), one "
     ".safetensors file beside its "
     "config.json, or a .gguf file (any part of a split one). Nothing is loaded whole: files are "
     "mapped and decoded tile by tile.\n"
     "Tables: summary, layers, heads, groups (grouped queries), planes (RoPE), energy (--energy), "
     "matrices (--matrices), tensors, "
     "and the data of the figures: spectra, balance.",
     "rankscope scan ~/models/llama --html report.html # a report to read and share\n"
     "rankscope scan model.gguf --table layers # mean, least and largest of every measure by "
     "layer\n"
     "rankscope scan . --json - | jq '.tables.heads[].effective_rank' # for scripts\n"
     "rankscope scan ckpt --fail-on warn --quiet # exit code 3 when heads have lost rank\n"
     "rankscope scan . --matrices all --csv out # every weight, beside WeightWatcher's columns",
     "summary|layers|heads|groups|planes|energy|matrices|tensors|spectra|balance", cli_scan},
    {"tokenize", CLI_TOKENIZE, "PATH", "the token ids that a model sees for a text",
     "Cuts a text into the tokens that the model was trained on: the same ids as the model's own "
     "library gives, each with the "
     "bytes of the text that it stands for.\n"
     "PATH is a directory with tokenizer.json, such a file, or a .gguf file with a tokenizer. The "
     "sections truncation and padding of "
     "a tokenizer.json are not applied: a text is never cut or filled up.\n"
     "Tables: ids, summary.",
     "rankscope tokenize ~/models/llama --text page.txt # a table of tokens\n"
     "rankscope tokenize model.gguf --text page.txt --json - | jq '[.tables.ids[].id]' # for "
     "scripts",
     "ids|summary", cli_tokenize},
    {"doctor", CLI_DOCTOR, NULL,
     "check this machine: CPU, BLAS kernel and its speed, threads, memory",
     "Shows which vector instructions the processor offers, which kernel OpenBLAS chose, and how "
     "fast matrix multiplication runs "
     "beside the measured peak of fused multiply-add. Says what to do when something is off.",
     "rankscope doctor # before timing anything", "machine|speed", cli_doctor},
};
const size_t cli_n_commands = sizeof cli_commands / sizeof *cli_commands;

const cli_command *cli_find_command(const char *name)
{
    for (size_t i = 0; i < cli_n_commands; i++)
        if (strcmp(cli_commands[i].name, name) == 0) return &cli_commands[i];
    return NULL;
}

const char *cli_nearest_command(const char *name)
{
    for (size_t i = 0; i < cli_n_commands; i++)
        if (rs_edit_distance(name, cli_commands[i].name) <= 2) return cli_commands[i].name;
    return NULL;
}

/* ---- parsing ---- */

static const cli_option *find_option(const cli_command *command, const char *name, size_t length)
{
    for (size_t i = 0; i < cli_n_options; i++)
        if ((cli_options[i].commands & command->bit) && strlen(cli_options[i].name) == length &&
            memcmp(cli_options[i].name, name, length) == 0)
            return &cli_options[i];
    return NULL;
}

static rs_status unknown_option(const cli_command *command, const char *argument, rs_error *err)
{
    char name[64], hint[160];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    const cli_option *nearest = NULL;
    int best = 4;
    for (size_t i = 0; i < cli_n_options; i++) {
        int distance = rs_edit_distance(name, cli_options[i].name);
        if ((cli_options[i].commands & command->bit) && distance < best) {
            best = distance;
            nearest = &cli_options[i];
        }
    }
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean --%s? 'rankscope %s --help' lists all",
                 nearest->name, command->name);
    else
        snprintf(hint, sizeof hint, "'rankscope %s --help' lists the options", command->name);
    return rs_fail(err, RS_E_BAD_OPTION, argument, hint, "no such option");
}

/* Is `value` one of the words of "a|b|c"? */
static bool among(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strcspn(p, "|") == length && memcmp(p, value, length) == 0) return true;
    return false;
}

static rs_status parse_count(uint64_t *out, const char *name, const char *value, rs_error *err)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno == ERANGE || number > INT64_MAX)
        return rs_fail(err, RS_E_BAD_OPTION, name, "give a whole number",
                       "'%s' is not a whole number", value);
    *out = number;
    return RS_OK;
}

static rs_status store(cli_args *args, const cli_option *option, const char *value, rs_error *err)
{
    char *field = (char *)args + option->offset, name[64];
    snprintf(name, sizeof name, "--%s", option->name);
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)(void *)field = true;
        return RS_OK;
    case CLI_CHOICE:
        if (!among(option->choices, value))
            return rs_fail(err, RS_E_BAD_OPTION, name, "choose one of them",
                           "'%s' is not one of %s", value, option->choices);
        *(const char **)(void *)field = value;
        return RS_OK;
    case CLI_TEXT:
        *(const char **)(void *)field = value;
        return RS_OK;
    case CLI_COUNT:
        return parse_count((uint64_t *)(void *)field, name, value, err);
    }
    return RS_OK;
}

static rs_status parse_option(cli_args *args, const cli_command *command, int argc, char **argv,
                              int *i, rs_error *err)
{
    const char *argument = argv[*i], *name = argument + 2;
    size_t length = strcspn(name, "=");
    const cli_option *option = find_option(command, name, length);
    if (!option) return unknown_option(command, argument, err);
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    if (option->kind == CLI_FLAG && value)
        return rs_fail(err, RS_E_BAD_OPTION, argument, NULL, "--%s takes no value", option->name);
    if (option->kind != CLI_FLAG && !value) {
        if (*i + 1 >= argc)
            return rs_fail(err, RS_E_BAD_OPTION, argument, NULL, "--%s needs a value: %s",
                           option->name, option->argument);
        value = argv[++*i];
    }
    return store(args, option, value, err);
}

/* Are the names of --table among those that the command can have? Whether a result has them is seen
 * later. */
static rs_status check_tables(const cli_command *command, const char *names, rs_error *err)
{
    if (!names || strcmp(names, "all") == 0) return RS_OK;
    for (const char *p = names;;) {
        char name[64];
        size_t length = strcspn(p, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), p);
        if (!among(command->tables, name))
            return rs_fail(err, RS_E_BAD_OPTION, "--table", "separate names by commas, or say all",
                           "no table '%s' among %s", name, command->tables);
        if (!p[length]) return RS_OK;
        p += length + 1;
    }
}

rs_status cli_parse(cli_args *args, const cli_command *command, int argc, char **argv,
                    rs_error *err)
{
    *args = (cli_args){.command = command->name,
                       .precision = "f64",
                       .progress = "auto",
                       .color = "auto",
                       .fail_on = "none",
                       .threads = -1};
    bool only_input = false;
    for (int i = 0; i < argc; i++) {
        if (!only_input && strcmp(argv[i], "--") == 0) {
            only_input = true;
        } else if (!only_input && (strcmp(argv[i], "-h") == 0)) {
            args->help = true;
        } else if (!only_input && strncmp(argv[i], "--", 2) == 0) {
            RS_TRY(parse_option(args, command, argc, argv, &i, err));
        } else if (!only_input && argv[i][0] == '-' && argv[i][1]) {
            return rs_fail(err, RS_E_BAD_OPTION, argv[i], "options begin with two dashes",
                           "no such option");
        } else if (!command->input || args->input) {
            return rs_fail(err, RS_E_USAGE, argv[i], "quote a path that has blanks in it",
                           command->input ? "one input is enough" : "this command takes no input");
        } else {
            args->input = argv[i];
        }
    }
    if (args->json && args->html && strcmp(args->json, "-") == 0 && strcmp(args->html, "-") == 0)
        return rs_fail(err, RS_E_BAD_OPTION, "--html", "write one of them to a file",
                       "standard output carries one result, and --json has it");
    RS_TRY(check_tables(command, args->tables, err));
    if (args->threads == 0 || args->threads > 4096)
        return rs_fail(err, RS_E_BAD_OPTION, "--threads", NULL, "give a number from 1 to 4096");
    if (command->input && !args->input && !args->help && !args->version)
        return rs_fail(err, RS_E_USAGE, command->name, "'rankscope scan --help' shows how",
                       "needs an input: %s", command->input);
    return RS_OK;
}
