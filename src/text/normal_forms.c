/*
 * normal_forms.c: NFD, NFKD, NFC and NFKC (Unicode Standard Annex 15), each character with the
 * bytes it came from.
 *
 * The text is taken in runs: one starter (combining class 0) that composes with nothing before it,
 * and what follows up to the next. Within a run: decompose, put the marks in order of their class
 * (canonical ordering), then compose each mark with the last starter unless one of the same or a
 * higher class stands between.
 */
#include "base/memory.h"
#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

enum { LONGEST_DECOMPOSITION = 32, CLASSES = 256 };

static bool composing(rs_text_form form)
{
    return form == RS_NFC || form == RS_NFKC;
}

/* Characters below this change in no way, nor does one before another such. */
static uint32_t stable_below(rs_text_form form)
{
    return form == RS_NFC ? 0x300 : 0x80;
}

static rs_status add_point(rs_form_work *work, uint32_t point, size_t from, size_t to,
                           rs_error *err)
{
    if (!RS_GROW(work->items, work->n, work->capacity))
        return rs_fail_memory(err, "normalising a text", work->n * sizeof *work->items);
    work->items[work->n++] = (rs_decomposed){
        .point = point,
        .class = (uint32_t)utf8proc_get_property((utf8proc_int32_t)point)->combining_class,
        .from = (uint32_t)from,
        .to = (uint32_t)to};
    return RS_OK;
}

static rs_status decompose(rs_form_work *work, uint32_t point, size_t from, size_t to,
                           rs_text_form form, rs_error *err)
{
    utf8proc_int32_t parts[LONGEST_DECOMPOSITION];
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    if (form == RS_NFKD || form == RS_NFKC) options |= UTF8PROC_COMPAT;
    if (point < 0x80 || rs_char_in(RS_CHAR_UNDECOMPOSED, point))
        return add_point(work, point, from, to, err);
    utf8proc_ssize_t n = utf8proc_decompose_char(
        (utf8proc_int32_t)point, parts, LONGEST_DECOMPOSITION, (utf8proc_option_t)options, NULL);
    if (n < 1 || n > LONGEST_DECOMPOSITION) return add_point(work, point, from, to, err);
    for (utf8proc_ssize_t i = 0; i < n; i++)
        RS_TRY(add_point(work, (uint32_t)parts[i], from, to, err));
    return RS_OK;
}

/* ---- order ---- */

/* Stable sort by class of items[first..last), all with a class above 0: by counting, so that a text
 * of nothing but marks takes linear time too. */
static rs_status order_marks(rs_form_work *work, size_t first, size_t last, rs_error *err)
{
    bool sorted = true;
    for (size_t i = first + 1; i < last && sorted; i++)
        sorted = work->items[i - 1].class <= work->items[i].class;
    if (sorted) return RS_OK;
    if (last - first > work->spare_capacity) {
        rs_decomposed *spare = rs_realloc(work->spare, last - first, sizeof *spare);
        if (!spare) return rs_fail_memory(err, "normalising a text", last - first);
        work->spare = spare;
        work->spare_capacity = last - first;
    }
    size_t start[CLASSES + 1] = {0};
    for (size_t i = first; i < last; i++)
        start[work->items[i].class + 1]++;
    for (size_t c = 1; c <= CLASSES; c++)
        start[c] += start[c - 1];
    for (size_t i = first; i < last; i++)
        work->spare[start[work->items[i].class]++] = work->items[i];
    for (size_t i = first; i < last; i++)
        work->items[i] = work->spare[i - first];
    return RS_OK;
}

static rs_status order(rs_form_work *work, rs_error *err)
{
    for (size_t i = 0; i < work->n; i++) {
        if (work->items[i].class == 0) continue;
        size_t last = i + 1;
        while (last < work->n && work->items[last].class != 0)
            last++;
        RS_TRY(order_marks(work, i, last, err));
        i = last;
    }
    return RS_OK;
}

/* ---- composition ---- */

/* The character that a followed by b makes, or 0. */
static uint32_t composite(uint32_t a, uint32_t b)
{
    if (b < 0x300) return 0; /* no character below composes with one before it */
    utf8proc_int32_t pair[2] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};
    utf8proc_ssize_t n =
        utf8proc_normalize_utf32(pair, 2, (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    return n == 1 && !rs_char_in(RS_CHAR_UNDECOMPOSED, (uint32_t)pair[0]) ? (uint32_t)pair[0] : 0;
}

/* Composes in place: what is taken up gets class CLASSES and point 0, and is left out. */
static void compose(rs_form_work *work)
{
    rs_decomposed *starter = NULL;
    uint32_t last_class = 0; /* of what stands between the starter and here */
    bool adjacent = true;    /* nothing stands between */
    size_t kept = 0;
    for (size_t i = 0; i < work->n; i++) {
        rs_decomposed item = work->items[i];
        if (starter && (adjacent || last_class < item.class)) {
            uint32_t whole = composite(starter->point, item.point);
            if (whole) {
                starter->point = whole;
                if (item.from < starter->from) starter->from = item.from;
                if (item.to > starter->to) starter->to = item.to;
                continue;
            }
        }
        work->items[kept] = item;
        if (item.class == 0) {
            starter = &work->items[kept];
            adjacent = true;
            last_class = 0;
        } else {
            adjacent = false;
            last_class = item.class;
        }
        kept++;
    }
    work->n = kept;
}

/* ---- runs ---- */

static void emit_points(rs_aligned *out, const rs_aligned *in, const rs_form_work *work)
{
    for (size_t i = 0; i < work->n; i++) {
        const rs_decomposed *item = &work->items[i];
        char bytes[4];
        size_t n = rs_char_put(bytes, item->point);
        if (item->to - item->from == n && memcmp(bytes, in->bytes + item->from, n) == 0)
            rs_aligned_copy(out, in, item->from, n);
        else
            rs_aligned_put(out, in, item->from, item->to, bytes, n);
    }
}

static rs_status finish_run(rs_aligned *out, const rs_aligned *in, rs_form_work *work,
                            rs_text_form form, rs_error *err)
{
    RS_TRY(order(work, err));
    if (composing(form)) compose(work);
    emit_points(out, in, work);
    work->n = 0;
    return RS_OK;
}

/* May a run end before this character? ASCII has class 0 and composes with nothing before it. */
static bool begins_run(uint32_t point)
{
    return point < 0x300;
}

rs_status rs_normal_form(rs_aligned *out, const rs_aligned *in, rs_text_form form,
                         rs_form_work *work, rs_error *err)
{
    uint32_t stable = stable_below(form);
    size_t plain = 0; /* in[plain, i) is to be copied as it is */
    work->n = 0;
    for (size_t i = 0, n; i < in->n; i += n) {
        uint32_t point = rs_char_at(in->bytes + i, &n), next = 0;
        size_t next_bytes;
        if (work->n > 0 && begins_run(point)) {
            RS_TRY(finish_run(out, in, work, form, err));
            plain = i;
        }
        if (i + n < in->n) next = rs_char_at(in->bytes + i + n, &next_bytes);
        bool changes = point >= stable || (composing(form) && next >= 0x300);
        if (work->n == 0 && !changes) continue;
        if (work->n == 0) rs_aligned_copy(out, in, plain, i - plain);
        RS_TRY(decompose(work, point, i, i + n, form, err));
    }
    if (work->n > 0) return finish_run(out, in, work, form, err);
    rs_aligned_copy(out, in, plain, in->n - plain);
    return RS_OK;
}
