/* compress_loader.c: load.py inside the program, which `scan --write` puts beside the factors.
 * RS_FACTORS_FILE is set by CMakeLists.txt. */
#include "compress/compress_parts.h"

#include "base/embed.h"

RS_EMBED(rs_factors_begin, rs_factors_end, RS_FACTORS_FILE);

extern const char rs_factors_begin[], rs_factors_end[];

const char *rs_factors_loader(size_t *length)
{
    *length = (size_t)(rs_factors_end - rs_factors_begin);
    return rs_factors_begin;
}
