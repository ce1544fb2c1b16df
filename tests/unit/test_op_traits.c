/* test_op_traits.c: what op_traits.h says of each kind, held against the structs, against every
 * tensor of networks drawn at random, and against the mixing matrices that the engine makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"

#include "engine/ops.h"
#include "network/arch_build.h"
#include "network/op_traits.h"

static size_t form_size(rs_weight_form form)
{
    switch (form) {
    case RS_WEIGHT_MAP:
        return sizeof(rs_dense);
    case RS_WEIGHT_NORM:
        return sizeof(rs_norm_op);
    case RS_WEIGHT_CONV:
        return sizeof(rs_conv_op);
    case RS_WEIGHT_NUMBERS:
        return sizeof(rs_tensor *);
    }
    return 0;
}

/* Rows have names of their own and lie in their struct, none over another. */
static void check_list(const rs_weight_list *list, size_t from, size_t size)
{
    assert_true(list->n > 0);
    for (size_t i = 0; i < list->n; i++) {
        const rs_weight_row *row = &list->rows[i];
        assert_true(row->name && row->name[0]);
        assert_true(row->offset >= from && row->offset + form_size(row->form) <= size);
        assert_true((row->form == RS_WEIGHT_NUMBERS) == (row->count != NULL));
        for (size_t j = 0; j < i; j++) {
            const rs_weight_row *other = &list->rows[j];
            assert_string_not_equal(row->name, other->name);
            assert_true(row->offset >= other->offset + form_size(other->form) ||
                        other->offset >= row->offset + form_size(row->form));
        }
    }
}

/* The words of kinds that mix are those of architecture files. */
static void check_word(const rs_op_traits *t)
{
    int known = 0;
    for (int i = 0; i < RS_ARCH_MIXERS; i++)
        known += strcmp(rs_arch_mixers[i].name, t->word) == 0;
    assert_int_equal(known, t->mixes ? 1 : 0);
}

static void test_rows(void **state)
{
    (void)state;
    for (int kind = 0; kind < RS_BRANCH_KINDS; kind++) {
        const rs_op_traits *t = rs_op_traits_of((rs_branch_kind)kind);
        assert_non_null(t);
        assert_true(t->name && t->name[0]);
        for (int other = 0; other < kind; other++)
            assert_string_not_equal(t->name, rs_op_traits_of((rs_branch_kind)other)->name);
        assert_true(t->matrices && t->width && t->causal && t->reads_memory && t->row_sum);
        assert_true(t->not_stochastic && t->not_bilinear && t->check);
        check_word(t);
        check_list(&t->weights, offsetof(rs_branch, attention), sizeof(rs_branch));
        const rs_branch branch = {.kind = (rs_branch_kind)kind};
        assert_true((rs_branch_attention(&branch) != NULL) == (kind == RS_BRANCH_ATTENTION));
        assert_true((rs_branch_mlp(&branch) != NULL) == (kind == RS_BRANCH_MLP));
    }
    check_list(&rs_embedding_weights, 0, sizeof(rs_embedding_op));
    check_list(&rs_read_out_weights, 0, sizeof(rs_read_out_op));
    check_list(&rs_head_weights, 0, sizeof(rs_head_op));
}

/* What a row says of a branch agrees with itself. */
static void check_branch(const rs_branch *branch)
{
    const rs_op_traits *t = rs_branch_traits(branch);
    assert_true((t->matrices(branch) > 0) == t->mixes);
    assert_true(t->width(branch).projected > 0 && t->width(branch).inner > 0);
    if (t->mixes) {
        if (!t->not_stochastic(branch)) assert_true(t->row_sum(branch) == 1);
        return;
    }
    assert_true(t->causal(branch) && !t->reads_memory(branch));
    assert_true(isnan(t->row_sum(branch)));
    assert_non_null(t->not_stochastic(branch));
    assert_non_null(t->not_bilinear(branch));
}

static bool mark(void *user, const rs_tensor *tensor)
{
    built *b = user;
    assert_true(tensor >= b->tensors && tensor < b->tensors + b->n_tensors);
    b->shapes[tensor - b->tensors] = -1;
    return false;
}

static bool stop(void *user, const rs_tensor *tensor)
{
    return tensor == user;
}

/* The walk comes to each tensor that was made for a network, and ends where it is told to. */
static void test_walk(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        built *b = built_new(seed, 8);
        for (int32_t l = 0; l < b->network.n_layers; l++)
            for (int32_t i = 0; i < b->network.layers[l].n_branches; i++)
                check_branch(&b->network.layers[l].branches[i]);
        assert_false(rs_network_walk(&b->network, mark, b));
        for (int i = 0; i < b->n_tensors; i++) {
            bool unused = b->images && &b->tensors[i] != b->network.embedding.positions;
            if (b->shapes[i] != -1 && !unused) fail_msg("seed %d, tensor %d", (int)seed, i);
            if (b->shapes[i] == -1) assert_true(rs_network_walk(&b->network, stop, &b->tensors[i]));
        }
        built_free(b);
    }
}

/* ---- against the matrices themselves ---- */

typedef struct seen {
    const built *b;
    bool odd;                           /* odd samples alone are asked for */
    int told[4][RS_BRANCHES_MAX][4][8]; /* [layer][branch][head][sample] */
} seen;

static bool wants_sample(void *user, int32_t sample)
{
    const seen *s = user;
    return !s->odd || sample % 2 == 1;
}

static rs_status on_matrix(void *user, const rs_attention_view *view, rs_error *err)
{
    (void)err;
    seen *s = user;
    const rs_branch *branch = &s->b->layers[view->layer].branches[view->branch];
    const rs_op_traits *t = rs_branch_traits(branch);
    assert_true(view->head < t->matrices(branch));
    assert_true(view->cross == t->reads_memory(branch));
    s->told[view->layer][view->branch][view->head][view->sample]++;
    for (int64_t i = 0; i < view->n; i++) {
        const double *row = (const double *)view->mixing + i * view->ld;
        double sum = 0, shown = 0;
        for (int64_t j = 0; j < view->keys; j++) {
            sum += row[j];
            shown += ((const double *)view->probabilities)[i * view->ld + j];
            if (t->causal(branch) && j > i) assert_true(row[j] == 0);
            if (!t->not_stochastic(branch)) assert_true(row[j] >= 0);
        }
        bool own = i < view->keys; /* the identity has an entry here */
        if (shown > 0.5 && own && fabs(sum - t->row_sum(branch)) > 1e-12)
            fail_msg("row %d sums to %.17g, not %.17g", (int)i, sum, t->row_sum(branch));
    }
    return RS_OK;
}

/* Each matrix of each branch that is run comes once, under the branch's own number, if its sample was
 * asked for. */
static void check_told(const seen *s)
{
    const rs_network *network = &s->b->network;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t i = 0; i < network->layers[l].n_branches; i++) {
            const rs_branch *branch = &network->layers[l].branches[i];
            int32_t matrices = branch->scale != 0 ? rs_branch_traits(branch)->matrices(branch) : 0;
            for (int32_t h = 0; h < 4; h++)
                for (int32_t k = 0; k < s->b->batch.samples; k++) {
                    bool expected = h < matrices && s->b->begin[k + 1] > s->b->begin[k] &&
                                    (!s->odd || k % 2 == 1);
                    assert_int_equal(s->told[l][i][h][k], expected ? 1 : 0);
                }
        }
}

static void test_matrices(void **state)
{
    (void)state;
    const rs_precision precisions[] = {RS_PRECISION_F64, RS_PRECISION_RESIDUAL};
    for (uint64_t seed = 0; seed < 120; seed++) {
        built *b = built_new(seed, 8);
        seen s = {.b = b, .odd = seed % 5 == 0};
        rs_context context = {.threads = 1};
        rs_weights *weights;
        rs_runner *runner;
        rs_error err = {0};
        rs_tap tap = {.user = &s, .wants_sample = wants_sample, .attention = on_matrix};
        const rs_tap *taps[] = {&tap};
        assert_int_equal(rs_weights_open(&weights, precisions[seed % 2], UINT64_MAX, &err), RS_OK);
        assert_int_equal(rs_runner_open(&runner, &b->network, weights, &context, &err), RS_OK);
        assert_int_equal(rs_runner_run(runner, &b->batch, taps, 1, &err), RS_OK);
        check_told(&s);
        rs_runner_close(runner);
        rs_weights_close(weights);
        built_free(b);
    }
}

static void test_precisions(void **state)
{
    (void)state;
    for (int p = 0; p < RS_PRECISIONS; p++)
        for (int kind = 0; kind < RS_BRANCH_KINDS; kind++) {
            bool states = rs_op_traits_of((rs_branch_kind)kind)->unproved != NULL;
            bool lacks = p == RS_PRECISION_RESIDUAL && states;
            assert_true((rs_ops_of((rs_precision)p)->branch[kind] == NULL) == lacks);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_precisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
