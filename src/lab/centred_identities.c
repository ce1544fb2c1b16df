/*
 * centred_identities.c: what A − 11ᵀ/T does and what it leaves: Ali, Galanti, Wolf 2023 (arXiv
 * 2306.01610), with exact facts (docs/theory/signal.md, 2; docs/lab.md). With the same
 * matrices, linear values and no norm the part in which tokens differ is that of A: centring cures
 * relative collapse alone.
 */
#include "lab/signals.h"

#include "base/memory.h"
#include "linalg/gemm.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { N = 12, WIDTH = 20, DEPTH = 16, DEPTHS = 4, TAG = 3000, SKIPS = 2, WAYS = 2 };
enum { AS_IS, CENTRED };
static const int depths[DEPTHS] = {2, 4, 8, 16};

typedef struct found {
    double deflated, weighted, last, same; /* largest differences */
    double root, wrong_root, causal;       /* of the symmetric operator, and of a causal mask */
    double apart[DEPTHS][SKIPS][WAYS], relative[DEPTHS][SKIPS][WAYS], cosine[DEPTHS][SKIPS][WAYS];
    double size[DEPTHS][SKIPS]; /* largest ‖X‖ on the way */
} found;

/* ---- matrices of hashed numbers, which the oracle has too ---- */

static void hashed(double *out, uint32_t tag, int count, double scale)
{
    for (int i = 0; i < count; i++)
        out[i] = scale * (rs_lab_hash(tag, (uint32_t)i) / 2147483648.0 - 1);
}

static void attention(double *a, int layer)
{
    hashed(a, TAG + (uint32_t)layer, N * N, 4);
    rs_rows_softmax(a, N, N);
}

static void centred(double *a, int layer)
{
    attention(a, layer);
    rs_subtract_uniform(a, N);
}

/* out = a out */
static void apply(double *out, const double *a, int cols)
{
    double copy[N * WIDTH];
    for (int i = 0; i < N * cols; i++)
        copy[i] = out[i];
    rs_small_product(out, a, copy, N, N, cols);
}

/* tr M^k for k = 1 … N says which N eigenvalues M has (Newton's identities). */
static void traces(double *out, const double *m)
{
    double power[N * N];
    rs_identity(power, N);
    for (int k = 0; k < N; k++) {
        apply(power, m, N);
        out[k] = 0;
        for (int i = 0; i < N; i++)
            out[k] += power[i * N + i];
    }
}

/* The largest |tr (M − uvᵀ)^k − (tr M^k − 1)|: 0 where an eigenvalue 1 becomes 0 and no other moves. */
static double moved(const double *m, const double *u, const double *v)
{
    double before[N], after[N], less[N * N], most = 0;
    for (int i = 0; i < N * N; i++)
        less[i] = m[i] - u[i / N] * v[i % N];
    traces(before, m);
    traces(after, less);
    for (int k = 0; k < N; k++)
        most = fmax(most, fabs(after[k] - (before[k] - 1)));
    return most;
}

static double farthest(const double *a, const double *b, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

static void see_spectra(found *f)
{
    double a[N * N], one[N], uniform[N], weights[N], sum = 0;
    attention(a, 0);
    hashed(weights, TAG + 100, N, 1);
    for (int i = 0; i < N; i++) {
        one[i] = 1;
        uniform[i] = 1.0 / N;
        sum += weights[i] + 2;
    }
    for (int i = 0; i < N; i++)
        weights[i] = (weights[i] + 2) / sum;
    f->deflated = moved(a, one, uniform);
    f->weighted = moved(a, one, weights);
    for (int i = 0; i < N; i++) { /* causal: C_ij = 1/i for j <= i is no product u vᵀ */
        double row = 0;
        for (int j = 0; j < N; j++)
            row += a[i * N + j] *= j <= i;
        for (int j = 0; j < N; j++)
            a[i * N + j] /= row;
    }
    double before[N], after[N];
    traces(before, a);
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            a[i * N + j] -= 1.0 / (i + 1);
    traces(after, a);
    f->causal = after[1] - (before[1] - 1);
}

/* D^−½ B D^−½ has the eigenvector D^½ 1: a ring with chords, and self-loops. */
static void see_graph(found *f)
{
    double s[N * N] = {0}, degree[N] = {0}, root[N], uniform[N], sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            bool edge = i == j || (i + 1) % N == j || (j + 1) % N == i || i * j == 8;
            s[i * N + j] = edge;
            degree[i] += edge;
        }
    for (int i = 0; i < N; i++)
        sum += degree[i];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            s[i * N + j] /= sqrt(degree[i] * degree[j]);
        root[i] = sqrt(degree[i] / sum);
        uniform[i] = 1 / sqrt((double)N);
    }
    f->root = moved(s, root, root);
    f->wrong_root = moved(s, uniform, uniform);
}

static void see_products(found *f)
{
    double a[N * N], all[N * N], plain[N * N], only[N * N];
    rs_identity(all, N);
    rs_identity(plain, N);
    for (int l = 0; l < DEPTH; l++) {
        centred(a, l);
        apply(all, a, N);
        for (int i = 0; i < N * N; i++)
            only[i] = plain[i];
        apply(only, a, N); /* the last centring alone */
        f->last = fmax(f->last, farthest(all, only, N * N));
        attention(a, l);
        apply(plain, a, N);
    }
    rs_rows_centre(all, N, N);
    rs_rows_centre(plain, N, N);
    f->same = farthest(all, plain, N * N);
}

/* ---- the same of the engine's stacks ---- */

static rs_status see_stack(found *f, int at, int skip, int way, const rs_context *context,
                           rs_error *err)
{
    double a[N * N], x[N * WIDTH];
    rs_toy toy;
    rs_signal_layer layers[DEPTH + 1];
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:f, s:{s:s, s:s}}", "depth", depths[at],
                             "d_model", WIDTH, "norm", "none", "mlp", "none", "skip_mixer",
                             (double)skip, "init", "wv", "identity", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, 0, context, err));
    rs_status status = RS_OK;
    for (int l = 0; l < depths[at] && status == RS_OK; l++) {
        (way == CENTRED ? centred : attention)(a, l);
        status = rs_toy_mix_some(&toy, l, DEPTH, a, N, RS_GRAPH_GIVEN, err);
    }
    hashed(x, TAG + 101, N * WIDTH, 1);
    if (status == RS_OK) status = rs_signal_pass(layers, &toy, x, N, 0, true, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    const rs_signal_layer *end = &layers[depths[at]];
    f->apart[at][skip][way] = sqrt(end->apart);
    f->relative[at][skip][way] = sqrt(end->apart / end->square);
    f->cosine[at][skip][way] = end->cosine;
    for (int l = 0; l <= depths[at]; l++)
        f->size[at][skip] = fmax(f->size[at][skip], sqrt(layers[l].square));
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("depth", "layers", "layers of the stack"),
                  RS_LAB_Y("left", "what tells tokens apart",
                           "‖PX‖ (absolute), or over ‖X‖ (relative), as series says"));
static const rs_table_kind table_kind = {"lab", "centred_identities", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Centred attention",
    .about = "A stack without skips, norms and MLPs, with A and with A − 11ᵀ/T, by depth: ‖PX‖ is "
             "the same and falls; over ‖X‖ it stays near 1 where the mean is taken away.",
    .log_y = true,
};

static rs_status draw(rs_lab_report *report, const found *f, rs_error *err)
{
    static const char *const series[2][WAYS] = {{"absolute, A", "absolute, A - J"},
                                                {"relative, A", "relative, A - J"}};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int relative = 0; relative < 2; relative++)
        for (int way = 0; way < WAYS; way++)
            for (int i = 0; i < DEPTHS; i++)
                RS_TRY(rs_lab_curves_add(table, series[relative][way], depths[i],
                                         (relative ? f->relative : f->apart)[i][0][way], err));
    return RS_OK;
}

/* Sums of N terms of at most 1, k times: N k half units each, over N entries of a trace. */
static const double rounding = N * N * N * DBL_EPSILON;

static rs_status claim_algebra(rs_lab_report *report, const found *f, rs_error *err)
{
    const struct {
        const char *text;
        double measured;
    } zero[] = {
        {"A - J: traces of powers against A's less 1, largest difference", f->deflated},
        {"A - 1w' with any w'1 = 1: the same", f->weighted},
        {"D^-1/2 A D^-1/2 less uu', u = D^1/2 1: the same", f->root},
        {"16 centred matrices against the last one centred: largest entry", f->last},
        {"P times 16 centred matrices against P times 16: largest entry", f->same},
    };
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        RS_TRY(rs_lab_at_most(report, zero[i].text, zero[i].measured, rounding, err));
    RS_TRY(rs_lab_expect(report, "D^-1/2 A D^-1/2 less 11'/T: largest difference", 0.0059830641,
                         f->wrong_root, 1e-9, err));
    return rs_lab_expect(report, "causal, C_ij = 1/i: trace of the square, difference",
                         -0.5568899435, f->causal, 1e-9, err);
}

/* tests/oracle/lab_signals.py centred-identities: of 8 layers, by skip, of A and of A − J */
static const double relative[SKIPS][WAYS] = {{0.00782101348169, 0.913694337304},
                                             {0.0257583147973, 0.942712294636}};
static const double cosine[SKIPS][WAYS] = {{0.999934982881, 0.0461575396956},
                                           {0.999282926471, 0.0610436743789}};

static rs_status claim_stacks(rs_lab_report *report, const found *f, rs_error *err)
{
    char text[160];
    for (int skip = 0; skip < SKIPS; skip++)
        for (int i = 0; i < DEPTHS; i++) {
            double ratio = f->apart[i][skip][CENTRED] / f->apart[i][skip][AS_IS];
            /* rounding of a state is DBL_EPSILON of its size a product, and ‖PX‖ is less */
            double lost = N * depths[i] * DBL_EPSILON * f->size[i][skip] / f->apart[i][skip][AS_IS];
            snprintf(text, sizeof text, "skip %d, %d layers: |PX| of A - J over that of A, less 1",
                     skip, depths[i]);
            RS_TRY(rs_lab_at_most(report, text, fabs(ratio - 1), lost, err));
        }
    for (int skip = 0; skip < SKIPS; skip++)
        for (int way = 0; way < WAYS; way++) {
            snprintf(text, sizeof text, "skip %d, 8 layers, %s: |PX|/|X|", skip,
                     way ? "A - J" : "A");
            RS_TRY(rs_lab_expect(report, text, relative[skip][way], f->relative[2][skip][way], 1e-9,
                                 err));
            snprintf(text, sizeof text, "skip %d, 8 layers, %s: mean cosine", skip,
                     way ? "A - J" : "A");
            RS_TRY(
                rs_lab_expect(report, text, cosine[skip][way], f->cosine[2][skip][way], 1e-9, err));
        }
    return RS_OK;
}

static rs_status run_centred_identities(rs_lab_report *report, const rs_lab_options *options,
                                        const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    found f = {0};
    see_spectra(&f);
    see_graph(&f);
    see_products(&f);
    for (int i = 0; i < DEPTHS; i++)
        for (int skip = 0; skip < SKIPS; skip++)
            for (int way = 0; way < WAYS; way++)
                RS_TRY(see_stack(&f, i, skip, way, context, err));
    RS_TRY(draw(report, &f, err));
    RS_TRY(claim_algebra(report, &f, err));
    return claim_stacks(report, &f, err);
}

const rs_lab_experiment rs_lab_centred_identities = {
    "centred-identities",
    "What centred attention leaves",
    "Ali et al. 2023, centred self-attention",
    "A − 11ᵀ/T against A: eigenvalues, products, and stacks with the same matrices, whose tokens "
    "differ by just the same amount while the mean is gone; the operators of graphs and of causal "
    "masks. Ali, Galanti, Wolf 2023 (arXiv 2306.01610).",
    run_centred_identities,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
