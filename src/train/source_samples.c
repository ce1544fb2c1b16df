/* source_samples.c: images, series and tokens of the user's .npy files. */
#include "train/source.h"

#include "base/memory.h"

#include <string.h>

static rs_status bad_shape(const rs_source *s, const char *wanted, rs_error *err)
{
    const rs_npy *x = &s->x.npy;
    return rs_fail(err, RS_E_INPUT_SHAPE, s->x.file->path, wanted,
                   "x is %s of %u dimensions, which %s does not take", rs_npy_type_name(x->type),
                   x->rank, s->settings.name);
}

/* Opens x; reals must be finite. */
static rs_status open_x(rs_source *s, rs_error *err)
{
    RS_TRY(rs_source_array_open(&s->x, s, "x", s->settings.files.x, err));
    return rs_npy_is_whole(&s->x.npy) ? RS_OK : rs_source_check_reals(&s->x, false, err);
}

/* ---- images ---- */

/* uint8 is from 0 to 255, other whole numbers from 0 to the largest there is: both become 0 to 1. */
static rs_status find_scale(rs_source *s, rs_error *err)
{
    int64_t least, most;
    if (!rs_npy_is_whole(&s->x.npy)) return RS_OK;
    if (s->x.npy.type == RS_NPY_U8) {
        s->scale = 1.0 / 255;
        return RS_OK;
    }
    RS_TRY(rs_source_range(&least, &most, &s->x, err));
    if (least < 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, s->x.file->path, "save reals, scaled as you want",
                       "whole numbers of an image are brights from 0 on; the least is %lld",
                       (long long)least);
    s->scale = most > 0 ? 1 / (double)most : 1;
    return RS_OK;
}

/* Channels come first, but where the last axis alone could be one of channels. */
static rs_status find_axes(rs_source *s, rs_error *err)
{
    enum { MOST_CHANNELS = 4 };
    const rs_npy *x = &s->x.npy;
    const int64_t *shape = x->shape;
    if (x->rank != 3 && x->rank != 4)
        return bad_shape(s, "save [n, h, w], [n, channels, h, w] or [n, h, w, channels]", err);
    s->channels_last = x->rank == 4 && shape[3] <= MOST_CHANNELS && shape[1] > MOST_CHANNELS;
    bool first = x->rank == 4 && !s->channels_last;
    s->channels = x->rank == 3 ? 1 : shape[first ? 1 : 3];
    s->height = shape[first ? 2 : 1];
    s->width = shape[first ? 3 : 2];
    return RS_OK;
}

/* Element (channel, y, x) of image n. */
static int64_t pixel_at(const rs_source *s, int64_t n, int64_t channel, int64_t y, int64_t x)
{
    if (s->channels_last) return ((n * s->height + y) * s->width + x) * s->channels + channel;
    return ((n * s->channels + channel) * s->height + y) * s->width + x;
}

/* A patch is a token, its numbers in the order of a convolution's weights: channel, y, x. */
static void put_image(rs_task_sample *out, rs_source *s, int64_t place, rs_random *random)
{
    (void)random;
    int64_t p = s->settings.files.patch, across = s->width / p;
    double *row = out->rows;
    for (int64_t t = 0; row && t < s->shape.n_tok; t++)
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t y = 0; y < p; y++) {
                int64_t top = t / across * p + y, left = t % across * p;
                int64_t run = s->channels_last ? 1 : p; /* numbers side by side in the file */
                for (int64_t x = 0; x < p; x += run, row += run)
                    rs_source_reals(row, &s->x.npy, pixel_at(s, place, c, top, left + x), run,
                                    s->scale);
            }
    rs_source_put_targets(out, s, 0, place);
}

rs_status rs_source_images(rs_source *s, rs_error *err)
{
    int64_t p = s->settings.files.patch;
    RS_TRY(open_x(s, err));
    RS_TRY(find_axes(s, err));
    RS_TRY(find_scale(s, err));
    if (s->height % p || s->width % p)
        return rs_fail(err, RS_E_TASK_SCHEMA, s->where,
                       "choose a \"patch\" that divides both, or pad the images",
                       "images of %lld x %lld cannot be cut into patches of %lld x %lld",
                       (long long)s->height, (long long)s->width, (long long)p, (long long)p);
    s->shape =
        (rs_task_shape){.n_tok = (s->height / p) * (s->width / p), .d_in = s->channels * p * p};
    RS_TRY(rs_source_targets(s, s->x.npy.shape[0], s->shape.n_tok, false, err));
    if (s->shape.target != RS_TARGET_CLASSES || s->per_step)
        return rs_fail(err, RS_E_INPUT_FORMAT, s->y.file->path, "save labels.astype('int64')",
                       "labels of images are [%lld] whole numbers; reals of images are a matter of "
                       "task tokens",
                       (long long)s->x.npy.shape[0]);
    s->put = put_image;
    rs_source_say(s, "images of %lld x %lld with %lld channels, %lld classes", (long long)s->height,
                  (long long)s->width, (long long)s->channels, (long long)s->shape.d_out);
    return rs_sets_of_samples(s, s->x.npy.shape[0], "images", err);
}

/* ---- series ---- */

static void put_next_values(rs_task_sample *out, rs_source *s, int64_t place, rs_random *random)
{
    (void)random;
    int64_t count = s->shape.n_tok * s->cols;
    int64_t ahead = place + s->settings.files.horizon;
    rs_source_reals(out->rows, &s->x.npy, place * s->cols, count, 1);
    rs_source_reals(out->values, &s->x.npy, ahead * s->cols, count, 1);
}

static void put_labelled(rs_task_sample *out, rs_source *s, int64_t place, rs_random *random)
{
    (void)random;
    if (out->rows)
        rs_source_reals(out->rows, &s->x.npy, place * s->cols, s->shape.n_tok * s->cols, 1);
    rs_source_put_targets(out, s, place, place);
}

/* The place is the number of the series. */
static void put_whole(rs_task_sample *out, rs_source *s, int64_t place, rs_random *random)
{
    (void)random;
    int64_t count = s->shape.n_tok * s->cols;
    if (out->rows) rs_source_reals(out->rows, &s->x.npy, place * count, count, 1);
    rs_source_put_targets(out, s, place * s->shape.n_tok, place);
}

rs_status rs_source_series(rs_source *s, rs_error *err)
{
    RS_TRY(open_x(s, err));
    const rs_npy *x = &s->x.npy;
    if (x->rank > 3) return bad_shape(s, "save [T], [T, channels] or [N, T, channels]", err);
    bool one = x->rank < 3;
    int64_t n = one ? 1 : x->shape[0], steps = x->shape[one ? 0 : 1];
    int64_t length = s->settings.length, horizon = s->settings.files.horizon;
    s->cols = x->rank == 1 ? 1 : x->shape[x->rank - 1];
    s->shape = (rs_task_shape){.n_tok = length, .d_in = s->cols};
    if (!s->settings.files.y) {
        s->shape.target = RS_TARGET_REALS;
        s->shape.d_out = s->cols;
        s->put = put_next_values;
        return rs_sets_of_series(s, n, steps, length, length + horizon, "steps", err);
    }
    RS_TRY(rs_source_targets(s, n, steps, one, err));
    if (s->per_step) {
        s->put = put_labelled;
        return rs_sets_of_series(s, n, steps, length, length, "steps", err);
    }
    s->shape.n_tok = steps;
    s->put = put_whole;
    rs_source_say(s, "each series of %lld steps is a sample", (long long)steps);
    return rs_sets_of_samples(s, n, "series", err);
}

/* ---- tokens ---- */

static void put_tokens(rs_task_sample *out, rs_source *s, int64_t place, rs_random *random)
{
    (void)random;
    int64_t n = s->shape.n_tok;
    if (out->rows)
        rs_npy_reals(out->rows, &s->x.npy, place * n * s->cols, n * s->cols);
    else
        for (int64_t t = 0; out->tokens && t < n; t++) {
            int64_t id;
            rs_npy_integers(&id, &s->x.npy, place * n + t, 1);
            bool is = id >= 0 && id < s->shape.vocab;
            out->tokens[t] = is ? (int32_t)id : s->shape.varies ? -1 : 0;
        }
    int32_t length = (int32_t)n;
    while (out->tokens && length > 1 && out->tokens[length - 1] < 0)
        length--;
    *out->length = length;
    rs_source_put_targets(out, s, place * n, place);
}

/* Ids are from 0 to 2^24; -1 stands behind the end of a shorter sample. */
static rs_status check_ids(rs_source *s, rs_error *err)
{
    enum { MOST_IDS = 1 << 24 };
    int64_t n = s->x.npy.shape[1], before = -1;
    s->shape.vocab = 0;
    for (int64_t i = 0; i < s->x.npy.count; i++) {
        int64_t id;
        rs_npy_integers(&id, &s->x.npy, i, 1);
        bool first = i % n == 0, inside = id >= 0 && id < MOST_IDS;
        bool fits = inside ? first || before >= 0 : id == -1 && !first;
        if (!fits)
            return rs_source_bad_element(&s->x, i,
                                         "ids are from 0 to 16777215; -1 stands only behind the "
                                         "end of a shorter sample",
                                         err);
        if (id >= s->shape.vocab) s->shape.vocab = id + 1;
        s->shape.varies = s->shape.varies || id < 0;
        before = id;
    }
    return rs_mapping_check(s->x.file, err);
}

rs_status rs_source_tokens(rs_source *s, rs_error *err)
{
    RS_TRY(open_x(s, err));
    const rs_npy *x = &s->x.npy;
    bool ids = rs_npy_is_whole(x);
    if (x->rank != (ids ? 2u : 3u))
        return bad_shape(s, "save whole numbers [N, n_tok] (ids), or reals [N, n_tok, d]", err);
    s->shape = (rs_task_shape){.n_tok = x->shape[1]};
    if (ids) {
        RS_TRY(check_ids(s, err));
    } else {
        s->shape.d_in = s->cols = x->shape[2];
    }
    RS_TRY(rs_source_targets(s, x->shape[0], s->shape.n_tok, false, err));
    s->put = put_tokens;
    if (ids) rs_source_say(s, "ids are below %lld", (long long)s->shape.vocab);
    return rs_sets_of_samples(s, x->shape[0], "samples", err);
}
