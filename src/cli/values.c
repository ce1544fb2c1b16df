/* values.c: the words of an option as the value that its place in the settings has. */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Where an option's value goes, and what messages call it. */
typedef struct place {
    const cli_option *option;
    cli_args *args;
    void *at;
    char name[64]; /* "--layers" */
} place;

typedef rs_status reader(const place *p, const char *words, rs_error *err);

int cli_among(const char *choices, const char *word)
{
    size_t length = strlen(word);
    int number = 0;
    for (const char *c = choices; c; number++) {
        if (strcspn(c, "|") == length && memcmp(c, word, length) == 0) return number;
        c = strchr(c, '|');
        c += c != NULL;
    }
    return -1;
}

const char *cli_did_you_mean(char hint[160], const char *choices, const char *word,
                             const char *otherwise)
{
    char name[64], nearest[64] = "";
    int least = 4;
    for (const char *c = choices; c; c = strchr(c, '|'), c += c != NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(c, "|"), c);
        int distance = rs_edit_distance(word, name);
        if (distance >= least || 2 * distance > (int)strlen(name)) continue;
        least = distance;
        memcpy(nearest, name, sizeof name);
    }
    snprintf(hint, 160, nearest[0] ? "did you mean '%s'?" : "%s", nearest[0] ? nearest : otherwise);
    return hint;
}

static rs_status refuse(const place *p, const char *hint, const char *what, const char *words,
                        rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, p->name, hint, "'%s' %s", words, what);
}

/* ---- words and choices ---- */

static rs_status read_flag(const place *p, const char *words, rs_error *err)
{
    (void)words, (void)err;
    *(bool *)p->at = true;
    return RS_OK;
}

static rs_status read_text(const place *p, const char *words, rs_error *err)
{
    const char *fallback = p->option->fallback;
    (void)err;
    *(const char **)p->at = fallback && strcmp(words, fallback) == 0 ? NULL : words;
    return RS_OK;
}

_Static_assert(sizeof(rs_precision) == sizeof(int) && sizeof(rs_centre) == sizeof(int) &&
                   sizeof(rs_path_semantics) == sizeof(int),
               "a choice is stored as an int");

static rs_status read_choice(const place *p, const char *words, rs_error *err)
{
    int number = cli_among(p->option->choices, words);
    char hint[160];
    if (number < 0)
        return rs_fail(err, RS_E_BAD_OPTION, p->name,
                       cli_did_you_mean(hint, p->option->choices, words, "choose one of them"),
                       "'%s' is not one of %s", words, p->option->choices);
    memcpy(p->at, &number, sizeof number);
    return RS_OK;
}

/* ---- numbers ---- */

static bool whole_number(int64_t *number, const char *words)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(words, &end, 10);
    if (words[0] < '0' || words[0] > '9' || *end || errno == ERANGE || value > INT64_MAX)
        return false;
    *number = (int64_t)value;
    return true;
}

/* least: the least that is allowed, for whoever gives what is no such number. */
static rs_status read_whole_number(int64_t *number, const place *p, const char *words, int least,
                                   rs_error *err)
{
    char hint[64];
    if (whole_number(number, words)) return RS_OK;
    bool digits = words[0] && words[strspn(words, "0123456789")] == 0;
    snprintf(hint, sizeof hint, "give a whole number of at least %d", least);
    return refuse(p, digits ? "give a smaller number" : hint,
                  digits ? "is too large" : "is not allowed", words, err);
}

static rs_status read_count(const place *p, const char *words, rs_error *err)
{
    int64_t number = 0, most = p->option->most ? p->option->most : 1 << 30;
    CLI_TRY(read_whole_number(&number, p, words, 1, err));
    if (number == 0)
        return rs_fail(err, RS_E_BAD_OPTION, p->name, "give a whole number of at least 1",
                       "0 leaves nothing to do");
    if (number > most)
        return rs_fail(err, RS_E_BAD_OPTION, p->name, "give a smaller number",
                       "%lld is more than %lld", (long long)number, (long long)most);
    *(int64_t *)p->at = number;
    return RS_OK;
}

static rs_status read_whole(const place *p, const char *words, rs_error *err)
{
    int64_t number = 0;
    if (!whole_number(&number, words) || number > p->option->most)
        return rs_fail(err, RS_E_BAD_OPTION, p->name, NULL,
                       "'%s' is no whole number from 0 to %lld", words, (long long)p->option->most);
    *(int64_t *)p->at = number;
    return RS_OK;
}

static rs_status read_seed(const place *p, const char *words, rs_error *err)
{
    int64_t number = 0;
    CLI_TRY(read_whole_number(&number, p, words, 0, err));
    *(uint64_t *)p->at = (uint64_t)number;
    return RS_OK;
}

static rs_status read_threads(const place *p, const char *words, rs_error *err)
{
    int64_t number = 0;
    CLI_TRY(read_whole_number(&number, p, words, 1, err));
    if (number == 0 || number > 4096)
        return rs_fail(err, RS_E_BAD_OPTION, p->name, NULL, "give a number from 1 to 4096");
    *(int *)p->at = (int)number;
    return RS_OK;
}

/* "4096", "512M", "1.5GiB": K, M, G, T are powers of 1024, a B or iB behind them is fine. */
static bool size_of(uint64_t *bytes, const char *words)
{
    static const char units[] = "kmgt";
    char *end;
    if (!isdigit((unsigned char)*words)) return false;
    double value = strtod(words, &end);
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    if (unit) {
        value *= pow(1024, (double)(unit - units + 1));
        end++;
    }
    if (*end && strcasecmp(end, "b") != 0 && (!unit || strcasecmp(end, "ib") != 0)) return false;
    if (!(value >= 1 && value < 0x1p63)) return false;
    *bytes = (uint64_t)value;
    return true;
}

static rs_status read_bytes(const place *p, const char *words, rs_error *err)
{
    if (size_of(p->at, words)) return RS_OK;
    return refuse(p, "write 512M, 1.5G or a number of bytes", "is no size", words, err);
}

/* A finite number at the beginning of the words. */
static bool real_number(double *number, const char *words, const char **rest)
{
    char *end;
    *number = strtod(words, &end);
    *rest = end;
    return end != words && isfinite(*number);
}

static rs_status read_tolerance(const place *p, const char *words, rs_error *err)
{
    const char *rest;
    double number;
    if (!real_number(&number, words, &rest) || *rest || number < 0)
        return refuse(p, "give a number such as 1e-6", "is no tolerance", words, err);
    *(double *)p->at = number;
    return RS_OK;
}

/* "124M", "1.5B", "2e9": K, M, B or G, T are powers of 1000. */
static rs_status read_amount(const place *p, const char *words, rs_error *err)
{
    static const char units[] = "kmbtg", powers[] = {3, 6, 9, 12, 9};
    const char *rest;
    double number;
    bool valid = isdigit((unsigned char)*words) && real_number(&number, words, &rest);
    const char *unit = valid && *rest ? strchr(units, tolower((unsigned char)*rest)) : NULL;
    if (unit) {
        number *= pow(10, powers[unit - units]);
        rest++;
    }
    if (!valid || *rest || !(number >= 1) || !isfinite(number))
        return refuse(p, "write 124M, 1.5B or a number of at least 1", "is no amount", words, err);
    *(double *)p->at = number;
    return RS_OK;
}

static rs_status read_fraction(const place *p, const char *words, rs_error *err)
{
    const char *rest;
    double number;
    errno = 0;
    if (!real_number(&number, words, &rest) || *rest || errno || !(number > 0 && number < 1))
        return rs_fail(err, RS_E_BAD_OPTION, p->name,
                       "give a fraction between 0 and 1, such as 0.9", "cannot take '%s'", words);
    *(double *)p->at = number;
    return RS_OK;
}

/* A number of digits alone at the beginning of the words, which fits an int. */
static bool small_number(int *number, const char *words, const char **rest)
{
    char *end;
    if (!isdigit((unsigned char)*words)) return false;
    errno = 0;
    long value = strtol(words, &end, 10);
    *rest = end;
    *number = (int)value;
    return !errno && value <= INT_MAX;
}

static rs_status read_layers(const place *p, const char *words, rs_error *err)
{
    const char *rest;
    int layers[2];
    bool valid = small_number(&layers[0], words, &rest);
    layers[1] = layers[0];
    if (valid && *rest == '-') valid = small_number(&layers[1], rest + 1, &rest);
    if (!valid || *rest || layers[1] < layers[0])
        return refuse(p, "give A-B or a single number, counted from 0", "is no range of layers",
                      words, err);
    memcpy(p->at, layers, sizeof layers);
    return RS_OK;
}

/* ---- lists ---- */

/* A list's place is the pointer, and the count behind it. */
#define A_LIST(type, items, count)                                                                 \
    _Static_assert(offsetof(type, count) == offsetof(type, items) + sizeof(void *),                \
                   #items " has its count behind it")
A_LIST(rs_run_settings, edits, n_edits);
A_LIST(rs_run_settings, texts, n_texts);
A_LIST(rs_tokenize_settings, texts, n_texts);
A_LIST(rs_scan_settings, energies, n_energies);
A_LIST(rs_scan_settings, thresholds, n_thresholds);
A_LIST(rs_probe_settings, thresholds, n_thresholds);
A_LIST(rs_probe_settings, maps, n_maps);
A_LIST(rs_certify_settings, steps, n_steps);

static void set_list(const place *p, const void *items, size_t n)
{
    memcpy(p->at, &items, sizeof items);
    memcpy((char *)p->at + sizeof items, &n, sizeof n);
}

static rs_status read_texts(const place *p, const char *words, rs_error *err)
{
    size_t n = cli_count_texts(p->args);
    if (n == CLI_MOST_TEXTS)
        return rs_fail(err, RS_E_BAD_OPTION, p->name, "join some of the files", "at most %d texts",
                       CLI_MOST_TEXTS);
    p->args->texts[n] = words;
    set_list(p, p->args->texts, n + 1);
    return RS_OK;
}

static rs_status read_sets(const place *p, const char *words, rs_error *err)
{
    size_t n = p->args->training.n_sets;
    if (n == CLI_MOST_SETS)
        return rs_fail(err, RS_E_BAD_OPTION, p->name, "write a task file", "at most %d settings",
                       CLI_MOST_SETS);
    p->args->sets[n] = words;
    set_list(p, p->args->sets, n + 1);
    return RS_OK;
}

static rs_status read_edit(const place *p, const char *words, rs_error *err)
{
    size_t n = p->args->common.run.n_edits;
    if (n == CLI_MOST_EDITS)
        return rs_fail(err, RS_E_BAD_OPTION, p->name, NULL, "at most %d interventions",
                       CLI_MOST_EDITS);
    p->args->edits[n] = (rs_intervention){p->option->name, p->option->argument ? words : NULL};
    set_list(p, p->args->edits, n + 1);
    return RS_OK;
}

static rs_status read_energies(const place *p, const char *words, rs_error *err)
{
    double *energies = p->args->energies;
    size_t n = 0;
    for (const char *at = words;; at++) {
        double value;
        if (!real_number(&value, at, &at) || !(value > 0 && value <= 1) || (*at && *at != ','))
            return refuse(p, "give fractions such as 0.9,0.95,0.99",
                          "is no list of fractions above 0 and up to 1", words, err);
        if (n == CLI_MOST_ENERGIES)
            return rs_fail(err, RS_E_BAD_OPTION, p->name, NULL, "at most %d fractions",
                           CLI_MOST_ENERGIES);
        energies[n++] = value;
        if (!*at) break;
    }
    set_list(p, energies, n);
    return RS_OK;
}

static rs_status read_maps(const place *p, const char *words, rs_error *err)
{
    rs_map_choice *maps = p->args->maps;
    size_t n = 0;
    for (const char *at = words;; at++) {
        int layer, head;
        if (!small_number(&layer, at, &at) || *at != ':' || !small_number(&head, at + 1, &at) ||
            (*at && *at != ','))
            return refuse(p, "give layer:head pairs counted from 0, such as 0:0,5:11",
                          "is no list of layers and heads", words, err);
        if (n == CLI_MOST_MAPS)
            return rs_fail(err, RS_E_BAD_OPTION, p->name, NULL, "at most %d heads", CLI_MOST_MAPS);
        maps[n++] = (rs_map_choice){layer, head};
        if (!*at) break;
    }
    set_list(p, maps, n);
    return RS_OK;
}

static rs_status bad_thresholds(const place *p, const char *words, rs_error *err)
{
    char hint[300];
    int used = snprintf(hint, sizeof hint, "give CODE=X with X >= 0 and CODE one of");
    for (const char *c = p->option->codes; *c && used < (int)sizeof hint;) {
        int length = (int)strcspn(c, "|");
        used += snprintf(hint + used, sizeof hint - (size_t)used, " %.*s%s", length, c,
                         c[length] ? "," : "");
        c += length;
        c += *c == '|';
    }
    return rs_fail(err, RS_E_BAD_OPTION, p->name, hint, "cannot read '%s'", words);
}

/* "CODE=X", X >= 0; *words is then behind it. */
static bool threshold(rs_threshold *out, char code[32], const char *codes, const char **words)
{
    char *end;
    size_t length = strcspn(*words, "=,");
    if (length >= 32 || (*words)[length] != '=') return false;
    snprintf(code, 32, "%.*s", (int)length, *words);
    double value = strtod(*words + length + 1, &end);
    if (cli_among(codes, code) < 0 || end == *words + length + 1 || (*end && *end != ','))
        return false;
    *out = (rs_threshold){code, value};
    *words = end;
    return value >= 0 && value <= DBL_MAX;
}

static rs_status read_thresholds(const place *p, const char *words, rs_error *err)
{
    size_t n = 0;
    for (const char *at = words;; at++) {
        if (n == CLI_MOST_THRESHOLDS)
            return rs_fail(err, RS_E_BAD_OPTION, p->name, NULL, "at most %d thresholds",
                           CLI_MOST_THRESHOLDS);
        if (!threshold(&p->args->thresholds[n], p->args->codes[n], p->option->codes, &at))
            return bad_thresholds(p, words, err);
        n++;
        if (!*at) break;
    }
    set_list(p, p->args->thresholds, n);
    return RS_OK;
}

/* ---- by kind ---- */

static reader *const readers[] = {
    [CLI_FLAG] = read_flag,         [CLI_TEXT] = read_text,
    [CLI_COUNT] = read_count,       [CLI_WHOLE] = read_whole,
    [CLI_SEED] = read_seed,         [CLI_THREADS] = read_threads,
    [CLI_BYTES] = read_bytes,       [CLI_TOLERANCE] = read_tolerance,
    [CLI_FRACTION] = read_fraction, [CLI_CHOICE] = read_choice,
    [CLI_LAYERS] = read_layers,     [CLI_EDIT] = read_edit,
    [CLI_ENERGIES] = read_energies, [CLI_THRESHOLDS] = read_thresholds,
    [CLI_MAPS] = read_maps,         [CLI_TEXTS] = read_texts,
    [CLI_SETS] = read_sets,         [CLI_AMOUNT] = read_amount,
};

rs_status cli_store(cli_args *args, const cli_option *option, const char *words, rs_error *err)
{
    place p = {.option = option, .args = args, .at = (char *)args + option->offset};
    snprintf(p.name, sizeof p.name, "--%s", option->name);
    return readers[option->kind](&p, words, err);
}
