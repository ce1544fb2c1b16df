/* main.c: finds the command and runs it. */
#include "cli/cli.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static int fail_usage(const char *where, const char *what, const char *hint)
{
    rs_error err;
    rs_fail(&err, RS_E_USAGE, where, hint, "%s", what);
    return cli_fail(&err);
}

/* Options of the program itself; -1 when argv[1] is none of them. */
static int run_program_option(int argc, char **argv)
{
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("rankscope %s\n", rs_version());
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        cli_print_help(argc > 2 ? cli_find_command(argv[2]) : NULL);
        return 0;
    }
    if (strcmp(argv[1], "--man") == 0) {
        cli_print_man();
        return 0;
    }
    if (strcmp(argv[1], "--completion") == 0)
        return argc > 2 && cli_print_completion(argv[2])
                   ? 0
                   : fail_usage("--completion", "needs a shell", "give bash, zsh or fish");
    return -1;
}

static int run_command(const cli_command *command, int argc, char **argv)
{
    cli_args args;
    rs_error err;
    if (cli_parse(&args, command, argc - 2, argv + 2, &err) != RS_OK) return cli_fail(&err);
    if (args.help || args.version) {
        if (args.help)
            cli_print_help(command);
        else
            printf("rankscope %s\n", rs_version());
        return fflush(stdout) == 0 ? 0 : 1;
    }
    if (args.show_loader) return cli_print_loader(&args);
    cli_rescue_blas(argv);
    rs_guard_install();
    cli_install_signals();
    return cli_run(&args);
}

int main(int argc, char **argv)
{
    cli_open_standard();
    setlocale(LC_CTYPE, "");
    if (argc < 2)
        return fail_usage("rankscope", "needs a command", "'rankscope --help' lists them");
    int code = run_program_option(argc, argv);
    if (code >= 0) return fflush(stdout) == 0 ? code : 1;
    const cli_command *command = cli_find_command(argv[1]);
    if (command) return run_command(command, argc, argv);
    char hint[128];
    const char *nearest = cli_nearest_command(argv[1]);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean '%s'? 'rankscope --help' lists all", nearest);
    else
        snprintf(hint, sizeof hint, "'rankscope --help' lists the commands");
    return fail_usage(argv[1], argv[1][0] == '-' ? "no such option" : "no such command", hint);
}
