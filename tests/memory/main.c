/* main.c: the program's main under another name, for walk.c. */
int rankscope_main(int argc, char **argv);
#define main rankscope_main
#include "../../src/cli/main.c"
