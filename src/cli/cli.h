/*
 * cli.h: the command line: one table of options, from which parsing, --help, the man page and shell
 * completion all come. An option of a command has its place in the settings of the public header,
 * so what is parsed is what the library is called with.
 */
#ifndef RS_CLI_CLI_H
#define RS_CLI_CLI_H

#include "rankscope.h"

/* ---- what the command line says ---- */

/* The most that lists may hold, and rows that the table of options may have. */
enum {
    CLI_MOST_EDITS = 32,
    CLI_MOST_ENERGIES = 16,
    CLI_MOST_MAPS = 64,
    CLI_MOST_THRESHOLDS = 16,
    CLI_MOST_TEXTS = 1024,
    CLI_MOST_OTHERS = 16384,
    CLI_MOST_SETS = 128,
    CLI_MOST_OPTIONS = 160
};

typedef struct cli_args {
    const struct cli_command *command;
    const char *input;  /* the positional argument, NULL when there is none */
    const char *second; /* second word of an input that has two (cli_command.input) */
    /* The words that rows of cli_options were given, the last of each; NULL: none. Of a flag "". */
    const char *given[CLI_MOST_OPTIONS];
    /* the program's own */
    bool quiet, help, version;
    bool show_loader;             /* of train */
    int progress, color, fail_on; /* numbers of their choices */
    int no_choice;                /* of options that say what is so anyway */
    rs_output_settings output;
    union {
        struct { /* what settings begin with: `run` for those of CLI_FED */
            size_t size;
            rs_call_settings call;
            rs_run_settings run;
        } common;
        rs_scan_settings scan;
        rs_probe_settings probe;
        rs_certify_settings certify;
        rs_paths_settings paths;
        rs_compare_settings compare;
        rs_tokenize_settings tokenize;
        rs_lab_settings lab;
        rs_training_settings training;
        rs_predict_settings predict;
        rs_doctor_settings doctor;
        rs_explain_settings explain;
    };
    /* what the lists of the settings point to */
    rs_intervention edits[CLI_MOST_EDITS];
    const char *texts[CLI_MOST_TEXTS];
    const char *others[CLI_MOST_OTHERS]; /* of an input that has several (cli_command.input) */
    size_t n_others;
    const char *sets[CLI_MOST_SETS];
    double energies[CLI_MOST_ENERGIES];
    rs_map_choice maps[CLI_MOST_MAPS];
    rs_threshold thresholds[CLI_MOST_THRESHOLDS];
    char codes[CLI_MOST_THRESHOLDS][32]; /* of the thresholds */
} cli_args;

/* What an option takes and the type of its place. A list's place is a pointer with the count behind
 * it. */
typedef enum cli_kind {
    CLI_FLAG,       /* bool */
    CLI_TEXT,       /* const char *; the text of `fallback` is the same as nothing */
    CLI_COUNT,      /* int64_t, 1 to `most` (0: 2^30) */
    CLI_WHOLE,      /* int64_t, 0 to `most` */
    CLI_SEED,       /* uint64_t */
    CLI_THREADS,    /* int */
    CLI_BYTES,      /* uint64_t */
    CLI_TOLERANCE,  /* double >= 0 */
    CLI_AMOUNT,     /* double >= 1, as 124M or 1.5e9 */
    CLI_FRACTION,   /* double between 0 and 1 */
    CLI_CHOICE,     /* an enumeration: the number among `choices` */
    CLI_LAYERS,     /* int first, last */
    CLI_TEXTS,      /* list of const char *, which grows */
    CLI_SETS,       /* the same of what is no file */
    CLI_EDIT,       /* list of rs_intervention, which grows; without an argument a flag */
    CLI_ENERGIES,   /* list of double */
    CLI_THRESHOLDS, /* list of rs_threshold, of `codes` */
    CLI_MAPS        /* list of rs_map_choice */
} cli_kind;

/* The commands, as bits. */
enum {
    CLI_SCAN = 1,
    CLI_DOCTOR = 2,
    CLI_PROBE = 4,
    CLI_TOKENIZE = 8,
    CLI_LAB = 16,
    CLI_CERTIFY = 32,
    CLI_PATHS = 64,
    CLI_EXPLAIN = 128,
    CLI_TRAIN = 256,
    CLI_PREDICT = 512,
    CLI_RUNS = CLI_PROBE | CLI_CERTIFY | CLI_PATHS, /* those that run a model over inputs */
    CLI_COMPARE = 1024,
    CLI_FED = CLI_RUNS | CLI_COMPARE, /* those that may be given inputs */
    CLI_ALL = 2047
};

/* Names that the words of an option are made of, separated by commas. */
typedef enum cli_names {
    CLI_NO_NAMES,
    CLI_TABLES,   /* of the command */
    CLI_COLUMNS,  /* of the command's tables */
    CLI_VARIANTS, /* of a model */
    CLI_EXPERIMENTS
} cli_names;

/* What is understood and refused all the same (RS_E_UNSUPPORTED). */
typedef struct cli_refusal {
    const char *values; /* "a|b"; NULL: all */
    const char *what, *hint;
} cli_refusal;

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
    int64_t most;         /* CLI_COUNT, CLI_WHOLE */
    const char *codes;    /* CLI_THRESHOLDS: "token_collapse|attention_sink" */
    cli_refusal refusal;  /* `what` is NULL: nothing is refused */
    char letter;          /* 'j' for -j; 0: it has none */
    cli_names names;
    const char *once; /* what to do instead of giving it twice; NULL: the last one holds */
} cli_option;

/* A row of the table of commands. */
typedef struct cli_command {
    const char *name;
    unsigned bit;
    const char *input; /* what it takes: "PATH"; with a blank: two at most, or where dots end it two
                             and more; in brackets: or nothing; NULL: nothing */
    const char *brief; /* one line */
    const char *about; /* paragraphs, separated by newlines */
    const char *examples;         /* lines "command # what for" */
    void (*init)(cli_args *args); /* the command's settings */
    rs_status (*ask)(rs_result **out, const cli_args *args, rs_error *err);
} cli_command;

extern const cli_option cli_options[];
extern const size_t cli_n_options;
extern const cli_command cli_commands[];
extern const size_t cli_n_commands;

/* Parses argv behind the command's name. RS_E_USAGE and RS_E_BAD_OPTION name the argument and the
 * nearest known option. Lists of settings point into *args, which must not move. */
rs_status cli_parse(cli_args *args, const cli_command *command, int argc, char **argv,
                    rs_error *err);
/* values.c: reads an option's words into its place. */
rs_status cli_store(cli_args *args, const cli_option *option, const char *words, rs_error *err);
/* The number of a word among those of "a|b|c", -1 when it is none of them. */
int cli_among(const char *choices, const char *word);
/* A hint that names the nearest of "a|b|c" where one is near, else `otherwise`; in `hint`. */
const char *cli_did_you_mean(char hint[160], const char *choices, const char *word,
                             const char *otherwise);

/* names.c: the names as "a|b|c"; free() it. NULL: no memory. */
char *cli_list_names(cli_names names, const cli_command *command);
/* Says that there was no memory for them. */
rs_status cli_no_names(const char *what, rs_error *err);
/* Refuses columns of --columns, --sort and --where that no table of the command has, before any work
 * is done. RS_E_BAD_OPTION names the nearest. */
rs_status cli_check_columns(const cli_args *args, rs_error *err);

const cli_command *cli_find_command(const char *name);
/* The command whose name is closest, or NULL when none is close. */
const char *cli_nearest_command(const char *name);

void cli_print_help(const cli_command *command); /* NULL: the program's own */
void cli_print_man(void);
/* completion.c: prints the completion for bash, zsh or fish; false when the shell is not known. */
bool cli_print_completion(const char *shell);

/* Fails upwards, as the library does within itself. */
#define CLI_TRY(expression)                                                                        \
    do {                                                                                           \
        rs_status cli_try_status_ = (expression);                                                  \
        if (cli_try_status_ != RS_OK) return cli_try_status_;                                      \
    } while (0)

/* ---- running ---- */

/* Asks the library, writes the result where the options say and gives the exit code (0, 1, 2, 3,
 * 130). */
int cli_run(cli_args *args);

/* Prints `rankscope: error: WHERE: WHAT; HINT` and returns the exit code. */
int cli_fail(const rs_error *err);
/* Prints a line to standard error; where the locale is not UTF-8, ASCII only. */
void cli_say(const char *format, ...) RS_PRINTF(1, 2);
/* Whether the locale's characters are UTF-8. */
bool cli_has_unicode(void);

/* echo.c: what the command line said, as a JSON object; the caller frees it. NULL: no memory. */
char *cli_echo(const cli_args *args);

/* training.c: prints the program that loads what was trained; the exit code. */
int cli_print_loader(const cli_args *args);
/* training.c: has the steps of a run shown on standard error while it goes on. */
void cli_show_training(rs_training_settings *settings, const cli_args *args);

/* Has a call of the library draw the progress bar, and end when a signal says so. */
void cli_watch(cli_args *args);
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

/* stdin.c: the standard input that '--text -' names becomes a file that the library can map: its name
 * takes the place of '-'. RS_E_USAGE where something else reads it, too. */
rs_status cli_take_stdin(cli_args *args, rs_error *err);
/* Calls that file "standard input" in an error. */
void cli_name_stdin(rs_error *err);
/* What the command line said for a text: "-" for that file. */
const char *cli_text_said(const char *text);
/* The texts of the command's settings, in args->texts, and how many there are. */
size_t cli_count_texts(const cli_args *args);

/* outputs.c: refuses two outputs that would be one file. */
rs_status cli_check_outputs(const cli_args *args, rs_error *err);
/* Whether the path (may be NULL) is standard output: "-", /dev/stdout, /dev/fd/1. */
bool cli_is_stdout(const char *path);

/* Re-executes the program once with OPENBLAS_CORETYPE set when that helps; returns otherwise. */
void cli_rescue_blas(char **argv);

#endif
