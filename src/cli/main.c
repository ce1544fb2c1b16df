/* main.c: the command line of rankscope. */
#include "rankscope.h"

#include <stdio.h>

int main(void)
{
    printf("rankscope %s\n", rs_version());
    return 0;
}
