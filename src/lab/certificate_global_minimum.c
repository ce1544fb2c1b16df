/*
 * certificate_global_minimum.c: how far L(A B') + (decay/2)(|A|^2 + |B|^2) is from the least that
 * L(W) + decay |W|_* can be, told from W and G = dL/dW alone. For convex L, any W and any bound rho
 * on the minimum's nuclear norm
 *
 *     L_*(W) - min L_*  <=  decay |W|_* + <G, W> + max(|G|_2 - decay, 0) rho,   rho = L_*(W)/decay if L >= 0
 *
 * (convexity, and <G, V> >= -|G|_2 |V|_*): docs/theory/weight_decay.md, 12. That |G|_2 <= decay at a W of low
 * rank is not enough: it says so where W is stationary, and of convex losses alone.
 */
#include "lab/kobayashi_pairs.h"
#include "lab/toy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { M = 8, N = 7, R = 5, DRAWS = 24, QUICK_DRAWS = 4, CONVEX = 2, STARTS = 4 };
enum { MOST_STEPS = 400000 };
static const double rate = 0.02, least = 1e-13;
/* By loss: some modes die, not all; of the square loss it lies midway between two of the target's, since
 * one on the threshold dies slowly. */
static const double decays[3] = {NAN, 2, 6};
enum { ALIVE = 3 };

enum {
    STATIONARY,
    SPARE,                 /* the smallest singular value: W has less than rank R */
    THRESHOLD,             /* singular values off the soft threshold */
    NORM,                  /* of each convex loss: | |G|_2 - decay | */
    BOUND = NORM + CONVEX, /* at the end */
    BROKEN = BOUND + CONVEX,
    NUMBER = BROKEN + CONVEX, /* of the loss that is not convex */
    ABOVE,
    NUMBERS
};
static const rs_pair_claim claims[NUMBERS] = {
    [STATIONARY] = {"norm of the gradient where descent ends", NAN, 1e-10},
    [SPARE] = {"least singular value of A B' there: rank is spare", NAN, 1e-10},
    [THRESHOLD] = {"square: singular values off the target's less decay", NAN, 1e-11},
    [NORM] = {"square: |G|_2 off the decay where descent ends", NAN, 1e-11},
    [NORM + 1] = {"logistic: |G|_2 off the decay where descent ends", NAN, 1e-11},
    [BOUND] = {"square: the certificate there, least loss not known", NAN, 1e-9},
    [BOUND + 1] = {"logistic: the certificate there, least loss not known", NAN, 1e-9},
    [BROKEN] = {"square: distance to the least loss less certificate, on the way", NAN, 1e-9},
    [BROKEN + 1] = {"logistic: the same, the least loss by steps without factors", NAN, 1e-9},
    [NUMBER] = {"not convex: max(0, |G|_2 - decay) where ends have rank to spare", NAN, 1e-9},
    [ABOVE] = {"not convex: yet the worst of four ends lies above the best, by", NAN, NAN},
};

/* What W says of itself. */
typedef struct certificate {
    double value, norm, bound; /* L_*(W); |G|_2; the certificate */
} certificate;

/* w [m, n], whose nuclear norm is known. */
static void certify(certificate *c, const double *w, double nuclear, const rs_matrix_loss *loss,
                    double decay)
{
    double g[RS_PAIR_W], inner = 0;
    c->value = rs_matrix_loss_at(g, loss, w) + decay * nuclear;
    c->norm = rs_norm_spectral(g, loss->m, loss->n);
    for (int64_t i = 0; i < loss->m * loss->n; i++)
        inner += g[i] * w[i];
    c->bound = decay * nuclear + inner + fmax(c->norm - decay, 0) * c->value / decay;
}

static rs_status certify_pair(certificate *c, rs_pair_seen *seen, const rs_factor_pair *p,
                              const rs_matrix_loss *loss, double decay, rs_error *err)
{
    double w[RS_PAIR_W];
    rs_pair_product(w, p);
    RS_TRY(rs_pair_see(seen, p, err));
    certify(c, w, seen->nuclear, loss, decay);
    return RS_OK;
}

/* ---- the least loss, found in another way ---- */

/* A loss, its decay and the least that L_* can be. */
typedef struct problem {
    rs_matrix_loss loss;
    double decay, least, soft[N]; /* soft: of the square loss, singular values at the minimum */
} problem;

/* Of the square loss: the target's singular values less the decay. */
static rs_status solve_square(problem *q, rs_error *err)
{
    double u[M * N], s[N], vt[N * N];
    RS_TRY(rs_small_svd(u, s, vt, q->loss.d, M, N, err));
    q->decay = (s[ALIVE - 1] + s[ALIVE]) / 2;
    q->least = 0;
    for (int k = 0; k < N; k++) {
        q->soft[k] = fmax(s[k] - q->decay, 0);
        q->least += pow(s[k] - q->soft[k], 2) / 2 + q->decay * q->soft[k];
    }
    return RS_OK;
}

/* Of any convex one: proximal steps on W of full rank. */
static rs_status solve_convex(problem *q, rs_random *random, rs_error *err)
{
    rs_factor_pair p = {.m = M, .n = N, .r = N};
    certificate c;
    rs_pair_seen seen;
    double largest = 0;
    for (int i = 0; i < M * N; i++)
        largest =
            fmax(largest, q->loss.d[i] * q->loss.d[i] / 4); /* the logistic loss's curvature */
    RS_TRY(rs_pair_minimise_nuclear(&p, &q->loss, q->decay, 1 / largest, random, err));
    RS_TRY(certify_pair(&c, &seen, &p, &q->loss, q->decay, err));
    q->least = c.value;
    return RS_OK;
}

static rs_status draw_problem(problem *q, rs_matrix_loss_kind kind, rs_random *random,
                              rs_error *err)
{
    *q = (problem){.loss = {.kind = kind, .m = M, .n = N}, .decay = decays[kind]};
    rs_draw_gaussian(q->loss.d, M * N, kind == RS_MATRIX_SQUARE ? 1 : 2, random);
    return kind == RS_MATRIX_SQUARE     ? solve_square(q, err)
           : kind == RS_MATRIX_LOGISTIC ? solve_convex(q, random, err)
                                        : RS_OK;
}

/* ---- draws ---- */

/* Called at steps 0, 1, 2, 4, ...; may be NULL. */
typedef rs_status (*at_step)(void *user, int64_t step, double above, double bound, rs_error *err);

static rs_status descend(rs_factor_pair *p, double *broken, const problem *q, at_step show,
                         void *user, rs_error *err)
{
    const rs_pair_loss of = rs_pair_loss_of(&q->loss);
    rs_pair_seen seen;
    certificate c;
    for (int64_t step = 0, next = 1; next < MOST_STEPS / 8; next *= 2) {
        RS_TRY(certify_pair(&c, &seen, p, &q->loss, q->decay, err));
        /* the factors' loss is what descends; L_* lies below it by decay times the gap */
        double gap = q->decay * seen.gap, above = c.value + gap - q->least;
        rs_keep_worst(broken, above - (c.bound + gap));
        if (show) RS_TRY(show(user, step, above, c.bound + gap, err));
        rs_pair_descend(p, &of, q->decay, rate, 0, next - step);
        step = next;
    }
    return RS_OK;
}

static rs_status see_convex(double *numbers, int kind, rs_random *random, rs_error *err)
{
    problem q;
    rs_factor_pair p = {.m = M, .n = N, .r = R};
    rs_pair_seen seen;
    certificate c;
    RS_TRY(draw_problem(&q, (rs_matrix_loss_kind)kind, random, err));
    const rs_pair_loss of = rs_pair_loss_of(&q.loss);
    rs_pair_draw(&p, 0.3, random);
    numbers[BROKEN + kind] = -INFINITY;
    RS_TRY(descend(&p, &numbers[BROKEN + kind], &q, NULL, NULL, err));
    rs_keep_worst(&numbers[STATIONARY], rs_pair_descend(&p, &of, q.decay, rate, least, MOST_STEPS));
    RS_TRY(certify_pair(&c, &seen, &p, &q.loss, q.decay, err));
    rs_keep_worst(&numbers[SPARE], seen.sigma[R - 1]);
    for (int k = 0; k < R && kind == RS_MATRIX_SQUARE; k++)
        rs_keep_worst(&numbers[THRESHOLD], fabs(seen.sigma[k] - q.soft[k]));
    numbers[NORM + kind] = fabs(c.norm - q.decay);
    numbers[BOUND + kind] = c.bound;
    return RS_OK;
}

/* Several starts on one loss that is not convex. */
static rs_status see_wavy(double *numbers, rs_random *random, rs_error *err)
{
    problem q;
    double low = INFINITY, high = -INFINITY;
    RS_TRY(draw_problem(&q, RS_MATRIX_WAVY, random, err));
    const rs_pair_loss of = rs_pair_loss_of(&q.loss);
    for (int start = 0; start < STARTS; start++) {
        rs_factor_pair p = {.m = M, .n = N, .r = R};
        rs_pair_seen seen;
        certificate c;
        rs_pair_draw(&p, 1, random);
        rs_pair_descend(&p, &of, q.decay, rate / 2, least, MOST_STEPS);
        RS_TRY(certify_pair(&c, &seen, &p, &q.loss, q.decay, err));
        if (seen.sigma[R - 1] > 1e-8) continue; /* no rank to spare: the norm says nothing */
        rs_keep_worst(&numbers[NUMBER], fmax(0, c.norm - q.decay));
        low = fmin(low, c.value);
        high = fmax(high, c.value);
    }
    numbers[ABOVE] = high > low ? high - low : 0;
    return RS_OK;
}

static rs_status see_draw(double *numbers, rs_random *random, rs_error *err)
{
    for (int kind = 0; kind < CONVEX; kind++)
        RS_TRY(see_convex(numbers, kind, random, err));
    return see_wavy(numbers, random, err);
}

/* ---- |G|_2 alone ---- */

/* L = |W - diag(1, 0)|^2/2 at W = diag(.9, 0), decay .5: of low rank, not stationary. The least loss, .375,
 * is at diag(.5, 0). */
static rs_status claim_not_enough(rs_lab_report *report, rs_error *err)
{
    const rs_matrix_loss loss = {.kind = RS_MATRIX_SQUARE, .m = 2, .n = 2, .d = {1, 0, 0, 0}};
    const double w[4] = {0.9, 0, 0, 0}, decay = 0.5;
    certificate c;
    certify(&c, w, 0.9, &loss, decay);
    RS_TRY(rs_lab_expect(report, "W = diag(.9, 0): max(0, |G|_2 - decay), which proves nothing", 0,
                         fmax(0, c.norm - decay), 1e-15, err));
    RS_TRY(rs_lab_expect(report, "W = diag(.9, 0): its distance to the least loss", 0.08,
                         c.value - 0.375, 1e-15, err));
    return rs_lab_expect(report, "W = diag(.9, 0): its certificate", 0.36, c.bound, 1e-15, err);
}

/* ---- the figure ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps of gradient descent"),
                  RS_LAB_Y("above", "above the least loss",
                           "loss less the least that it can be, or the certificate's bound on it"));
static const rs_table_kind table_kind = {
    "lab", "certificate_global_minimum", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "A certificate that factors are at a global minimum",
    .about = "How far descent of two factors is above the least loss that any matrix has, and what "
             "the certificate, which does not know that loss, says that it is at most.",
    .log_x = true,
    .log_y = true,
    .y_floor = 1e-13,
};

typedef struct shown {
    rs_table *table;
    int kind;
    bool bound; /* which series this pass adds */
} shown;

static rs_status show(void *user, int64_t step, double above, double bound, rs_error *err)
{
    const shown *s = user;
    char series[40];
    if (step == 0) return RS_OK; /* has no place on a logarithmic axis */
    snprintf(series, sizeof series, s->bound ? "%s, certificate" : "%s",
             rs_matrix_loss_names[s->kind]);
    return rs_lab_curves_add(s->table, series, (double)step, s->bound ? bound : above, err);
}

static rs_status draw_figure(rs_lab_report *report, const rs_context *context, rs_error *err)
{
    shown s = {0};
    RS_TRY(rs_lab_curves_open(&s.table, report, &curves, err));
    for (int pass = 0; pass < 2 * CONVEX; pass++) {
        problem q;
        double broken = 0;
        rs_factor_pair p = {.m = M, .n = N, .r = R};
        s.kind = pass / 2;
        s.bound = pass % 2;
        rs_random random = rs_random_new(context->seed, 0x63657274u + (uint64_t)s.kind);
        RS_TRY(draw_problem(&q, (rs_matrix_loss_kind)s.kind, &random, err));
        rs_pair_draw(&p, 0.3, &random);
        RS_TRY(descend(&p, &broken, &q, show, &s, err));
    }
    return RS_OK;
}

static rs_status run_certificate(rs_lab_report *report, const rs_lab_options *options,
                                 const rs_context *context, rs_error *err)
{
    int draws = rs_pair_draws(options, DRAWS, QUICK_DRAWS);
    RS_TRY(draw_figure(report, context, err));
    RS_TRY(rs_pair_claims(report, claims, NUMBERS, draws, see_draw, context, err));
    RS_TRY(claim_not_enough(report, err));
    return rs_pair_say_draws(report, options, draws, DRAWS, err);
}

const rs_lab_experiment rs_lab_certificate_global_minimum = {
    "certificate-global-minimum",
    "Proof that a low-rank minimum is global",
    "after Kobayashi et al. 2024, section 3",
    "Factors 8 by 5 and 7 by 5 under decay, where descent ends and on its way: how far their loss "
    "is "
    "from the least that any matrix has, bounded by the product and the gradient alone for convex "
    "losses; and that the gradient's norm alone proves nothing away from stationary points or for "
    "a "
    "loss that is not convex. Ours, after Kobayashi, Akram, von Oswald, NeurIPS 2024.",
    run_certificate,
    "4 s",
    "1 s",
    &table_kind,
    0};
