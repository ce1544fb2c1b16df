/* test_probe_floor.c: which residuals count as rounding, on chains whose answer follows from how
 * rounding travels: equal tokens stay equal, whatever a layer is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "observe/gather.h"

#include <math.h>
#include <string.h>

enum { LAYERS = 3, ROWS = 2 * LAYERS + 1, SAMPLES = 2 };
static const double FLOOR = 4.8e-7;

static rs_layer layer_with(double skip, double uniform)
{
    rs_layer layer = {.n_branches = 1};
    layer.branches[0] = (rs_branch){.kind = RS_BRANCH_ATTENTION, .skip = skip, .scale = 1};
    layer.branches[0].attention.mix_softmax = 1;
    layer.branches[0].attention.mix_uniform = uniform;
    return layer;
}

/* Rows: state 0, then the state behind each layer and its mixer's output. `marked`: a character a
 * row. The second sample is far from the floor and must not see the first. */
static void expect(const char *marked, const double residuals[ROWS], rs_layer layer)
{
    rs_layer layers[LAYERS] = {layer, layer, layer};
    rs_network network = {.layers = layers, .n_layers = LAYERS};
    double all[ROWS * SAMPLES];
    bool marks[ROWS * SAMPLES];
    for (int r = 0; r < ROWS; r++) {
        all[r * SAMPLES] = residuals[r];
        all[r * SAMPLES + 1] = 0.5;
    }
    for (int s = 0; s < SAMPLES; s++)
        rs_floor_marks(marks + s, all + s, SAMPLES, &network, FLOOR);
    for (int r = 0; r < ROWS; r++) {
        if (marks[r * SAMPLES] != (marked[r] == '1')) fail_msg("row %d of %s", r, marked);
        assert_false(marks[r * SAMPLES + 1]);
    }
}

static void test_carried(void **state)
{
    (void)state;
    /* Rounding that a layer multiplies by a few stays rounding, however often. */
    expect("0011111", (double[]){0.5, 1e-2, 3e-7, 6.3e-7, 4e-7, 4e-6, 2e-6}, layer_with(0, 0));
    expect("0101111", (double[]){0.5, 3e-7, 1e-2, 6.3e-7, 4e-7, 4e-6, 2e-6}, layer_with(1, 0));
    /* A fall towards the floor is none of it. */
    expect("0000000", (double[]){0.5, 1e-2, 1e-2, 1e-4, 1e-4, 1e-6, 1e-6}, layer_with(0, 0));
    /* What comes back at once was there behind a large common part. */
    expect("0110000", (double[]){0.5, 3e-7, 3e-7, 0.2, 0.1, 0.2, 0.1}, layer_with(1, 0));
    /* Undefined values are no rounding, and what follows them starts anew. */
    expect("0110000", (double[]){0.5, 3e-7, 3e-7, NAN, NAN, 0.2, 0.1}, layer_with(1, 0));
}

/* A mixer whose output is rounding says nothing where the skip goes past it. */
static void test_mixer(void **state)
{
    (void)state;
    expect("0010000", (double[]){0.5, 1e-6, 3e-7, 1e-6, 1e-5, 1e-6, 1e-5}, layer_with(1, 0));
    expect("0111111", (double[]){0.5, 1e-6, 3e-7, 1e-6, 1e-5, 1e-6, 1e-5}, layer_with(0, 0));
    /* P − U takes the common part away: of equal tokens it leaves nothing but rounding. */
    expect("1111111", (double[]){1e-7, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}, layer_with(0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_carried),
        cmocka_unit_test(test_mixer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
