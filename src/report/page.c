/*
 * page.c: page.html inside the program.
 *
 * The assembler copies the file: a megabyte as a C array would take the compiler seconds.
 * RS_PAGE_FILE is set by cmake/web.cmake. Mach-O (macOS) and ELF differ in the section's name and
 * in the underscore before a C name.
 */
#include "report/page.h"

#ifdef __APPLE__
#define SECTION ".section __TEXT,__const"
#define BACK ".text"
#define NAME(name) "_" #name
#else
#define SECTION ".section .rodata"
#define BACK ".text"
#define NAME(name) #name
#endif

/* clang-format off */
__asm__(SECTION "\n"
        ".globl " NAME(rs_page_begin) "\n"
        ".globl " NAME(rs_page_end) "\n"
        ".balign 16\n"
        NAME(rs_page_begin) ":\n"
        ".incbin \"" RS_PAGE_FILE "\"\n"
        NAME(rs_page_end) ":\n"
        ".byte 0\n"
        BACK "\n");
/* clang-format on */
