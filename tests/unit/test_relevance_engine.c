/*
 * test_relevance_engine.c: what relevance is made of (docs/theory/gradients.md, 9). With everything held, the
 * state times its derivative, the biases' shares and the memory's add up to what is explained, at every
 * cut of every drawn network and mixer; nothing held, outputs and lengths have the derivatives that
 * differences have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delta_builder.h"
#include "gradient_mixers.h"
#include "graph_reference.h"
#include "linear_builder.h"

enum { CUTS = 8 };

/* A pass forward and back, heard. */
typedef struct explaining {
    gradient_case c;
    int32_t *targets;
    double *states[CUTS]; /* forward */
    double biases, memory, size;
    double explained, worst; /* worst: of |sum - explained| over the terms' sizes, of all cuts */
    int cuts;
} explaining;

static rs_status keep_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    explaining *h = user;
    size_t bytes = (size_t)(view->rows * view->cols) * sizeof(double);
    (void)site, (void)err;
    assert_true(layer < CUTS);
    h->states[layer] = malloc(bytes + 8);
    memcpy(h->states[layer], view->data, bytes);
    return RS_OK;
}

/* Gradients of biases times the biases. */
static rs_status add_bias(void *user, const rs_gradient_view *view, rs_error *err)
{
    explaining *h = user;
    const rs_parameter *p = view->parameter;
    bool logits = p->role == RS_ROLE_HEAD_BIAS;
    if ((p->part != RS_OF_BIAS && !logits) || view->use == RS_USE_SUM) return RS_OK;
    double *values = malloc((size_t)(view->out * view->in + 1) * sizeof *values);
    assert_int_equal(rs_gradient_write(values, view, err), RS_OK);
    for (int64_t u = 0; u < p->out; u++) {
        double share = values[u] * *parameter_entry(&h->c, p, u, 0);
        h->biases += share, h->size += fabs(share);
    }
    free(values);
    return RS_OK;
}

static rs_status add_memory_share(void *user, const double *gradient, int64_t rows, int64_t width,
                                  rs_error *err)
{
    explaining *h = user;
    (void)err;
    h->memory = 0;
    for (int64_t i = 0; i < rows * width; i++)
        h->memory += gradient[i] * h->c.batch->memory[i];
    return RS_OK;
}

static rs_status compare_cut(void *user, int32_t layer, const rs_state_view *view, rs_error *err)
{
    explaining *h = user;
    const double *g = view->data, *x = h->states[layer];
    double sum = 0, size = h->size + fabs(h->memory);
    (void)err;
    for (int64_t i = 0; i < view->rows * view->cols; i++)
        sum += g[i] * x[i], size += fabs(g[i] * x[i]);
    double off = fabs(sum + h->biases + h->memory - h->explained) / size;
    if (size > 0 && !(off <= h->worst)) h->worst = off;
    h->cuts++;
    return RS_OK;
}

static rs_loss explained_of(const rs_network *network, const rs_batch *batch, int32_t *targets,
                            rs_random *random)
{
    bool head = network->head.decoder.weight;
    for (int64_t i = 0; i < batch->begin[batch->samples]; i++) {
        bool counts = rs_random_uniform(random) < 0.3;
        targets[i] = !counts ? -1
                     : head
                         ? (int32_t)(rs_random_uniform(random) * (double)network->head.decoder.out)
                         : 0;
    }
    return (rs_loss){.kind = head ? RS_LOSS_OUTPUT : RS_LOSS_LENGTH,
                     .weight = 0.25 + rs_random_uniform(random),
                     .targets = targets};
}

/* A sigmoid outside of gates has no phi(a)/a. */
static void without_sigmoids(rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            rs_branch *branch = &network->layers[l].branches[b];
            if (branch->kind == RS_BRANCH_MLP && branch->mlp.activation == RS_ACT_SIGMOID &&
                !branch->mlp.gate.weight)
                branch->mlp.activation = RS_ACT_SIN;
        }
}

static explaining *explaining_new(const char *name, const rs_network *network,
                                  const rs_batch *batch, unsigned hold, uint64_t seed)
{
    explaining *h = calloc(1, sizeof *h);
    rs_random random = rs_random_new(seed, 81);
    h->targets = malloc((size_t)(batch->begin[batch->samples] + 1) * sizeof *h->targets);
    h->c = (gradient_case){.name = name,
                           .batch = batch,
                           .loose = loose_new(network),
                           .seed = seed,
                           .directions = 1,
                           .plan = {.hold = hold, .apart = seed % 2}};
    without_sigmoids(&h->c.loose->network);
    h->c.loss = explained_of(network, batch, h->targets, &random);
    return h;
}

static void explaining_free(explaining *h)
{
    for (int i = 0; i < CUTS; i++)
        free(h->states[i]);
    loose_free(h->c.loose);
    free(h->targets);
    free(h);
}

static void run_explaining(explaining *h)
{
    rs_gradient_tap tap = {
        .user = h, .parameter = add_bias, .state = compare_cut, .memory = add_memory_share};
    const rs_gradient_tap *back[] = {&tap};
    rs_tap forward = {.user = h, .sites = 1u << RS_SITE_BLOCK_OUT, .state = keep_state};
    const rs_tap *taps[] = {&forward};
    rs_context context = {.threads = 2};
    const rs_network *network = &h->c.loose->network;
    rs_gradients *gradients;
    rs_error err = {0};
    assert_int_equal(rs_weights_open(&h->c.weights, RS_PRECISION_F64, 1 << 28, &err), RS_OK);
    assert_int_equal(rs_runner_open(&h->c.runner, network, h->c.weights, &context, &err), RS_OK);
    h->explained = loss_of(&h->c);
    assert_int_equal(rs_gradients_open(&gradients, network, RS_PRECISION_F64, &h->c.plan, back, 1,
                                       &context, &err),
                     RS_OK);
    if (rs_runner_gradient(NULL, h->c.runner, h->c.batch, &h->c.loss, gradients, taps, 1, &err) !=
        RS_OK)
        fail_msg("%s: %s: %s", h->c.name, err.where, err.what);
    rs_gradients_close(gradients);
    rs_runner_close(h->c.runner);
    rs_weights_close(h->c.weights);
}

/* Whether relevance is conserved at every cut of a drawn network. */
static double check_conserved(const char *name, const built *b, uint64_t seed)
{
    explaining *h = explaining_new(name, &b->network, &b->batch, RS_HOLD_ALL, seed);
    run_explaining(h);
    double worst = h->worst;
    assert_int_equal(h->cuts, b->network.n_layers + 1);
    if (!(worst <= 1e-12))
        fail_msg("%s: what is explained, %.17g, is %.3g off in units of its terms", name,
                 h->explained, worst);
    explaining_free(h);
    return worst;
}

static rs_branch linear_drawn(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_LINEAR);
    linear_of(b, &branch.linear, d);
    return branch;
}

static rs_branch s4d_drawn(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_S4D);
    s4d_of(b, &branch.s4d, d);
    return branch;
}

static rs_branch recurrence_drawn(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_RECURRENCE);
    recurrence_of(b, &branch.recurrence, d);
    return branch;
}

static void mixers_conserve(void **state)
{
    static const struct {
        const char *name;
        draw_mixer *draw;
        bool reads; /* tokens, to make its matrices */
    } mixers[] = {{"Mamba-2", ssd_of, true},
                  {"S6", s6_of, true},
                  {"linear attention", linear_drawn, true},
                  {"S4D", s4d_drawn, false},
                  {"recurrence", recurrence_drawn, false},
                  {"delta rule", delta_of, true},
                  {"short convolution", short_conv_of, false}};
    (void)state;
    for (size_t m = 0; m < sizeof mixers / sizeof *mixers; m++) {
        double worst = 0;
        for (int t = property_start(40, 31000 + 100 * m); property_next(&t);) {
            built *b = mixers_new(property_seed(), t % 8 == 0 ? 150 : 20, mixers[m].draw);
            check_conserved(mixers[m].name, b, property_seed());
            explaining *h = explaining_new(mixers[m].name, &b->network, &b->batch,
                                           RS_HOLD_ALL & ~RS_HOLD_MIXING, property_seed());
            run_explaining(h);
            worst = fmax(worst, h->worst);
            explaining_free(h);
            built_free(b);
        }
        assert_true(mixers[m].reads ? worst > 1e-3 : worst <= 1e-12);
    }
    property_holds(1);
}

static void graphs_conserve(void **state)
{
    (void)state;
    for (int t = property_start(40, 32000); property_next(&t);) {
        drawn g = drawn_new(property_seed(), (rs_graph_form)(property_seed() % RS_GRAPH_FORMS));
        check_conserved("graph", g.b, property_seed());
        drawn_free(&g);
    }
    property_holds(1);
}

static void transformers_conserve(void **state)
{
    int memory = 0, heads = 0, caps = 0;
    (void)state;
    for (int t = property_start(300, 33000); property_next(&t);) {
        built *b = built_new(property_seed(), 12);
        check_conserved("transformer", b, property_seed());
        memory += b->batch.memory != NULL;
        heads += b->network.head.decoder.weight != NULL;
        caps += b->network.head.decoder.weight && b->network.head.softcap != 0;
        built_free(b);
    }
    assert_true(memory > 10 && heads > 50 && caps > 5);
    property_holds(1);
}

/* Each bit is needed: without it, sums are not what is explained. */
static void each_hold_counts(void **state)
{
    static const unsigned bits[] = {RS_HOLD_ATTENTION, RS_HOLD_NORM, RS_HOLD_ACTIVATION,
                                    RS_HOLD_GATE};
    double worst[4] = {0};
    (void)state;
    for (int t = property_start(60, 34000); property_next(&t);) {
        built *b = built_new(property_seed(), 12);
        for (int i = 0; i < 4; i++) {
            explaining *h = explaining_new("transformer", &b->network, &b->batch,
                                           RS_HOLD_ALL & ~bits[i], property_seed());
            run_explaining(h);
            worst[i] = fmax(worst[i], h->worst);
            explaining_free(h);
        }
        built_free(b);
    }
    for (int i = 0; i < 4; i++)
        assert_true(worst[i] > 1e-3);
    property_holds(1);
}

static void sigmoids_are_refused(void **state)
{
    int refused = 0, gated = 0;
    (void)state;
    for (uint64_t seed = 36000; refused < 20 || gated < 5; seed++) {
        built *b = built_new(seed, 5);
        rs_gradient_plan plan = {.hold = RS_HOLD_ALL};
        rs_context context = {.threads = 1};
        rs_gradients *gradients;
        rs_error err = {0};
        bool alone = false, some = false;
        for (int32_t l = 0; l < b->network.n_layers; l++)
            for (int32_t i = 0; i < b->network.layers[l].n_branches; i++) {
                rs_branch *branch = &b->network.layers[l].branches[i];
                if (branch->kind != RS_BRANCH_MLP || branch->scale == 0) continue;
                branch->mlp.activation = RS_ACT_SIGMOID;
                some = true;
                alone = alone || !branch->mlp.gate.weight;
            }
        rs_status status = rs_gradients_open(&gradients, &b->network, RS_PRECISION_F64, &plan, NULL,
                                             0, &context, &err);
        assert_int_equal(status, alone ? RS_E_UNSUPPORTED : RS_OK);
        if (alone) assert_non_null(strstr(err.what, "has a sigmoid"));
        rs_gradients_close(gradients);
        plan.hold = RS_HOLD_ALL & ~RS_HOLD_ACTIVATION;
        assert_int_equal(rs_gradients_open(&gradients, &b->network, RS_PRECISION_F64, &plan, NULL,
                                           0, &context, &err),
                         RS_OK);
        rs_gradients_close(gradients);
        refused += alone, gated += some && !alone;
        built_free(b);
    }
}

static void outputs_have_derivatives(void **state)
{
    (void)state;
    for (int t = property_start(120, 35000); property_next(&t);) {
        built *b = built_new(property_seed(), 12);
        explaining *h = explaining_new("output", &b->network, &b->batch, 0, property_seed());
        h->c.plan.apart = false;
        assert_int_equal(check_gradients(&h->c), 0);
        explaining_free(h);
        built_free(b);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixers_conserve),          cmocka_unit_test(graphs_conserve),
        cmocka_unit_test(transformers_conserve),    cmocka_unit_test(each_hold_counts),
        cmocka_unit_test(outputs_have_derivatives), cmocka_unit_test(sigmoids_are_refused),
    };
    return cmocka_run_group_tests_name("relevance_engine", tests, NULL, NULL);
}
