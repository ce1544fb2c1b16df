/* outputs.c: no two outputs of a command may be one file: the second would replace the first. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct output {
    const char *option, *path;
} output;

static bool to_a_file(const output *o)
{
    return o->path && strcmp(o->path, "-") != 0;
}

bool cli_is_stdout(const char *path)
{
    return path && (strcmp(path, "-") == 0 || rs_output_same(path, "/dev/stdout"));
}

static rs_status refuse_output(const output *o, const char *other, rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, o->option, "choose another name",
                   "%s is to be written by %s already", o->path, other);
}

/* --csv writes DIR/TABLE.csv for each table of the command. */
static rs_status check_tables(const output *o, const cli_args *args, rs_error *err)
{
    char path[4096], *tables = cli_list_names(CLI_TABLES, args->command);
    bool same = false;
    for (const char *p = tables; p && *p && !same;) {
        int length = (int)strcspn(p, "|");
        int n = snprintf(path, sizeof path, "%s/%.*s.csv", args->output.csv, length, p);
        same = n > 0 && (size_t)n < sizeof path && rs_output_same(o->path, path);
        p += length;
        p += *p == '|';
    }
    rs_status status = !tables ? cli_no_names(o->option, err)
                       : same  ? refuse_output(o, "--csv", err)
                               : RS_OK;
    free(tables);
    return status;
}

/* train keeps these in the folder of its run. */
static rs_status check_run(const output *o, const cli_args *args, rs_error *err)
{
    static const char *const names[] = {
        "model.safetensors", "config.json", "tokenizer.json", "graph.npy", "log.jsonl", "run.db",
        "run.db-wal",        "run.db-shm",  "checkpoints",    ".lock"};
    const char *folder = args->command->bit == CLI_TRAIN ? args->training.out : NULL;
    char path[4096];
    for (size_t i = 0; folder && i < sizeof names / sizeof *names; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (n > 0 && (size_t)n < sizeof path && rs_output_same(o->path, path))
            return refuse_output(o, "--out", err);
    }
    return RS_OK;
}

/* scan --write makes a model of its folder, and of those in it; a folder of tables or figures may not be that. */
static rs_status check_model(const output *o, bool is_folder, const cli_args *args, rs_error *err)
{
    const char *written = args->command->bit == CLI_SCAN ? args->scan.write : NULL;
    char folder[4096];
    int n = snprintf(folder, sizeof folder, is_folder ? "%s/." : "%s", o->path);
    if (!written || n < 0 || (size_t)n >= sizeof folder) return RS_OK;
    for (char *slash = strrchr(folder, '/'); slash && slash > folder;
         slash = strrchr(folder, '/')) {
        *slash = 0;
        if (rs_output_same(folder, written))
            return rs_fail(err, RS_E_BAD_OPTION, o->option, "choose a place outside of it",
                           "%s lies in the folder that --write makes a model of", o->path);
    }
    return RS_OK;
}

rs_status cli_check_outputs(const cli_args *args, rs_error *err)
{
    const rs_output_settings *o = &args->output;
    bool probes = args->command->bit == CLI_PROBE;
    enum { FOLDERS = 3 }; /* which may be one: what is in them has different names */
    const output outputs[] = {{"--csv", o->csv},
                              {"--svg", o->svg},
                              {"--png", o->png},
                              {"--output", probes ? args->probe.output : NULL},
                              {"--taps", probes ? args->probe.taps : NULL},
                              {"--json", o->json},
                              {"--html", o->html}};
    if (o->csv_safe && !o->csv)
        return rs_fail(err, RS_E_BAD_OPTION, "--csv-safe", "add --csv DIR", "there is no --csv");
    if (o->png) CLI_TRY(rs_output_png_ready(err));
    if (cli_is_stdout(o->json) && cli_is_stdout(o->html))
        return rs_fail(err, RS_E_BAD_OPTION, "--html", "write one of them to a file",
                       "standard output carries one result, and --json has it");
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const output *this = &outputs[i];
        if (!to_a_file(this)) continue;
        CLI_TRY(check_run(this, args, err));
        CLI_TRY(check_model(this, i < FOLDERS, args, err));
        for (size_t k = 0; k < i; k++)
            if (to_a_file(&outputs[k]) && i >= FOLDERS &&
                rs_output_same(this->path, outputs[k].path))
                return refuse_output(this, outputs[k].option, err);
        if (outputs[0].path && i >= FOLDERS) CLI_TRY(check_tables(this, args, err));
    }
    return RS_OK;
}
