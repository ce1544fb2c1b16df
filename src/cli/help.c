/* help.c: --help and the man page, from the tables in options.c and commands.c. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, INDENT = 6 };
#define BRIEF "measure rank collapse in sequence models, and prove what keeps it away"

/* Prints text wrapped at WIDTH, from `column` on; '\n' begins a new paragraph line. */
static void wrapped_from(int column, const char *text, int indent)
{
    for (const char *word = text; *word;) {
        if (*word == '\n') {
            putchar('\n');
            column = 0;
            word++;
            continue;
        }
        int length = (int)strcspn(word, " \n");
        if (column > 0 && column + 1 + length > WIDTH - 1) {
            putchar('\n');
            column = 0;
        }
        if (column == 0)
            column = printf("%*s%.*s", indent, "", length, word);
        else
            column += printf(" %.*s", length, word);
        word += length;
        word += *word == ' ';
    }
    putchar('\n');
}

static void wrapped(const char *text, int indent)
{
    wrapped_from(0, text, indent);
}

static void print_option(const cli_option *option)
{
    if (option->letter)
        printf("  -%c, ", option->letter);
    else
        printf("  ");
    printf("--%s%s%s\n", option->name, option->argument ? " " : "",
           option->argument ? option->argument : "");
    wrapped(option->help, INDENT);
    if (option->fallback) {
        char text[256];
        snprintf(text, sizeof text, "Default: %s.", option->fallback);
        wrapped(text, INDENT);
    }
}

/* "command # what for" lines: the comment goes on a line of its own, above. */
static void print_examples(const char *examples)
{
    for (const char *line = examples; *line;) {
        size_t length = strcspn(line, "\n");
        const char *note = strstr(line, " # ");
        if (note && note < line + length)
            printf("  # %.*s\n  %.*s\n", (int)(line + length - note - 3), note + 3,
                   (int)(note - line), line);
        else
            printf("  %.*s\n", (int)length, line);
        line += length;
        line += *line == '\n';
    }
}

static void print_program_help(void)
{
    char title[160];
    snprintf(title, sizeof title, "rankscope %s: " BRIEF, rs_version());
    wrapped(title, 0);
    printf("\nUsage: rankscope COMMAND [INPUT] [options]\n\nCommands:\n");
    for (size_t i = 0; i < cli_n_commands; i++)
        wrapped_from(printf("  %-8s", cli_commands[i].name), cli_commands[i].brief, 11);
    printf("\n'rankscope COMMAND --help' explains a command and all of its options.\n"
           "  rankscope scan MODEL --html report.html   a report on a checkpoint\n\n"
           "Exit codes: 0 done, 1 the work failed, 2 the request or an input is wrong,\n"
           "3 a finding reached --fail-on, 130 interrupted.\n");
}

void cli_print_help(const cli_command *command)
{
    if (!command) {
        print_program_help();
        return;
    }
    char title[256];
    snprintf(title, sizeof title, "rankscope %s: %s", command->name, command->brief);
    wrapped(title, 0);
    putchar('\n');
    printf("Usage: rankscope %s%s%s [options]\n\n", command->name, command->input ? " " : "",
           command->input ? command->input : "");
    wrapped(command->about, 0);
    printf("\nOptions:\n");
    for (size_t i = 0; i < cli_n_options; i++)
        if (cli_options[i].commands & command->bit) print_option(&cli_options[i]);
    printf("\nExamples:\n");
    print_examples(command->examples);
    printf("\nExit codes: 0 done, 1 the work failed, 2 the request or an input is wrong,\n"
           "3 a finding reached --fail-on, 130 interrupted.\n");
}

/* ---- man page ---- */

/* Roff: backslashes, and dots or quotes at the start of a line, are commands. Hyphens in options
 * must be real ones. */
static void roff(const char *text)
{
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\'')) printf("\\&");
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else if (*text == '\n')
            printf("\n.PP\n");
        else
            putchar(*text);
        line_start = *text == '\n';
    }
}

static void man_option(const cli_option *option)
{
    printf(".TP\n\\fB");
    if (option->letter) printf("\\-%c\\fR, \\fB", option->letter);
    printf("\\-\\-");
    roff(option->name);
    printf("\\fR");
    if (option->argument) {
        printf(" \\fI");
        roff(option->argument);
        printf("\\fR");
    }
    printf("\n");
    roff(option->help);
    if (option->fallback) {
        printf(" Default: ");
        roff(option->fallback);
        printf(".");
    }
    printf("\n");
}

static void man_command(const cli_command *command)
{
    printf(".SH \"COMMAND %s\"\n.B rankscope %s%s%s\n[options]\n.PP\n", command->name,
           command->name, command->input ? " " : "", command->input ? command->input : "");
    roff(command->about);
    printf("\n");
    for (size_t i = 0; i < cli_n_options; i++)
        if ((cli_options[i].commands & command->bit) && cli_options[i].commands != CLI_ALL)
            man_option(&cli_options[i]);
    printf(".PP\nExamples:\n.PP\n.nf\n");
    for (const char *line = command->examples; *line;) {
        char text[512];
        size_t length = strcspn(line, "\n");
        snprintf(text, sizeof text, "%.*s", (int)length, line);
        roff(text);
        printf("\n");
        line += length;
        line += *line == '\n';
    }
    printf(".fi\n");
}

void cli_print_man(void)
{
    printf(".TH RANKSCOPE 1 \"\" \"rankscope %s\" \"User Commands\"\n.ad l\n", rs_version());
    printf(".SH NAME\nrankscope \\- " BRIEF "\n");
    printf(".SH SYNOPSIS\n.B rankscope\n\\fICOMMAND\\fR [\\fIINPUT\\fR] [options]\n");
    printf(".SH DESCRIPTION\nrankscope reads checkpoints of sequence models as they are "
           "(safetensors, GGUF) and measures rank "
           "collapse. Layers and heads count from 0. Standard output carries a table, or the JSON "
           "when asked with \\-\\-json \\-; "
           "errors and progress go to standard error.\n");
    for (size_t i = 0; i < cli_n_commands; i++)
        man_command(&cli_commands[i]);
    printf(".SH \"OPTIONS OF EVERY COMMAND\"\n");
    for (size_t i = 0; i < cli_n_options; i++)
        if (cli_options[i].commands == CLI_ALL) man_option(&cli_options[i]);
    printf(".SH \"EXIT STATUS\"\n0 done; 1 the work failed (read error, full disk, out of memory); "
           "2 the request or an input is "
           "wrong; 3 a finding reached \\-\\-fail\\-on; 130 interrupted. On 1, 2 and 130 nothing "
           "is written to standard output.\n");
    printf(".SH FILES\nOutput files appear whole or not at all, and those of one run together: "
           "after an error or a signal there are none, and files that were to be replaced are as "
           "before. SIGTERM while they are written ends with 130 and nothing written or, once the "
           "first has its name, with 0 and everything written; a pipe that takes no more bytes is "
           "not waited for then (130, the files are taken back). A reader of the terminal's text "
           "that goes away ends the program quietly, and the files stay. /dev/stdout, /dev/stderr "
           "and /dev/fd/N are the descriptors themselves. What exists in the model's folder is "
           "never overwritten, but for what rankscope wrote there itself: JSON, HTML and "
           "safetensors are marked, a CSV is known by its columns.\n");
    printf(".SH ENVIRONMENT\n.TP\n.B OPENBLAS_CORETYPE\nThe BLAS kernel; unset, rankscope sets it "
           "and starts itself again when "
           "OpenBLAS chose a kernel far below what the processor offers.\n.TP\n.B "
           "OMP_NUM_THREADS\nThreads, where \\-\\-threads is "
           "not given.\n.TP\n.B NO_COLOR\nNo colours.\n");
}
