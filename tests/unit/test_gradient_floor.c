/*
 * test_gradient_floor.c: the floor of the gradients of queries and keys, held against the error
 * that they have: float32 against float64, float64 against the residual precision, over networks whose
 * tokens differ by 1 down to 1e-12 of their size (docs/theory/gradients.md, 7).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "engine/residual.h"
#include "observe/gather_gradients.h"
#include "residual_golden.h"

#include <dirent.h>

enum { KEPT_MOST = 400, ROWS_MOST = 20000 };

/* A gradient of queries or keys as it was told, [out, in]. */
typedef struct kept {
    int32_t layer, branch;
    rs_role role;
    rs_parameter_part part;
    int64_t out, in;
    double *numbers; /* where they are 0 throughout, too */
} kept;

/* Hands what is told on, and keeps those. */
typedef struct keeper {
    const rs_gradient_tap *next;
    kept all[KEPT_MOST];
    int n;
} keeper;

static rs_status keep_parameter(void *user, const rs_gradient_view *view, rs_error *err)
{
    keeper *k = user;
    const rs_parameter *p = view->parameter;
    if (p->role == RS_ROLE_Q || p->role == RS_ROLE_K) {
        assert_true(k->n < KEPT_MOST);
        kept *at = &k->all[k->n++];
        *at = (kept){p->layer, p->branch, p->role, p->part, view->out, view->in, NULL};
        size_t count = (size_t)(view->out * view->in);
        at->numbers = calloc(count + 1, sizeof *at->numbers);
        assert_int_equal(rs_gradient_write(at->numbers, view, err), RS_OK);
        for (size_t i = count; i-- > 0 && view->precision == RS_PRECISION_F32;)
            at->numbers[i] = (double)((float *)(void *)at->numbers)[i];
        rs_scale_by(at->numbers, (int64_t)count, view->exponent);
    }
    return k->next->parameter(k->next->user, view, err);
}

static void keeper_free(keeper *k)
{
    for (int i = 0; i < k->n; i++)
        free(k->all[i].numbers);
    free(k);
}

static keeper *grade(rs_graded **out, const golden *g, int64_t *begin, int32_t samples,
                     double *states, rs_precision precision)
{
    rs_context context = {.threads = 1};
    rs_error err = {0};
    rs_gradient_gather *gather;
    rs_pass_account account;
    keeper *k = calloc(1, sizeof *k);
    const rs_inputs inputs = {.kind = "drawn",
                              .samples = samples,
                              .begin = begin,
                              .states = states,
                              .d_model = g->d,
                              .longest = g->n};
    assert_int_equal(rs_gradient_gather_open(&gather, &g->network, precision, &context, &err),
                     RS_OK);
    k->next = rs_gradient_gather_tap(gather);
    const rs_gradient_tap tap = {.user = k, .parameter = keep_parameter};
    rs_listener *listener = rs_gradient_gather_listener(gather);
    const rs_pass_gradient back = {
        .loss = {.kind = RS_LOSS_RANDOM, .weight = 1, .at_state = true, .seed = 3}, .tap = &tap};
    const rs_pass_plan plan = {.network = &g->network,
                               .inputs = &inputs,
                               .precision = precision,
                               .capacity = samples,
                               .gradient = &back,
                               .phase = "test"};
    if (rs_observe_pass(&account, &plan, &listener, 1, &context, &err) != RS_OK ||
        rs_gradient_gather_take(out, gather, account.loss, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    rs_gradient_gather_close(gather);
    return k;
}

static const kept *find_kept(const keeper *k, const rs_gradient_row *row)
{
    for (int i = 0; i < k->n; i++)
        if (k->all[i].layer == row->layer && k->all[i].branch == row->branch &&
            k->all[i].role == row->role && k->all[i].part == row->part)
            return &k->all[i];
    fail_msg("nothing was told of %s", row->parameter);
    return NULL;
}

/* Norms of the truth and of what a pass found less it, over the row's head or the whole. */
static void compare(double *size, double *error, const rs_gradient_row *row, const keeper *found,
                    const keeper *truth, const golden *g)
{
    const kept *a = find_kept(found, row), *b = find_kept(truth, row);
    const rs_attention_op *op = &g->layers[row->layer].branches[row->branch].attention;
    int64_t heads = row->role == RS_ROLE_Q ? op->heads : op->kv_heads, count = a->out * a->in;
    int64_t part = row->head < 0 ? count : count / heads,
            from = row->head < 0 ? 0 : part * row->head;
    double sum = 0, square = 0;
    for (int64_t i = from; i < from + part; i++) {
        square += b->numbers[i] * b->numbers[i];
        sum += (a->numbers[i] - b->numbers[i]) * (a->numbers[i] - b->numbers[i]);
    }
    *size = sqrt(square), *error = sqrt(sum);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Floors over errors, of gradients whose error says something of rounding. */
typedef struct tally {
    double ratios[ROWS_MOST];
    int n, rows, noise;
} tally;

/* truth: of the residual precision where it says of its rows (exact) that nothing is lost; or float64's
 * for float32. */
static void judge(tally *t, const golden *g, double r, const rs_graded *graded, const keeper *found,
                  const keeper *truth, const rs_graded *exact)
{
    for (size_t i = 0; i < graded->n; i++) {
        const rs_gradient_row *row = &graded->rows[i], *sure = exact ? &exact->rows[i] : NULL;
        double size, error;
        if (row->at_floor == RS_UNKNOWN || row->part != RS_OF_WEIGHT) continue;
        if (sure && (!sure->apart || sure->drowned || sure->at_floor == 1)) continue;
        compare(&size, &error, row, found, truth, g);
        t->rows++;
        if (row->floor < error / 4 && error > 1e-3 * size)
            fail_msg("%s, tokens %.0e apart, layer %d, head %d, %s: wrong by %.3g, floor %.3g",
                     g->name, r, row->layer, row->head, row->parameter, error, row->floor);
        t->noise += !row->at_floor && error > 0.6 * size;
        if (error > 1e-5 * size && error < size && t->n < ROWS_MOST)
            t->ratios[t->n++] = row->floor / error;
        if (getenv("RS_SHOW"))
            print_message("%s r %.0e l%d h%d %s: norm %.3g error %.3g floor %.3g at %d\n", g->name,
                          r, row->layer, row->head, row->parameter, size, error, row->floor,
                          row->at_floor);
    }
}

/* A network whose tokens, [n, d], are drawn towards the first of their sample: to r = 1 .. 1e-12 of what
 * they differ by. t: float32's, float64's. */
static void draw_together(tally *t, const golden *g, const double *tokens, int64_t *begin,
                          int32_t samples)
{
    static const rs_precision precisions[] = {RS_PRECISION_F32, RS_PRECISION_F64,
                                              RS_PRECISION_RESIDUAL};
    double *states = malloc((size_t)(g->n * g->d) * sizeof *states);
    for (int power = 0; power <= 12; power++) {
        double r = pow(10, -power);
        rs_graded *graded[3];
        keeper *k[3];
        for (int32_t s = 0; s < samples; s++)
            for (int64_t i = begin[s] * g->d; i < begin[s + 1] * g->d; i++) {
                double first = tokens[begin[s] * g->d + i % g->d];
                states[i] = first + r * (tokens[i] - first);
            }
        for (int p = 0; p < 3; p++)
            k[p] = grade(&graded[p], g, begin, samples, states, precisions[p]);
        judge(t, g, r, graded[0], k[0], k[1], NULL);
        judge(t + 1, g, r, graded[1], k[1], k[2], graded[2]);
        for (int p = 0; p < 3; p++)
            keeper_free(k[p]), rs_graded_free(graded[p]);
    }
    free(states);
}

/* Of what is typical, no more than `most` too high. */
static void check_tally(tally *t, double most)
{
    for (int p = 0; p < 2; p++) {
        assert_true(t[p].n > 0);
        qsort(t[p].ratios, (size_t)t[p].n, sizeof *t[p].ratios, by_size);
        double median = t[p].ratios[t[p].n / 2];
        if (getenv("RS_SHOW"))
            print_message(
                "%s: %d of %d rows, floor over error %.3g to %.3g, median %.3g, noise %d\n",
                p ? "f64" : "f32", t[p].n, t[p].rows, t[p].ratios[0], t[p].ratios[t[p].n - 1],
                median, t[p].noise);
        assert_in_range(t[p].noise, 0, t[p].rows / 1000);
        assert_true(median <= most);
    }
}

static void holds_for_every_kind(void **state)
{
    (void)state;
    char path[512];
    tally *t = calloc(2, sizeof *t);
    int cases = 0;
    snprintf(path, sizeof path, "%s/residual", RS_TEST_DATA);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *item; (item = readdir(folder));) {
        golden g;
        bool beyond =
            strncmp(item->d_name, "scale_", 6) == 0 || strncmp(item->d_name, "extreme", 7) == 0;
        if (!strstr(item->d_name, ".safetensors") || beyond) continue;
        open_golden(&g, item->d_name);
        int64_t begin[] = {0, g.n};
        draw_together(t, &g, g.input, begin, 1);
        close_golden(&g);
        cases++;
    }
    closedir(folder);
    assert_true(cases >= 45);
    assert_true(t[1].n > 500);
    check_tally(t, 50);
    free(t);
}

/* ---- larger attention, drawn ---- */

enum { MAPS = 4, DEEP = 3 };

typedef struct drawn {
    golden g;
    rs_tensor tensors[DEEP * MAPS];
    double *tokens;
} drawn;

static rs_dense draw_map(rs_tensor *tensor, rs_random *random, int64_t d)
{
    double *w = malloc((size_t)(d * d) * sizeof *w);
    rs_random_normals(random, w, (size_t)(d * d));
    for (int64_t i = 0; i < d * d; i++)
        w[i] /= sqrt((double)d);
    *tensor = (rs_tensor){.name = "w",
                          .dtype = RS_F64,
                          .count = d * d,
                          .data = (const uint8_t *)w,
                          .bytes = (uint64_t)(d * d) * sizeof *w};
    return (rs_dense){.weight = tensor,
                      .rows = d,
                      .out = d,
                      .run = d,
                      .stride = d,
                      .cols = d,
                      .in = d,
                      .out_is_row = true};
}

static void open_drawn(drawn *out, int64_t n, int64_t d, int32_t heads)
{
    rs_random random = rs_random_new(11, 79);
    *out = (drawn){.g = {.name = "drawn", .n = n, .d = d}};
    out->g.network =
        (rs_network){.family = "drawn", .d_model = d, .layers = out->g.layers, .n_layers = DEEP};
    for (int l = 0; l < DEEP; l++) {
        rs_branch *branch = &out->g.layers[l].branches[0];
        rs_dense maps[MAPS];
        for (int m = 0; m < MAPS; m++)
            maps[m] = draw_map(&out->tensors[l * MAPS + m], &random, d);
        out->g.layers[l].n_branches = 1;
        *branch = (rs_branch){.skip = 1, .scale = 1};
        branch->attention = (rs_attention_op){.heads = heads,
                                              .kv_heads = heads,
                                              .head_dim = d / heads,
                                              .value_dim = d / heads,
                                              .q = maps[0],
                                              .k = maps[1],
                                              .v = maps[2],
                                              .o = maps[3],
                                              .scale = 1 / sqrt((double)d / heads),
                                              .temperature = 1,
                                              .mix_softmax = 1};
    }
    out->tokens = malloc((size_t)(n * d) * sizeof *out->tokens);
    rs_random_normals(&random, out->tokens, (size_t)(n * d));
}

static void close_drawn(drawn *x)
{
    for (int i = 0; i < DEEP * MAPS; i++)
        free((void *)(uintptr_t)x->tensors[i].data);
    free(x->tokens);
}

static void holds_at_sizes_of_models(void **state)
{
    (void)state;
    tally *t = calloc(2, sizeof *t);
    drawn x;
    open_drawn(&x, 128, 64, 2);
    int64_t begin[] = {0, 128};
    draw_together(t, &x.g, x.tokens, begin, 1);
    check_tally(t, 100);
    close_drawn(&x);
    free(t);
}

/* Beyond a tile of keys no row is taken from that of one key. */
static void holds_beyond_a_tile(void **state)
{
    (void)state;
    tally *t = calloc(2, sizeof *t);
    drawn x;
    open_drawn(&x, 300, 16, 1);
    int64_t begin[] = {0, 300};
    draw_together(t, &x.g, x.tokens, begin, 1);
    check_tally(t, 300);
    close_drawn(&x);
    free(t);
}

/* Nearly all tokens are equal, those of the first sample all. */
static void hears_every_token(void **state)
{
    (void)state;
    enum { N = 64, D = 16 };
    tally *t = calloc(2, sizeof *t);
    drawn x;
    open_drawn(&x, N, D, 1);
    int64_t begin[] = {0, 9, N};
    for (int64_t i = 0; i < N - 3; i++)
        memcpy(x.tokens + i * D, x.tokens, D * sizeof *x.tokens);
    draw_together(t, &x.g, x.tokens, begin, 2);
    check_tally(t, 100);
    close_drawn(&x);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_for_every_kind),
        cmocka_unit_test(holds_at_sizes_of_models),
        cmocka_unit_test(holds_beyond_a_tile),
        cmocka_unit_test(hears_every_token),
    };
    return cmocka_run_group_tests_name("gradient_floor", tests, NULL, NULL);
}
