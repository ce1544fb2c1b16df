/* terminal_text.c: text that is safe to print and fits. */
#include "report/number.h"
#include "report/terminal.h"
#include "report/unicode.h"

#include <string.h>

void rs_term_style(const rs_term *term, rs_style style)
{
    static const char *const codes[] = {
        [RS_PLAIN] = "\x1b[0m", [RS_BOLD] = "\x1b[1m",    [RS_DIM] = "\x1b[2m",
        [RS_RED] = "\x1b[31m",  [RS_YELLOW] = "\x1b[33m", [RS_BLUE] = "\x1b[36m",
    };
    if (term->color) rs_buffer_puts(term->out, codes[style]);
}

/* What stands for frequent characters where only ASCII can be shown. */
static const struct {
    uint32_t point;
    const char *ascii;
} spelled[] = {
    {0x00A0, " "},   {0x00B1, "+-"},    {0x00B2, "^2"},    {0x00B7, "."},     {0x00D7, "x"},
    {0x03A3, "Sum"}, {0x03B1, "alpha"}, {0x03B2, "beta"},  {0x03B3, "gamma"}, {0x03BB, "lambda"},
    {0x03BC, "mu"},  {0x03C1, "rho"},   {0x03C3, "sigma"}, {0x2013, "-"},     {0x2014, "-"},
    {0x2018, "'"},   {0x2019, "'"},     {0x201C, "\""},    {0x201D, "\""},    {0x2026, "..."},
    {0x2081, "1"},   {0x2082, "2"},     {0x2192, "->"},    {0x2212, "-"},     {0x2248, "~"},
    {0x2264, "<="},  {0x2265, ">="},    {0x226A, "<<"},    {0x226B, ">>"},    {0x2016, "||"},
};

static const char *spell(uint32_t point)
{
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++)
        if (spelled[i].point == point) return spelled[i].ascii;
    return "?";
}

void rs_term_clean(const rs_term *term, rs_buffer *clean, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length;) {
        uint32_t point;
        size_t size = rs_utf8_next(text + i, length - i, &point);
        char bytes[4];
        if (point == '\n' || point == '\t')
            rs_buffer_append(clean, " ", 1);
        else if (rs_point_is_dangerous(point))
            rs_buffer_append(clean, "?", 1);
        else if (point >= 0x80 && !term->unicode)
            rs_buffer_puts(clean, spell(point));
        else
            rs_buffer_append(clean, bytes, rs_utf8_put(bytes, point));
        i += size;
    }
}

void rs_term_spaces(const rs_term *term, int n)
{
    for (int i = 0; i < n; i++)
        rs_buffer_append(term->out, " ", 1);
}

static void new_line(const rs_term *term, int indent)
{
    rs_buffer_append(term->out, "\n", 1);
    rs_term_spaces(term, indent);
}

void rs_term_wrap(const rs_term *term, const char *text, int column, int indent)
{
    rs_buffer clean = {0};
    rs_term_clean(term, &clean, text);
    bool fresh = true; /* nothing printed behind the indent of this line */
    for (size_t i = 0; i < clean.length;) {
        size_t n = strcspn(clean.data + i, " ");
        const char *word = clean.data + i;
        i += n + (i + n < clean.length);
        int width = rs_text_width(word, n);
        if (!fresh && column + 1 + width > term->width) {
            new_line(term, indent);
            column = indent;
            fresh = true;
        }
        if (!fresh) {
            rs_buffer_append(term->out, " ", 1);
            column++;
        }
        rs_buffer_append(term->out, word, n);
        column += width;
        fresh = false;
    }
    rs_buffer_append(term->out, "\n", 1);
    if (clean.failed) term->out->failed = true;
    rs_buffer_free(&clean);
}

size_t rs_term_line(const char *clean, size_t length, int width, size_t *next)
{
    size_t end = 0, at = 0;
    while (at < length) {
        size_t word = at;
        while (word < length && clean[word] == ' ')
            word++;
        while (word < length && clean[word] != ' ')
            word++;
        if (end > 0 && rs_text_width(clean, word) > width) break;
        at = end = word;
    }
    while (at < length && clean[at] == ' ')
        at++;
    if (next) *next = at;
    return end;
}

void rs_term_pad(const rs_term *term, const char *clean, size_t length, int width, bool right)
{
    int blanks = width - rs_text_width(clean, length);
    if (right) rs_term_spaces(term, blanks);
    rs_buffer_append(term->out, clean, length);
    if (!right) rs_term_spaces(term, blanks);
}

void rs_term_end_line(const rs_term *term)
{
    while (term->out->length && term->out->data[term->out->length - 1] == ' ')
        term->out->length--;
    rs_buffer_append(term->out, "\n", 1);
}
