/* test_predict_shapes.c: depth against width: each shape has the parameters that are nearest to what was
 * asked for, counted in closed form and by networks that are made anew; what is refused is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "predict/shapes.h"
#include "predict_support.h"

typedef struct asked {
    rs_design design;
    rs_predict_options options;
    rs_predict_run run;
    rs_shapes shapes;
} asked;

static const rs_context context = {.threads = 1, .seed = 4};

static rs_status ask(asked *a, const char *text, double parameters, int64_t trials)
{
    const rs_design like = {.name = "ARCH.json"};
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    OK(rs_design_of(&a->design, &like, json, &err));
    a->options = (rs_predict_options){.trials = trials, .thresholds = rs_predict_defaults};
    a->run = (rs_predict_run){.options = &a->options,
                              .design = &a->design,
                              .settings = {.thresholds = rs_predict_defaults},
                              .context = &context};
    return rs_shapes_find(&a->shapes, &a->run, parameters, &err);
}

static void end(asked *a)
{
    rs_shapes_free(&a->shapes);
    rs_design_close(&a->design);
}

/* Parameters of the shape's file, at another width; NaN: it makes no architecture. */
static double count_of(const asked *a, rs_shape shape, int64_t width)
{
    rs_init *init;
    rs_network *network = NULL;
    rs_error why;
    shape.width = width;
    json_t *json = rs_shape_file(&a->run, &shape, &err);
    OK(rs_init_open(&init, NULL, 0, &err));
    double count = NAN;
    if (rs_arch_plan(&network, json, "ARCH.json", init, &why) == RS_OK)
        count = (double)network->stored.parameters;
    rs_network_close(network);
    rs_init_close(init);
    json_decref(json);
    return count;
}

/* ---- the nearest ---- */

static void assert_nearest(const asked *a, const rs_shape *s, int64_t step)
{
    double wanted = a->shapes.parameters, away = fabs(s->parameters - wanted), steps = 0;
    assert_int_equal(s->width % step, 0);
    assert_true(count_of(a, *s, s->width) == s->parameters);
    for (int side = -1; side <= 1; side += 2) {
        int64_t beside = s->width + side * step;
        if (beside < step) continue;
        double other = count_of(a, *s, beside);
        steps = fmax(steps, fabs(other - s->parameters));
        if (fabs(other - wanted) < away)
            fail_msg("%lld x %lld has %g, width %lld %g: nearer to %g", (long long)s->depth,
                     (long long)s->width, s->parameters, (long long)beside, other, wanted);
    }
    /* within what a step changes: a few percent, but where there are only a few steps */
    assert_true(away <= steps);
}

static void assert_depths(const asked *a, int64_t step)
{
    const rs_shapes *shapes = &a->shapes;
    for (size_t i = 0; i < shapes->n; i++) {
        int64_t depth = shapes->list[i].depth, before = i ? shapes->list[i - 1].depth : 0;
        assert_true(i ? depth > before && depth <= 2 * before : depth == 1);
    }
    const rs_shape *last = &shapes->list[shapes->n - 1];
    rs_shape next = *last;
    next.depth = llround((double)last->depth * sqrt(2));
    if (next.depth == last->depth) next.depth++;
    if (shapes->more) return;
    double narrowest = count_of(a, next, step);
    if (isnan(narrowest))
        narrowest = count_of(a, next, 2 * step); /* one number is never correlated */
    assert_true(narrowest > shapes->parameters);
}

static void shapes_are_the_nearest(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t step;
    } archs[] = {
        {"{\"depth\": 4, \"d_model\": 32, \"heads\": 4, \"mlp\": \"relu\"}", 4},
        {"{\"depth\": 4, \"d_model\": 48, \"heads\": 3, \"mlp\": \"swiglu\", \"mlp_width\": 100, "
         "\"norm_affine\": \"both\", \"bias\": true, \"vocab\": 50, \"positions\": \"learned\"}",
         3},
        {"{\"depth\": 4, \"d_model\": 32, \"heads\": 4, \"kv_heads\": 2, \"d_head\": 6, "
         "\"positions\": \"rope\", \"mlp\": \"none\", \"mask\": \"causal\"}",
         8},
        {"{\"depth\": 4, \"d_model\": 32, \"share_layers\": true, \"branch_mlp\": \"1/sqrt(L)\", "
         "\"temperature\": \"l+1\"}",
         1},
        {"{\"depth\": 4, \"d_model\": 32, \"heads\": 2, \"mixer\": \"mamba2\", \"mlp\": \"none\"}",
         2},
        {"{\"depth\": 4, \"d_model\": 32, \"heads\": 1, \"init\": {\"wo\": \"none\"}, \"input\": "
         "{\"rho\": 0.3}}",
         1},
    };
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        for (int k = 0; k < 3; k++) {
            asked a;
            random = random * 1664525U + 1013904223U;
            double parameters = floor(pow(10, 3.3 + 3.0 * (double)random / 0x1p32));
            OK(ask(&a, archs[i].text, parameters, 0));
            assert_depths(&a, archs[i].step);
            for (size_t s = 0; s < a.shapes.n; s++)
                if (a.shapes.list[s].depth < 64)
                    assert_nearest(&a, &a.shapes.list[s], archs[i].step);
            end(&a);
        }
}

/* L (4 d² + 8 d²) numbers: widths in closed form. */
static void widths_in_closed_form(void **state)
{
    (void)state;
    asked a;
    OK(ask(&a, "{\"depth\": 6, \"d_model\": 64, \"heads\": 8, \"mlp\": \"relu\"}", 1e7, 0));
    assert_int_equal(a.shapes.n, 25 - 1); /* 1, 2, 3, … 4096; 768 numbers a layer at width 8 */
    for (size_t i = 0; i < a.shapes.n; i++) {
        const rs_shape *s = &a.shapes.list[i];
        double exact = sqrt(1e7 / (12 * (double)s->depth)) / 8;
        assert_true(s->width == 8 * (int64_t)floor(exact) || s->width == 8 * (int64_t)ceil(exact));
        assert_true(s->parameters == 12.0 * (double)(s->depth * s->width * s->width));
        if (s->width >= 160) assert_true(fabs(s->parameters / 1e7 - 1) < 0.055);
    }
    assert_true(a.shapes.more);
    end(&a);
}

/* mlp_width and d_head of a file keep their ratio to the width. */
static void ratios_are_kept(void **state)
{
    (void)state;
    asked a;
    OK(ask(&a,
           "{\"depth\": 2, \"d_model\": 64, \"heads\": 4, \"d_head\": 32, \"mlp_width\": 100, "
           "\"mlp\": \"swiglu\"}",
           3e5, 0));
    for (size_t i = 0; i < a.shapes.n; i++) {
        const rs_shape *s = &a.shapes.list[i];
        json_t *json = rs_shape_file(&a.run, s, &err);
        assert_non_null(json);
        int64_t head = json_integer_value(json_object_get(json, "d_head")),
                mlp = json_integer_value(json_object_get(json, "mlp_width"));
        assert_int_equal(head, llround((double)s->width * 32 / 64));
        assert_int_equal(mlp, llround((double)s->width * 100 / 64));
        assert_true(s->parameters == (double)(s->depth * s->width * (4 * 4 * head + 3 * mlp)));
        json_decref(json);
    }
    end(&a);
}

/* ---- what is run ---- */

static void shapes_are_run(void **state)
{
    (void)state;
    asked a;
    rs_predict_answer answer;
    OK(ask(&a,
           "{\"depth\": 3, \"d_model\": 16, \"heads\": 2, \"seq_len\": 8, \"norm\": \"post\", "
           "\"mlp\": \"relu\"}",
           2000, 3));
    OK(rs_shapes_run(&a.shapes, &a.run, &err));
    const rs_shape *most = &a.shapes.list[0];
    for (size_t i = 0; i < a.shapes.n; i++) {
        const rs_shape *s = &a.shapes.list[i];
        assert_true(isfinite(s->theory.rho) && isfinite(s->drawn.rho) && s->gap >= 0);
        assert_true(s->theory.verdict != RS_PREDICT_UNKNOWN && s->why[0] == 0);
        if (s->drawn.apart > most->drawn.apart) most = s;
    }
    rs_shapes_answer(&answer, &a.shapes);
    char named[64];
    snprintf(named, sizeof named, "%lld × %lld (", (long long)most->depth, (long long)most->width);
    assert_non_null(strstr(answer.answer, named));
    assert_int_equal(answer.number, 9);
    end(&a);
}

static void trials_are_as_many_as_there_is_time_for(void **state)
{
    (void)state;
    static const char text[] = "{\"depth\": 3, \"d_model\": 16, \"heads\": 2, \"mlp\": \"relu\"}";
    static const struct {
        double parameters;
        int32_t trials;
    } rows[] = {{1e4, 16}, {1e15, 0}};
    asked a;
    for (size_t i = 0; i < 2; i++) {
        OK(ask(&a, text, rows[i].parameters, -1));
        assert_int_equal(a.shapes.trials, rows[i].trials);
        end(&a);
    }
    OK(ask(&a, text, 1e15, 0));
    end(&a);
    assert_int_equal(ask(&a, text, 1e15, 1), RS_E_BAD_OPTION);
    assert_non_null(strstr(err.what, "1 trials of"));
    end(&a);
}

/* ---- refusals ---- */

static void what_has_no_shape_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what;
        double parameters;
    } rows[] = {
        {"{\"depth\": 3, \"d_model\": 16, \"heads\": 2, \"mlp\": \"relu\"}",
         "one layer of width 2 has 48 already", 47},
        {"{\"depth\": 3, \"d_model\": 16, \"vocab\": 1000}", "one layer of width 1 has", 1000},
        {"{\"depth\": 3, \"share_layers\": true}", "the largest there is", 1e17},
        {"{\"depth\": 5, \"skip_mlp\": [1, 1, 1, 1, 1]}", "lists 5 layers", 50},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        asked a;
        assert_int_equal(ask(&a, rows[i].text, rows[i].parameters, 0), RS_E_BAD_OPTION);
        if (!strstr(err.what, rows[i].what)) fail_msg("%s", err.what);
        assert_string_equal(err.where, "budget");
        end(&a);
    }
    asked a = {.options = {.trials = 0}};
    a.run = (rs_predict_run){.options = &a.options, .design = &a.design, .context = &context};
    assert_int_equal(rs_shapes_find(&a.shapes, &a.run, 1e6, &err), RS_E_UNSUPPORTED);
    rs_shapes_free(&a.shapes);
}

/* What one depth alone makes is a row, and the others say why. */
static void lists_fit_one_depth(void **state)
{
    (void)state;
    asked a;
    OK(ask(&a, "{\"depth\": 4, \"temperature\": [1, 2, 3, 4], \"mlp\": \"relu\"}", 1e5, 0));
    for (size_t i = 0; i < a.shapes.n; i++) {
        const rs_shape *s = &a.shapes.list[i];
        assert_true(isnan(s->parameters) == (s->depth != 4));
        assert_true((strstr(s->why, "lists 4 layers") != NULL) == (s->depth != 4));
    }
    end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_the_nearest),
        cmocka_unit_test(widths_in_closed_form),
        cmocka_unit_test(ratios_are_kept),
        cmocka_unit_test(shapes_are_run),
        cmocka_unit_test(trials_are_as_many_as_there_is_time_for),
        cmocka_unit_test(what_has_no_shape_is_refused),
        cmocka_unit_test(lists_fit_one_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
