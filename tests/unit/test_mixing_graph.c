/* test_mixing_graph.c: what the engine tells of given matrices, and of attention over a graph's edges,
 * without forming them (docs/theory/ssm.md, 10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph_reference.h"
#include "mixing_support.h"

/* Whose mixers the reference is of: a branch does not say what its matrix was made from. */
static const drawn *graph_now;

static void ref_mixer(double *y, const rs_branch *branch, const double *x, int64_t n,
                      hear_matrix *hear, void *user)
{
    double *m = malloc((size_t)(MOST_HEADS * n * n) * sizeof *m);
    ref_graph(y, m, graph_now, &branch->graph, x, graph_now->b->network.d_model);
    for (int32_t h = 0; h < branch->graph.heads; h++)
        hear(user, h, m + h * n * n, n);
    free(m);
}

static void no_decays(double *log_decay, double *step, const rs_branch *branch, const double *x,
                      int64_t n)
{
    (void)x, (void)n;
    for (int32_t h = 0; h < branch->graph.heads; h++)
        log_decay[h] = step[h] = NAN;
}

static void drawn_graphs(void **state)
{
    (void)state;
    for (int t = property_start(80, 1000); property_next(&t);) {
        uint64_t seed = property_seed();
        drawn g = drawn_new(seed, (rs_graph_form)(seed % RS_GRAPH_FORMS));
        graph_now = &g;
        check_batch(g.b, seed, ref_mixer, no_decays, 2e-4);
        drawn_free(&g);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
