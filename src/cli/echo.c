/* echo.c: what the command line said, as JSON: meta args of a result (docs/contract.md, 2). */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text that grows ---- */

typedef struct echo {
    FILE *out; /* open_memstream */
    bool any;  /* a member has been written */
} echo;

/* The bytes of the UTF-8 character that text begins with; 0: it is none. */
static size_t character(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t size = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : 4;
    if (size == 0 || c[0] > 0xF4) return 0;
    for (size_t i = 1; i < size; i++)
        if ((c[i] & 0xC0) != 0x80) return 0;
    bool overlong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90);
    bool outside = (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF4 && c[1] > 0x8F);
    return overlong || outside ? 0 : size;
}

/* A name of a file may hold any bytes, JSON only characters. */
static bool is_text(const char *text)
{
    size_t size = 1;
    while (*text && (size = character(text)) > 0)
        text += size;
    return size > 0;
}

static void put_string(echo *e, const char *text)
{
    fputc('"', e->out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(e->out, "\\%c", c);
        else if (c < 0x20)
            fprintf(e->out, "\\u%04x", c);
        else
            fputc(c, e->out);
    }
    fputc('"', e->out);
}

static void put_key(echo *e, const char *key)
{
    if (e->any) fputs(", ", e->out);
    e->any = true;
    put_string(e, key);
    fputs(": ", e->out);
}

/* ---- members ---- */

/* NULL and what is no text are left out. */
static void add_text(echo *e, const char *key, const char *text)
{
    if (!text || !is_text(text)) return;
    put_key(e, key);
    put_string(e, text);
}

static void add_option(echo *e, const cli_option *option, const char *words)
{
    switch (option->kind) {
    case CLI_FLAG:
        put_key(e, option->name);
        fputs("true", e->out);
        break;
    case CLI_COUNT:
        put_key(e, option->name);
        fprintf(e->out, "%lld", strtoll(words, NULL, 10));
        break;
    case CLI_CHOICE:
        if (strcmp(words, option->fallback) != 0) add_text(e, option->name, words);
        break;
    case CLI_EDIT: /* below */
    case CLI_TEXTS:
    case CLI_SETS:
    case CLI_SEED:
    case CLI_THREADS:
        break;
    case CLI_TEXT:
    case CLI_WHOLE:
    case CLI_BYTES:
    case CLI_TOLERANCE:
    case CLI_AMOUNT:
    case CLI_FRACTION:
    case CLI_LAYERS:
    case CLI_ENERGIES:
    case CLI_THRESHOLDS:
    case CLI_MAPS:
        add_text(e, option->name, words);
        break;
    }
}

static void put_value(echo *e, const rs_intervention *edit)
{
    if (edit->value && is_text(edit->value))
        put_string(e, edit->value);
    else
        fputs("true", e->out);
}

/* The interventions of the name of number i, when that is the first: a list of several values. */
static void add_edits_like(echo *e, const rs_run_settings *run, size_t i)
{
    size_t alike = 0;
    for (size_t k = 0; k < run->n_edits; k++) {
        if (strcmp(run->edits[k].name, run->edits[i].name) != 0) continue;
        if (k < i) return;
        alike++;
    }
    bool list = alike > 1 && run->edits[i].value;
    put_key(e, run->edits[i].name);
    if (list) fputc('[', e->out);
    for (size_t k = i; k < run->n_edits; k++) {
        if (strcmp(run->edits[k].name, run->edits[i].name) != 0) continue;
        if (k > i) fputs(", ", e->out);
        put_value(e, &run->edits[k]);
        if (!list) break;
    }
    if (list) fputc(']', e->out);
}

/* One text as it was said, or a list of several; null for what is no text. */
static void add_texts(echo *e, const cli_args *args)
{
    size_t n = cli_count_texts(args);
    if (n == 1) add_text(e, "text", cli_text_said(args->texts[0]));
    if (n < 2) return;
    put_key(e, "text");
    for (size_t i = 0; i < n; i++) {
        const char *said = cli_text_said(args->texts[i]);
        fputs(i ? ", " : "[", e->out);
        if (is_text(said))
            put_string(e, said);
        else
            fputs("null", e->out);
    }
    fputc(']', e->out);
}

/* The checkpoints behind the first. */
static void add_others(echo *e, const cli_args *args)
{
    if (args->n_others == 0) return;
    put_key(e, "others");
    for (size_t i = 0; i < args->n_others; i++) {
        fputs(i ? ", " : "[", e->out);
        put_string(e, is_text(args->others[i]) ? args->others[i] : "");
    }
    fputc(']', e->out);
}

static void add_sets(echo *e, const cli_args *args)
{
    size_t n = args->command->bit == CLI_TRAIN ? args->training.n_sets : 0;
    if (n == 0) return;
    put_key(e, "set");
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "[", e->out);
        put_string(e, is_text(args->sets[i]) ? args->sets[i] : "");
    }
    fputc(']', e->out);
}

static void add_all(echo *e, const cli_args *args)
{
    const rs_call_settings *call = &args->common.call;
    const rs_run_settings *run = &args->common.run;
    bool runs = args->command->bit & CLI_RUNS;
    add_text(e, "input", args->input);
    add_text(e, "experiment", args->second);
    add_others(e, args);
    for (size_t i = 0; i < cli_n_options; i++)
        if (args->given[i]) add_option(e, &cli_options[i], args->given[i]);
    add_texts(e, args);
    add_sets(e, args);
    for (size_t i = 0; runs && i < run->n_edits; i++)
        add_edits_like(e, run, i);
    if (call->threads > 0) {
        put_key(e, "threads");
        fprintf(e->out, "%d", call->threads);
    }
    put_key(e, "seed");
    fprintf(e->out, "%llu", (unsigned long long)call->seed);
}

char *cli_echo(const cli_args *args)
{
    char *text = NULL;
    size_t size;
    echo e = {.out = open_memstream(&text, &size)};
    if (!e.out) return NULL;
    fputc('{', e.out);
    add_all(&e, args);
    fputc('}', e.out);
    bool failed = ferror(e.out);
    if (fclose(e.out) == 0 && !failed) return text;
    free(text);
    return NULL;
}
