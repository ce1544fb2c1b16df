/*
 * test_gradients_golden.c: gradients of the small models of every family, held against PyTorch's
 * autograd on the same weights (tests/oracle/make_gradient_golden.py): the norm of each tensor's
 * gradient and its products with eight directions. In float64 to 1e-9 of the norm, in float32 to 1e-4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_family.h"
#include "gradient_support.h"

enum { DIRECTIONS = 8 };

/* The gradient of one stored tensor, in the order of the file. */
typedef struct stored_gradient {
    const rs_tensor *tensor;
    double *values;
} stored_gradient;

typedef struct stored_all {
    stored_gradient items[LOOSE_TENSORS];
    int n;
} stored_all;

static stored_gradient *stored_of(stored_all *all, const rs_tensor *tensor)
{
    for (int i = 0; i < all->n; i++)
        if (all->items[i].tensor == tensor) return &all->items[i];
    assert_true(all->n < LOOSE_TENSORS);
    stored_gradient *s = &all->items[all->n++];
    s->tensor = tensor;
    s->values = calloc((size_t)tensor->count + 1, sizeof *s->values);
    return s;
}

/* Puts what was told where the file keeps it. */
static void place(stored_all *all, const told *t)
{
    const rs_parameter *p = &t->parameter;
    const rs_dense *map = p->map;
    if (!p->tensor || t->use == RS_USE_ONE) return;
    double *values = stored_of(all, p->tensor)->values;
    for (int64_t u = 0; u < p->out; u++)
        for (int64_t i = 0; i < p->in; i++) {
            int64_t at = u * p->in + i;
            if (map) {
                int64_t v = map->first + u / map->run * map->stride + u % map->run;
                at = p->part == RS_OF_BIAS ? v
                     : map->out_is_row     ? v * map->cols + i
                                           : i * map->cols + v;
            }
            values[at] += t->values[u * p->in + i];
        }
}

/* The largest difference over what may be: `bound` of the norm, and rounding of the largest one. */
static double distance_of(const double *gradient, int64_t n, const double *golden, double bound,
                          double largest)
{
    double norm = 0, worst = 0;
    for (int64_t i = 0; i < n; i++)
        norm += gradient[i] * gradient[i];
    double slack = bound * golden[0] + bound * 1e-3 * largest;
    worst = fabs(sqrt(norm) - golden[0]) / slack;
    for (int k = 0; k < DIRECTIONS; k++) {
        double dot = 0, length = 0;
        for (int64_t i = 0; i < n; i++) {
            double v = cos(0.7 + 1.618033988749895 * (k + 1) * (double)(i + 1));
            dot += v * gradient[i], length += v * v;
        }
        worst = fmax(worst, fabs(dot - golden[1 + k]) / (slack * sqrt(length)));
    }
    return worst;
}

static double largest_norm(const rs_checkpoint *golden, const char *name)
{
    double most = 0, norm;
    for (size_t i = 0; i < golden->n_tensors; i++) {
        const rs_tensor *t = &golden->tensors[i];
        if (strncmp(t->name, name, strlen(name)) != 0 || t->name[strlen(name)] != '/' ||
            t->count != 1 + DIRECTIONS)
            continue;
        rs_tensor_decode_f64(&norm, t, 0, 1);
        most = fmax(most, norm);
    }
    return most;
}

static int compare_all(const char *name, const rs_checkpoint *golden, stored_all *all,
                       rs_precision precision)
{
    double bound = precision == RS_PRECISION_F64 ? 1e-9 : 1e-4;
    double largest = largest_norm(golden, name);
    int wrong = 0;
    for (size_t i = 0; i < golden->n_tensors; i++) {
        const rs_tensor *t = &golden->tensors[i];
        double expected[1 + DIRECTIONS];
        if (strncmp(t->name, name, strlen(name)) != 0 || t->name[strlen(name)] != '/' ||
            t->count != 1 + DIRECTIONS)
            continue;
        const stored_gradient *own = NULL;
        for (int k = 0; k < all->n && !own; k++)
            if (strcmp(all->items[k].tensor->name, t->name + strlen(name) + 1) == 0)
                own = &all->items[k];
        rs_tensor_decode_f64(expected, t, 0, t->count);
        double ratio = own ? distance_of(own->values, own->tensor->count, expected, bound, largest)
                       : expected[0] == 0 ? 0
                                          : INFINITY;
        if (ratio <= 1) continue;
        print_error("%s: %s in %s: %s %.3g of what may be\n", name, t->name,
                    precision == RS_PRECISION_F64 ? "f64" : "f32", own ? "off by" : "not told,",
                    ratio);
        wrong++;
    }
    return wrong;
}

/* The loss of the golden file. */
static rs_loss loss_as_golden(const double *golden, const rs_batch *batch, int32_t *targets)
{
    int64_t count = 0;
    for (int32_t s = 0; s < batch->samples; s++)
        for (int64_t i = batch->begin[s]; i < batch->begin[s + 1]; i++) {
            targets[i] = batch->ids && i + 1 < batch->begin[s + 1] ? batch->ids[i + 1] : -1;
            count += targets[i] >= 0;
        }
    if (golden[1] == 0) return (rs_loss){.kind = RS_LOSS_SQUARE, .weight = 1};
    return (rs_loss){.kind = RS_LOSS_TARGETS, .weight = 1.0 / (double)count, .targets = targets};
}

static bool has_ways(const rs_network *network)
{
    rs_gradients *gradients;
    rs_gradient_plan plan = {0};
    rs_context context = {.threads = 1};
    rs_status status =
        rs_gradients_open(&gradients, network, RS_PRECISION_F64, &plan, NULL, 0, &context, NULL);
    if (status == RS_OK) rs_gradients_close(gradients);
    return status == RS_OK;
}

/* What the golden's name says was held constant. */
static unsigned held_of(const char *name)
{
    const char *what = strchr(name, '@');
    if (!what) return 0;
    if (strcmp(what, "@attention") == 0) return RS_HOLD_ATTENTION;
    return strcmp(what, "@norm") == 0 ? RS_HOLD_NORM : RS_HOLD_ACTIVATION;
}

/* Both precisions of one model; the networks of f64 read the file's own tensors. */
static int one_model(const char *name, const rs_checkpoint *golden, const rs_tensor *golden_loss,
                     int *compared)
{
    golden_family f;
    int wrong = 0;
    assert_true(open_family(&f, name, false));
    double expected[2];
    rs_tensor_decode_f64(expected, golden_loss, 0, 2);
    int32_t *targets = malloc((size_t)(f.in.begin[f.in.batch.samples] + 1) * sizeof *targets);
    loose as_is = {.network = *f.network};
    gradient_case c = {.name = name,
                       .loose = &as_is,
                       .batch = &f.in.batch,
                       .plan = {.hold = held_of(name)},
                       .loss = loss_as_golden(expected, &f.in.batch, targets)};
    for (rs_precision p = RS_PRECISION_F32; p <= RS_PRECISION_F64 && has_ways(f.network); p++) {
        stored_all all = {0};
        double loss;
        told_all *gradients = gradients_of(&c, p, &loss);
        for (int i = 0; i < gradients->n; i++)
            place(&all, &gradients->items[i]);
        wrong += compare_all(name, golden, &all, p);
        double bound = p == RS_PRECISION_F64 ? 1e-10 : 1e-4;
        if (!(fabs(loss - expected[0]) <= bound * fabs(expected[0]))) {
            print_error("%s: the loss is %.17g, not %.17g\n", name, loss, expected[0]);
            wrong++;
        }
        for (int i = 0; i < all.n; i++)
            free(all.items[i].values);
        told_free(gradients);
        ++*compared;
    }
    free(targets);
    close_family(&f);
    return wrong;
}

static void agrees_with_autograd(void **state)
{
    (void)state;
    char path[512], name[128];
    rs_checkpoint *golden;
    rs_checkpoint_options options = {0};
    int wrong = 0, compared = 0;
    snprintf(path, sizeof path, "%s/gradients.safetensors", RS_TEST_DATA);
    assert_int_equal(rs_checkpoint_open(&golden, path, &options, NULL), RS_OK);
    for (size_t i = 0; i < golden->n_tensors; i++) {
        const char *slash = strchr(golden->tensors[i].name, '/');
        if (!slash || strcmp(slash, "/loss") != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(slash - golden->tensors[i].name),
                 golden->tensors[i].name);
        wrong += one_model(name, golden, &golden->tensors[i], &compared);
    }
    assert_true(compared >= 2 * 90);
    assert_int_equal(wrong, 0);
    rs_checkpoint_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_autograd)};
    return cmocka_run_group_tests_name("gradients_golden", tests, NULL, NULL);
}
