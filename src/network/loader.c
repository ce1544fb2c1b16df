/* loader.c: loader.py inside the program, which `train --show-loader` prints. RS_LOADER_FILE is set by
 * CMakeLists.txt. */
#include "base/embed.h"
#include "network/arch_build.h"
#include "network/saved.h"

#include <string.h>

RS_EMBED(rs_loader_begin, rs_loader_end, RS_LOADER_FILE);

extern const char rs_loader_begin[], rs_loader_end[];

/* The mixer whose method begins with this line; RS_ARCH_MIXERS: none does. */
static rs_arch_mixer method_of(const char *line)
{
    static const char start[] = "    def ";
    for (int m = 0; m < RS_ARCH_MIXERS; m++) {
        const char *name = rs_arch_mixers[m].name;
        size_t n = strlen(name);
        if (strncmp(line, start, sizeof start - 1) == 0 &&
            strncmp(line + sizeof start - 1, name, n) == 0 && line[sizeof start - 1 + n] == '(')
            return (rs_arch_mixer)m;
    }
    return RS_ARCH_MIXERS;
}

/* A line that no method goes beyond: another one, a heading, the end of the class. */
static bool ends_method(const char *line)
{
    if (strncmp(line, "    ", 4) != 0) return *line != '\n';
    return strncmp(line + 4, "def ", 4) == 0 || line[4] == '#';
}

static bool has_mixer(const rs_arch *arch, rs_arch_mixer mixer)
{
    for (int64_t l = 0; arch && l < arch->depth; l++)
        if (arch->mixer[l] == mixer) return true;
    return !arch || mixer == RS_ARCH_MIXERS;
}

void rs_loader_write(rs_buffer *out, const rs_arch *arch)
{
    bool kept = true;
    for (const char *line = rs_loader_begin, *next; line < rs_loader_end; line = next) {
        const char *end = memchr(line, '\n', (size_t)(rs_loader_end - line));
        next = end ? end + 1 : rs_loader_end;
        if (ends_method(line)) kept = has_mixer(arch, method_of(line));
        if (kept) rs_buffer_append(out, line, (size_t)(next - line));
    }
}
