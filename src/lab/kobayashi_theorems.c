/*
 * kobayashi_theorems.c: what Kobayashi, Akram, von Oswald (NeurIPS 2024, arXiv 2410.23819) prove of two
 * factors under weight decay, on random ones: proposition 3.1 (balanced factors are a singular value
 * decomposition), lemma 3.2 (stationary points are balanced), theorem 3.3 (both losses have the same
 * minima), theorem 3.4 (they merge exponentially): docs/theory/weight_decay.md, 13.
 */
#include "lab/kobayashi_pairs.h"
#include "lab/toy.h"

#include "linalg/orthonormal.h"
#include "linalg/spectrum.h"

#include <math.h>
#include <string.h>

enum { M = 7, N = 6, R = 4, LOSSES = 3, DRAWS = 24, QUICK_DRAWS = 3, CLIMB = 10000 };
static const double decay = 0.5, rate = 0.02, least = 1e-13;
static const double step = 0.15; /* of the nuclear loss: the largest curvature is 5.5 */
enum { MOST_STEPS = 200000 };

/* ---- the numbers of a draw, and what is claimed of them ---- */

enum {
    REBUILT,
    ORTHOGONAL,
    NUCLEAR,
    STATIONARY,
    BALANCED, /* of each loss */
    EQUAL = BALANCED + LOSSES,
    DOWN_L2,
    DOWN_NUCLEAR,
    DOWN_FACTORED,
    SADDLE_L2,
    SADDLE_NUCLEAR,
    LAW, /* of each loss */
    OUTSIDE = LAW + LOSSES,
    NUMBERS
};
static const rs_pair_claim claims[NUMBERS] = {
    [REBUILT] = {"3.1: A = U S^1/2 O', B = V S^1/2 O': distance over |A|", NAN, 1e-12},
    [ORTHOGONAL] = {"3.1: |O'O - I|, O found from A alone", NAN, 1e-12},
    [NUCLEAR] = {"3.1: |A B'|_* over (|A|^2 + |B|^2)/2", 1, 1e-12},
    [STATIONARY] = {"3.2: norm of the gradient where descent ends", NAN, 1e-12},
    [BALANCED] = {"3.2, square: |A'A - B'B| where descent ends", NAN, 1e-10},
    [BALANCED + 1] = {"3.2, logistic: |A'A - B'B| where descent ends", NAN, 1e-10},
    [BALANCED + 2] = {"3.2, wavy: |A'A - B'B| where descent ends", NAN, 1e-10},
    [EQUAL] = {"3.3: L2's loss less the nuclear one, where descent ends", NAN, 1e-12},
    [DOWN_L2] = {"3.3: 10^4 climbing steps from L2's minimum lower L2's loss by", NAN, 1e-12},
    [DOWN_NUCLEAR] = {"3.3: and from its A B' the nuclear loss by", NAN, 1e-12},
    [DOWN_FACTORED] = {"3.3: from the nuclear minimum, factored, L2's loss by", NAN, 1e-12},
    [SADDLE_L2] = {"3.3: from a balanced saddle they do lower L2's loss, by", NAN, NAN},
    [SADDLE_NUCLEAR] = {"3.3: and the nuclear loss, by", NAN, NAN},
    [LAW] = {"3.4, square: Q(t) off exp(-2 int decay) Q(0), relative", NAN, 1e-9},
    [LAW + 1] = {"3.4, logistic: Q(t) off exp(-2 int decay) Q(0), relative", NAN, 1e-9},
    [LAW + 2] = {"3.4, wavy: Q(t) off exp(-2 int decay) Q(0), relative", NAN, 1e-9},
    [OUTSIDE] = {"3.4: by how much the gap leaves |Q|_*^2/4(H+F), |Q|_*/2", NAN, 1e-12},
};

/* ---- proposition 3.1 ---- */

/* A = E M, B = F M for orthonormal columns E, F and one M: balanced, and else unrelated. Two singular
 * values are one. */
static rs_status draw_balanced(rs_factor_pair *p, rs_random *random, rs_error *err)
{
    double e[R * M], f[R * N], m[R * R];
    rs_draw_gaussian(e, R * M, 1, random);
    rs_draw_gaussian(f, R * N, 1, random);
    rs_draw_gaussian(m, R * R, 1, random);
    RS_TRY(rs_orthonormal_rows(e, R, M, err));
    RS_TRY(rs_orthonormal_rows(f, R, N, err));
    RS_TRY(rs_orthonormal_rows(m, R, R, err));
    double scale[R];
    for (int k = 0; k < R; k++)
        scale[k] = k == 1 ? scale[0] : 0.3 + rs_random_uniform(random);
    *p = (rs_factor_pair){.m = M, .n = N, .r = R};
    for (int k = 0; k < R; k++)
        for (int j = 0; j < R; j++) {
            for (int i = 0; i < M; i++)
                p->a[i * R + j] += e[k * M + i] * scale[k] * m[k * R + j];
            for (int i = 0; i < N; i++)
                p->b[i * R + j] += f[k * N + i] * scale[k] * m[k * R + j];
        }
    return RS_OK;
}

/* From W = U S V' alone: O = A'U S^-1/2, and how far U S^1/2 O' and V S^1/2 O' are from A and B. */
static rs_status see_proposition(double *numbers, rs_random *random, rs_error *err)
{
    rs_factor_pair p;
    double w[RS_PAIR_W], u[M * N], s[N], vt[N * N], o[R * R], off = 0;
    RS_TRY(draw_balanced(&p, random, err));
    rs_pair_product(w, &p);
    RS_TRY(rs_small_svd(u, s, vt, w, M, N, err));
    for (int j = 0; j < R; j++)
        for (int k = 0; k < R; k++) {
            o[j * R + k] = 0;
            for (int i = 0; i < M; i++)
                o[j * R + k] += p.a[i * R + j] * u[i * N + k] / sqrt(s[k]);
        }
    for (int j = 0; j < R; j++)
        for (int i = 0; i < M + N; i++) {
            double by = i < M ? p.a[i * R + j] : p.b[(i - M) * R + j];
            for (int k = 0; k < R; k++)
                by -= (i < M ? u[i * N + k] : vt[k * N + i - M]) * sqrt(s[k]) * o[j * R + k];
            off += by * by;
        }
    numbers[REBUILT] = sqrt(off) / rs_norm_frobenius(p.a, M, R);
    for (int j = 0; j < R; j++)
        for (int k = 0; k < R; k++) {
            double sum = j == k ? -1 : 0;
            for (int i = 0; i < R; i++)
                sum += o[i * R + j] * o[i * R + k];
            rs_keep_worst(&numbers[ORTHOGONAL], fabs(sum));
        }
    rs_pair_seen seen;
    RS_TRY(rs_pair_see(&seen, &p, err));
    numbers[NUCLEAR] = seen.nuclear / seen.grams.half_norm;
    return RS_OK;
}

/* ---- theorem 3.3 ---- */

/* The loss with decay (NUCLEAR_LOSS: with decay times the nuclear norm of A B'). */
typedef enum side { L2_LOSS, NUCLEAR_LOSS } side;

static rs_status value_of(double *value, const rs_factor_pair *p, const rs_matrix_loss *loss,
                          side which, rs_error *err)
{
    const rs_pair_loss of = rs_pair_loss_of(loss);
    *value = rs_pair_value(p, &of, which == L2_LOSS ? decay : 0);
    if (which == L2_LOSS) return RS_OK;
    rs_factor_pair copy = *p;
    double sigma[RS_PAIR_WIDTH];
    RS_TRY(rs_factor_spectrum(sigma, copy.a, p->m, copy.b, p->n, p->r, err));
    for (int64_t k = 0; k < p->r; k++)
        *value += decay * sigma[k];
    return RS_OK;
}

/* Adds a random step of all head units, or (unit >= 0) of one: a saddle falls away along one alone. */
static void step_from(rs_factor_pair *p, int unit, double length, rs_random *random)
{
    rs_factor_pair by = *p;
    rs_pair_draw(&by, length, random);
    for (int i = 0; i < M * R; i++)
        if (unit < 0 || i % R == unit) p->a[i] += by.a[i];
    for (int i = 0; i < N * R; i++)
        if (unit < 0 || i % R == unit) p->b[i] += by.b[i];
}

/* Random steps, kept where they lower the loss, longer after each that does and shorter after each that
 * does not: by how much 10^4 lower it, of its size. Moving factors is moving A B' within rank r. */
static rs_status climb(double *lowered, rs_factor_pair p, const rs_matrix_loss *loss, side which,
                       rs_random *random, rs_error *err)
{
    double start, best, lengths[R + 1];
    RS_TRY(value_of(&start, &p, loss, which, err));
    best = start;
    for (int k = 0; k <= R; k++)
        lengths[k] = 0.1;
    for (int t = 0; t < CLIMB; t++) {
        int kind = t % 2 ? R : t / 2 % R;
        double *length = &lengths[kind], value;
        rs_factor_pair tried = p;
        step_from(&tried, kind == R ? -1 : kind, *length, random);
        RS_TRY(value_of(&value, &tried, loss, which, err));
        bool lower = value < best;
        if (lower) p = tried, best = value;
        *length = fmax(*length * (lower ? 1.5 : 0.99), 1e-7);
    }
    *lowered = (start - best) / (1 + fabs(start));
    return RS_OK;
}

/* Both factors' last columns are 0 and stay so: descent ends in a saddle, balanced and of rank R - 1. */
static rs_status see_saddle(double *numbers, const rs_matrix_loss *loss, rs_random *random,
                            rs_error *err)
{
    const rs_pair_loss of = rs_pair_loss_of(loss);
    rs_factor_pair p = {.m = M, .n = N, .r = R};
    rs_pair_draw(&p, 0.7, random);
    for (int i = 0; i < M; i++)
        p.a[i * R + R - 1] = 0;
    for (int i = 0; i < N; i++)
        p.b[i * R + R - 1] = 0;
    rs_keep_worst(&numbers[STATIONARY], rs_pair_descend(&p, &of, decay, rate, least, MOST_STEPS));
    RS_TRY(climb(&numbers[SADDLE_L2], p, loss, L2_LOSS, random, err));
    return climb(&numbers[SADDLE_NUCLEAR], p, loss, NUCLEAR_LOSS, random, err);
}

/* Lemma 3.2, and theorem 3.3 there and back. */
static rs_status see_minimum(double *numbers, const rs_matrix_loss *loss, rs_random *random,
                             rs_error *err)
{
    const rs_pair_loss of = rs_pair_loss_of(loss);
    rs_factor_pair p = {.m = M, .n = N, .r = R};
    rs_pair_seen seen;
    double lowered;
    rs_pair_draw(&p, 0.7, random);
    rs_keep_worst(&numbers[STATIONARY], rs_pair_descend(&p, &of, decay, rate, least, MOST_STEPS));
    RS_TRY(rs_pair_see(&seen, &p, err));
    numbers[BALANCED + loss->kind] = seen.grams.norm_q;
    rs_keep_worst(&numbers[EQUAL], fabs(decay * seen.gap));
    RS_TRY(climb(&lowered, p, loss, L2_LOSS, random, err));
    rs_keep_worst(&numbers[DOWN_L2], lowered);
    RS_TRY(climb(&lowered, p, loss, NUCLEAR_LOSS, random, err));
    rs_keep_worst(&numbers[DOWN_NUCLEAR], lowered);
    RS_TRY(rs_pair_minimise_nuclear(&p, loss, decay, step, random, err));
    RS_TRY(climb(&lowered, p, loss, L2_LOSS, random, err));
    rs_keep_worst(&numbers[DOWN_FACTORED], lowered);
    return RS_OK;
}

/* ---- theorem 3.4 ---- */

static const rs_pair_decay swinging = {.mean = 0.3, .swing = 0.2, .pace = 2};
static const double end = 6;
/* Gradients are steepest at first. */
enum { TIMES = 24, STEPS_BETWEEN = 400, FIRST_STEPS = 4000 };

static double between(int i)
{
    return end * i / TIMES;
}

/* By how much Q misses the law, of its size. */
static double off_law(const double *q, const double *start, double t)
{
    double off = 0, size = 0, factor = exp(-2 * rs_pair_decay_until(&swinging, t));
    for (int i = 0; i < R * R; i++) {
        off += pow(q[i] - factor * start[i], 2);
        size += pow(factor * start[i], 2);
    }
    return sqrt(off / size);
}

/* By how much the gap leaves its bracket, or that |Q|_* <= sqrt(R) |Q|. */
static double outside(const rs_pair_seen *seen)
{
    double low = seen->bracket[0] - seen->gap, high = seen->gap - seen->bracket[1],
           norm = seen->bracket[1] - sqrt(R) * seen->grams.norm_q / 2;
    return fmax(fmax(low, high), fmax(norm, -seen->gap));
}

/* What is called at each of the times; may be NULL. */
typedef rs_status (*at_time)(void *user, double t, const rs_pair_seen *seen, rs_error *err);

static rs_status see_flow(double *numbers, const rs_matrix_loss *loss, rs_random *random,
                          at_time show, void *user, rs_error *err)
{
    const rs_pair_loss of = rs_pair_loss_of(loss);
    rs_factor_pair p = {.m = M, .n = N, .r = R};
    rs_pair_seen first, seen;
    rs_pair_draw(&p, 0.7, random);
    RS_TRY(rs_pair_see(&first, &p, err));
    if (show) RS_TRY(show(user, 0, &first, err));
    for (int i = 1; i <= TIMES; i++) {
        rs_pair_flow(&p, &of, &swinging, between(i - 1), between(i),
                     i == 1 ? FIRST_STEPS : STEPS_BETWEEN);
        RS_TRY(rs_pair_see(&seen, &p, err));
        rs_keep_worst(&numbers[LAW + loss->kind], off_law(seen.q, first.q, between(i)));
        rs_keep_worst(&numbers[OUTSIDE], outside(&seen));
        if (show) RS_TRY(show(user, between(i), &seen, err));
    }
    return RS_OK;
}

/* ---- draws ---- */

static void draw_loss(rs_matrix_loss *loss, rs_matrix_loss_kind kind, rs_random *random)
{
    *loss = (rs_matrix_loss){.kind = kind, .m = M, .n = N};
    rs_draw_gaussian(loss->d, M * N, kind == RS_MATRIX_LOGISTIC ? 2 : 1, random);
}

static rs_status see_draw(double *numbers, rs_random *random, rs_error *err)
{
    RS_TRY(see_proposition(numbers, random, err));
    for (int kind = 0; kind < LOSSES; kind++) {
        rs_matrix_loss loss;
        draw_loss(&loss, (rs_matrix_loss_kind)kind, random);
        RS_TRY(see_minimum(numbers, &loss, random, err));
        if (kind == RS_MATRIX_SQUARE) RS_TRY(see_saddle(numbers, &loss, random, err));
        RS_TRY(see_flow(numbers, &loss, random, NULL, NULL, err));
    }
    return RS_OK;
}

/* ---- the figure ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("time", "time", "of the flow"),
                  RS_LAB_Y("value", "value", "|A'A - B'B|, or the gap H - |A B'|_*"));
static const rs_table_kind table_kind = {"lab", "kobayashi_theorems", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Two losses merge under gradient flow",
    .about = "What separates L2's loss from the nuclear one under a decay that swings, 0.3 + 0.2 "
             "sin 2t, on a loss that is not convex: the imbalance of the factors beside its law, "
             "and the gap between the bounds that the imbalance gives it.",
    .log_y = true,
};

typedef struct shown_flow {
    rs_table *table;
    int series; /* which one this pass adds: points of a series stand together */
    double start;
} shown_flow;

static rs_status show(void *user, double t, const rs_pair_seen *seen, rs_error *err)
{
    shown_flow *s = user;
    rs_table *table = s->table;
    if (t == 0) s->start = seen->grams.norm_q;
    switch (s->series) {
    case 0:
        return rs_lab_curves_add(table, "imbalance", t, seen->grams.norm_q, err);
    case 1:
        return rs_lab_curves_add(table, "gap", t, seen->gap, err);
    case 2:
        return rs_lab_curves_compute(table, "gap, upper bound", t, seen->bracket[1], err);
    case 3:
        return rs_lab_curves_compute(table, "gap, lower bound", t, seen->bracket[0], err);
    default:
        return rs_lab_curves_compute(table, "imbalance, law", t,
                                     s->start * exp(-2 * rs_pair_decay_until(&swinging, t)), err);
    }
}

static rs_status draw_figure(rs_lab_report *report, const rs_context *context, rs_error *err)
{
    enum { SERIES = 5 };
    shown_flow s = {0};
    RS_TRY(rs_lab_curves_open(&s.table, report, &curves, err));
    for (s.series = 0; s.series < SERIES; s.series++) {
        double unused[NUMBERS] = {0};
        rs_matrix_loss loss;
        rs_random random = rs_random_new(context->seed, 0x666c6f77u);
        draw_loss(&loss, RS_MATRIX_WAVY, &random);
        RS_TRY(see_flow(unused, &loss, &random, show, &s, err));
    }
    return RS_OK;
}

static rs_status run_kobayashi_theorems(rs_lab_report *report, const rs_lab_options *options,
                                        const rs_context *context, rs_error *err)
{
    int draws = rs_pair_draws(options, DRAWS, QUICK_DRAWS);
    RS_TRY(draw_figure(report, context, err));
    RS_TRY(rs_pair_claims(report, claims, NUMBERS, draws, see_draw, context, err));
    return rs_pair_say_draws(report, options, draws, DRAWS, err);
}

const rs_lab_experiment rs_lab_kobayashi_theorems = {
    "kobayashi-theorems",
    "What decay does to two factors, proved",
    "Kobayashi et al. 2024, section 3",
    "Random factors 7 by 4 and 6 by 4 under decay and three losses of A B', one not convex: "
    "balanced factors rebuilt from a singular value decomposition, the imbalance where descent "
    "ends, random steps that try to lower either loss there, and the flow's law under a decay that "
    "changes. After Kobayashi, Akram, von Oswald, NeurIPS 2024 (arXiv 2410.23819).",
    run_kobayashi_theorems,
    "12 s",
    "2 s",
    &table_kind,
    0};
