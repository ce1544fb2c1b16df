/*
 * test_gather_gradients.c: norms of gradients as tables have them, held against gradients that are
 * written out and summed here; the same over several batches, recomputed and on other threads; what
 * targets are of which row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "gradient_support.h"
#include "network/op_traits.h"
#include "observe/gather_gradients.h"
#include "property.h"

/* ---- a drawn network as inputs of a pass ---- */

typedef struct scene {
    built *b;
    gradient_case c;
    rs_inputs inputs;
    int32_t *targets;
} scene;

static void close_scene(scene *s)
{
    loose_free(s->c.loose);
    built_free(s->b);
    free(s->targets);
}

/* Layers of the same shape read one MLP's first map and one attention's values, as ALBERT's do. */
static void share_maps(rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            rs_branch *branch = &network->layers[l].branches[b], *first = network->layers->branches;
            network->layers[l].stored = l;
            if (l == 0 || b >= network->layers->n_branches || branch->kind != first[b].kind)
                continue;
            rs_dense *own = branch->kind == RS_BRANCH_MLP         ? &branch->mlp.up
                            : branch->kind == RS_BRANCH_ATTENTION ? &branch->attention.v
                                                                  : NULL;
            const rs_dense *shared =
                branch->kind == RS_BRANCH_MLP ? &first[b].mlp.up : &first[b].attention.v;
            if (own && own->in == shared->in && own->out == shared->out) *own = *shared;
        }
}

/* false, and nothing is open: no sample has a token, so that nothing is run. */
static bool open_scene(scene *s, uint64_t seed)
{
    rs_random random = rs_random_new(seed, 79);
    const built *b = s->b = built_new(seed, 12);
    const rs_batch *batch = &b->batch;
    int64_t rows = batch->begin[batch->samples];
    s->targets = malloc(((size_t)rows + 1) * sizeof *s->targets);
    s->c = (gradient_case){.name = "drawn", .batch = batch, .threads = 1};
    if (seed % 3) s->c.plan.numbers = RS_NUMBERS_SHAPED;
    s->c.loose = loose_new(&b->network);
    if (seed % 2) share_maps(&s->c.loose->network);
    s->c.loss = draw_loss(&b->network, batch, s->targets, &random);
    s->c.loss.first_row = 0;
    s->inputs = (rs_inputs){.kind = "drawn",
                            .samples = batch->samples,
                            .begin = (int64_t *)(uintptr_t)batch->begin,
                            .ids = (int32_t *)(uintptr_t)batch->ids,
                            .images = (float *)(uintptr_t)batch->images,
                            .states = (double *)(uintptr_t)batch->states,
                            .memory = (double *)(uintptr_t)batch->memory,
                            .memory_begin = (int64_t *)(uintptr_t)batch->memory_begin,
                            .d_model = batch->memory ? 5 : b->network.d_model,
                            .longest = rows};
    if (batch->images)
        s->inputs.image_size = b->network.embedding.channels * b->network.embedding.image_height *
                               b->network.embedding.image_width;
    if (rows == 0) close_scene(s);
    return rows > 0;
}

static rs_graded *grade(const scene *s, int64_t capacity, bool recompute, int threads)
{
    rs_context context = {.threads = threads};
    rs_error err = {0};
    rs_gradient_gather *gather;
    rs_pass_account account;
    rs_graded *out = NULL;
    const rs_network *network = &s->c.loose->network;
    assert_int_equal(rs_gradient_gather_open(&gather, network, RS_PRECISION_F64, &context, &err),
                     RS_OK);
    rs_listener *listener = rs_gradient_gather_listener(gather);
    const rs_pass_gradient back = {.loss = s->c.loss,
                                   .plan = {.recompute = recompute, .numbers = s->c.plan.numbers},
                                   .tap = rs_gradient_gather_tap(gather)};
    const rs_pass_plan plan = {.network = network,
                               .inputs = &s->inputs,
                               .precision = RS_PRECISION_F64,
                               .capacity = capacity,
                               .gradient = &back,
                               .phase = "test"};
    if (rs_observe_pass(&account, &plan, &listener, 1, &context, &err) != RS_OK ||
        rs_gradient_gather_take(&out, gather, account.loss, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    rs_gradient_gather_close(gather);
    return out;
}

/* ---- the same, plainly ---- */

/* What the table is said to call a parameter. */
static void name_plainly(char *out, size_t size, const rs_network *network, const told *t)
{
    static const char *const parts[] = {".weight", ".bias", ".gain",    "",        "",
                                        "skip",    "scale", "identity", "softmax", "uniform"};
    static const char *const tables[] = {"tokens",
                                         "positions",
                                         "types",
                                         "class_token",
                                         "distance_bias",
                                         "relative.content_bias",
                                         "rope.divisors",
                                         "relative.position_bias",
                                         "bias",
                                         "relative.segment_bias",
                                         "",
                                         "relative.segment_embed"};
    static const char *const of_head[] = {"transform", "decoder", "bias"};
    const rs_parameter *p = &t->parameter;
    const char *place = "embedding.", *name = p->name, *part = parts[p->part];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (p->part == RS_OF_WEIGHT && strcmp(name, tables[i]) == 0) part = "";
    for (size_t i = 0; i < 3 && p->layer < 0; i++)
        if (strcmp(name, of_head[i]) == 0) place = "head.";
    if (p->role == RS_ROLE_NORM_HEAD) place = "head.";
    if (strcmp(name, "final") == 0) place = "";
    if (p->layer >= 0) {
        const rs_branch *branch = &network->layers[p->layer].branches[p->branch];
        place = branch->kind == RS_BRANCH_MLP ? "mlp."
                : branch == rs_layer_mixer(&network->layers[p->layer])
                    ? "mixer."
                    : (branch->attention.cross ? "cross." : "attention.");
    }
    if (strcmp(name, "branch") == 0) name = "";
    snprintf(out, size, "%s%s%s", place, name, part);
}

static const rs_gradient_row *find_row(const rs_graded *graded, const told *t, const char *name,
                                       int32_t head)
{
    const rs_gradient_row *found = NULL;
    for (size_t i = 0; i < graded->n; i++) {
        const rs_gradient_row *row = &graded->rows[i];
        int32_t layer = t->use == RS_USE_SUM ? -1 : t->parameter.layer;
        if (row->layer != layer || row->head != head || row->use != t->use) continue;
        if (strcmp(row->parameter, name) != 0) continue;
        if (found) fail_msg("%s is there twice", name);
        found = row;
    }
    if (!found) fail_msg("layer %d: there is no %s, head %d", t->parameter.layer, name, head);
    return found;
}

/* The part-th of `parts` stretches: of the gradient and of the parameter. Where somebody listens to states
 * all rows go through the last layer, so that products of other sizes round what cancels otherwise. */
static void check_row(gradient_case *c, const rs_gradient_row *row, const told *t, int64_t parts,
                      int64_t part, bool by_input)
{
    const rs_parameter *p = &t->parameter;
    int64_t u0 = 0, u1 = p->out, i0 = 0, i1 = p->in;
    if (by_input)
        i0 = part * (p->in / parts), i1 = (part + 1) * (p->in / parts);
    else
        u0 = part * (p->out / parts), u1 = (part + 1) * (p->out / parts);
    double g = 0, w = 0;
    for (int64_t u = u0; u < u1; u++)
        for (int64_t i = i0; i < i1; i++) {
            g += t->values[u * p->in + i] * t->values[u * p->in + i];
            w += pow(*parameter_entry(c, p, u, i), 2);
        }
    double norm = sqrt(g), count = (double)((u1 - u0) * (i1 - i0)), slack = 1e-9 * norm + 1e-14;
    if (!(fabs(row->norm - norm) <= slack))
        fail_msg("%s, head %d: norm %.17g, not %.17g", row->parameter, row->head, row->norm, norm);
    assert_true(fabs(row->rms - norm / sqrt(count)) <= slack);
    assert_true(norm == 0 || fabs(row->log10_norm - log10(norm)) <= slack / norm);
    if (w == 0)
        assert_true(isnan(row->relative));
    else if (!(fabs(row->relative - norm / sqrt(w)) <= slack / sqrt(w)))
        fail_msg("%s, head %d: relative %.17g, not %.17g", row->parameter, row->head, row->relative,
                 norm / sqrt(w));
    assert_int_equal(row->uses, p->uses);
    assert_int_equal(p->overlaps, p->uses > 1);
}

static int64_t heads_plainly(const rs_network *network, const rs_parameter *p)
{
    if (p->layer < 0 || p->part != RS_OF_WEIGHT) return 0;
    const rs_branch *branch = &network->layers[p->layer].branches[p->branch];
    if (branch->kind != RS_BRANCH_ATTENTION) return 0;
    if (p->map == &branch->attention.q || p->map == &branch->attention.o)
        return branch->attention.heads;
    return p->map == &branch->attention.k || p->map == &branch->attention.v
               ? branch->attention.kv_heads
               : 0;
}

static void check_told(gradient_case *c, const rs_graded *graded, const told *t)
{
    const rs_network *network = &c->loose->network;
    char name[RS_PARAMETER_NAME];
    name_plainly(name, sizeof name, network, t);
    if (t->use == RS_USE_SUM) {
        char sum[2 * RS_PARAMETER_NAME];
        snprintf(sum, sizeof sum, "layer.%d.%s.sum", (int)t->parameter.layer, name);
        check_row(c, find_row(graded, t, sum, -1), t, 1, 0, false);
        return;
    }
    check_row(c, find_row(graded, t, name, -1), t, 1, 0, false);
    int64_t heads = heads_plainly(network, &t->parameter);
    bool by_input = heads > 0 && t->parameter.role == RS_ROLE_O;
    for (int64_t h = 0; h < heads; h++)
        check_row(c, find_row(graded, t, name, (int32_t)h), t, heads, h, by_input);
}

static void sums_plainly(void **state)
{
    (void)state;
    int sums = 0;
    for (int i = property_start(60, 2000); property_next(&i);) {
        scene s;
        double loss;
        if (!open_scene(&s, property_seed())) continue;
        rs_graded *graded = grade(&s, s.inputs.samples, false, 2);
        told_all *all = gradients_of(&s.c, RS_PRECISION_F64, &loss);
        size_t rows = 0;
        assert_true(fabs(graded->loss - loss) <= 1e-12 * fabs(loss));
        for (int k = 0; k < all->n; k++) {
            check_told(&s.c, graded, &all->items[k]);
            rows += 1;
            if (all->items[k].use != RS_USE_SUM)
                rows += (size_t)heads_plainly(&s.c.loose->network, &all->items[k].parameter);
            sums += all->items[k].use == RS_USE_SUM;
        }
        assert_int_equal(graded->n, rows);
        for (size_t k = 0; k + 1 < graded->n; k++)
            assert_true(graded->rows[k].layer < 0 || graded->rows[k + 1].layer < 0 ||
                        graded->rows[k].layer <= graded->rows[k + 1].layer);
        told_free(all);
        rs_graded_free(graded);
        close_scene(&s);
    }
    assert_true(sums > 0);
    property_holds(1);
}

/* ---- the same numbers whichever way ---- */

/* bits: every digit; else what the order of a sum over batches leaves. */
static void same(const rs_graded *a, const rs_graded *b, bool bits)
{
    double most = 0; /* what cancels (|X|^2 behind a norm) keeps the rounding of its terms */
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        most = fmax(most, a->rows[i].norm);
    for (size_t i = 0; i < a->n; i++) {
        const rs_gradient_row *x = &a->rows[i], *y = &b->rows[i];
        assert_string_equal(x->parameter, y->parameter);
        assert_int_equal(x->head, y->head);
        double near = bits ? 0 : 1e-12 * x->norm + 1e-14 * (most + fabs(a->loss));
        bool rounding = x->role == RS_ROLE_K && x->part == RS_OF_BIAS;
        if (!bits && (rounding || x->at_floor == 1)) continue; /* it has no digits */
        if (!(fabs(x->norm - y->norm) <= near))
            fail_msg("%s, head %d: %.17g and %.17g, of %.3g", x->parameter, x->head, x->norm,
                     y->norm, most);
        assert_true(bits ? x->at_floor == y->at_floor : true);
    }
    assert_true(fabs(a->loss - b->loss) <= (bits ? 0 : 1e-12 * (1 + fabs(a->loss))));
}

static void runs_agree(void **state)
{
    (void)state;
    for (int i = property_start(40, 2000); property_next(&i);) {
        scene s;
        if (!open_scene(&s, property_seed())) continue;
        rs_graded *first = grade(&s, s.inputs.samples, false, 1);
        rs_graded *recomputed = grade(&s, s.inputs.samples, true, 1);
        rs_graded *threads = grade(&s, s.inputs.samples, false, 3);
        /* inputs have one width for both, which drawn networks do not keep to */
        int64_t one = s.inputs.memory && s.inputs.states ? s.inputs.samples : 1;
        rs_graded *batches = grade(&s, one, false, 2), *both = grade(&s, one, true, 1);
        same(first, recomputed, true);
        same(first, threads, true);
        same(first, batches, false);
        same(batches, both, true);
        rs_graded_free(first);
        rs_graded_free(recomputed);
        rs_graded_free(threads);
        rs_graded_free(batches);
        rs_graded_free(both);
        close_scene(&s);
    }
    property_holds(1);
}

/* ---- norms of weights that are read in several pieces ---- */

enum { OUT = 600, IN = 210, PARTS = 3 };

/* One of three maps that lie interleaved in one tensor, by rows or by columns. */
static void check_pieces(bool out_is_row, bool by_input, int threads)
{
    const rs_context context = {.threads = threads};
    static double numbers[3 * OUT * IN];
    rs_tensor tensor = {.name = "fused",
                        .dtype = RS_F64,
                        .count = 3 * OUT * IN,
                        .data = (const uint8_t *)numbers,
                        .bytes = sizeof numbers};
    const rs_dense map = {.weight = &tensor,
                          .rows = out_is_row ? 3 * OUT : IN,
                          .cols = out_is_row ? IN : 3 * OUT,
                          .out_is_row = out_is_row,
                          .in = IN,
                          .out = OUT,
                          .first = 20,
                          .run = 20,
                          .stride = 60};
    const rs_parameter p = {
        .name = "q", .part = RS_OF_WEIGHT, .tensor = &tensor, .map = &map, .out = OUT, .in = IN};
    double squares[PARTS], expected[PARTS] = {0};
    rs_random random = rs_random_new(3, 4);
    rs_random_normals(&random, numbers, 3 * (size_t)OUT * IN);
    for (int64_t u = 0; u < OUT; u++)
        for (int64_t i = 0; i < IN; i++) {
            int64_t v = 20 + u / 20 * 60 + u % 20;
            double w = numbers[out_is_row ? v * IN + i : i * 3 * OUT + v];
            expected[by_input ? i / (IN / PARTS) : u / (OUT / PARTS)] += w * w;
        }
    assert_int_equal(rs_parameter_squares(squares, NULL, &p, PARTS, by_input, &context, NULL),
                     RS_OK);
    for (int i = 0; i < PARTS; i++)
        assert_true(fabs(squares[i] - expected[i]) <= 1e-12 * expected[i]);
}

static void weights_in_pieces(void **state)
{
    (void)state;
    for (int k = 0; k < 8; k++)
        check_pieces(k & 1, k & 2, k & 4 ? 3 : 1);
}

/* ---- targets ---- */

enum { WORDS = 11 };
static int64_t begin[] = {0, 3, 3, 4, 8};
static int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
static const rs_tensor some_weight;

static rs_network small_network(bool next_token)
{
    return (rs_network){
        .embedding = {.vocabulary = WORDS},
        .head = {.decoder = {.weight = &some_weight, .out = WORDS}, .next_token = next_token},
        .padding_row = -1};
}

static rs_status targets_of(rs_targets *t, bool next_token, rs_grad_loss loss, const char *target)
{
    const rs_network network = small_network(next_token);
    const rs_inputs inputs = {.kind = "tokens", .samples = 4, .begin = begin, .ids = ids};
    const rs_loss_request request = {.loss = loss, .target = target};
    return rs_targets_open(t, &request, &network, &inputs, NULL, NULL);
}

static void finds_targets(void **state)
{
    static const int32_t next[] = {2, 3, -1, -1, 6, 7, 8, -1};
    static const int32_t first[] = {9, -1, -1, 9, 9, -1, -1, -1};
    static const int32_t last[] = {-1, -1, 0, 2, -1, -1, -1, 3};
    rs_targets t;
    (void)state;
    assert_int_equal(targets_of(&t, true, RS_GRAD_LOSS_AUTO, NULL), RS_OK);
    assert_int_equal(t.kind, RS_GRAD_LOSS_LM);
    assert_memory_equal(t.rows, next, sizeof next);
    assert_int_equal(t.n, 5);
    assert_true(t.loss.weight == 0.2);
    rs_targets_close(&t);
    assert_int_equal(targets_of(&t, false, RS_GRAD_LOSS_CLASS, "9"), RS_OK);
    assert_memory_equal(t.rows, first, sizeof first);
    assert_true(t.loss.weight == 1.0 / 3);
    rs_targets_close(&t);
    assert_int_equal(targets_of(&t, true, RS_GRAD_LOSS_CLASS, "0,1,2,3"), RS_OK);
    assert_memory_equal(t.rows, last, sizeof last);
    rs_targets_close(&t);
    assert_int_equal(targets_of(&t, false, RS_GRAD_LOSS_AUTO, NULL), RS_OK);
    assert_int_equal(t.kind, RS_GRAD_LOSS_RANDOM);
    assert_true(t.loss.at_state && t.loss.weight == 1 && t.n == 0);
    rs_targets_close(&t);
}

static void refuses_targets(void **state)
{
    static const char *const bad[] = {"", "x", "-1", "1,2", "1,", "1;2", "99999999999999999999"};
    rs_targets t;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(targets_of(&t, false, RS_GRAD_LOSS_CLASS, bad[i]), RS_E_BAD_OPTION);
        rs_targets_close(&t);
    }
    assert_int_equal(targets_of(&t, false, RS_GRAD_LOSS_CLASS, "11"), RS_E_TOKEN_RANGE);
    rs_targets_close(&t);
    assert_int_equal(targets_of(&t, false, RS_GRAD_LOSS_CLASS, NULL), RS_E_USAGE);
    rs_targets_close(&t);
    assert_int_equal(targets_of(&t, false, RS_GRAD_LOSS_RANDOM, "1"), RS_E_USAGE);
    rs_targets_close(&t);
    assert_int_equal(targets_of(&t, false, RS_GRAD_LOSS_LM, NULL), RS_E_UNSUPPORTED);
    rs_targets_close(&t);
    assert_int_equal(targets_of(&t, false, RS_GRAD_LOSS_MLM, NULL), RS_E_UNSUPPORTED);
    rs_targets_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_plainly),      cmocka_unit_test(runs_agree),
        cmocka_unit_test(weights_in_pieces), cmocka_unit_test(finds_targets),
        cmocka_unit_test(refuses_targets),
    };
    return cmocka_run_group_tests_name("gather_gradients", tests, NULL, NULL);
}
