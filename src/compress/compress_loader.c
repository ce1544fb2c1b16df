/*
 * compress_loader.c: load.py inside the program, which `scan --write` puts beside the factors. The
 * assembler copies the file, as in network/loader.c. RS_FACTORS_FILE is set by CMakeLists.txt.
 */
#include "compress/compress_parts.h"

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
        ".globl " NAME(rs_factors_begin) "\n"
        ".globl " NAME(rs_factors_end) "\n"
        HIDDEN " " NAME(rs_factors_begin) "\n"
        HIDDEN " " NAME(rs_factors_end) "\n"
        NAME(rs_factors_begin) ":\n"
        ".incbin \"" RS_FACTORS_FILE "\"\n"
        NAME(rs_factors_end) ":\n"
        ".byte 0\n"
        ".text\n");
/* clang-format on */

extern const char rs_factors_begin[], rs_factors_end[];

const char *rs_factors_loader(size_t *length)
{
    *length = (size_t)(rs_factors_end - rs_factors_begin);
    return rs_factors_begin;
}
