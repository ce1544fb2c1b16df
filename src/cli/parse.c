/* parse.c: the words of a command line, by the tables of options.c and commands.c. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- names ---- */

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

static const cli_option *find_option(const cli_command *command, const char *name, size_t length)
{
    for (size_t i = 0; i < cli_n_options; i++)
        if ((cli_options[i].commands & command->bit) && strlen(cli_options[i].name) == length &&
            memcmp(cli_options[i].name, name, length) == 0)
            return &cli_options[i];
    return NULL;
}

/* The first command that has an option of that name; NULL: none has. */
static const cli_command *command_with(const char *name)
{
    for (size_t i = 0; i < cli_n_commands; i++)
        if (find_option(&cli_commands[i], name, strlen(name))) return &cli_commands[i];
    return NULL;
}

/* The option that fewer than half of the letters (and fewer than four) turn `name` into,
 * or NULL. */
static const cli_option *nearest_option(const cli_command *command, const char *name)
{
    const cli_option *nearest = NULL;
    int best = 4;
    for (size_t i = 0; i < cli_n_options; i++) {
        int distance = rs_edit_distance(name, cli_options[i].name);
        if ((cli_options[i].commands & command->bit) && distance < best &&
            2 * distance < (int)strlen(name)) {
            best = distance;
            nearest = &cli_options[i];
        }
    }
    return nearest;
}

static rs_status unknown_option(const cli_command *command, const char *argument, rs_error *err)
{
    char name[64], hint[160];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    const cli_command *other = command_with(name);
    const cli_option *nearest = nearest_option(command, name);
    if (other)
        snprintf(hint, sizeof hint, "it is one of 'rankscope %s'; 'rankscope %s --help' lists all",
                 other->name, command->name);
    else if (nearest)
        snprintf(hint, sizeof hint, "did you mean --%s? 'rankscope %s --help' lists all",
                 nearest->name, command->name);
    else
        snprintf(hint, sizeof hint, "'rankscope %s --help' lists the options", command->name);
    return rs_fail(err, RS_E_BAD_OPTION, argument, hint, "no such option");
}

/* ---- options ---- */

static rs_status check_refusal(const cli_option *option, const char *words, rs_error *err)
{
    const cli_refusal *r = &option->refusal;
    char name[64];
    if (!r->what || (r->values && cli_among(r->values, words) < 0)) return RS_OK;
    snprintf(name, sizeof name, "--%s", option->name);
    return rs_fail(err, RS_E_UNSUPPORTED, name, r->hint, "%s", r->what);
}

static rs_status check_once(const cli_args *args, const cli_option *option, rs_error *err)
{
    char name[64];
    const char *before = args->given[option - cli_options];
    if (!option->once || !before) return RS_OK;
    snprintf(name, sizeof name, "--%s", option->name);
    return rs_fail(err, RS_E_USAGE, name, option->once, "is given twice, '%s' before", before);
}

static rs_status take_option(cli_args *args, const cli_option *option, const char *words,
                             rs_error *err)
{
    CLI_TRY(check_refusal(option, words, err));
    CLI_TRY(check_once(args, option, err));
    args->given[option - cli_options] = words;
    return cli_store(args, option, words, err);
}

/* Takes the option's value: what stands behind it (NULL: nothing), or the next word. */
static rs_status take_value(cli_args *args, const cli_option *option, const char *value, int argc,
                            char **argv, int *i, rs_error *err)
{
    const char *argument = argv[*i];
    if (!option->argument) {
        if (value)
            return rs_fail(err, RS_E_BAD_OPTION, argument, NULL, "--%s takes no value",
                           option->name);
        return take_option(args, option, "", err);
    }
    if (!value) {
        if (*i + 1 >= argc)
            return rs_fail(err, RS_E_BAD_OPTION, argument, NULL, "--%s needs a value: %s",
                           option->name, option->argument);
        value = argv[++*i];
    }
    return take_option(args, option, value, err);
}

static rs_status parse_option(cli_args *args, const cli_command *command, int argc, char **argv,
                              int *i, rs_error *err)
{
    const char *argument = argv[*i], *name = argument + 2;
    size_t length = strcspn(name, "=");
    const cli_option *option = find_option(command, name, length);
    if (!option) return unknown_option(command, argument, err);
    return take_value(args, option, name[length] == '=' ? name + length + 1 : NULL, argc, argv, i,
                      err);
}

static const cli_option *option_of(const cli_command *command, char letter)
{
    for (size_t i = 0; i < cli_n_options; i++)
        if (letter && cli_options[i].letter == letter && (cli_options[i].commands & command->bit))
            return &cli_options[i];
    return NULL;
}

/* "-q", "-j FILE", "-jFILE", "-qj FILE". */
static rs_status parse_letters(cli_args *args, const cli_command *command, int argc, char **argv,
                               int *i, rs_error *err)
{
    const char *argument = argv[*i];
    for (const char *letter = argument + 1; *letter; letter++) {
        const cli_option *option = option_of(command, *letter);
        if (!option)
            return rs_fail(err, RS_E_BAD_OPTION, argument,
                           "short ones are -j (--json), -o (--html), -q, -V and -h; all others "
                           "begin with two dashes",
                           "no such option");
        if (option->argument)
            return take_value(args, option, letter[1] ? letter + 1 : NULL, argc, argv, i, err);
        CLI_TRY(take_option(args, option, "", err));
    }
    return RS_OK;
}

static rs_status check_names(const char *tables, const char *names, rs_error *err)
{
    for (const char *p = names;;) {
        char name[64];
        size_t length = strcspn(p, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), p);
        char hint[160];
        if (cli_among(tables, name) < 0)
            return rs_fail(
                err, RS_E_BAD_OPTION, "--table",
                cli_did_you_mean(hint, tables, name, "separate names by commas, or say all"),
                "no table '%s' among %s", name, tables);
        if (!p[length]) return RS_OK;
        p += length + 1;
    }
}

/* What a checkpoint too many is taken for: the next of several, a text without its --text, or half
 * of a name with blanks. */
static rs_status second_path(const cli_args *args, const cli_command *command, const char *argument,
                             rs_error *err)
{
    char hint[400], text[120] = "";
    if (cli_count_texts(args) > 0)
        snprintf(text, sizeof text, "each text needs a --text of its own (--text A --text B); ");
    snprintf(
        hint, sizeof hint,
        "%s'rankscope compare A B' sets two side by side; for several by themselves: for path in A "
        "B; do rankscope %s \"$path\"; done; quote a name that has blanks",
        text, command->name);
    return rs_fail(err, RS_E_USAGE, argument, hint,
                   "is a second PATH behind '%s': one checkpoint is taken at a time", args->input);
}

/* Whether a word behind a --text can be meant as a model: a folder, or a file of weights or of an
 * architecture. */
static bool may_be_model(const char *word)
{
    static const char *const endings[] = {".safetensors", ".gguf", ".json"};
    struct stat status;
    if (stat(word, &status) == 0 && S_ISDIR(status.st_mode)) return true;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(word), n = strlen(endings[i]);
        if (length > n && strcmp(word + length - n, endings[i]) == 0) return true;
    }
    return false;
}

/* Are the names of --table among those that the command can have? Whether a result has them is seen
 * later. */
static rs_status check_tables(const cli_command *command, const char *names, rs_error *err)
{
    if (!names || strcmp(names, "all") == 0) return RS_OK;
    char *tables = cli_list_names(CLI_TABLES, command);
    rs_status status = tables ? check_names(tables, names, err) : cli_no_names("--table", err);
    free(tables);
    return status;
}

/* Of inputs that are several all behind the first. */
static rs_status take_other(cli_args *args, const char *argument, rs_error *err)
{
    if (args->n_others == CLI_MOST_OTHERS)
        return rs_fail(err, RS_E_USAGE, argument, "name their folder, or fewer at a time",
                       "%d inputs behind the first are the most", CLI_MOST_OTHERS);
    args->others[args->n_others++] = argument;
    return RS_OK;
}

static rs_status take_input(cli_args *args, const cli_command *command, const char *argument,
                            rs_error *err)
{
    bool several = command->input && strstr(command->input, "...");
    if (several && args->input && cli_count_texts(args) > 0 && !may_be_model(argument))
        return rs_fail(err, RS_E_USAGE, argument,
                       "each text needs a --text of its own (--text A --text B); quote a name that "
                       "has blanks",
                       "is a second PATH behind '%s', and no model: neither a folder nor a file of "
                       "weights",
                       args->input);
    if (several && args->input) return take_other(args, argument, err);
    const char **free_one = !command->input                                ? NULL
                            : !args->input                                 ? &args->input
                            : strchr(command->input, ' ') && !args->second ? &args->second
                                                                           : NULL;
    if (!free_one && command->input && strcmp(command->input, "PATH") == 0)
        return second_path(args, command, argument, err);
    if (!free_one)
        return rs_fail(err, RS_E_USAGE, argument, "quote what has blanks in it",
                       !command->input ? "this command takes no input"
                       : !args->second ? "one input is enough"
                                       : "two words are enough");
    *free_one = argument;
    return RS_OK;
}

static rs_status parse_words(cli_args *args, const cli_command *command, int argc, char **argv,
                             rs_error *err)
{
    bool only_input = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        bool dashed = !only_input && word[0] == '-' && word[1];
        if (!dashed)
            CLI_TRY(take_input(args, command, word, err));
        else if (strcmp(word, "--") == 0)
            only_input = true;
        else if (word[1] == '-')
            CLI_TRY(parse_option(args, command, argc, argv, &i, err));
        else
            CLI_TRY(parse_letters(args, command, argc, argv, &i, err));
    }
    return RS_OK;
}

/* What no option can see by itself. */
static rs_status check_together(const cli_args *args, rs_error *err)
{
    const cli_command *command = args->command;
    char hint[64];
    CLI_TRY(check_tables(command, args->output.tables, err));
    CLI_TRY(cli_check_columns(args, err));
    snprintf(hint, sizeof hint, "'rankscope %s --help' shows how", command->name);
    bool needed = command->input && command->input[0] != '[';
    if (needed && !args->input && !args->help && !args->version)
        return rs_fail(err, RS_E_USAGE, command->name, hint, "needs an input: %s", command->input);
    return RS_OK;
}

rs_status cli_parse(cli_args *args, const cli_command *command, int argc, char **argv,
                    rs_error *err)
{
    memset(args, 0, sizeof *args);
    args->command = command;
    rs_output_settings_init(&args->output, sizeof args->output);
    command->init(args);
    CLI_TRY(parse_words(args, command, argc, argv, err));
    return check_together(args, err);
}
