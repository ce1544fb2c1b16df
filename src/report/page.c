/*
 * page.c: page.html inside the program.
 *
 * The assembler copies the file: a megabyte as a C array would take the compiler seconds.
 * RS_PAGE_FILE is set by cmake/web.cmake. Mach-O (macOS) and ELF differ in the section's name, in
 * the underscore before a C name, and in the word that keeps a name inside the shared library,
 * which -fvisibility does not do for the assembler.
 */
#include "report/page.h"

#ifdef __APPLE__
#define SECTION ".section __TEXT,__const"
#define HIDDEN ".private_extern"
#define BACK ".text"
#define NAME(name) "_" #name
#else
#define SECTION ".section .rodata"
#define HIDDEN ".hidden"
#define BACK ".text"
#define NAME(name) #name
#endif

/* clang-format off */
__asm__(SECTION "\n"
        ".globl " NAME(rs_page_begin) "\n"
        ".globl " NAME(rs_page_end) "\n"
        HIDDEN " " NAME(rs_page_begin) "\n"
        HIDDEN " " NAME(rs_page_end) "\n"
        ".balign 16\n"
        NAME(rs_page_begin) ":\n"
        ".incbin \"" RS_PAGE_FILE "\"\n"
        NAME(rs_page_end) ":\n"
        ".byte 0\n"
        BACK "\n");
/* clang-format on */
