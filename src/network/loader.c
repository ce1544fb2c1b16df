/*
 * loader.c: loader.py inside the program, which `train --show-loader` prints.
 *
 * The assembler copies the file, as in report/page.c, which says what the words below are for.
 * RS_LOADER_FILE is set by CMakeLists.txt.
 */
#include "network/saved.h"

#ifdef __APPLE__
#define SECTION ".section __TEXT,__const"
#define HIDDEN ".private_extern"
#define NAME(name) "_" #name
#else
#define SECTION ".section .rodata"
#define HIDDEN ".hidden"
#define NAME(name) #name
#endif

/* clang-format off */
__asm__(SECTION "\n"
        ".globl " NAME(rs_loader_begin) "\n"
        ".globl " NAME(rs_loader_end) "\n"
        HIDDEN " " NAME(rs_loader_begin) "\n"
        HIDDEN " " NAME(rs_loader_end) "\n"
        NAME(rs_loader_begin) ":\n"
        ".incbin \"" RS_LOADER_FILE "\"\n"
        NAME(rs_loader_end) ":\n"
        ".byte 0\n"
        ".text\n");
/* clang-format on */

extern const char rs_loader_begin[], rs_loader_end[];

const char *rs_loader_text(size_t *length)
{
    *length = (size_t)(rs_loader_end - rs_loader_begin);
    return rs_loader_begin;
}
