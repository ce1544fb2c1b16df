/* cli.h: the command line: one table of options, from which parsing, --help, the man page and shell
 * completion all come. */
#ifndef RS_CLI_CLI_H
#define RS_CLI_CLI_H

#include "api/probe_path.h"
#include "base/context.h"
#include "report/result.h"
#include "scan/scan.h"

/* ---- arguments ---- */

/* An intervention (network/edit.h): an option of kind CLI_EDIT. */
enum { CLI_MOST_EDITS = 32 };
typedef struct cli_edit {
    const char *name, *value; /* without dashes; NULL for a flag */
} cli_edit;

/* What the command line says; edits in the order in which they were given. */
typedef struct cli_args {
    const char *command;
    const char *input;  /* the positional argument, NULL when there is none */
    const char *second; /* second word of an input that has two (cli_command.input) */
    /* every command */
    const char *json, *csv, *html, *tables;
    int64_t threads;
    uint64_t seed, memory_bytes; /* memory_bytes: what `memory` says; 0: it is not given */
    const char *memory, *precision, *progress, *color, *fail_on;
    bool csv_safe, quiet, help, version;
    /* scan */
    bool spectra, fold_norms, with_bias, lenient;
    const char *matrices, *layers, *tol, *energy, *map, *threshold;
    /* probe */
    const char *text, *tokens, *images, *encoder_states, *init, *variants, *compat, *centre;
    const char *attention_maps, *taps, *output;
    uint64_t random, seq_len, samples, batch, generate;
    bool no_spectral, no_attention, no_loss, scan_too, certify_too, grad;
    cli_edit edits[CLI_MOST_EDITS];
    size_t n_edits;
    /* paths */
    const char *max_length, *paths, *semantics;
    bool sources;
    /* tokenize (and text) */
    bool no_special;
    /* certify */
    const char *kept;
    bool rigorous;
    /* lab */
    bool quick;
} cli_args;

/* What an option takes: a count is 1 to 2^30, a number any whole one from 0. CLI_EDIT is kept in
 * cli_args.edits and may be repeated; without an argument it is a flag. */
typedef enum cli_kind { CLI_FLAG, CLI_TEXT, CLI_COUNT, CLI_NUMBER, CLI_CHOICE, CLI_EDIT } cli_kind;

/* The commands, as bits. */
enum {
    CLI_SCAN = 1,
    CLI_DOCTOR = 2,
    CLI_PROBE = 4,
    CLI_TOKENIZE = 8,
    CLI_LAB = 16,
    CLI_CERTIFY = 32,
    CLI_PATHS = 64,
    CLI_RUNS = CLI_PROBE | CLI_CERTIFY | CLI_PATHS, /* those that run a model over inputs */
    CLI_ALL = 127
};

/* A row of the table of options. */
typedef struct cli_option {
    const char *name;     /* without the dashes */
    const char *argument; /* "FILE|-", NULL for a flag */
    cli_kind kind;
    size_t offset;        /* of its place in cli_args */
    unsigned commands;    /* commands that have it: CLI_SCAN | ... */
    const char *fallback; /* the default as text; NULL: none */
    const char *choices;  /* CLI_CHOICE: "none|warn|critical" */
    const char *help;     /* a sentence or more, with units */
} cli_option;

/* A row of the table of commands. */
typedef struct cli_command {
    const char *name;
    unsigned bit;
    const char *input;    /* what it takes: "PATH"; with a blank: two at most; NULL: nothing */
    const char *brief;    /* one line */
    const char *about;    /* paragraphs, separated by newlines */
    const char *examples; /* lines "command # what for" */
    const char *tables;   /* "a|b": tables that its result can have */
    int (*run)(const cli_args *args);
} cli_command;

extern const cli_option cli_options[];
extern const size_t cli_n_options;
extern const cli_command cli_commands[];
extern const size_t cli_n_commands;

/* Parses argv behind the command's name. RS_E_USAGE and RS_E_BAD_OPTION name the argument and the
 * nearest known option. */
rs_status cli_parse(cli_args *args, const cli_command *command, int argc, char **argv,
                    rs_error *err);
const cli_command *cli_find_command(const char *name);
/* The command whose name is closest, or NULL when none is close. */
const char *cli_nearest_command(const char *name);
void cli_print_help(const cli_command *command); /* NULL: the program's own */
void cli_print_man(void);
/* Prints the completion for bash, zsh or fish; false when the shell is not known. */
bool cli_print_completion(const char *shell);

/* The inputs that probe, certify and paths were given. */
rs_input_source cli_source(const cli_args *args);

/* A code of --threshold and the place of its value. */
typedef struct cli_threshold {
    const char *code;
    double *value;
} cli_threshold;
/* Reads "CODE=X[,CODE=X]", X >= 0, into the places of the known codes. */
rs_status cli_parse_thresholds(const char *text, const cli_threshold *known, size_t n,
                               rs_error *err);

/* ---- running ---- */

/* Prints `rankscope: error: WHERE: WHAT; HINT` and returns the exit code. */
int cli_fail(const rs_error *err);

/* Prints to standard error what a terminal cannot act on: control characters, bidirectional
 * overrides and what is invisible are replaced, as on standard output. */
void cli_say(const char *format, ...) RS_PRINTF(1, 2);

/* The context of a run: threads, seed, progress bar, interruption. */
typedef struct cli_progress cli_progress;
rs_context cli_context(const cli_args *args);
void cli_progress_done(void); /* wipes the bar */
void cli_install_signals(void);
bool cli_interrupted(void);
/* Ends the program as one whose reader went away, unless whoever started it ignores that. */
void cli_die_of_broken_pipe(void);
/* Ends the program by a hangup or a quit that came while files were being put in place; returns when
 * none did. */
void cli_die_of_signal(void);
/* Opens those of the first three descriptors that are closed, so that no file gets their
 * numbers. */
void cli_open_standard(void);

/* outputs.c: refuses two outputs that would be one file. */
rs_status cli_check_outputs(const cli_args *args, rs_error *err);
/* Whether the path (may be NULL) is standard output: "-", /dev/stdout, /dev/fd/1. */
bool cli_is_stdout(const char *path);

/* What a command does once its options are understood. */
typedef struct cli_job cli_job;
struct cli_job {
    const cli_args *args;
    const void *request; /* in the command's own type */
    /* Fills a result that has its meta args, machine and started. */
    rs_status (*work)(rs_result *result, cli_job *job, const rs_context *context, rs_error *err);
    /* Tables that are shown without --table; NULL: the default. `work` may set it. */
    const char *tables;
    /* Files never to overwrite, which `work` fills in; cli_run sets the outputs that appear
     * together, and closes it. */
    rs_input_files inputs;
};

/* Makes a result, does the work, writes the result where the options say and gives the exit code
 * (0, 1, 2, 3, 130). */
int cli_run(cli_job *job);

/* Sets meta machine (again, of a result that cli_run made) with the measured rate. */
rs_status cli_set_machine(rs_result *result, const cli_args *args, double gflops, rs_error *err);

int cli_scan(const cli_args *args);
int cli_probe(const cli_args *args);
int cli_certify(const cli_args *args);
int cli_paths(const cli_args *args);
int cli_doctor(const cli_args *args);
int cli_tokenize(const cli_args *args);
int cli_lab(const cli_args *args);

/* ---- BLAS kernel ---- */

/* The kernel that fits this processor better than the one OpenBLAS chose; NULL when the choice is
 * fine or the user made it. */
const char *cli_better_blas_core(void);
/* Re-executes the program once with OPENBLAS_CORETYPE set when that helps; returns otherwise. */
void cli_rescue_blas(char **argv);
/* The kernel that the rescue set, or NULL. */
const char *cli_rescued_core(void);

#endif
