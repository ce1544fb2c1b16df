/*
 * embed.h: a file inside the program. The assembler copies it: a megabyte as a C array would take the
 * compiler seconds. Mach-O (macOS) and ELF differ in the section's name, in the underscore before a C
 * name, and in the word that keeps a name inside the shared library, which -fvisibility does not do
 * for the assembler.
 */
#ifndef RS_BASE_EMBED_H
#define RS_BASE_EMBED_H

#include <stddef.h>

#ifdef __APPLE__
#define RS_EMBED_SECTION ".section __TEXT,__const"
#define RS_EMBED_HIDDEN ".private_extern"
#define RS_EMBED_NAME(name) "_" #name
#else
#define RS_EMBED_SECTION ".section .rodata"
#define RS_EMBED_HIDDEN ".hidden"
#define RS_EMBED_NAME(name) #name
#endif

/* clang-format off */
/* Defines `begin` and `end` (extern const char []) around the bytes of the file; a zero stands behind. */
#define RS_EMBED(begin, end, file)                                                                 \
    __asm__(RS_EMBED_SECTION "\n"                                                                  \
            ".globl " RS_EMBED_NAME(begin) "\n"                                                    \
            ".globl " RS_EMBED_NAME(end) "\n"                                                      \
            RS_EMBED_HIDDEN " " RS_EMBED_NAME(begin) "\n"                                          \
            RS_EMBED_HIDDEN " " RS_EMBED_NAME(end) "\n"                                            \
            ".balign 16\n"                                                                         \
            RS_EMBED_NAME(begin) ":\n"                                                             \
            ".incbin \"" file "\"\n"                                                               \
            RS_EMBED_NAME(end) ":\n"                                                               \
            ".byte 0\n"                                                                            \
            ".text\n")
/* clang-format on */

#endif
