/* names.c: names that the library knows: what completion offers, and what a mistyped one is compared
 * with before any work is done. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

/* A list "a|b|c" that grows; text is NULL once memory was out. */
typedef struct list {
    char *text;
    size_t length, room;
} list;

static void add_name(list *names, const char *name, size_t length)
{
    char word[128];
    if (!names->text || length == 0 || length >= sizeof word) return;
    memcpy(word, name, length);
    word[length] = 0;
    if (names->length && cli_among(names->text, word) >= 0) return;
    if (names->length + length + 2 > names->room) {
        size_t room = 2 * (names->room + length);
        char *grown = realloc(names->text, room);
        if (!grown) free(names->text);
        names->text = grown;
        names->room = room;
        if (!grown) return;
    }
    if (names->length) names->text[names->length++] = '|';
    memcpy(names->text + names->length, word, length + 1);
    names->length += length;
}

/* Whether a text such as "scan: heads, groups; every command: findings" speaks of the command. */
static bool speaks_of(const char *where, const char *command)
{
    size_t length = strlen(command);
    for (const char *p = where; p; p = strstr(p, "; "), p = p ? p + 2 : NULL)
        if ((strncmp(p, command, length) == 0 && p[length] == ':') ||
            strncmp(p, "every command:", 14) == 0)
            return true;
    return false;
}

/* ---- what the library says ---- */

static const char *const *texts(const rs_result *result, const char *table, const char *column,
                                size_t *n)
{
    rs_column_data data;
    if (rs_result_column(&data, result, table, column, NULL) != RS_OK) return NULL;
    *n = data.rows;
    return data.text;
}

static void tables(list *names, const char *command)
{
    size_t length = rs_command_tables(NULL, 0, command);
    char *text = malloc(length + 1);
    if (text) rs_command_tables(text, length + 1, command);
    free(names->text);
    *names = (list){.text = text, .length = length, .room = length + 1};
}

/* Whether the command's result can have that column: probe's has tables of scan (--scan) and certify
 * (--certify), too. */
static bool is_of(const char *where, const cli_command *command)
{
    return speaks_of(where, command->name) ||
           (command->bit == CLI_PROBE && (speaks_of(where, "scan") || speaks_of(where, "certify")));
}

/* The names of one kind in 'rankscope explain all'; of columns, those of the command. */
static void explained(list *names, const char *kind, const cli_command *command)
{
    rs_explain_settings settings;
    rs_result *result = NULL;
    size_t n = 0;
    rs_explain_settings_init(&settings, sizeof settings);
    settings.word = "all";
    if (rs_explain(&result, &settings, NULL) != RS_OK) return;
    const char *const *name = texts(result, "words", "name", &n),
                      *const *is = texts(result, "words", "kind", &n),
                      *const *where = texts(result, "words", "where", &n);
    for (size_t i = 0; name && is && where && i < n; i++)
        if (name[i] && is[i] && strncmp(is[i], kind, strlen(kind)) == 0 &&
            (!command || (where[i] && is_of(where[i], command))))
            add_name(names, name[i], strlen(name[i]));
    rs_result_free(result);
}

static void experiments(list *names)
{
    rs_lab_settings settings;
    rs_result *result = NULL;
    size_t n = 0;
    rs_lab_settings_init(&settings, sizeof settings);
    if (rs_lab(&result, &settings, NULL) != RS_OK) return;
    const char *const *id = texts(result, "experiments", "id", &n);
    for (size_t i = 0; id && i < n; i++)
        add_name(names, id[i], strlen(id[i]));
    rs_result_free(result);
}

char *cli_list_names(cli_names which, const cli_command *command)
{
    list names = {.text = calloc(1, 64), .room = 64};
    switch (which) {
    case CLI_NO_NAMES:
        break;
    case CLI_TABLES:
        tables(&names, command->name);
        break;
    case CLI_COLUMNS:
        explained(&names, "column", command);
        break;
    case CLI_VARIANTS:
        explained(&names, "variant", NULL);
        break;
    case CLI_EXPERIMENTS:
        experiments(&names);
        add_name(&names, "all", 3);
        break;
    }
    return names.text;
}

rs_status cli_no_names(const char *what, rs_error *err)
{
    return rs_fail(err, RS_E_NO_MEMORY, what, "free memory or use a machine with more",
                   "out of memory");
}

/* ---- columns that nothing has ---- */

static rs_status check_list(const char *option, const char *words, const char *ends,
                            const char *known, const cli_command *command, rs_error *err)
{
    char name[64], hint[160];
    for (const char *p = words; p; p = strchr(p, ','), p = p ? p + 1 : NULL) {
        size_t length = strcspn(p, ends);
        bool whole = !strchr(ends, '=') || (p[length] && strchr("<>=!", p[length])); /* --where */
        if (!whole || length == 0 || length >= sizeof name) continue; /* the library says why */
        memcpy(name, p, length);
        name[length] = 0;
        if (cli_among(known, name) >= 0) continue;
        return rs_fail(err, RS_E_BAD_OPTION, option,
                       cli_did_you_mean(hint, known, name, "'rankscope explain' lists them"),
                       "no table of 'rankscope %s' has a column '%s'", command->name, name);
    }
    return RS_OK;
}

rs_status cli_check_columns(const cli_args *args, rs_error *err)
{
    const rs_output_settings *o = &args->output;
    /* each experiment of the lab has columns of its own; those are seen when it has run */
    if ((!o->columns && !o->sort && !o->where) || args->command->bit == CLI_LAB) return RS_OK;
    char *known = cli_list_names(CLI_COLUMNS, args->command);
    if (!known || !known[0]) {
        free(known);
        return cli_no_names("columns", err);
    }
    rs_status status = check_list("--columns", o->columns, ",", known, args->command, err);
    if (status == RS_OK) status = check_list("--sort", o->sort, ":,", known, args->command, err);
    if (status == RS_OK)
        status = check_list("--where", o->where, "<>=!,", known, args->command, err);
    free(known);
    return status;
}
