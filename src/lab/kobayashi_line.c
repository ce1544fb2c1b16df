/* kobayashi_line.c: two weights near a line under Adam's two decays, Newton's method, and noise. */
#include "lab/kobayashi_line.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

enum { STREAM_STARTS = 0x0b51, STREAM_NOISE = 0x0b52 };

const rs_line_setting rs_line_settings[RS_LINE_SETTINGS] = {
    {0.1, 0.1}, {1, 0.1}, {1, 0.5}, {0.1, 1}, {0.01, 1}};
const int rs_line_steps[RS_LINE_SHOWN] = {1,     10,    30,    100,   300,   1000,
                                          2000,  3000,  5000,  7000,  10000, 15000,
                                          20000, 30000, 45000, 60000, 90000, 120000};

static const double normal[2] = {1, 2}, offset = 2, slope = 0.4; /* of (w1 + 2 w2 - 2)^2/5 */

static double rest_of(double w1, double w2)
{
    return normal[0] * w1 + normal[1] * w2 - offset;
}

/* Gradient by w, or by a and b. */
static void gradient_of(double *g, const double *theta, int panel, double share)
{
    double w[2];
    rs_line_weights(w, theta, panel);
    double rest = share * slope * rest_of(w[0], w[1]);
    for (int i = 0; i < 2; i++) {
        double by_w = rest * normal[i];
        if (panel == RS_LINE_FACTORED) {
            g[i] = by_w * theta[2 + i];
            g[2 + i] = by_w * theta[i];
        } else {
            g[i] = by_w;
        }
    }
}

void rs_line_weights(double w[2], const double *theta, int panel)
{
    for (int i = 0; i < 2; i++)
        w[i] = panel == RS_LINE_FACTORED ? theta[i] * theta[2 + i] : theta[i];
}

/* ---- runs ---- */

/* The weights of both panels, [starts] times 2 or 4 numbers, and their gradients. */
typedef struct both_panels {
    double theta[RS_LINE_PANELS][4 * RS_LINE_MOST_STARTS],
        gradient[RS_LINE_PANELS][4 * RS_LINE_MOST_STARTS];
} both_panels;

static int width_of(int panel)
{
    return panel == RS_LINE_FACTORED ? 4 : 2;
}

static void set_starts(both_panels *p, int starts, uint64_t seed)
{
    rs_random random = rs_random_new(seed, (uint64_t)STREAM_STARTS << 32);
    for (int s = 0; s < starts; s++)
        for (int i = 0; i < 2; i++) {
            static const double first_w[2] = {1.5, 1.2}, first_a[2] = {1.3, 1.1};
            double w = s ? 0.5 + 1.5 * rs_random_uniform(&random) : first_w[i];
            double a = s ? 0.5 + rs_random_uniform(&random) : first_a[i];
            p->theta[RS_LINE_DIRECT][2 * s + i] = w;
            p->theta[RS_LINE_FACTORED][4 * s + i] = a;
            p->theta[RS_LINE_FACTORED][4 * s + 2 + i] = w / a;
        }
}

static void keep(rs_line_path *path, const both_panels *p, int shown, int starts)
{
    for (int panel = 0; panel < RS_LINE_PANELS; panel++)
        for (int s = 0; s < starts; s++)
            rs_line_weights(path->w[panel][shown][s], &p->theta[panel][width_of(panel) * s], panel);
}

static rs_status descend(rs_line_path *path, both_panels *p, rs_optimiser *optimiser, double lr,
                         int starts, const rs_context *context, rs_error *err)
{
    int made = 0;
    for (int shown = 0; shown < RS_LINE_SHOWN; shown++) {
        RS_TRY(rs_check_cancelled(context, err));
        for (; made < rs_line_steps[shown]; made++) {
            for (int panel = 0; panel < RS_LINE_PANELS; panel++)
                for (int s = 0; s < starts; s++)
                    gradient_of(&p->gradient[panel][width_of(panel) * s],
                                &p->theta[panel][width_of(panel) * s], panel, 1);
            rs_optimiser_step(optimiser, lr, 1);
        }
        keep(path, p, shown, starts);
    }
    for (int panel = 0; panel < RS_LINE_PANELS; panel++)
        memcpy(path->theta[panel], p->theta[panel], sizeof path->theta[panel]);
    return RS_OK;
}

static rs_optimiser_rule rule_of(rs_optimiser_kind kind, double eps)
{
    return (rs_optimiser_rule){.kind = kind, .betas = {0.9, 0.999}, .eps = eps};
}

rs_status rs_line_run(rs_line_path *path, const rs_line_setting *setting, rs_optimiser_kind kind,
                      int starts, const rs_context *context, rs_error *err)
{
    both_panels p = {0};
    rs_trained items[RS_LINE_PANELS];
    double decay = kind == RS_OPTIMISER_ADAMW ? setting->decay : setting->eps * setting->decay;
    rs_optimiser_rule rule = rule_of(kind, setting->eps);
    rs_optimiser *optimiser = NULL;
    set_starts(&p, starts, context->seed);
    for (int panel = 0; panel < RS_LINE_PANELS; panel++)
        items[panel] = (rs_trained){.weight = p.theta[panel],
                                    .gradient = p.gradient[panel],
                                    .count = width_of(panel) * starts,
                                    .rate = 1,
                                    .decay = decay};
    RS_TRY(rs_optimiser_new(&optimiser, &rule, RS_PRECISION_F64, items, RS_LINE_PANELS, err));
    double lr = 5e-3 * fmin(1, 10 * setting->eps);
    rs_status status = descend(path, &p, optimiser, lr, starts, context, err);
    rs_optimiser_free(optimiser);
    return status;
}

/* ---- fixed points ---- */

/* F_i = g_i + decay theta_i (|g_i| + eps), or g_i + decay eps theta_i. */
static void equation_at(double *f, const double *theta, const rs_line_equation *e)
{
    double g[4];
    gradient_of(g, theta, e->panel, e->share);
    for (int i = 0; i < width_of(e->panel); i++) {
        double size = e->kind == RS_OPTIMISER_ADAMW ? fabs(g[i]) : 0;
        f[i] = g[i] + e->setting.decay * theta[i] * (size + e->setting.eps);
    }
}

/* dg_i/dtheta_k. */
static double second(const double *theta, int i, int k, const rs_line_equation *e)
{
    double curve = e->share * slope * normal[i % 2] * normal[k % 2];
    if (e->panel == RS_LINE_DIRECT) return curve;
    double w[2];
    rs_line_weights(w, theta, e->panel);
    double other_i = theta[(i + 2) % 4], other_k = theta[(k + 2) % 4];
    double own = k == (i + 2) % 4 ? e->share * slope * normal[i % 2] * rest_of(w[0], w[1]) : 0;
    return curve * other_i * other_k + own;
}

/* Row i: dF_i/dtheta, and -F_i behind it. */
static void system_at(double rows[4][5], const double *theta, const rs_line_equation *e)
{
    int n = width_of(e->panel);
    double f[4], g[4];
    equation_at(f, theta, e);
    gradient_of(g, theta, e->panel, e->share);
    for (int i = 0; i < n; i++) {
        bool apart = e->kind == RS_OPTIMISER_ADAMW;
        double turn = apart ? e->setting.decay * theta[i] * copysign(1, g[i]) : 0;
        double own = e->setting.decay * ((apart ? fabs(g[i]) : 0) + e->setting.eps);
        for (int k = 0; k < n; k++)
            rows[i][k] = second(theta, i, k, e) * (1 + turn) + (i == k ? own : 0);
        rows[i][n] = -f[i];
    }
}

/* Gauss with pivots; the solution stands in the last column. */
static void solve(double rows[4][5], int n)
{
    for (int c = 0; c < n; c++) {
        int pivot = c;
        for (int i = c + 1; i < n; i++)
            if (fabs(rows[i][c]) > fabs(rows[pivot][c])) pivot = i;
        for (int k = 0; k <= n; k++) {
            double swapped = rows[c][k];
            rows[c][k] = rows[pivot][k];
            rows[pivot][k] = swapped;
        }
        for (int i = 0; i < n; i++) {
            if (i == c) continue;
            double factor = rows[i][c] / rows[c][c];
            for (int k = c; k <= n; k++)
                rows[i][k] -= factor * rows[c][k];
        }
    }
    for (int i = 0; i < n; i++)
        rows[i][n] /= rows[i][i];
}

double rs_line_newton(double *theta, const rs_line_equation *e)
{
    enum { MOST = 60 };
    int n = width_of(e->panel);
    double rows[4][5], f[4], left = 0;
    for (int step = 0; step < MOST; step++) {
        double moved = 0;
        system_at(rows, theta, e);
        solve(rows, n);
        for (int i = 0; i < n; i++) {
            theta[i] += rows[i][n];
            moved = fmax(moved, fabs(rows[i][n]));
        }
        if (moved < 1e-15) break;
    }
    equation_at(f, theta, e);
    for (int i = 0; i < n; i++)
        left = fmax(left, fabs(f[i]));
    return left;
}

/* ---- noise ---- */

/* Weights [n * width], their gradients, noise, and sums over the last steps. */
typedef struct noisy {
    int64_t n, width;
    double *x, *g, *noise, *sum;
} noisy;

static void gradients(const noisy *y, const rs_line_noise *s, rs_random *random)
{
    rs_random_normals(random, y->noise, (size_t)(y->n * y->width));
    for (int64_t k = 0; k < y->n; k++) {
        double *g = y->g + k * y->width, *x = y->x + k * y->width;
        if (s->line)
            gradient_of(g, x, RS_LINE_DIRECT, 1);
        else
            g[0] = x[0] - 1;
        for (int64_t i = 0; i < y->width; i++)
            g[i] += s->noise * y->noise[k * y->width + i];
    }
}

static rs_status walk(const noisy *y, const rs_line_noise *s, rs_optimiser *optimiser,
                      uint64_t stream, const rs_context *context, rs_error *err)
{
    enum { STEPS = 12000, LAST = 4000, OFTEN = 500 };
    const double lr = 2e-3;
    rs_random random = rs_random_new(context->seed, (uint64_t)STREAM_NOISE << 32 ^ stream);
    for (int t = 0; t < STEPS; t++) {
        if (t % OFTEN == 0) RS_TRY(rs_check_cancelled(context, err));
        gradients(y, s, &random);
        rs_optimiser_step(optimiser, lr, 1);
        for (int64_t i = 0; i < y->n * y->width && t >= STEPS - LAST; i++)
            y->sum[i] += y->x[i] / LAST;
    }
    return RS_OK;
}

static void strength_of(rs_line_strength *out, const noisy *y, bool line)
{
    double mean[2] = {0}, squares = 0, n = (double)y->n;
    for (int64_t k = 0; k < y->n * y->width; k++)
        mean[k % y->width] += y->sum[k] / n;
    for (int64_t k = 0; k < y->n && !line; k++)
        squares += (y->sum[k] - mean[0]) * (y->sum[k] - mean[0]);
    if (line) {
        double rest = slope * rest_of(mean[0], mean[1]);
        for (int i = 0; i < 2; i++)
            out->of[i] = -rest * normal[i] / mean[i];
        out->error = NAN;
    } else {
        out->of[0] = out->of[1] = (1 - mean[0]) / mean[0];
        out->error = sqrt(squares / (n - 1) / n) / (mean[0] * mean[0]);
    }
}

rs_status rs_line_run_noise(rs_line_strength *strength, const rs_line_noise *noise, int n,
                            uint64_t stream, const rs_context *context, rs_error *err)
{
    int64_t width = noise->line ? 2 : 1, count = n * width;
    double *room = rs_calloc((size_t)count, 4 * sizeof *room);
    if (!room) return rs_fail_memory(err, "weights", (size_t)count * 4 * sizeof *room);
    noisy y = {n, width, room, room + count, room + 2 * count, room + 3 * count};
    const rs_trained item = {
        .weight = y.x, .gradient = y.g, .count = count, .rate = 1, .decay = noise->setting.decay};
    rs_optimiser_rule rule = rule_of(RS_OPTIMISER_ADAMW, noise->setting.eps);
    rs_optimiser *optimiser = NULL;
    rs_status status = rs_optimiser_new(&optimiser, &rule, RS_PRECISION_F64, &item, 1, err);
    if (status == RS_OK) status = walk(&y, noise, optimiser, stream, context, err);
    if (status == RS_OK) strength_of(strength, &y, noise->line);
    rs_optimiser_free(optimiser);
    rs_free(room);
    return status;
}
