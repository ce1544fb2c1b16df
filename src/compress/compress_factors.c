/*
 * compress_factors.c: FOLDER/factors: factors.safetensors, in F32, and the program that puts them into a
 * PyTorch model. A weight falls into pieces: of vectors that were cut, and what is left of it.
 *
 *     WEIGHT:0:vectors     how many vectors the weight has
 *     WEIGHT:P:out (in)    numbers of the outputs (inputs) that piece P is about
 *     WEIGHT:P:by_vector   [n, k], or [n, features] where there is no by_feature
 *     WEIGHT:P:by_feature  [k, features]
 *     WEIGHT:P:shift       [n] the bias of these outputs
 *     WEIGHT:P:zero        in the place of by_vector where all of it is 0: how many features there are
 */
#include "compress/compress_parts.h"

#include "base/memory.h"
#include "checkpoint/safetensors_write.h"
#include "report/output.h"

#include <stdio.h>
#include <string.h>

/* A tensor of the file, and its numbers. */
typedef struct entry {
    rs_st_plan plan;
    const void *numbers;
} entry;

typedef struct listing {
    entry *items;
    size_t n, capacity;
    rs_arena *arena; /* names, and numbers of what is left */
    rs_error *err;
} listing;

static rs_status add(listing *l, const char *weight, int64_t piece, const char *part,
                     rs_dtype dtype, int64_t rows, int64_t cols, const void *numbers)
{
    size_t size = strlen(weight) + 48;
    char *name = rs_arena_alloc(l->arena, size, 1);
    if (!name || !RS_GROW(l->items, l->n, l->capacity))
        return rs_fail_memory(l->err, "factors", size);
    snprintf(name, size, "%s:%lld:%s", weight, (long long)piece, part);
    l->items[l->n++] = (entry){
        {.name = name, .dtype = dtype, .rank = cols < 0 ? 1 : 2, .shape = {rows, cols}}, numbers};
    return RS_OK;
}

static rs_status add_number(listing *l, const char *weight, int64_t piece, const char *part,
                            int64_t number)
{
    int64_t *kept = rs_arena_alloc(l->arena, 1, sizeof *kept);
    if (!kept) return rs_fail_memory(l->err, "factors", sizeof *kept);
    *kept = number;
    return add(l, weight, piece, part, RS_I64, 1, -1, kept);
}

static rs_status add_small(listing *l, const rs_small *s, int64_t piece)
{
    const char *weight = s->factor->tensor->name, *end = s->outputs ? "out" : "in";
    int64_t wide = s->by_feature ? s->k : s->factor->features;
    RS_TRY(add(l, weight, piece, end, RS_I64, s->n, -1, s->vectors));
    if (!s->by_vector) return add_number(l, weight, piece, "zero", s->factor->features);
    RS_TRY(add(l, weight, piece, "by_vector", RS_F32, s->n, wide, s->by_vector));
    if (s->by_feature)
        RS_TRY(
            add(l, weight, piece, "by_feature", RS_F32, s->k, s->factor->features, s->by_feature));
    return s->shift ? add(l, weight, piece, "shift", RS_F32, s->n, -1, s->shift) : RS_OK;
}

/* Vectors [first, first + n) of a tensor, which nothing has cut. */
static rs_status add_rest(listing *l, const rs_small *of, int64_t first, int64_t n, int64_t piece)
{
    rs_factor run = *of->factor;
    run.first = first;
    run.inner = n;
    int64_t m = run.features;
    float *numbers = rs_arena_alloc(l->arena, (size_t)(n * m), sizeof *numbers);
    int64_t *vectors = rs_arena_alloc(l->arena, (size_t)n, sizeof *vectors);
    double *read = rs_malloc((size_t)(n * m), sizeof *read);
    rs_status status = RS_OK;
    if (!numbers || !vectors || !read)
        status = rs_fail_memory(l->err, run.tensor->name, (size_t)(n * m) * sizeof *read);
    else
        status = rs_factor_read_vectors(read, &run, (rs_fold){0}, l->err);
    for (int64_t i = 0; i < n * m && status == RS_OK; i++)
        numbers[i] = (float)read[i];
    for (int64_t i = 0; i < n && status == RS_OK; i++)
        vectors[i] = first + i;
    rs_free(read);
    RS_TRY(status);
    RS_TRY(add(l, run.tensor->name, piece, of->outputs ? "out" : "in", RS_I64, n, -1, vectors));
    return add(l, run.tensor->name, piece, "by_vector", RS_F32, n, m, numbers);
}

/* All pieces of the tensor of small factor number `at`, the first that is of it. */
static rs_status add_tensor(listing *l, const rs_cut_weights *w, size_t at)
{
    const rs_small *of = &w->smalls[at];
    const rs_factor *f = of->factor;
    int64_t vectors = f->vector_is_row ? f->rows : f->cols, piece = 0;
    bool *cut = rs_arena_alloc(l->arena, (size_t)vectors, sizeof *cut);
    if (!cut) return rs_fail_memory(l->err, "factors", (size_t)vectors);
    memset(cut, 0, (size_t)vectors * sizeof *cut);
    RS_TRY(add_number(l, f->tensor->name, 0, "vectors", vectors));
    for (size_t i = at; i < w->n_smalls; i++) {
        const rs_small *s = &w->smalls[i];
        if (s->factor->tensor != f->tensor) continue;
        for (int64_t v = 0; v < s->n; v++)
            cut[s->vectors[v]] = true;
        /* of a product those beyond its rank are 0 */
        if (s->by_vector && !s->by_feature)
            memset(cut + s->factor->first, true, (size_t)s->factor->inner * sizeof *cut);
        RS_TRY(add_small(l, s, piece++));
    }
    for (int64_t first = 0, end; first < vectors; first = end) {
        for (end = first; end < vectors && cut[end] == cut[first];)
            end++;
        if (!cut[first]) RS_TRY(add_rest(l, of, first, end - first, piece++));
    }
    return RS_OK;
}

static bool is_first(const rs_cut_weights *w, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (w->smalls[i].factor->tensor == w->smalls[at].factor->tensor) return false;
    return true;
}

/* Whole numbers first, as the widest. */
static rs_status write_entries(const listing *l, const char *path, const rs_input_files *files)
{
    rs_st_plan *plans = rs_calloc(l->n + 1, sizeof *plans);
    size_t *order = rs_calloc(l->n + 1, sizeof *order), n = 0;
    rs_st_writer *writer = NULL;
    rs_status status = plans && order ? RS_OK : rs_fail_memory(l->err, path, l->n * sizeof *plans);
    for (int wide = 1; wide >= 0 && status == RS_OK; wide--)
        for (size_t i = 0; i < l->n; i++)
            if ((l->items[i].plan.dtype == RS_I64) == wide) {
                order[n] = i;
                plans[n++] = l->items[i].plan;
            }
    if (status == RS_OK) status = rs_st_writer_open(&writer, path, plans, n, files, l->err);
    for (size_t i = 0; i < n && status == RS_OK; i++) {
        int64_t count = plans[i].shape[0] * (plans[i].rank > 1 ? plans[i].shape[1] : 1);
        status = rs_st_writer_put(writer, i, 0, l->items[order[i]].numbers, count, l->err);
    }
    if (status == RS_OK)
        status = rs_st_writer_commit(writer, l->err);
    else
        rs_st_writer_discard(writer);
    rs_free(plans);
    rs_free(order);
    return status;
}

static rs_status write_in(const listing *l, const char *folder, const rs_input_files *files)
{
    char path[RS_FACTORS_PATH];
    size_t length;
    const char *loader = rs_factors_loader(&length);
    int n = snprintf(path, sizeof path, "%s/factors", folder);
    if (n < 0 || n > RS_FACTORS_PATH - 32)
        return rs_fail(l->err, RS_E_WRITE, folder, "give a shorter one", "its name is too long");
    RS_TRY(rs_outputs_make_folder(files->outputs, path, l->err));
    snprintf(path + n, sizeof path - (size_t)n, "/load.py");
    RS_TRY(rs_output_write(path, loader, length, files, l->err));
    snprintf(path + n, sizeof path - (size_t)n, "/factors.safetensors");
    return write_entries(l, path, files);
}

rs_status rs_cut_write_factors(const char *folder, const rs_cut_weights *weights,
                               const rs_input_files *files, rs_error *err)
{
    listing l = {.arena = rs_arena_new(), .err = err};
    rs_status status = l.arena ? RS_OK : rs_fail_memory(err, "factors", 0);
    for (size_t i = 0; i < weights->n_smalls && status == RS_OK; i++)
        if (is_first(weights, i)) status = add_tensor(&l, weights, i);
    if (status == RS_OK) status = write_in(&l, folder, files);
    rs_free(l.items);
    if (l.arena) rs_arena_free(l.arena);
    return status;
}
