/*
 * compress_cut.c: stored tensors with matrices and products of a lower rank inside. A tensor that several
 * heads, projections or layers share is copied once, and each chosen matrix or product changes its own
 * vectors of it.
 */
#include "compress/compress_parts.h"

#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/truncation.h"
#include "network/op_traits.h"

#include <string.h>

static const rs_fold as_stored = {0};

/* ---- tensors ---- */

const rs_recut *rs_recut_of(const rs_cut_weights *weights, const rs_tensor *from)
{
    for (size_t i = 0; i < weights->n; i++)
        if (weights->items[i].from == from) return &weights->items[i];
    return NULL;
}

/* All numbers of a tensor that cannot be written in its own type, as F32. */
static rs_status widen(uint8_t *out, const rs_factor *factor, rs_error *err)
{
    rs_factor whole = *factor;
    whole.vector_is_row = true;
    whole.first = 0;
    whole.inner = factor->rows;
    whole.features = factor->cols;
    int64_t n = factor->rows * factor->cols;
    double *numbers = rs_malloc((size_t)n, sizeof *numbers);
    if (!numbers) return rs_fail_memory(err, factor->tensor->name, (size_t)n * sizeof *numbers);
    rs_status status = rs_factor_read_vectors(numbers, &whole, as_stored, err);
    if (status == RS_OK) rs_dtype_encode(out, RS_F32, numbers, n);
    rs_free(numbers);
    return status;
}

static rs_status copy_tensor(rs_cut_weights *w, const rs_factor *factor, rs_error *err)
{
    const rs_tensor *from = factor->tensor;
    if (rs_recut_of(w, from)) return RS_OK;
    if (!RS_GROW(w->items, w->n, w->capacity))
        return rs_fail_memory(err, "cut tensors", sizeof *w->items);
    rs_recut *r = &w->items[w->n++];
    bool same = rs_dtype_encodable(from->dtype) && !factor->scale;
    *r = (rs_recut){.from = from, .to = *from};
    if (!same) r->to.dtype = RS_F32;
    r->to.bytes = (uint64_t)from->count * (rs_dtype_info(r->to.dtype)->bits / 8);
    r->to.data = NULL;
    uint8_t *data = rs_malloc((size_t)r->to.bytes, 1);
    r->to.data = data;
    if (!data) return rs_fail_memory(err, from->name, (size_t)r->to.bytes);
    if (!same) return widen(data, factor, err);
    memcpy(data, from->data, (size_t)from->bytes);
    return RS_OK;
}

/* Stores the vectors of a factor: m [features, inner] with leading dimension ld. row: one of its longest
 * side. */
static void put_factor(rs_cut_weights *w, const rs_factor *factor, const double *m, int64_t ld,
                       double *row)
{
    rs_recut *r = (rs_recut *)(uintptr_t)rs_recut_of(w, factor->tensor);
    size_t size = rs_dtype_info(r->to.dtype)->bits / 8;
    uint8_t *data = (uint8_t *)(uintptr_t)r->to.data;
    int64_t beyond = 0;
    for (int64_t i = 0; i < factor->inner && factor->vector_is_row; i++) {
        for (int64_t j = 0; j < factor->features; j++)
            row[j] = m[j * ld + i];
        beyond += rs_dtype_encode(data + (size_t)((factor->first + i) * factor->cols) * size,
                                  r->to.dtype, row, factor->features);
    }
    for (int64_t j = 0; j < factor->features && !factor->vector_is_row; j++)
        beyond += rs_dtype_encode(data + (size_t)(j * factor->cols + factor->first) * size,
                                  r->to.dtype, m + j * ld, factor->inner);
#pragma omp atomic
    r->beyond += beyond;
}

/* ---- small factors ---- */

static float *floats_of(const double *x, int64_t rows, int64_t cols, int64_t by_row, int64_t by_col)
{
    float *out = rs_malloc((size_t)(rows * cols) + 1, sizeof *out);
    for (int64_t i = 0; i < rows && out; i++)
        for (int64_t j = 0; j < cols; j++)
            out[i * cols + j] = (float)x[i * by_row + j * by_col];
    return out;
}

static rs_status name_vectors(rs_small *s, const rs_factor *factor, bool outputs, rs_error *err)
{
    s->factor = factor;
    s->outputs = outputs;
    s->vectors = rs_malloc((size_t)s->n + 1, sizeof *s->vectors);
    if (!s->vectors)
        return rs_fail_memory(err, factor->tensor->name, (size_t)s->n * sizeof *s->vectors);
    for (int64_t i = 0; i < s->n && i < factor->inner; i++)
        s->vectors[i] = factor->first + i;
    return RS_OK;
}

/* Factors of a matrix that lie in one tensor, from number `at` on. */
static size_t run_of(const rs_stored_matrix *m, size_t at, int64_t *vectors)
{
    size_t n = 0;
    *vectors = 0;
    while (at + n < m->n_factors && m->factors[at + n]->tensor == m->factors[at]->tensor)
        *vectors += m->factors[at + n++]->inner;
    return n;
}

/* The vectors of n factors of one tensor, s->n in all. */
static rs_status name_run(rs_small *s, const rs_factor *const *factors, size_t n, bool outputs,
                          rs_error *err)
{
    int64_t at = 0;
    RS_TRY(name_vectors(s, factors[0], outputs, err));
    for (size_t f = 0; f < n; f++)
        for (int64_t i = 0; i < factors[f]->inner; i++)
            s->vectors[at++] = factors[f]->first + i;
    return RS_OK;
}

/* How numbers of a matrix lie: entry (i, j) at i·by_row + j·by_col. */
typedef struct strided {
    const double *x;
    int64_t by_row, by_col;
} strided;

/* Vectors of n factors of one tensor: by_vector [all vectors, k] times by_feature [k, features]. */
static rs_status keep_pair(rs_small *s, const rs_factor *const *factors, size_t n, bool outputs,
                           strided vector, strided feature, int64_t k, rs_error *err)
{
    RS_TRY(name_run(s, factors, n, outputs, err));
    s->k = k;
    s->by_vector = floats_of(vector.x, s->n, k, vector.by_row, vector.by_col);
    s->by_feature = floats_of(feature.x, k, factors[0]->features, feature.by_row, feature.by_col);
    return s->by_vector && s->by_feature
               ? RS_OK
               : rs_fail_memory(err, factors[0]->tensor->name, (size_t)(k * s->n) * sizeof(float));
}

/* The first k vectors of a factor F [features, r] become those of F T, T [r, k]; with the bias of the
 * vectors alike. */
static rs_status keep_turned(rs_small *s, const rs_factor *factor, bool outputs, const double *f,
                             const double *t, int64_t k, bool with_bias, rs_error *err)
{
    int64_t m = factor->features, r = factor->inner;
    *s = (rs_small){.n = k, .k = k};
    RS_TRY(name_vectors(s, factor, outputs, err));
    double *turned = rs_malloc((size_t)(m * k + r + k), sizeof *turned);
    if (!turned) return rs_fail_memory(err, factor->tensor->name, (size_t)(m * k) * sizeof *turned);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)k, (blasint)r, 1, f,
                (blasint)r, t, (blasint)k, 0, turned, (blasint)k);
    s->by_vector = floats_of(turned, k, m, 1, k);
    if (factor->bias) {
        double *bias = turned + m * k, *shift = bias + r;
        memset(shift, 0, (size_t)k * sizeof *shift);
        rs_tensor_decode_f64(bias, factor->bias, factor->bias_first, r);
        for (int64_t i = 0; i < r && with_bias; i++)
            for (int64_t j = 0; j < k; j++)
                shift[j] += bias[i] * t[i * k + j];
        s->shift = floats_of(shift, k, 1, 1, 1);
    }
    rs_free(turned);
    return s->by_vector && (s->shift || !factor->bias)
               ? RS_OK
               : rs_fail_memory(err, factor->tensor->name, (size_t)(m * k) * sizeof(float));
}

/* ---- one matrix ---- */

typedef struct cutting {
    rs_cut_weights *weights;
    const rs_activations *seen;
    size_t n_seen;
    bool smalls;
} cutting;

static void turn(double *out, const double *in, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            out[j * rows + i] = in[i * cols + j];
}

/* m [rows, cols] becomes left · right, weighed by what the matrix reads. */
static rs_status cut_weighed(double *m, double *left, double *right, const cutting *c,
                             const rs_chosen *chosen, int64_t rows, int64_t cols, rs_error *err)
{
    double *gram = NULL;
    int64_t n = cols;
    RS_TRY(rs_written_gram(&gram, &n, chosen->matrix, c->seen, c->n_seen, err));
    rs_status status =
        gram && n == cols
            ? rs_leading_eigenvectors(right, NULL, gram, n, chosen->rank, err)
            : rs_fail(err, RS_E_INTERNAL, chosen->matrix->name, NULL, "its activations are gone");
    rs_free(gram);
    if (status == RS_OK) rs_project_rows(m, left, right, rows, cols, chosen->rank);
    return status;
}

/* What one matrix or product needs: m [rows, cols] maps what is read to what is written. */
static rs_status cut_oriented(double *m, double *v, double *left, const cutting *c,
                              const rs_chosen *chosen, rs_small *smalls, rs_error *err)
{
    const rs_stored_matrix *of = chosen->matrix;
    bool writes = rs_writes_rows(of);
    int64_t rows = writes ? of->cols : of->rows, cols = writes ? of->rows : of->cols,
            k = chosen->rank;
    RS_TRY(chosen->weighed ? cut_weighed(m, left, v, c, chosen, rows, cols, err)
                           : rs_truncate(m, left, v, rows, cols, k, err));
    int64_t at = 0;
    for (size_t i = 0, n; i < of->n_factors && smalls; i += n, smalls++) {
        n = run_of(of, i, &smalls->n);
        /* a vector is something that is read, and `left` has a row of it; or something written */
        const strided by_read = {left + at * k, k, 1}, by_written = {v + at, 1, cols},
                      written = {v, cols, 1}, read = {left, 1, k};
        RS_TRY(keep_pair(smalls, of->factors + i, n, !writes, writes ? by_read : by_written,
                         writes ? written : read, k, err));
        at += smalls->n;
    }
    return RS_OK;
}

/* ---- rank 0: a zero matrix, or one that meets zeros alone ---- */

static rs_status put_zeros(const cutting *c, const rs_factor *f, rs_error *err)
{
    int64_t longest = f->features > f->inner ? f->features : f->inner;
    size_t numbers = (size_t)(f->features * f->inner + longest);
    double *zeros = rs_calloc(numbers, sizeof *zeros);
    if (!zeros) return rs_fail_memory(err, f->tensor->name, numbers * sizeof *zeros);
    put_factor(c->weights, f, zeros, f->inner, zeros + f->features * f->inner);
    rs_free(zeros);
    return RS_OK;
}

static rs_status clear_matrix(const cutting *c, const rs_stored_matrix *of, rs_small *smalls,
                              rs_error *err)
{
    for (size_t i = 0; i < of->n_factors; i++)
        RS_TRY(put_zeros(c, of->factors[i], err));
    for (size_t i = 0, n; i < of->n_factors && smalls; i += n, smalls++) {
        n = run_of(of, i, &smalls->n);
        RS_TRY(name_run(smalls, of->factors + i, n, !rs_writes_rows(of), err));
    }
    return RS_OK;
}

static rs_status cut_matrix(const cutting *c, const rs_chosen *chosen, rs_small *smalls,
                            rs_error *err)
{
    const rs_stored_matrix *of = chosen->matrix;
    if (chosen->rank == 0) return clear_matrix(c, of, smalls, err);
    int64_t rows = of->rows, cols = of->cols, longest = rows > cols ? rows : cols;
    size_t whole = (size_t)(rows * cols), numbers = 2 * whole + (size_t)longest;
    numbers += 2 * (size_t)longest * (size_t)chosen->rank;
    double *m = rs_malloc(numbers, sizeof *m);
    if (!m) return rs_fail_memory(err, of->name, numbers * sizeof *m);
    double *other = m + whole, *v = other + whole, *left = v + longest * chosen->rank,
           *row = left + longest * chosen->rank;
    bool writes = rs_writes_rows(of);
    rs_status status = rs_stored_matrix_read(m, of, as_stored, err);
    if (writes) turn(other, m, rows, cols);
    if (status == RS_OK) status = cut_oriented(writes ? other : m, v, left, c, chosen, smalls, err);
    if (writes) turn(m, other, cols, rows);
    int64_t at = 0;
    for (size_t i = 0; i < of->n_factors && status == RS_OK; i++) {
        put_factor(c->weights, of->factors[i], m + at, cols, row);
        at += of->factors[i]->inner;
    }
    rs_free(m);
    return status;
}

/* ---- one product ---- */

/* Members of a group on one side of its product. */
static int64_t members_on(const rs_head *head, bool side_b)
{
    bool stacked_b = head->product->kind != RS_PRODUCT_QK;
    return head->stacked && stacked_b == side_b ? head->product->group_size : 1;
}

static const rs_factor *member(const rs_head *head, bool side_b, int64_t i)
{
    return side_b ? &head->product[i].b : &head->product[i].a;
}

/* Rooms for one member of a product. */
typedef struct member_room {
    double *factor, *turned, *row; /* [features, r] twice; the longest side */
    const double *c, *g, *yg;      /* [r, r], [r, k], [r, k] */
    int64_t k;
} member_room;

/* Whether vectors of that side are what its map writes: of W_O they are what it reads. */
static bool side_writes(const rs_head *head, bool side_b)
{
    return !(side_b && head->product->kind == RS_PRODUCT_OV);
}

static rs_status clear_product(const cutting *c, const rs_head *head, rs_small *smalls,
                               rs_error *err)
{
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < members_on(head, side); i++) {
            const rs_factor *f = member(head, side, i);
            if (side) RS_TRY(put_zeros(c, f, err));
            if (!smalls) continue;
            smalls->n = f->inner;
            RS_TRY(name_run(smalls++, &f, 1, side_writes(head, side), err));
        }
    return RS_OK;
}

static rs_status cut_member(const cutting *c, const rs_chosen *chosen, bool side_b, int64_t i,
                            const member_room *room, rs_small *small, rs_error *err)
{
    const rs_factor *f = member(chosen->product->head, side_b, i);
    bool outputs = side_writes(chosen->product->head, side_b);
    bool key = side_b && outputs; /* its bias adds the same to all logits of a query */
    blasint m = (blasint)f->features, r = (blasint)f->inner;
    RS_TRY(rs_factor_read(room->factor, f, as_stored, err));
    if (small)
        RS_TRY(keep_turned(small, f, outputs, room->factor, side_b ? room->g : room->yg, room->k,
                           !key, err));
    if (!side_b) return RS_OK;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, r, r, 1, room->factor, r, room->c, r,
                0, room->turned, r);
    put_factor(c->weights, f, room->turned, f->inner, room->row);
    return RS_OK;
}

static rs_status cut_members(const cutting *c, const rs_chosen *chosen, const rs_sides *sides,
                             double *work, rs_small *smalls, rs_error *err)
{
    const rs_head *head = chosen->product->head;
    int64_t r = sides->r, k = chosen->rank, rows = head->product->a.features;
    if (head->product->b.features > rows) rows = head->product->b.features;
    double *cut = work, *g = cut + r * r, *yg = g + r * k, *bg = yg + r * k;
    RS_TRY(rs_cut_product(cut, g, sides->ra, sides->ka, sides->rb, sides->kb, r, k, err));
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)sides->kb, (blasint)k,
                (blasint)r, 1, sides->rb, (blasint)r, g, (blasint)k, 0, bg, (blasint)k);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)r, (blasint)k, (blasint)sides->kb,
                1, sides->rb, (blasint)r, bg, (blasint)k, 0, yg, (blasint)k);
    double *factor = bg + sides->kb * k;
    const member_room room = {.factor = factor,
                              .turned = factor + rows * r,
                              .row = factor + 2 * rows * r,
                              .c = cut,
                              .g = g,
                              .yg = yg,
                              .k = k};
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < members_on(head, side); i++)
            RS_TRY(cut_member(c, chosen, side, i, &room, smalls ? smalls++ : NULL, err));
    return RS_OK;
}

static rs_status cut_product(const cutting *c, const rs_chosen *chosen, rs_small *smalls,
                             rs_error *err)
{
    const rs_head *head = chosen->product->head;
    if (chosen->rank == 0) return clear_product(c, head, smalls, err);
    const rs_activations *x =
        chosen->weighed ? rs_activations_by(c->seen, c->n_seen, head->product) : NULL;
    rs_sides sides;
    RS_TRY(rs_product_sides(&sides, head, x, err));
    const rs_product *p = head->product;
    int64_t rows = p->a.features > p->b.features ? p->a.features : p->b.features, r = sides.r,
            k = chosen->rank;
    size_t numbers = (size_t)(r * r + 2 * r * k + sides.kb * k + 2 * rows * r + rows + r);
    double *work = rs_malloc(numbers, sizeof *work);
    rs_status status = work ? cut_members(c, chosen, &sides, work, smalls, err)
                            : rs_fail_memory(err, "a product", numbers * sizeof *work);
    rs_free(work);
    rs_free(sides.ra);
    return status;
}

/* ---- all of them ---- */

static size_t smalls_of(const rs_chosen *chosen)
{
    int64_t vectors;
    size_t runs = 0;
    for (size_t i = 0; chosen->matrix && i < chosen->matrix->n_factors; runs++)
        i += run_of(chosen->matrix, i, &vectors);
    if (chosen->matrix) return runs;
    const rs_head *head = chosen->product->head;
    return (size_t)(members_on(head, false) + members_on(head, true));
}

/* Copies the tensors that a choice changes; the small factors take the others' place, too. */
static rs_status copy_tensors(rs_cut_weights *w, const rs_chosen *chosen, size_t *smalls,
                              rs_error *err)
{
    const rs_stored_matrix *m = chosen->matrix;
    for (size_t i = 0; m && i < m->n_factors; i++)
        RS_TRY(copy_tensor(w, m->factors[i], err));
    *smalls += smalls_of(chosen);
    for (int64_t i = 0; !m && i < members_on(chosen->product->head, true); i++)
        RS_TRY(copy_tensor(w, member(chosen->product->head, true, i), err));
    return RS_OK;
}

static rs_status cut_all(const cutting *c, const rs_chosen *chosen, size_t n,
                         const rs_context *context, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel for schedule(dynamic) num_threads(context->threads)
    for (size_t i = 0; i < n; i++) {
        if (rs_cancelled(context)) continue;
        size_t at = 0;
        for (size_t j = 0; j < i && c->smalls; j++)
            at += smalls_of(&chosen[j]);
        rs_small *smalls = c->smalls ? c->weights->smalls + at : NULL;
        rs_error error;
        rs_status status = chosen[i].matrix ? cut_matrix(c, &chosen[i], smalls, &error)
                                            : cut_product(c, &chosen[i], smalls, &error);
        rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept == RS_OK ? rs_check_cancelled(context, err) : kept;
}

rs_status rs_cut_weights_make(rs_cut_weights *out, const rs_chosen *chosen, size_t n,
                              const rs_activations *seen, size_t n_seen, bool smalls,
                              const rs_context *context, rs_error *err)
{
    const cutting c = {.weights = out, .seen = seen, .n_seen = n_seen, .smalls = smalls};
    *out = (rs_cut_weights){0};
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        RS_TRY(copy_tensors(out, &chosen[i], &count, err));
    if (smalls) {
        out->smalls = rs_calloc(count + 1, sizeof *out->smalls);
        if (!out->smalls) return rs_fail_memory(err, "factors", count * sizeof *out->smalls);
        out->n_smalls = count;
    }
    RS_TRY(cut_all(&c, chosen, n, context, err));
    for (size_t i = 0; i < out->n; i++)
        if (out->items[i].beyond)
            return rs_fail(err, RS_E_TENSOR_VALUE, out->items[i].from->name,
                           "its weights are at the end of their type's range",
                           "%lld numbers of the truncation are larger than its type holds",
                           (long long)out->items[i].beyond);
    return RS_OK;
}

void rs_cut_weights_free(rs_cut_weights *w)
{
    for (size_t i = 0; i < w->n; i++)
        rs_free((void *)(uintptr_t)w->items[i].to.data);
    for (size_t i = 0; i < w->n_smalls; i++) {
        rs_free(w->smalls[i].vectors);
        rs_free(w->smalls[i].by_vector);
        rs_free(w->smalls[i].by_feature);
        rs_free(w->smalls[i].shift);
    }
    rs_free(w->items);
    rs_free(w->smalls);
    *w = (rs_cut_weights){0};
}

/* ---- in a network ---- */

static void use_in(rs_branch *branch, const rs_cut_weights *weights)
{
    const rs_weight_list *list = &rs_branch_traits(branch)->weights;
    for (size_t i = 0; i < list->n; i++) {
        rs_dense *map = rs_weight_map_to_fill(&list->rows[i], branch);
        const rs_recut *r = map && map->weight ? rs_recut_of(weights, map->weight) : NULL;
        if (!r) continue;
        map->weight = &r->to;
        if (r->to.dtype != r->from->dtype) map->scale = NULL; /* it is in the numbers now */
    }
}

void rs_cut_weights_use(rs_network *network, const rs_cut_weights *weights)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++)
            use_in(&network->layers[l].branches[b], weights);
}
