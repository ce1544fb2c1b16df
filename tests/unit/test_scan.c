/* test_scan.c: from products to the tables and findings of a scan. Oracles: closed forms, and
 * thresholds met exactly by hand-made weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "report/table.h"
#include "scan/scan.h"

#include <math.h>
#include <string.h>

/* ---- a model of `heads` heads made of diagonal-ish factors: A = diag(a) and B = diag(b) give σ_i
 * = a_i b_i ---- */

enum { C = 4, D = 4, MOST_HEADS = 8 };

static rs_mapping no_mapping = {.slot = -1};
static rs_checkpoint_file no_file = {.name = (char *)"memory", .mapping = &no_mapping};

typedef struct fixture {
    rs_checkpoint checkpoint;
    rs_model model;
    rs_tensor tensors[2];
    rs_tensor_role roles[2];
    int64_t shapes[2][2];
    double a[MOST_HEADS * C * D], b[MOST_HEADS * C * D];
    rs_product products[MOST_HEADS];
} fixture;

static void setup(fixture *f, int heads, rs_product_kind kind)
{
    memset(f, 0, sizeof *f);
    for (int t = 0; t < 2; t++) {
        f->shapes[t][0] = heads * C;
        f->shapes[t][1] = D;
        f->tensors[t] = (rs_tensor){.name = t ? "b.weight" : "a.weight",
                                    .dtype = RS_F64,
                                    .rank = 2,
                                    .shape = f->shapes[t],
                                    .count = heads * C * D,
                                    .data = (const uint8_t *)(t ? f->b : f->a),
                                    .bytes = (uint64_t)(heads * C * D) * 8,
                                    .type_id = -1};
        f->roles[t] =
            (rs_tensor_role){.role = t ? RS_ROLE_K : RS_ROLE_Q, .status = "analysed", .reason = ""};
    }
    for (int h = 0; h < heads; h++) {
        rs_factor a = {.tensor = &f->tensors[0],
                       .rows = heads * C,
                       .cols = D,
                       .vector_is_row = true,
                       .first = h * C,
                       .inner = C,
                       .features = D};
        rs_factor b = a;
        b.tensor = &f->tensors[1];
        f->products[h] = (rs_product){.attention = "self",
                                      .kind = kind,
                                      .head = h,
                                      .kv_head = h,
                                      .group_size = 1,
                                      .a = a,
                                      .b = b,
                                      .corrections = "scale left out"};
    }
    f->checkpoint = (rs_checkpoint){.path = (char *)"memory",
                                    .files = &no_file,
                                    .n_files = 1,
                                    .tensors = f->tensors,
                                    .n_tensors = 2};
    f->model = (rs_model){.checkpoint = &f->checkpoint,
                          .family = "test",
                          .layers = 1,
                          .depth = 1,
                          .stored = {.dtype = "F64"},
                          .products = f->products,
                          .n_products = (size_t)heads,
                          .roles = f->roles};
}

static void diagonal(fixture *f, int head, const double a[C], const double b[C])
{
    for (int i = 0; i < C; i++) {
        f->a[(head * C + i) * D + i] = a[i];
        f->b[(head * C + i) * D + i] = b[i];
    }
}

static rs_result *scan(const fixture *f, const rs_scan_options *options)
{
    rs_context context = {.threads = 2};
    rs_result *result = rs_result_new("scan");
    rs_error err;
    if (rs_scan(result, &f->model, options, &context, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

static double cell(const rs_result *result, const char *table, size_t row, const char *column)
{
    const rs_table *t = rs_result_table(result, table);
    assert_non_null(t);
    int c = rs_table_find_column(t, column);
    assert_true(c >= 0 && row < rs_table_rows(t));
    if (rs_table_column(t, (size_t)c)->type == RS_COLUMN_INT)
        return (double)rs_table_int(t, row, (size_t)c);
    return rs_table_real(t, row, (size_t)c);
}

static int findings(const rs_result *result, const char *code, rs_finding *last)
{
    int n = 0;
    for (size_t i = 0; i < rs_result_finding_count(result); i++) {
        const rs_finding *finding = rs_result_finding_at(result, i);
        if (strcmp(finding->code, code) != 0) continue;
        if (last) *last = *finding;
        n++;
    }
    return n;
}

#define assert_near(a, b) assert_true(fabs((a) - (b)) <= 1e-13 * fabs(b) + 1e-300)

/* ---- energy: σ² = 16, 4, 1, 1 ---- */

/* The row of table energy of a matrix ("W_V") or product ("ov"), for one head and fraction. */
static size_t energy_row(const rs_result *result, const char *what, int64_t head, double energy)
{
    const rs_table *t = rs_result_table(result, "energy");
    const char *names[] = {"matrix", "product"};
    for (size_t row = 0; t && row < rs_table_rows(t); row++)
        for (size_t i = 0; i < 2; i++) {
            size_t c = (size_t)rs_table_find_column(t, names[i]), h = 3;
            if (rs_table_is_null(t, row, c) || strcmp(rs_table_text(t, row, c), what) != 0 ||
                cell(result, "energy", row, "energy") != energy)
                continue;
            if (i == 0 || rs_table_int(t, row, h) == head) return row;
        }
    fail_msg("no row %s", what);
    return 0;
}

static rs_scan_options energies(size_t n, const double *values)
{
    rs_scan_options options;
    rs_scan_defaults(&options);
    memcpy(options.energies, values, n * sizeof *values);
    options.n_energies = n;
    return options;
}

static void energy_table(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 1, RS_PRODUCT_OV);
    diagonal(&f, 0, (double[C]){4, 2, 1, 1}, (double[C]){1, 1, 1, 1});
    /* 20/22 is a tie: reached by two values exactly. */
    const double fractions[] = {20.0 / 22.0, 0.95, 1.0, 0.7};
    rs_scan_options options = energies(4, fractions);
    options.spectra = true;
    rs_result *result = scan(&f, &options);
    const double rank[] = {2, 3, 4, 1}, of_unit[] = {4, 4, 4, 3},
                 error[] = {sqrt(2.0 / 22.0), sqrt(1.0 / 22.0), 0, sqrt(6.0 / 22.0)};
    double saved[3] = {0};
    for (size_t i = 0; i < 4; i++) {
        size_t row = energy_row(result, "ov", 0, fractions[i]);
        assert_near(cell(result, "energy", row, "rank"), rank[i]);
        assert_near(cell(result, "energy", row, "relative_error"), error[i]);
        assert_near(cell(result, "energy", row, "parameters"), 32.0);
        assert_near(cell(result, "energy", row, "parameters_saved"), 8.0 * (4 - rank[i]));
        /* W_V alone has the same spectrum: 4 by 4, two factors of rank k hold 8 k. */
        row = energy_row(result, "W_V", 0, fractions[i]);
        assert_near(cell(result, "energy", row, "rank"), rank[i]);
        assert_near(cell(result, "energy", row, "relative_error"), error[i]);
        assert_near(cell(result, "energy", row, "parameters"), 16.0);
        assert_near(cell(result, "energy", row, "parameters_saved"), fmax(0, 16 - 8 * rank[i]));
        row = energy_row(result, "W_O", 0, fractions[i]);
        assert_near(cell(result, "energy", row, "rank"), of_unit[i]);
        assert_near(cell(result, "energy", row, "parameters_saved"), 0.0);
        for (size_t way = 0; way < 3; way++) { /* the product saves no less than the matrices do */
            saved[way] = way ? 8 * (4 - rank[i]) : fmax(0, 16 - 8 * rank[i]);
            assert_near(cell(result, "energy_totals", 3 * i + way, "parameters"), 32.0);
            assert_near(cell(result, "energy_totals", 3 * i + way, "parameters_saved"), saved[way]);
            assert_near(cell(result, "energy_totals", 3 * i + way, "share"), saved[way] / 32);
        }
        assert_near(cell(result, "costs", i, "cost"), 8 * rank[i]);
        assert_near(cell(result, "costs", i, "place"), 1.0);
    }
    const rs_table *heads = rs_result_table(result, "heads");
    size_t n;
    const double *sigma =
        rs_table_vector(heads, 0, (size_t)rs_table_find_column(heads, "singular_values"), &n);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_near(sigma[i], ((double[]){4, 2, 1, 1})[i]);
    rs_result_free(result);
}

/* Three query heads diag(a_h) share the key diag(b): the stacked product has σ_i = b_i sqrt(Σ_h
 * a_hi²), and 3·16 + 16 stored numbers, of which a rank k leaves k (3·4 + 4). */
static void energy_counts_a_shared_key_once(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 3, RS_PRODUCT_QK);
    for (int h = 0; h < 3; h++) {
        diagonal(&f, h, (double[C]){3, h, 1, 0}, (double[C]){2, 1, 1, 1});
        f.products[h].kv_head = 0;
        f.products[h].group_size = 3;
        f.products[h].b.first = 0;
    }
    const double fraction = 0.95, square[] = {4 * 27, 5, 3}; /* σ² in order */
    rs_scan_options options = energies(1, &fraction);
    rs_result *result = scan(&f, &options);
    size_t row = energy_row(result, "qk", 0, fraction);
    assert_near(cell(result, "energy", row, "rank"), 2.0);
    assert_near(cell(result, "energy", row, "relative_error"),
                sqrt(square[2] / (square[0] + square[1] + square[2])));
    assert_near(cell(result, "energy", row, "parameters"), 64.0);
    assert_near(cell(result, "energy", row, "parameters_saved"), 64.0 - 2 * 16);
    assert_near(cell(result, "energy", energy_row(result, "W_Q", 0, fraction), "parameters"), 48.0);
    assert_near(cell(result, "energy", energy_row(result, "W_K", 0, fraction), "parameters"), 16.0);
    assert_near(cell(result, "energy_totals", 0, "parameters"), 64.0);
    assert_int_equal(rs_table_rows(rs_result_table(result, "energy")), 3);
    rs_result_free(result);
}

/* ---- what may take the place of its factors ---- */

/* What acts on single units between two factors forbids it; what is on tokens, or a factor, does not. */
static void energy_knows_what_acts_on_units(void **state)
{
    (void)state;
    static const struct {
        rs_product_kind kind;
        const char *corrections, *reason; /* reason NULL: it is feasible */
    } cases[] = {{RS_PRODUCT_OV, "gate before W_O left out", "a gate on each unit"},
                 {RS_PRODUCT_OV, "norm before W_O left out", "a norm stands"},
                 {RS_PRODUCT_OV, "norm and gate before W_O left out", "a norm and a gate"},
                 {RS_PRODUCT_QK, "elu + 1 of queries and keys left out", "elu + 1"},
                 {RS_PRODUCT_OV, "scale 2 of the values left out", NULL},
                 {RS_PRODUCT_QK, "scale 1/sqrt(4) left out", NULL}};
    const double fraction = 0.5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static fixture f;
        setup(&f, 1, cases[i].kind);
        diagonal(&f, 0, (double[C]){4, 2, 1, 1}, (double[C]){1, 1, 1, 1});
        f.products[0].corrections = cases[i].corrections;
        rs_scan_options options = energies(1, &fraction);
        rs_result *result = scan(&f, &options);
        const rs_table *t = rs_result_table(result, "energy");
        size_t row = energy_row(result, cases[i].kind == RS_PRODUCT_OV ? "ov" : "qk", 0, fraction);
        const char *reason = rs_table_text(t, row, (size_t)rs_table_find_column(t, "reason"));
        bool saves = cell(result, "energy", row, "parameters_saved") > 0;
        assert_int_equal(saves, cases[i].reason == NULL);
        if (cases[i].reason) assert_non_null(strstr(reason, cases[i].reason));
        rs_result_free(result);
    }
}

enum { PLAIN, WITH_ROPE, WITH_QK_NORM, WITH_BOTH, OF_A_GUESS, SHARED, N_KINDS };

static void energy_says_what_is_feasible(void **state)
{
    (void)state;
    static const struct {
        int feasible; /* -1: null */
        const char *reason;
    } expected[N_KINDS] = {[PLAIN] = {1, "nothing stands between"},
                           [WITH_ROPE] = {0, "RoPE turns"},
                           [WITH_QK_NORM] = {0, "QK-norm stands"},
                           [WITH_BOTH] = {0, "QK-norm and RoPE"},
                           [OF_A_GUESS] = {-1, "guess"},
                           [SHARED] = {0, "another product"}};
    const double fraction = 0.5;
    for (int kind = 0; kind < N_KINDS; kind++) {
        static fixture f;
        setup(&f, 2, RS_PRODUCT_QK);
        /* One strong unit of four: of low rank, whatever random weights have. */
        for (int h = 0; h < 2; h++)
            diagonal(&f, h, (double[C]){10, 0.1, 0.1, 0.1}, (double[C]){1, 1, 1, 1});
        f.model.n_products = kind == SHARED ? 2 : 1;
        if (kind == WITH_ROPE || kind == WITH_BOTH) {
            f.products[0].rope = RS_ROPE_HALF_SPLIT;
            f.products[0].rope_dims = C;
        }
        f.products[0].qk_norm = kind == WITH_QK_NORM || kind == WITH_BOTH;
        f.model.guessed = kind == OF_A_GUESS;
        f.products[1].attention = "positional"; /* scores positions with the same W_Q */
        f.products[1].head = 0;
        f.products[1].a.first = 0;
        rs_scan_options options = energies(1, &fraction);
        rs_result *result = scan(&f, &options);
        const rs_table *t = rs_result_table(result, "energy");
        size_t row = energy_row(result, "qk", 0, fraction);
        size_t feasible = (size_t)rs_table_find_column(t, "feasible"),
               reason = (size_t)rs_table_find_column(t, "reason"),
               saved = (size_t)rs_table_find_column(t, "parameters_saved");
        bool unknown = expected[kind].feasible < 0, yes = expected[kind].feasible == 1;
        assert_int_equal(rs_table_is_null(t, row, feasible), unknown);
        assert_int_equal(rs_table_is_null(t, row, saved), unknown);
        if (!unknown) assert_int_equal(rs_table_int(t, row, feasible), yes);
        if (!unknown) assert_int_equal(rs_table_int(t, row, saved), yes ? 32 - 8 : 0);
        if (!strstr(rs_table_text(t, row, reason), expected[kind].reason))
            fail_msg("kind %d: '%s'", kind, rs_table_text(t, row, reason));
        assert_near(cell(result, "energy_totals", 1, "parameters_saved"), yes ? 24.0 : 0.0);
        /* W_Q is stored once, however many products use it. */
        assert_near(cell(result, "energy_totals", 1, "parameters"), kind == SHARED ? 48.0 : 32.0);
        rs_finding finding = {0};
        assert_true(findings(result, "qk_low_rank", &finding) > 0);
        bool says = strstr(finding.hint, yes ? "factorise the product at"
                                             : "each matrix can be factorised by itself");
        assert_true(says && !strstr(finding.hint, "take the place") == yes);
        rs_result_free(result);
    }
}

/* ---- planes: case "RoPE planes" of wd_closed_form_tests.json ---- */

static void rope_planes_in_both_layouts(void **state)
{
    (void)state;
    static const double q[C][3] = {{1, 2, 0}, {0, 1, 1}, {2, 0, 1}, {1, 1, 1}},
                        k[C][3] = {{1, 0, 1}, {0, 2, 1}, {1, 1, 0}, {0, 0, 3}};
    static const struct {
        rs_rope_kind kind;
        double q2[2], k2[2];
    } cases[] = {{RS_ROPE_INTERLEAVED, {7, 8}, {7, 11}}, {RS_ROPE_HALF_SPLIT, {10, 5}, {4, 14}}};
    for (size_t i = 0; i < 2; i++) {
        static fixture f;
        setup(&f, 1, RS_PRODUCT_QK);
        for (int u = 0; u < C; u++)
            for (int j = 0; j < 3; j++) {
                f.a[u * D + j] = q[u][j];
                f.b[u * D + j] = k[u][j];
            }
        f.products[0].rope = cases[i].kind;
        f.products[0].rope_dims = C;
        rs_scan_options options;
        rs_scan_defaults(&options);
        options.spectra = true;
        rs_result *result = scan(&f, &options);
        double sum = 0, half = 0, worst = 0, sigma[2];
        for (int j = 0; j < 2; j++) {
            sigma[j] = sqrt(cases[i].q2[j] * cases[i].k2[j]);
            sum += sigma[j];
            half += 0.5 * (cases[i].q2[j] + cases[i].k2[j]);
            worst = fmax(worst,
                         fabs(cases[i].q2[j] - cases[i].k2[j]) / (cases[i].q2[j] + cases[i].k2[j]));
        }
        assert_near(cell(result, "planes", 0, "plane_sum"), sum);
        assert_near(cell(result, "planes", 0, "half_norm"), half);
        assert_near(cell(result, "planes", 0, "imbalance"), worst);
        /* the chain of docs/theory/products.md, 4: nuclear norm <= plane sum <= H */
        assert_true(cell(result, "heads", 0, "nuclear_norm") <= sum &&
                    sum <= cell(result, "heads", 0, "half_norm"));
        const rs_table *planes = rs_result_table(result, "planes");
        size_t n;
        const double *norms =
            rs_table_vector(planes, 0, (size_t)rs_table_find_column(planes, "plane_norms"), &n);
        assert_int_equal(n, 2);
        for (size_t j = 0; j < 2; j++)
            assert_near(norms[j], sigma[j]);
        rs_result_free(result);
    }
}

/* ---- findings ---- */

static void low_rank_and_dead_heads(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 5, RS_PRODUCT_QK);
    const double one[C] = {1, 1, 1, 1}, rank_one[C] = {2, 1e-3, 1e-3, 1e-3},
                 small[C] = {.01, .01, .01, .01}, zero[C] = {0};
    diagonal(&f, 0, one, one);
    diagonal(&f, 1, one, rank_one);
    diagonal(&f, 2, one, one);
    diagonal(&f, 3, one, small);
    diagonal(&f, 4, zero, one);
    rs_scan_options options;
    rs_scan_defaults(&options);
    rs_finding found = {0};
    rs_result *result = scan(&f, &options);
    const rs_verdict *verdict = rs_result_verdict(result);
    assert_string_equal(verdict->code, "lost_rank");
    assert_int_equal(verdict->severity, RS_WARN);
    assert_memory_equal(verdict->answer,
                        "1 of 5 query-key products has lost rank: one in layer 0. 2 products are "
                        "dead: ",
                        78);
    assert_near(verdict->value, cell(result, "heads", 1, "effective_rank") /
                                    cell(result, "heads", 1, "effective_rank_null"));
    assert_int_equal(findings(result, "qk_low_rank", &found), 1);
    assert_int_equal(found.head, 1);
    assert_int_equal(found.of, 5);
    assert_near(found.value, cell(result, "heads", 1, "effective_rank"));
    assert_near(found.threshold, 0.5 * cell(result, "heads", 1, "effective_rank_null"));
    assert_int_equal(findings(result, "ov_low_rank", NULL), 0);
    /* median norm 2 (heads: 2, 2+, 2, 0.02, 0): heads 3 and 4 are dead */
    assert_int_equal(findings(result, "dead_head", &found), 2);
    assert_int_equal(found.head, 4);
    assert_true(isnan(cell(result, "heads", 4, "effective_rank")) &&
                isnan(cell(result, "heads", 4, "condition")));
    rs_result_free(result);

    /* Thresholds move the line; under QK-norm a small scale means nothing, a zero head still is
     * none. */
    options.thresholds.dead_head = 0.001;
    options.thresholds.qk_low_rank = 0.0;
    result = scan(&f, &options);
    assert_string_equal(rs_result_verdict(result)->code, "dead_heads");
    assert_int_equal(findings(result, "dead_head", NULL), 1);
    assert_int_equal(findings(result, "qk_low_rank", NULL), 0);
    rs_result_free(result);

    /* The verdict names the weakest of the dead ones, not the first. */
    rs_scan_defaults(&options);
    options.thresholds.qk_low_rank = 0.0;
    result = scan(&f, &options);
    assert_near(rs_result_verdict(result)->value, 0.0);
    assert_non_null(strstr(rs_result_verdict(result)->answer, "layer 0, head 4"));
    rs_result_free(result);

    /* Its numbers are those of a product that lost rank, though another kind's has less. */
    f.products[0].kind = RS_PRODUCT_OV;
    options.thresholds.qk_low_rank = 0.01;
    options.thresholds.ov_low_rank = 10;
    result = scan(&f, &options);
    verdict = rs_result_verdict(result);
    assert_string_equal(verdict->code, "lost_rank");
    assert_near(verdict->threshold, 10.0);
    assert_near(verdict->value, cell(result, "heads", 0, "effective_rank") /
                                    cell(result, "heads", 0, "effective_rank_null"));
    rs_result_free(result);
    f.products[0].kind = RS_PRODUCT_QK;

    for (int h = 0; h < 5; h++)
        f.products[h].qk_norm = true;
    rs_scan_defaults(&options);
    result = scan(&f, &options);
    assert_int_equal(findings(result, "dead_head", &found), 1);
    assert_int_equal(found.head, 4);
    rs_result_free(result);
}

/* Balanced, not isotropic: X = Y = diag. One head out of balance silences the layer. */
static void decay_equilibrium_needs_every_head(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 2, RS_PRODUCT_OV);
    const double graded[C] = {4, 3, 2, 1}, other[C] = {1, 2, 3, 4};
    diagonal(&f, 0, graded, graded);
    diagonal(&f, 1, graded, graded);
    rs_scan_options options;
    rs_scan_defaults(&options);
    rs_finding found = {0};
    rs_result *result = scan(&f, &options);
    assert_string_equal(rs_result_verdict(result)->code, "full_rank");
    assert_int_equal(rs_result_verdict(result)->severity, RS_INFO);
    assert_int_equal(findings(result, "decay_equilibrium", &found), 1);
    assert_near(found.value, 1.0);
    assert_true(found.head == RS_NULL_INT);
    assert_near(cell(result, "heads", 0, "balance_score"), 1.0);
    assert_true(cell(result, "heads", 0, "nuclear_excess") < 1e-14);
    rs_result_free(result);
    diagonal(&f, 1, graded, other);
    result = scan(&f, &options);
    assert_int_equal(findings(result, "decay_equilibrium", NULL), 0);
    rs_result_free(result);
    /* Isotropic factors are balanced under any rotation: no evidence. */
    const double flat[C] = {1, 1, 1, 1};
    diagonal(&f, 0, flat, flat);
    diagonal(&f, 1, flat, flat);
    result = scan(&f, &options);
    assert_int_equal(findings(result, "decay_equilibrium", NULL), 0);
    assert_near(cell(result, "heads", 0, "balance_score"), 1.0);
    rs_result_free(result);
}

static void nonfinite_weights_are_critical_and_null(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 2, RS_PRODUCT_QK);
    const double one[C] = {1, 1, 1, 1};
    diagonal(&f, 0, one, one);
    diagonal(&f, 1, one, one);
    f.a[1] = NAN;
    rs_scan_options options;
    rs_scan_defaults(&options);
    options.matrices = "all";
    rs_finding found = {0};
    rs_result *result = scan(&f, &options);
    assert_true(findings(result, "nonfinite_weights", &found) >= 1);
    assert_int_equal(found.severity, RS_CRITICAL);
    assert_non_null(strstr(found.message, "a.weight"));
    assert_true(isnan(cell(result, "heads", 0, "spectral_norm")));
    assert_near(cell(result, "heads", 1, "spectral_norm"), 1.0);
    assert_true(isnan(cell(result, "matrices", 0, "spectral_norm")));
    assert_near(cell(result, "matrices", 1, "spectral_norm"),
                sqrt(2.0)); /* two identities, stacked */
    assert_near(cell(result, "layers", 0, "spectral_norm_mean"), 1.0);
    rs_result_free(result);
}

/* Finite float64 weights whose products leave the range: said, not silently empty, and not called
 * zero. */
static void weights_out_of_range(void **state)
{
    (void)state;
    static const double sizes[] = {1e160, 1e90, 1e-90, 1e-170};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        static fixture f;
        setup(&f, 2, RS_PRODUCT_QK);
        diagonal(&f, 0, (double[C]){1, 1, 1, 1}, (double[C]){1, 1, 1, 1});
        diagonal(&f, 1, (double[C]){1, 1, 1, 1}, (double[C]){1, 1, 1, 1});
        for (int u = 0; u < C; u++)
            f.a[(C + u) * D + u] = sizes[i];
        rs_scan_options options;
        rs_scan_defaults(&options);
        options.matrices = "^b";
        rs_finding found = {0};
        rs_result *result = scan(&f, &options);
        assert_int_equal(findings(result, "weights_out_of_range", &found), 1);
        assert_near(found.value, sizes[i]);
        assert_int_equal(findings(result, "nonfinite_weights", NULL), 0);
        assert_int_equal(findings(result, "dead_head", NULL), 0);
        assert_near(cell(result, "heads", 0, "spectral_norm"), 1.0);
        assert_true(isnan(cell(result, "heads", 1, "spectral_norm")));
        rs_result_free(result);
        options.matrices = "^a"; /* one matrix: the SVD rescales */
        result = scan(&f, &options);
        assert_near(cell(result, "matrices", 0, "spectral_norm"), fmax(1.0, sizes[i]));
        rs_result_free(result);
    }
}

static void whole_matrices(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 2, RS_PRODUCT_QK);
    diagonal(&f, 0, (double[C]){3, 2, 1, 0}, (double[C]){1, 1, 1, 1});
    diagonal(&f, 1, (double[C]){4, 0, 0, 0}, (double[C]){1, 1, 1, 1});
    rs_scan_options options;
    rs_scan_defaults(&options);
    options.matrices = "^a";
    rs_result *result = scan(&f, &options);
    assert_int_equal(rs_table_rows(rs_result_table(result, "matrices")), 1);
    /* a.weight (8×4) has columns of norm 5, 2, 1, 0. */
    assert_near(cell(result, "matrices", 0, "spectral_norm"), 5.0);
    assert_near(cell(result, "matrices", 0, "frobenius_norm"), sqrt(30.0));
    assert_near(cell(result, "matrices", 0, "stable_rank"), 30.0 / 25.0);
    assert_near(cell(result, "matrices", 0, "numerical_rank"), 3.0);
    assert_near(cell(result, "matrices", 0, "ww_norm"), 30.0);
    assert_near(cell(result, "matrices", 0, "N"), 8.0);
    assert_near(cell(result, "matrices", 0, "M"), 4.0);
    rs_result_free(result);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 2, RS_PRODUCT_QK);
    const double graded[C] = {4, 3, 2, 1};
    diagonal(&f, 0, graded, graded);
    diagonal(&f, 1, graded, graded);
    f.products[0].rope = f.products[1].rope = RS_ROPE_HALF_SPLIT;
    f.products[0].rope_dims = f.products[1].rope_dims = C;
    rs_scan_options options;
    rs_scan_defaults(&options);
    options.spectra = true;
    options.matrices = "all";
    options.energies[options.n_energies++] = 0.9;
    rs_context context = {.threads = 1};
    rs_status status = RS_E_NO_MEMORY;
    for (int n = 1; status == RS_E_NO_MEMORY; n++) {
        rs_result *result = rs_result_new("scan");
        assert_non_null(result);
        rs_memory_fail_at(n);
        status = rs_scan(result, &f.model, &options, &context, NULL);
        rs_memory_fail_at(0);
        rs_result_free(result);
        assert_true(n < 100000);
    }
    assert_int_equal(status, RS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(energy_table),
        cmocka_unit_test(energy_counts_a_shared_key_once),
        cmocka_unit_test(energy_knows_what_acts_on_units),
        cmocka_unit_test(energy_says_what_is_feasible),
        cmocka_unit_test(rope_planes_in_both_layouts),
        cmocka_unit_test(low_rank_and_dead_heads),
        cmocka_unit_test(decay_equilibrium_needs_every_head),
        cmocka_unit_test(nonfinite_weights_are_critical_and_null),
        cmocka_unit_test(weights_out_of_range),
        cmocka_unit_test(whole_matrices),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
