/* test_lambda_scan_properties.c: rows of state-space mixers and theorem C, attacked with drawn and
 * hill-climbed instances in long double (statements L21 to L24, L26, L28). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lambda_matrices.h"
#include "lambda_properties.h"
#include "proof/lambda_fixed.h"
#include "proof/lambda_scalar.h"
#include "proof/lambda_scan.h"

/* ---- L21 ---- */

static real softplus(real x)
{
    return x > 20 ? x : log1pl(expl(x)); /* as torch has it */
}

/* Steps behind softplus and their limits; some all alike. Returns the largest preactivation. */
static double take_steps(real *steps, trial *t, int n, double least, double most)
{
    double largest = -INFINITY, middle = 3 * take(t), spread = take(t) > 0 ? take(t) : 0;
    for (int j = 0; j < n; j++) {
        double x = middle + spread * take(t);
        largest = fmax(largest, x);
        steps[j] = fminl(fmaxl(softplus((real)x), (real)least), (real)most);
    }
    return largest;
}

enum { STEPS = 40 };

static double row_sum_ratio(trial *t)
{
    real steps[STEPS], sum = 0, largest = 0;
    int n = 1 + (int)take_between(t, 0, STEPS - 0.001);
    double rate = take_scale(t, 1e-18, 1e3), least = 0, most = INFINITY;
    if (take(t) > 0) least = take_scale(t, 1e-3, 10), most = least * take_scale(t, 1, 1e3);
    double step = rs_lambda_step_most(take_steps(steps, t, n, least, most), least, most);
    for (int j = 0; j < n; j++) {
        sum = expl(-(real)rate * steps[j]) * sum + steps[j];
        largest = fmaxl(largest, sum);
    }
    double bound = rs_lambda_row_sum(rate, step, take(t) > 0 ? n : 0);
    return (double)(largest / (real)bound) - 1e-15;
}

/* ---- L22 ---- */

enum { STATE = 3, TOKENS = 8 };

typedef struct scan {
    int state, n;
    real steps[TOKENS], b[TOKENS][STATE], c[STATE], d;
    double rate[STATE];
} scan;

/* The last row, Σ_j |M_nj|. */
static real last_row(const scan *s)
{
    real total = 0, time = 0;
    for (int j = s->n - 1; j >= 0; j--) {
        real entry = j == s->n - 1 ? s->d : 0;
        for (int k = 0; k < s->state; k++)
            entry += s->c[k] * s->b[j][k] * s->steps[j] * expl(-(real)s->rate[k] * time);
        total += fabsl(entry);
        time += s->steps[j];
    }
    return total;
}

static void scale_to(real *x, int n, real length)
{
    real size = length_of(x, n);
    for (int k = 0; k < n; k++)
        x[k] *= size > 0 ? length / size : 0;
}

/* Keys of a length, times gains; each token's along what it is read by, or drawn. */
static double channel_ratio(trial *t)
{
    scan s = {.state = 1 + (int)take_between(t, 0, STATE - 0.001), .n = TOKENS};
    double gain[2][STATE], most[2][STATE] = {{0}}, length = take_scale(t, 0.1, 10);
    bool turning = take(t) > 0;
    real time = 0;
    double step = rs_lambda_step_most(take_steps(s.steps, t, s.n, 0, INFINITY), 0, INFINITY);
    for (int k = 0; k < s.state; k++) {
        s.rate[k] = take_scale(t, 1e-3, 1e3);
        gain[0][k] = take(t), gain[1][k] = take(t);
        s.c[k] = (real)take(t);
    }
    scale_to(s.c, s.state, 1);
    for (int j = s.n - 1; j >= 0; j--) {
        for (int k = 0; k < s.state; k++)
            s.b[j][k] =
                turning ? s.c[k] * (real)(gain[0][k] * gain[1][k]) * expl(-(real)s.rate[k] * time)
                        : (real)take(t);
        scale_to(s.b[j], s.state, (real)length);
        time += s.steps[j];
        for (int k = 0; k < s.state; k++) {
            s.b[j][k] *= (real)gain[0][k];
            most[0][k] = fmax(most[0][k], fabs((double)s.b[j][k]) * (1 + 1e-15));
        }
    }
    for (int k = 0; k < s.state; k++) {
        s.c[k] *= (real)gain[1][k];
        most[1][k] = fabs((double)s.c[k]) * (1 + 1e-15);
    }
    bool lengths = take(t) > 0;
    if (take(t) > 0.5) s.d = fabsl((real)take(t));
    rs_lambda_channel channel = {.state = s.state,
                                 .rate = s.rate,
                                 .b = {most[0], gain[0], lengths ? length * (1 + 1e-15) : INFINITY},
                                 .c = {most[1], gain[1], 1 + 1e-15},
                                 .step_most = step,
                                 .skip = (double)s.d * (1 + 1e-15),
                                 .tokens = take(t) > 0 ? s.n : 0};
    return (double)(last_row(&s) / (real)rs_lambda_channel_sum(&channel)) - 1e-15;
}

/* ---- L23 ---- */

/* o = W(f ∘ silu(z) ∘ rms(y) in stretches) + b, gates of any size up to what is claimed. */
static double normed_ratio(trial *t)
{
    int inner = 2 * t->d > MAX_D ? t->d : 2 * t->d, groups = inner % 2 ? 1 : 2, d = t->d;
    real w[MAX_D * MAX_D], y[MAX_D], o[MAX_D], bias[MAX_D], turned[MAX_D * MAX_D];
    double epsilon = take(t) > 0 ? 0 : take_scale(t, 1e-12, 1);
    bool gated = take(t) > 0, biased = take(t) > 0;
    take_matrix(w, t, inner, d);
    for (int g = 0; g < groups; g++) {
        int dim = inner / groups;
        real *part = y + g * dim, square = 0;
        for (int c = 0; c < dim; c++) {
            part[c] = (real)(take(t) * take_scale(t, 1e-3, 1e3));
            square += part[c] * part[c];
        }
        for (int c = 0; c < dim; c++)
            part[c] /= sqrtl(square / dim + (real)epsilon);
    }
    for (int c = 0; c < inner; c++) {
        double most = 3 * fabs(take(t));
        real factor = (real)take(t), z = (real)most * tanhl(2 * (real)take(t));
        for (int j = 0; j < d; j++) {
            turned[j * inner + c] =
                w[c * d + j] * factor * (gated ? (real)rs_lambda_silu_most(most) : 1);
        }
        y[c] *= factor * (gated ? z / (1 + expl(-z)) : 1);
    }
    times(o, y, w, inner, d);
    for (int j = 0; j < d; j++) {
        bias[j] = biased ? (real)take(t) : 0;
        o[j] += bias[j];
    }
    rs_lambda_rows rows = {.map_norm = spectral_norm(turned, d, inner),
                           .bias = (double)length_of(bias, d) * (1 + 1e-15)};
    double scale = take(t);
    rs_lambda_number gain = rs_lambda_gain_normed(&rows, inner, d, scale);
    real row = fabsl((real)scale) * length_of(o, d);
    return (double)(row / ((real)gain.value * sqrtl((real)d)));
}

/* ---- L24 ---- */

static double rows_ratio(trial *t)
{
    int d = t->d;
    real w[MAX_D * MAX_D], turned[MAX_D * MAX_D] = {0}, x[MAX_D], o[MAX_D], bias[MAX_D];
    bool biased = take(t) > 0;
    take_matrix(w, t, d, d);
    take_token(x, t, d);
    times(o, x, w, d, d);
    for (int i = 0; i < d; i++) {
        bias[i] = biased ? (real)take(t) : 0;
        o[i] += bias[i];
        for (int j = 0; j < d; j++)
            turned[j * d + i] = w[i * d + j];
    }
    rs_lambda_rows rows = {.map_norm = spectral_norm(turned, d, d),
                           .length = (double)length_of(x, d) * (1 + 1e-15),
                           .bias = (double)length_of(bias, d) * (1 + 1e-15)};
    rs_lambda_number gain = rs_lambda_gain_rows(&rows, d, 1);
    return (double)(length_of(o, d) / ((real)gain.value * sqrtl((real)d)));
}

/* ---- L26 ---- */

/* M of any sign, some with equal rows for Q − I (μ of the branch is 0), some that draw together. */
static void take_signed_mixing(double *m, trial *t, int n)
{
    double kind = take(t), size = take_scale(t, 1e-3, 10), row[MAX_N], mean = 0;
    for (int j = 0; j < n; j++) {
        row[j] = size * take(t);
        mean += row[j] / n;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            m[i * n + j] = kind > 0.3    ? row[j] - mean
                           : kind < -0.3 ? size * ((i == j) - 1.0 / n)
                                         : size * take(t);
}

static double theorem_c_ratio(trial *t)
{
    int n = t->n, d = t->d;
    double m[MAX_N * MAX_N], lambda = 3 * take(t), value = take(t);
    real y[MAX_N * MAX_D], next[MAX_N * MAX_D];
    take_signed_mixing(m, t, n);
    double spread = take_scale(t, 1e-3, 30);
    real common[MAX_D];
    for (int j = 0; j < d; j++)
        common[j] = (real)take(t) + (j == 0);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < d; j++)
            y[i * d + j] = common[j] + (real)(spread * take(t));
        scale_to(y + i * d, d, sqrtl((real)d));
    }
    real before = mu_of(y, n, d), spread_of = before / sqrtl((real)(n * d));
    rs_lambda_facts facts = {.n = n,
                             .d = d,
                             .diversity = (double)spread_of * (1 - 1e-15),
                             .diversity_most = (double)spread_of * (1 + 1e-15),
                             .unit_diversity = (double)spread_of * (1 - 1e-15),
                             .smallest_row = 1,
                             .normed = true,
                             .unit_gain = true,
                             .zero_bias = true,
                             .zero_epsilon = true,
                             .unit_rows = true};
    double epsilon = take(t) > 0 ? 0 : take_scale(t, 1e-12, 0.3);
    rs_lambda_scalar_layer layer = {m, n, n, value, lambda, epsilon};
    rs_lambda_norm norm = {.kind = RS_LAMBDA_RMSNORM, .epsilon = epsilon};
    rs_lambda_theorem_c found;
    rs_error error = {0};
    if (rs_lambda_theorem_c_of(&found, &layer, &facts, &error) != RS_OK) return NAN;
    if (!found.kept.valid || !(found.kept.value > 1e-3) || before < 1e-4L) return NAN;
    for (int i = 0; i < n; i++) {
        for (int c = 0; c < d; c++) {
            real sum = (real)lambda * y[i * d + c];
            for (int j = 0; j < n; j++)
                sum += (real)value * (real)m[i * n + j] * y[j * d + c];
            next[i * d + c] = sum;
        }
        norm_row(next + i * d, d, &norm);
        for (int c = 0; c < d; c++)
            next[i * d + c] *= sqrtl((real)d);
    }
    return (double)((real)found.kept.value * before / mu_of(next, n, d)) - 1e-11;
}

/* ---- L28 ---- */

/* Columns of the tokens with a mean share of at most κ, all of one kind or each its own. */
static double fixed_mixing_ratio(trial *t)
{
    int n = 2 + (int)take_between(t, 0, 3.999), d = take(t) > 0.5 ? 2 : 1;
    double m[MAX_N * MAX_N], lambda = 3 * take(t), value = take_scale(t, 1e-3, 10);
    bool causal = take(t) > 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double entry = take(t);
            m[i * n + j] = causal && j > i ? 0 : entry;
        }
    real x[MAX_N * 2], total = 0, spread = 0, after = 0;
    for (int i = 0; i < n * d; i++)
        x[i] = (real)take(t);
    for (int c = 0; c < d; c++) {
        real mean = 0;
        for (int i = 0; i < n; i++)
            mean += x[i * d + c] / n;
        for (int i = 0; i < n; i++)
            spread += (x[i * d + c] - mean) * (x[i * d + c] - mean);
        total += n * mean * mean;
    }
    double kappa = (double)(sqrtl(total / spread) * (1 + 1e-15L));
    rs_lambda_scalar_layer layer = {m, n, n, value, lambda, 0};
    rs_lambda_number found;
    rs_error error = {0};
    if (!(spread > 1e-8L) || !(kappa < 1e3)) return NAN;
    if (rs_lambda_fixed_kept(&found, &layer, kappa, &error) != RS_OK) return NAN;
    if (!(found.value > 1e-4 * (fabs(lambda) + value))) return NAN;
    for (int c = 0; c < d; c++) {
        real y[MAX_N], mean = 0;
        for (int i = 0; i < n; i++) {
            y[i] = (real)lambda * x[i * d + c];
            for (int j = 0; j < n; j++)
                y[i] += (real)value * (real)m[i * n + j] * x[j * d + c];
            mean += y[i] / n;
        }
        for (int i = 0; i < n; i++)
            after += (y[i] - mean) * (y[i] - mean);
    }
    return (double)((real)found.value * sqrtl(spread / after)) - 1e-15;
}

static const property properties[] = {
    {"L21 row sum", row_sum_ratio, 160, 650, 0.999, RS_LAMBDA_ROW_SUM, 0.95},
    {"L22 channel", channel_ratio, 240, 450, 0.98, RS_LAMBDA_CHANNEL_SUM, 0.95},
    {"L23 behind a norm", normed_ratio, 240, 450, 0.98, RS_LAMBDA_GAIN_NORMED, 0.95},
    {"L24 rows", rows_ratio, 144, 700, 0.98, RS_LAMBDA_GAIN_ROWS, 0.95},
    /* both constants: by value, in test_lambda_scan.c */
    {"L26 theorem C", theorem_c_ratio, 300, 600, 0.9, 0, 0},
    {"L28 S-lemma", fixed_mixing_ratio, 160, 650, 0.999, RS_LAMBDA_FIXED_MIXING, 1.05},
};
enum { PROPERTIES = sizeof properties / sizeof properties[0] };

static void no_certified_inequality_is_violated(void **state)
{
    (void)state;
    no_property_is_violated(properties, PROPERTIES);
}

static void wrong_constants_are_found_out(void **state)
{
    (void)state;
    each_wrong_constant_is_found_out(properties, PROPERTIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_certified_inequality_is_violated),
        cmocka_unit_test(wrong_constants_are_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
