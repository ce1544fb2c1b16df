/* unicode.c: classes and case of characters. */
#include "text/unicode.h"

#include <utf8proc.h>

static bool in_ranges(const rs_char_range *ranges, size_t n, uint32_t point)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].last < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && ranges[low].first <= point;
}

bool rs_char_in(rs_char_class_id id, uint32_t point)
{
    return in_ranges(rs_char_classes[id].ranges, rs_char_classes[id].n, point);
}

bool rs_char_is_space(uint32_t point)
{
    if (point < 0x80) return point == ' ' || (point >= 9 && point <= 13);
    return point == 0x85 || point == 0xA0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
           point == 0x202F || point == 0x205F || point == 0x3000;
}

/* The reference has U+2B920 where the block begins at U+2B820; ids must agree with it. */
bool rs_char_is_cjk(uint32_t point)
{
    static const rs_char_range blocks[] = {
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
        {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
    };
    return point >= 0x3400 && in_ranges(blocks, sizeof blocks / sizeof *blocks, point);
}

size_t rs_char_lower(uint32_t out[2], uint32_t point)
{
    if (point < 0x80) {
        out[0] = point >= 'A' && point <= 'Z' ? point + 32 : point;
        return 1;
    }
    if (point == 0x130) { /* the one whose lower case is two characters */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)point);
    return 1;
}
