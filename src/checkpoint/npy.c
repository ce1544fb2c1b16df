/* npy.c: see npy.h. The header's dictionary is read by a parser for just these three keys: every
 * byte of it must be understood. */
#include "checkpoint/npy.h"

#include "base/memory.h"

#include <string.h>

static const struct {
    const char *descr, *name;
    size_t size;
} types[RS_NPY_TYPES] = {[RS_NPY_I32] = {"<i4", "int32", 4},
                         [RS_NPY_I64] = {"<i8", "int64", 8},
                         [RS_NPY_F32] = {"<f4", "float32", 4},
                         [RS_NPY_F64] = {"<f8", "float64", 8},
                         [RS_NPY_U8] = {"|u1", "uint8", 1}};

const char *rs_npy_type_name(rs_npy_type type)
{
    return types[type].name;
}

bool rs_npy_is_whole(const rs_npy *array)
{
    return array->type != RS_NPY_F32 && array->type != RS_NPY_F64;
}

/* ---- the header's text ---- */

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

/* The next character that is not blank is `wanted`, and is stepped over. */
static bool take_character(cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
    c->at += length;
    return true;
}

/* A quoted word without escapes, at most size - 1 bytes. */
static bool take_text(cursor *c, char *out, size_t size)
{
    skip_blanks(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote && *c->at != '\\' && n + 1 < size)
        out[n++] = *c->at++;
    out[n] = 0;
    return c->at < c->end && *c->at++ == quote;
}

static bool take_size(cursor *c, int64_t *out)
{
    skip_blanks(c);
    const char *begin = c->at;
    int64_t value = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        if (value > (INT64_MAX - 9) / 10) return false;
        value = value * 10 + (*c->at++ - '0');
    }
    *out = value;
    return c->at > begin;
}

/* "(3, 4)", "(3,)" or "()". */
static bool take_shape(cursor *c, rs_npy *out)
{
    if (!take_character(c, '(')) return false;
    out->rank = 0;
    while (!take_character(c, ')')) {
        if (out->rank == RS_NPY_MAX_RANK || !take_size(c, &out->shape[out->rank])) return false;
        out->rank++;
        if (take_character(c, ',')) continue;
        return out->rank > 1 && take_character(c, ')'); /* "(3)" is a number in Python */
    }
    return true;
}

typedef struct header {
    char descr[32];
    bool fortran;
    bool has_descr, has_order, has_shape;
} header;

static bool take_entry(cursor *c, header *h, rs_npy *out)
{
    char key[32];
    if (!take_text(c, key, sizeof key) || !take_character(c, ':')) return false;
    if (strcmp(key, "descr") == 0 && !h->has_descr)
        return h->has_descr = true, take_text(c, h->descr, sizeof h->descr);
    if (strcmp(key, "shape") == 0 && !h->has_shape) return h->has_shape = true, take_shape(c, out);
    if (strcmp(key, "fortran_order") != 0 || h->has_order) return false;
    h->has_order = true;
    h->fortran = take_word(c, "True");
    return h->fortran || take_word(c, "False");
}

static bool take_header(cursor c, header *h, rs_npy *out)
{
    if (!take_character(&c, '{')) return false;
    while (!take_character(&c, '}')) {
        if (!take_entry(&c, h, out)) return false;
        if (take_character(&c, ',')) continue;
        if (take_character(&c, '}')) break;
        return false;
    }
    skip_blanks(&c);
    return c.at == c.end && h->has_descr && h->has_order && h->has_shape;
}

/* ---- the file ---- */

static rs_status fail(rs_error *err, const char *path, const char *what)
{
    return rs_fail(err, RS_E_INPUT_FORMAT, path, "write it with numpy.save", "%s", what);
}

static rs_status find_type(rs_npy *out, const header *h, const char *path, rs_error *err)
{
    for (int t = 0; t < RS_NPY_TYPES; t++)
        if (strcmp(h->descr, types[t].descr) == 0) return out->type = (rs_npy_type)t, RS_OK;
    return rs_fail(err, RS_E_INPUT_FORMAT, path,
                   "convert it first: array.astype('int32') for ids, 'float32' for the others",
                   "the elements have type '%s'; uint8, int32, int64, float32 and float64, "
                   "little-endian, can be read",
                   h->descr);
}

static rs_status check_size(rs_npy *out, const char *path, size_t left, rs_error *err)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < out->rank; i++) {
        uint64_t size = (uint64_t)out->shape[i];
        if (size && count > (uint64_t)INT64_MAX / 8 / size)
            return fail(err, path, "the shape in the header is larger than any file can be");
        count *= size;
    }
    out->count = (int64_t)count;
    if (count * types[out->type].size != left)
        return rs_fail(err, RS_E_INPUT_FORMAT, path, "the file may be incomplete: save it again",
                       "the header promises %llu elements of %zu bytes, but %zu bytes follow",
                       (unsigned long long)count, types[out->type].size, left);
    return RS_OK;
}

rs_status rs_npy_parse(rs_npy *out, const char *path, const uint8_t *bytes, size_t length,
                       rs_error *err)
{
    *out = (rs_npy){0};
    if (length == 0)
        return rs_fail(err, RS_E_EMPTY_FILE, path, "write it with numpy.save", "the file is empty");
    if (length < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return fail(err, path, "this is no .npy file: it does not begin with NumPy's mark");
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, path, "write it with numpy.save",
                       "version %d.%d of the format is unknown", bytes[6], bytes[7]);
    size_t prefix = bytes[6] == 1 ? 10 : 12;
    if (length < prefix) return fail(err, path, "the file ends inside its header");
    uint64_t size = bytes[8] | (uint64_t)bytes[9] << 8;
    if (prefix == 12) size |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
    if (size > length - prefix) return fail(err, path, "the file ends inside its header");
    header h = {0};
    cursor c = {(const char *)bytes + prefix, (const char *)bytes + prefix + size};
    if (!take_header(c, &h, out))
        return fail(err, path,
                    "the header is not {'descr': ..., 'fortran_order': ..., 'shape': ...}");
    if (h.fortran)
        return rs_fail(err, RS_E_INPUT_FORMAT, path, "save numpy.ascontiguousarray(array)",
                       "the array lies in Fortran order");
    RS_TRY(find_type(out, &h, path, err));
    out->data = bytes + prefix + size;
    return check_size(out, path, length - prefix - (size_t)size, err);
}

/* ---- elements: little-endian on every machine that this builds on (docs/formats.md) ---- */

void rs_npy_integers(int64_t *out, const rs_npy *array, int64_t first, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t small;
        if (array->type == RS_NPY_I64) {
            memcpy(&out[i], array->data + 8 * (first + i), 8);
        } else if (array->type == RS_NPY_U8) {
            out[i] = array->data[first + i];
        } else {
            memcpy(&small, array->data + 4 * (first + i), 4);
            out[i] = small;
        }
    }
}

void rs_npy_reals(double *out, const rs_npy *array, int64_t first, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float small;
        if (array->type == RS_NPY_F64) {
            memcpy(&out[i], array->data + 8 * (first + i), 8);
        } else {
            memcpy(&small, array->data + 4 * (first + i), 4);
            out[i] = (double)small;
        }
    }
}
