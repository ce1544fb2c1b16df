/* test_read_out.c: the read-out of the states behind all layers (docs/theory/signal.md, 5): what the
 * engine makes of them against plain loops, its way back against central differences, ties of the
 * largest, and who refuses it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "forward_reference.h"
#include "gradient_support.h"
#include "property.h"

static const rs_fusion kinds[] = {RS_FUSION_CONCAT, RS_FUSION_MAX, RS_FUSION_GATE};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- networks ---- */

static void set_read_out(built *b, rs_fusion kind)
{
    int64_t d = b->network.d_model, layers = b->network.n_layers;
    b->network.read_out = (rs_read_out_op){.kind = kind};
    if (kind == RS_FUSION_CONCAT) b->network.read_out.map = dense_of(b, layers * d, d, false);
    if (kind == RS_FUSION_GATE) b->network.read_out.map = dense_of(b, d, 1, false);
}

/* A drawn network of up to four layers, the states behind which are read together. */
static built *read_new(uint64_t seed, int64_t longest, rs_fusion kind)
{
    built *b = built_new(seed, longest);
    int32_t layers = (int32_t)draw(b, b->network.n_layers, 4);
    while (b->network.n_layers < layers) {
        rs_layer *layer = &b->layers[b->network.n_layers++];
        layer->branches[layer->n_branches++] =
            branch_of(b, b->network.d_model, RS_BRANCH_ATTENTION, false);
    }
    set_read_out(b, kind);
    return b;
}

/* ---- forward, against plain loops ---- */

enum { MOST_LAYERS = 5 };

/* The states behind the layers, as the reference or the engine told them. */
typedef struct heard {
    int64_t count;
    double *states[MOST_LAYERS], *read, *final, *logits;
} heard;

static double *copy_of(const void *data, int64_t count, rs_precision precision)
{
    double *copy = malloc(((size_t)count + 1) * sizeof *copy);
    for (int64_t i = 0; i < count; i++)
        copy[i] = precision == RS_PRECISION_F32 ? (double)((const float *)data)[i]
                                                : ((const double *)data)[i];
    return copy;
}

static void heard_free(heard *h)
{
    for (int l = 0; l < MOST_LAYERS; l++)
        free(h->states[l]);
    free(h->read);
    free(h->final);
    free(h->logits);
}

static void hear_reference(void *user, rs_site site, int32_t layer, const double *x)
{
    heard *h = user;
    if (site == RS_SITE_BLOCK_OUT) h->states[layer] = copy_of(x, h->count, RS_PRECISION_F64);
}

/* The three read-outs, written out. */
static double *read_plainly(const rs_network *network, const heard *h, int64_t rows)
{
    int64_t d = network->d_model, layers = network->n_layers;
    const rs_read_out_op *op = &network->read_out;
    double *out = calloc((size_t)(rows * d) + 1, sizeof *out);
    double *together = malloc((size_t)(layers * d + layers) * sizeof *together);
    double *weights = together + layers * d;
    for (int64_t i = 0; i < rows; i++) {
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < layers; k++) {
            memcpy(together + k * d, h->states[k + 1] + i * d, (size_t)d * sizeof *together);
            if (op->kind == RS_FUSION_GATE) ref_dense(&weights[k], together + k * d, &op->map);
        }
        if (op->kind == RS_FUSION_CONCAT) ref_dense(out + i * d, together, &op->map);
        for (int64_t k = 0; k < layers && op->kind == RS_FUSION_GATE; k++)
            most = fmax(most, weights[k]);
        for (int64_t k = 0; k < layers && op->kind == RS_FUSION_GATE; k++)
            sum += weights[k] = exp(weights[k] - most);
        for (int64_t c = 0; c < d && op->kind != RS_FUSION_CONCAT; c++) {
            double largest = -INFINITY, mean = 0;
            for (int64_t k = 0; k < layers; k++) {
                largest = fmax(largest, together[k * d + c]);
                if (op->kind == RS_FUSION_GATE) mean += weights[k] / sum * together[k * d + c];
            }
            out[i * d + c] = op->kind == RS_FUSION_MAX ? largest : mean;
        }
    }
    free(together);
    return out;
}

static heard reference_of(const built *b)
{
    const rs_network *network = &b->network;
    int64_t rows = b->batch.begin[b->batch.samples];
    heard h = {.count = rows * network->d_model};
    free(ref_run(network, &b->batch, hear_reference, NULL, &h));
    h.read = read_plainly(network, &h, rows);
    h.final = copy_of(h.read, h.count, RS_PRECISION_F64);
    ref_norm_rows(h.final, rows, network->d_model, &network->final_norm);
    if (network->head.decoder.weight) h.logits = ref_logits(&network->head, h.final, rows);
    return h;
}

static rs_status hear_engine(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                             rs_error *err)
{
    heard *h = user;
    (void)layer, (void)err;
    double **to = site == RS_SITE_READ_OUT ? &h->read : &h->final;
    *to = copy_of(view->data, view->rows * view->cols, view->precision);
    return RS_OK;
}

static rs_status hear_outputs(void *user, int64_t first, const rs_state_view *view, rs_error *err)
{
    heard *h = user;
    (void)err;
    int64_t from = first * view->cols, count = view->rows * view->cols;
    double *more = copy_of(view->data, count, view->precision);
    h->logits = realloc(h->logits, (size_t)(from + count + 1) * sizeof *more);
    memcpy(h->logits + from, more, (size_t)count * sizeof *more);
    free(more);
    return RS_OK;
}

static rs_status run_taps(const rs_network *network, const rs_batch *batch, rs_precision precision,
                          int threads, const rs_tap *tap, rs_error *err)
{
    const rs_context context = {.threads = threads};
    const rs_tap *const taps[] = {tap};
    rs_weights *weights;
    rs_runner *runner;
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, network, weights, &context, err), RS_OK);
    rs_status status = rs_runner_run(runner, batch, taps, 1, err);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return status;
}

static heard engine_of(const rs_network *network, const rs_batch *batch, rs_precision precision,
                       int threads)
{
    heard h = {0};
    rs_error err = {0};
    const rs_tap tap = {.user = &h,
                        .sites = 1u << RS_SITE_READ_OUT | 1u << RS_SITE_FINAL,
                        .state = hear_engine,
                        .logits = hear_outputs};
    if (run_taps(network, batch, precision, threads, &tap, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return h;
}

/* The largest difference over the largest number. */
static double apart(const double *a, const double *b, int64_t n)
{
    double most = 0, size = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(a[i] - b[i]));
        size = fmax(size, fabs(a[i]));
    }
    return most / size;
}

static void reads_as_written_out(void **state)
{
    (void)state;
    for (int t = property_start(150, 300); property_next(&t);) {
        built *b = read_new(property_seed(), 12, kinds[property_seed() % KINDS]);
        const rs_network *network = &b->network;
        int64_t rows = b->batch.begin[b->batch.samples];
        heard expected = reference_of(b),
              found = engine_of(network, &b->batch, RS_PRECISION_F64, 1),
              other = engine_of(network, &b->batch, RS_PRECISION_F64, 3);
        property_worst(apart(expected.read, found.read, expected.count) / 1e-10);
        property_worst(apart(expected.final, found.final, expected.count) / 1e-8);
        assert_memory_equal(found.read, other.read, (size_t)expected.count * sizeof(double));
        if (expected.logits)
            property_worst(apart(expected.logits, found.logits, rows * network->head.decoder.out) /
                           1e-7);
        heard_free(&expected);
        heard_free(&found);
        heard_free(&other);
        built_free(b);
    }
    property_holds(1);
}

/* Float32 is no farther from the reference than its roundoff through four layers makes it. */
static void reads_in_single(void **state)
{
    (void)state;
    for (int t = property_start(60, 900); property_next(&t);) {
        built *b = read_new(property_seed(), 12, kinds[property_seed() % KINDS]);
        b->network.final_norm = (rs_norm_op){0};
        heard wide = engine_of(&b->network, &b->batch, RS_PRECISION_F64, 1),
              narrow = engine_of(&b->network, &b->batch, RS_PRECISION_F32, 2);
        int64_t count = b->batch.begin[b->batch.samples] * b->network.d_model;
        property_worst(apart(wide.read, narrow.read, count) / 1e-2);
        heard_free(&wide);
        heard_free(&narrow);
        built_free(b);
    }
    property_holds(1);
}

/* ---- the way back ---- */

static void agrees_with_differences(void **state)
{
    (void)state;
    for (int t = property_start(150, 7000); property_next(&t);) {
        built *b = read_new(property_seed(), 12, kinds[property_seed() % KINDS]);
        assert_int_equal(check_network("read-out", &b->network, &b->batch, 2, property_seed()), 0);
        built_free(b);
    }
    property_holds(1);
}

static rs_status hear_nothing(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                              rs_error *err)
{
    (void)user, (void)site, (void)layer, (void)view, (void)err;
    return RS_OK;
}

/* Gradients of a loss, while somebody listens to states (so that no rows are picked), or nobody does. */
static told_all *gradients_heard(const rs_network *network, const rs_batch *batch,
                                 const rs_loss *loss, bool listens, double *value)
{
    told_all *all = calloc(1, sizeof *all);
    const rs_gradient_plan plan = {0};
    const rs_gradient_tap tap = {.user = all, .parameter = keep_gradient};
    const rs_gradient_tap *const taps[] = {&tap};
    const rs_tap ear = {.sites = 1u << RS_SITE_BLOCK_OUT, .state = hear_nothing};
    const rs_tap *const ears[] = {&ear};
    const rs_context context = {.threads = 2};
    rs_weights *weights;
    rs_runner *runner;
    rs_gradients *gradients;
    rs_error err = {0};
    *value = 0;
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 28, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, network, weights, &context, &err), RS_OK);
    assert_int_equal(
        rs_gradients_open(&gradients, network, RS_PRECISION_F64, &plan, taps, 1, &context, &err),
        RS_OK);
    assert_int_equal(rs_runner_gradient(value, runner, batch, loss, gradients, ears, listens, &err),
                     RS_OK);
    assert_int_equal(rs_gradients_finish(gradients, &err), RS_OK);
    double alone = 0;
    assert_int_equal(rs_runner_loss(&alone, runner, batch, loss, ears, listens, &err), RS_OK);
    assert_true(alone == *value || listens); /* the loss alone picks what the way back picks */
    rs_gradients_close(gradients);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return all;
}

/* Where few rows have a target, those that go on behind the last mixer are read alone: all gradients are
 * what they are where every row goes on. */
static void few_rows_are_read(void **state)
{
    (void)state;
    int64_t picked = 0;
    for (int t = property_start(90, 11000); property_next(&t);) {
        built *b = read_new(property_seed(), 12, kinds[property_seed() % KINDS]);
        int64_t rows = b->batch.begin[b->batch.samples];
        if (!b->network.head.decoder.weight) draw_head(b);
        int32_t *targets = malloc(((size_t)rows + 1) * sizeof *targets);
        for (int64_t i = 0; i < rows; i++)
            targets[i] = chance(b, 0.3) ? (int32_t)draw(b, 0, b->network.head.decoder.out - 1) : -1;
        const rs_loss loss = {.kind = RS_LOSS_TARGETS, .weight = 0.5, .targets = targets};
        double few_loss, all_loss;
        told_all *few = gradients_heard(&b->network, &b->batch, &loss, false, &few_loss),
                 *all = gradients_heard(&b->network, &b->batch, &loss, true, &all_loss);
        assert_int_equal(few->n, all->n);
        assert_true(fabs(few_loss - all_loss) <= 1e-11 * (1 + fabs(all_loss)));
        for (int i = 0; i < all->n; i++) {
            const told *x = &all->items[i], *y = &few->items[i];
            int64_t count = x->parameter.out * x->parameter.in;
            double size = 0;
            for (int64_t k = 0; k < count; k++)
                size = fmax(size, fabs(x->values[k]));
            picked += memcmp(x->values, y->values, (size_t)count * sizeof *x->values) != 0;
            if (size > 1e-9) property_worst(apart(x->values, y->values, count) / 1e-7);
        }
        told_free(few);
        told_free(all);
        free(targets);
        built_free(b);
    }
    property_holds(1);
    assert_true(picked > 0); /* some rounding is another: rows were picked */
}

/* ---- ties ---- */

typedef struct slopes {
    double *by[MOST_LAYERS];
} slopes;

static rs_status hear_slope(void *user, int32_t layer, const rs_state_view *view, rs_error *err)
{
    slopes *s = user;
    (void)err;
    s->by[layer] = copy_of(view->data, view->rows * view->cols, view->precision);
    return RS_OK;
}

/* listens: somebody hears what the read-out gives. */
static slopes slopes_of(const rs_network *network, const rs_batch *batch, const rs_loss *loss,
                        bool listens)
{
    const rs_tap ear = {.sites = 1u << RS_SITE_READ_OUT, .state = hear_nothing};
    const rs_tap *const ears[] = {&ear};
    slopes s = {0};
    const rs_gradient_plan plan = {0};
    const rs_gradient_tap tap = {.user = &s, .state = hear_slope};
    const rs_gradient_tap *const taps[] = {&tap};
    const rs_context context = {.threads = 1};
    rs_weights *weights;
    rs_runner *runner;
    rs_gradients *gradients;
    rs_error err = {0};
    double value = 0;
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 28, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, network, weights, &context, &err), RS_OK);
    assert_int_equal(
        rs_gradients_open(&gradients, network, RS_PRECISION_F64, &plan, taps, 1, &context, &err),
        RS_OK);
    assert_int_equal(
        rs_runner_gradient(&value, runner, batch, loss, gradients, ears, listens, &err), RS_OK);
    rs_gradients_close(gradients);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return s;
}

/* Layers behind the first that add nothing and have no norm leave its state as it is: every entry ties, and the first
 * layer has all of the derivative. The loss is |X|^2/2, so that it is the state itself. */
static void ties_go_to_the_first(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        built *b = read_new(500 + seed, 9, RS_FUSION_MAX);
        rs_network *network = &b->network;
        if (network->n_layers < 2) network->n_layers = 2, b->layers[1] = b->layers[0];
        network->final_norm = (rs_norm_op){0};
        for (int32_t l = 1; l < network->n_layers; l++)
            for (int32_t k = 0; k < b->layers[l].n_branches; k++) {
                rs_branch *branch = &b->layers[l].branches[k];
                branch->skip = 1, branch->scale = 0;
                branch->after = (rs_norm_op){0};
            }
        const rs_loss loss = {.kind = RS_LOSS_SQUARE, .weight = 1};
        slopes s = slopes_of(network, &b->batch, &loss, false);
        heard h = engine_of(network, &b->batch, RS_PRECISION_F64, 1);
        int64_t count = b->batch.begin[b->batch.samples] * network->d_model;
        for (int64_t i = 0; i < count; i++) {
            for (int32_t l = 2; l <= network->n_layers; l++)
                assert_true(s.by[l][i] == 0);
            assert_true(s.by[1][i] == h.read[i]);
        }
        for (int l = 0; l < MOST_LAYERS; l++)
            free(s.by[l]);
        heard_free(&h);
        built_free(b);
    }
}

/* A loss at the last state goes around a read-out, whether or not somebody listens to it. */
static void last_state_goes_around(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        built *b = read_new(700 + seed, 9, kinds[seed % KINDS]);
        const rs_loss loss = {.kind = RS_LOSS_SQUARE, .weight = 1, .at_state = true};
        size_t bytes = (size_t)(b->batch.begin[b->batch.samples] * b->network.d_model);
        bytes *= sizeof(double);
        slopes listened = slopes_of(&b->network, &b->batch, &loss, true),
               alone = slopes_of(&b->network, &b->batch, &loss, false);
        b->network.read_out = (rs_read_out_op){0};
        slopes without = slopes_of(&b->network, &b->batch, &loss, false);
        for (int l = 0; l <= b->network.n_layers; l++) {
            assert_memory_equal(listened.by[l], alone.by[l], bytes);
            assert_memory_equal(without.by[l], alone.by[l], bytes);
        }
        for (int l = 0; l < MOST_LAYERS; l++) {
            free(listened.by[l]);
            free(alone.by[l]);
            free(without.by[l]);
        }
        built_free(b);
    }
}

/* ---- points of a sweep ---- */

static rs_status hear_rows(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                           rs_error *err)
{
    double **to = user;
    (void)site, (void)layer, (void)err;
    free(*to); /* of several states the last is kept */
    *to = copy_of(view->data, view->rows * view->cols, view->precision);
    return RS_OK;
}

static void points_read_their_own_states(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        built *b = read_new(900 + seed, 9, kinds[seed % KINDS]);
        if (b->batch.memory) {
            built_free(b);
            continue;
        }
        double skips[2 * 4 * RS_BRANCHES_MAX], *both = NULL, *one = NULL;
        int branches = 0;
        rs_error err = {0};
        for (int32_t l = 0; l < b->network.n_layers; l++)
            branches += b->network.layers[l].n_branches;
        for (int i = 0; i < 2 * branches; i++)
            skips[i] = i % 2 ? 0.5 : 1.25;
        const rs_points points = {.n = 2, .skip = skips};
        rs_batch batch = b->batch;
        batch.points = &points;
        rs_tap tap = {.user = &both, .sites = 1u << RS_SITE_READ_OUT, .state = hear_rows};
        assert_int_equal(run_taps(&b->network, &batch, RS_PRECISION_F64, 2, &tap, &err), RS_OK);
        int64_t count = b->batch.begin[b->batch.samples] * b->network.d_model;
        for (int p = 0; p < 2; p++) {
            for (int32_t l = 0; l < b->network.n_layers; l++)
                for (int32_t k = 0; k < b->layers[l].n_branches; k++)
                    b->layers[l].branches[k].skip = p ? 0.5 : 1.25;
            tap.user = &one;
            assert_int_equal(run_taps(&b->network, &b->batch, RS_PRECISION_F64, 2, &tap, &err),
                             RS_OK);
            assert_true(apart(one, both + p * count, count) < 1e-9);
            free(one);
            one = NULL;
        }
        free(both);
        built_free(b);
    }
}

/* ---- who refuses it ---- */

static void refusals(void **state)
{
    (void)state;
    double *rows = NULL;
    rs_error err = {0};
    built *b = NULL;
    for (uint64_t seed = 40; !b || b->network.n_layers < 2 || b->batch.memory; seed++) {
        if (b) built_free(b);
        b = read_new(seed, 9, RS_FUSION_CONCAT);
    }
    rs_tap tap = {.user = &rows, .sites = 1u << RS_SITE_FINAL, .state = hear_rows};
    assert_int_equal(run_taps(&b->network, &b->batch, RS_PRECISION_RESIDUAL, 1, &tap, &err),
                     RS_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "fusion"));
    /* states of layers are told by it all the same */
    tap.sites = 1u << RS_SITE_BLOCK_OUT;
    assert_int_equal(run_taps(&b->network, &b->batch, RS_PRECISION_RESIDUAL, 1, &tap, &err), RS_OK);
    free(rows);
    rows = NULL;
    /* of other layers than it has weights for: what is in front of it alone */
    b->network.n_layers--;
    tap.sites = 1u << RS_SITE_READ_OUT;
    assert_int_equal(run_taps(&b->network, &b->batch, RS_PRECISION_F64, 1, &tap, &err),
                     RS_E_TENSOR_SHAPE);
    tap.sites = 1u << RS_SITE_MIXER_OUT;
    assert_int_equal(run_taps(&b->network, &b->batch, RS_PRECISION_F64, 1, &tap, &err), RS_OK);
    free(rows);
    built_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_as_written_out),         cmocka_unit_test(reads_in_single),
        cmocka_unit_test(agrees_with_differences),      cmocka_unit_test(few_rows_are_read),
        cmocka_unit_test(ties_go_to_the_first),         cmocka_unit_test(last_state_goes_around),
        cmocka_unit_test(points_read_their_own_states), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("read_out", tests, NULL, NULL);
}
