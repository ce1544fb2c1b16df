/* unicode.c: see unicode.h. */
#include "report/unicode.h"

#include "base/text.h"

size_t rs_utf8_next(const char *bytes, size_t length, uint32_t *point)
{
    unsigned char c = (unsigned char)bytes[0];
    if (c < 0x80) {
        *point = c;
        return 1;
    }
    size_t size = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || size > length || !rs_utf8_valid(bytes, size)) {
        *point = RS_REPLACEMENT;
        return 1;
    }
    uint32_t value = c & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++)
        value = value << 6 | ((unsigned char)bytes[i] & 0x3Fu);
    *point = value;
    return size;
}

size_t rs_utf8_put(char out[4], uint32_t point)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = size - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(lead[size] | point);
    return size;
}

/* Blocks whose characters take two columns: those of Unicode's East Asian Width W and F, rounded
 * out to whole blocks (UAX 11). */
static const struct {
    uint32_t first, last;
} wide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23F3},   {0x25FD, 0x25FE},
    {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},
    {0x26A1, 0x26A1},   {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},
    {0x26CE, 0x26CE},   {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F5},
    {0x26FA, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},   {0x2728, 0x2728},
    {0x274C, 0x274E},   {0x2753, 0x2757},   {0x2795, 0x2797},   {0x27B0, 0x27BF},
    {0x2B1B, 0x2B1C},   {0x2B50, 0x2B55},   {0x2E80, 0x303E},   {0x3041, 0x4DBF},
    {0x4E00, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
    {0xFE10, 0xFE1F},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x16FE0, 0x18DFF}, {0x1AFF0, 0x1B2FF}, {0x1D300, 0x1D37F}, {0x1F004, 0x1F004},
    {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F1AD}, {0x1F200, 0x1F320}, {0x1F32D, 0x1F6FF},
    {0x1F7E0, 0x1F7F0}, {0x1F90C, 0x1FAFF}, {0x20000, 0x3FFFD},
};

int rs_width_of(uint32_t point)
{
    size_t low = 0, high = sizeof wide / sizeof *wide;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (point > wide[middle].last)
            low = middle + 1;
        else if (point < wide[middle].first)
            high = middle;
        else
            return 2;
    }
    return 1;
}

int rs_text_width(const char *text, size_t length)
{
    int width = 0;
    for (size_t i = 0; i < length;) {
        uint32_t point;
        i += rs_utf8_next(text + i, length - i, &point);
        width += rs_width_of(point);
    }
    return width;
}
