/* completion.c: completion for bash, zsh and fish, from the tables in options.c and commands.c and the
 * names that the library knows. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints "a|b|c" as words; none when memory is out. */
static void print_words(const char *list)
{
    for (const char *p = list ? list : ""; *p; p++)
        putchar(*p == '|' ? ' ' : *p);
}

static void print_names(cli_names names, const cli_command *command)
{
    char *list = cli_list_names(names, command);
    print_words(list);
    free(list);
}

static bool has_option(const cli_command *command, const cli_option *option)
{
    return (option->commands & command->bit) != 0;
}

/* ---- bash ---- */

/* What stands behind an option: names that commas separate, one of its choices, or a file. */
static void bash_values(const cli_command *command)
{
    for (size_t i = 0; i < cli_n_options; i++) {
        const cli_option *option = &cli_options[i];
        if (!has_option(command, option) || (!option->choices && !option->names)) continue;
        printf("    '%s --%s') words=\"", command->name, option->name);
        if (option->choices)
            print_words(option->choices);
        else
            print_names(option->names, command);
        printf("\" ;;\n");
    }
}

static void bash_completion(void)
{
    printf("_rankscope() {\n"
           "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
           "    local command=\"${COMP_WORDS[1]}\" words= head=\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W \"");
    for (size_t i = 0; i < cli_n_commands; i++)
        printf("%s ", cli_commands[i].name);
    printf("--help --version\" -- \"$cur\")); return\n    fi\n"
           "    case \"$command $prev\" in\n"
           "    'lab lab') words='list run' ;;\n    'lab run') words=\"");
    print_names(CLI_EXPERIMENTS, NULL);
    printf("\" ;;\n");
    for (size_t c = 0; c < cli_n_commands; c++)
        bash_values(&cli_commands[c]);
    printf("    esac\n    if [ -n \"$words\" ]; then\n"
           "        case \"$cur\" in *,*) head=\"${cur%%,*},\" ;; esac\n"
           "        COMPREPLY=($(compgen -P \"$head\" -W \"$words\" -- \"${cur##*,}\")); return\n"
           "    fi\n    case \"$command\" in\n");
    for (size_t c = 0; c < cli_n_commands; c++) {
        printf("    %s) words=\"", cli_commands[c].name);
        for (size_t i = 0; i < cli_n_options; i++)
            if (has_option(&cli_commands[c], &cli_options[i])) printf("--%s ", cli_options[i].name);
        printf("\" ;;\n");
    }
    printf("    esac\n    case \"$cur\" in\n    -*) COMPREPLY=($(compgen -W "
           "\"$words\" -- \"$cur\")) ;;\n"
           "    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n    esac\n}\ncomplete -o filenames -F "
           "_rankscope rankscope\n");
}

/* ---- zsh ---- */

/* Single-quoted shell text: the first sentence of the help, quotes and brackets left out. */
static void shell_brief(const char *help)
{
    for (; *help && *help != '.' && *help != ':'; help++)
        if (!strchr("'[]\"\\`$", *help)) putchar(*help);
}

static bool names_a_file(const cli_option *option)
{
    return strstr(option->argument, "FILE") || strstr(option->argument, "DIR");
}

/* Whether it may be repeated with another value. */
static bool grows(const cli_option *option)
{
    return option->kind == CLI_TEXTS || option->kind == CLI_SETS ||
           (option->kind == CLI_EDIT && option->argument);
}

static void zsh_option(const cli_command *command, const cli_option *option)
{
    printf(" \\\n        '%s", grows(option) ? "*" : "");
    if (option->letter)
        printf("(-%c --%s)'{-%c,--%s}'", option->letter, option->name, option->letter,
               option->name);
    else
        printf("--%s", option->name);
    printf("[");
    shell_brief(option->help);
    printf("]");
    if (option->choices) {
        printf(":choice:(");
        print_words(option->choices);
        printf(")");
    } else if (option->names) {
        printf(":name:{_values -s , name ");
        print_names(option->names, command);
        printf("}");
    } else if (option->argument) {
        printf(":value:%s", names_a_file(option) ? "_files" : "");
    }
    printf("'");
}

static void zsh_completion(void)
{
    printf("#compdef rankscope\n_rankscope() {\n    local -a commands\n    commands=(");
    for (size_t i = 0; i < cli_n_commands; i++) {
        printf("\n        '%s:", cli_commands[i].name);
        shell_brief(cli_commands[i].brief);
        printf("'");
    }
    printf("\n    )\n    if (( CURRENT == 2 )); then _describe command commands; return; fi\n    "
           "case $words[2] in\n");
    for (size_t c = 0; c < cli_n_commands; c++) {
        const cli_command *command = &cli_commands[c];
        printf("    %s) _arguments", command->name);
        for (size_t i = 0; i < cli_n_options; i++)
            if (has_option(command, &cli_options[i])) zsh_option(command, &cli_options[i]);
        if (command->bit == CLI_LAB) {
            printf(" \\\n        '2:what:(list run)' \\\n        '3:experiment:(");
            print_names(CLI_EXPERIMENTS, NULL);
            printf(")'");
        } else if (command->input) {
            printf(" \\\n        '*:input:_files'");
        }
        printf(" ;;\n");
    }
    printf("    esac\n}\n_rankscope \"$@\"\n");
}

/* ---- fish ---- */

static void fish_option(const cli_command *command, const cli_option *option)
{
    printf("complete -c rankscope -n '__fish_seen_subcommand_from %s' -l %s%s", command->name,
           option->name, option->argument ? " -r" : "");
    if (option->letter) printf(" -s %c", option->letter);
    if (option->choices) {
        printf(" -f -a '");
        print_words(option->choices);
        printf("'");
    } else if (option->names) {
        printf(" -f -a '(__fish_append , ");
        print_names(option->names, command);
        printf(")'");
    }
    printf(" -d '");
    shell_brief(option->help);
    printf("'\n");
}

static void fish_completion(void)
{
    for (size_t c = 0; c < cli_n_commands; c++) {
        printf("complete -c rankscope -n __fish_use_subcommand -a %s -d '", cli_commands[c].name);
        shell_brief(cli_commands[c].brief);
        printf("'\n");
    }
    printf("complete -c rankscope -n '__fish_seen_subcommand_from lab' -f -a 'list run'\n"
           "complete -c rankscope -n '__fish_seen_subcommand_from run' -f -a '");
    print_names(CLI_EXPERIMENTS, NULL);
    printf("'\n");
    for (size_t c = 0; c < cli_n_commands; c++)
        for (size_t i = 0; i < cli_n_options; i++)
            if (has_option(&cli_commands[c], &cli_options[i]))
                fish_option(&cli_commands[c], &cli_options[i]);
}

bool cli_print_completion(const char *shell)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print();
            return true;
        }
    return false;
}
