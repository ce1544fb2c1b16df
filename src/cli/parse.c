/* parse.c: the words of a command line, by the tables of options.c. */
#include "cli/cli.h"

#include "base/text.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Is `value` one of the words of "a|b|c"? */
static bool among(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strcspn(p, "|") == length && memcmp(p, value, length) == 0) return true;
    return false;
}

static rs_status parse_number(uint64_t *out, const char *name, const char *value, rs_error *err)
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

enum { MOST_COUNT = 1 << 30 };

static rs_status parse_count(uint64_t *out, const char *name, const char *value, rs_error *err)
{
    RS_TRY(parse_number(out, name, value, err));
    if (*out == 0)
        return rs_fail(err, RS_E_BAD_OPTION, name, "give a whole number from 1",
                       "0 leaves nothing to do");
    if (*out > MOST_COUNT)
        return rs_fail(err, RS_E_BAD_OPTION, name, "give a smaller number", "%llu is more than %d",
                       (unsigned long long)*out, (int)MOST_COUNT);
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
    case CLI_NUMBER:
        return parse_number((uint64_t *)(void *)field, name, value, err);
    case CLI_COUNT:
        return parse_count((uint64_t *)(void *)field, name, value, err);
    case CLI_EDIT:
        if (args->n_edits == CLI_MOST_EDITS)
            return rs_fail(err, RS_E_BAD_OPTION, name, NULL, "at most %d interventions",
                           CLI_MOST_EDITS);
        args->edits[args->n_edits++] = (cli_edit){option->name, value};
        return RS_OK;
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
    bool flag = option->argument == NULL;
    if (flag && value)
        return rs_fail(err, RS_E_BAD_OPTION, argument, NULL, "--%s takes no value", option->name);
    if (!flag && !value) {
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

rs_input_source cli_source(const cli_args *args)
{
    return (rs_input_source){.text = args->text,
                             .tokens = args->tokens,
                             .images = args->images,
                             .random = (int64_t)args->random,
                             .encoder_states = args->encoder_states,
                             .seq_len = (int64_t)args->seq_len,
                             .samples = (int64_t)args->samples};
}

rs_status cli_parse_thresholds(const char *text, const cli_threshold *known, size_t n,
                               rs_error *err)
{
    for (const char *p = text;;) {
        size_t length = strcspn(p, "=,"), i = 0;
        while (i < n && (strlen(known[i].code) != length || memcmp(known[i].code, p, length) != 0))
            i++;
        char *end = NULL;
        double value = i < n && p[length] == '=' ? strtod(p + length + 1, &end) : -1;
        bool read = end && end != p + length + 1 && (*end == 0 || *end == ',');
        if (!read || !(value >= 0 && value <= DBL_MAX)) {
            char hint[300];
            int used = snprintf(hint, sizeof hint, "give CODE=X with X >= 0 and CODE one of");
            for (size_t k = 0; k < n && used < (int)sizeof hint; k++)
                used += snprintf(hint + used, sizeof hint - (size_t)used, "%s %s", k ? "," : "",
                                 known[k].code);
            return rs_fail(err, RS_E_BAD_OPTION, "--threshold", hint, "cannot read '%s'", text);
        }
        *known[i].value = value;
        if (!*end) return RS_OK;
        p = end + 1;
    }
}

static rs_status take_input(cli_args *args, const cli_command *command, const char *argument,
                            rs_error *err)
{
    const char **free_one = !command->input                                ? NULL
                            : !args->input                                 ? &args->input
                            : strchr(command->input, ' ') && !args->second ? &args->second
                                                                           : NULL;
    if (!free_one)
        return rs_fail(err, RS_E_USAGE, argument, "quote a path that has blanks in it",
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
            RS_TRY(take_input(args, command, word, err));
        else if (strcmp(word, "--") == 0)
            only_input = true;
        else if (strcmp(word, "-h") == 0)
            args->help = true;
        else if (word[1] == '-')
            RS_TRY(parse_option(args, command, argc, argv, &i, err));
        else
            return rs_fail(err, RS_E_BAD_OPTION, word, "options begin with two dashes",
                           "no such option");
    }
    return RS_OK;
}

/* What no option can see by itself. */
static rs_status check_together(cli_args *args, const cli_command *command, rs_error *err)
{
    RS_TRY(check_tables(command, args->tables, err));
    if (args->threads == 0 || args->threads > 4096)
        return rs_fail(err, RS_E_BAD_OPTION, "--threads", NULL, "give a number from 1 to 4096");
    if (args->memory && !rs_memory_parse(&args->memory_bytes, args->memory))
        return rs_fail(err, RS_E_BAD_OPTION, "--memory", "write 512M, 1.5G or a number of bytes",
                       "'%s' is no size", args->memory);
    char hint[64];
    snprintf(hint, sizeof hint, "'rankscope %s --help' shows how", command->name);
    if (command->input && !args->input && !args->help && !args->version)
        return rs_fail(err, RS_E_USAGE, command->name, hint, "needs an input: %s", command->input);
    return RS_OK;
}

rs_status cli_parse(cli_args *args, const cli_command *command, int argc, char **argv,
                    rs_error *err)
{
    *args = (cli_args){.command = command->name, .threads = -1};
    for (size_t i = 0; i < cli_n_options; i++) /* choices always have a value */
        if (cli_options[i].kind == CLI_CHOICE && (cli_options[i].commands & command->bit))
            RS_TRY(store(args, &cli_options[i], cli_options[i].fallback, err));
    RS_TRY(parse_words(args, command, argc, argv, err));
    return check_together(args, command, err);
}
