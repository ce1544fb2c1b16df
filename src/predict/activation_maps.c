/* activation_maps.c: the closed maps, and the choice between them and the expansions. */
#include "predict/activation_maps.h"

#include "base/memory.h"
#include "predict/activation_hermite.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

struct rs_activation_map {
    rs_gauss_kind kind;
    double ln_q;
    bool ready;
    rs_hermite hermite;
};

bool rs_gauss_of_activation(rs_gauss_kind *out, rs_activation activation)
{
    static const struct {
        rs_activation activation;
        rs_gauss_kind kind;
    } rows[] = {{RS_ACT_LINEAR, RS_GAUSS_LINEAR},
                {RS_ACT_RELU, RS_GAUSS_RELU},
                {RS_ACT_GELU, RS_GAUSS_GELU},
                {RS_ACT_GELU_TANH, RS_GAUSS_GELU_TANH},
                {RS_ACT_QUICK_GELU, RS_GAUSS_QUICK_GELU},
                {RS_ACT_SILU, RS_GAUSS_SILU},
                {RS_ACT_TANH, RS_GAUSS_TANH},
                {RS_ACT_SIN, RS_GAUSS_SIN},
                {RS_ACT_SIGMOID, RS_GAUSS_SIGMOID}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].activation != activation) continue;
        *out = rows[i].kind;
        return true;
    }
    return false;
}

/* ---- ReLU ---- */

double rs_relu_angle(double e)
{
    return 2 * asin(fmin(sqrt(e / 2), 1));
}

/* (sin θ − θ cos θ)/θ³ by its series for θ² <= 1/4: 2k/(2k+1)! with alternating sign, k from 1 on. */
static double sine_excess_near(double squared)
{
    static const double terms[] = {
        1.0 / 3,       -1.0 / 30,        1.0 / 840,           -1.0 / 45360,
        1.0 / 3991680, -1.0 / 518918400, 1.0 / 93405312000.0, -1.0 / 22230464256000.0};
    double sum = 0;
    for (int k = 7; k >= 0; k--)
        sum = sum * squared + terms[k];
    return sum;
}

/* (1 − κ)/e at an angle of e, cos θ = 1 − e. */
static double gap_ratio(double e, double angle)
{
    /* θ²/e tends to 2 */
    double squared = angle * angle;
    if (squared <= 0.25)
        return 1 - (e > 0 ? squared / e : 2) * angle * sine_excess_near(squared) / PI;
    return 1 - (sqrt(e * (2 - e)) - angle * (1 - e)) / (e * PI);
}

double rs_relu_gap_ratio(double e)
{
    return gap_ratio(e, rs_relu_angle(e));
}

static void relu_moments(rs_activation_moments *out, double ln_q, double ln_e)
{
    double e = exp(ln_e), angle = rs_relu_angle(e), ratio = gap_ratio(e, angle);
    /* below the doubles θ is √(2e) */
    double ln_angle = ln_e < -600 ? (ln_e + log(2)) / 2 : log(angle);
    out->ln_square = ln_q - log(2);
    out->ln_gap = ln_q - log(2) + ln_e + log(ratio);
    out->cosine = 1 - e * ratio;
    out->slope = 0.5;
    out->slope_both = (PI - angle) / (2 * PI);
    out->ln_slope_gap = ln_angle - log(2 * PI);
}

/* ---- GELU by erf ---- */

/*
 * x Φ(x): with A = 1 + q and R(r)² = A² − r²q² (Tsuchida, Pearce, van der Heide, Roosta and Gallagher
 * 2021; derived anew by Stein's identity on the page)
 *
 *     E φφ   = q r (1/4 + asin(rq/A)/2π) + q²/(2πR) (1 + r² − 2r²q/A)
 *     E φ'φ' = 1/4 + asin(rq/A)/2π + rq/(πAR) + rq/(2πR³)
 *
 * and gaps as differences over e in which nothing of order 1 cancels.
 */
typedef struct gelu_parts {
    double q, a, e, r, root_one, root; /* R(1) and R(r) */
    double rise;                       /* (R(r) − R(1))/e */
    double angle, turn;                /* asin(q/A), and (asin(q/A) − asin(rq/A))/e */
} gelu_parts;

static gelu_parts gelu_split(double q, double e)
{
    gelu_parts g = {.q = q, .a = 1 + q, .e = e, .r = 1 - e};
    g.root_one = sqrt(1 + 2 * q);
    g.root = sqrt(1 + 2 * q + q * q * e * (2 - e));
    g.rise = q * q * (2 - e) / (g.root + g.root_one);
    g.angle = atan2(q, g.root_one);
    double sine = q * (g.rise + g.root_one) / (g.a * g.a);
    double cosine = (g.root_one * g.root + g.r * q * q) / (g.a * g.a);
    g.turn = e > 1e-300 ? atan2(e * sine, cosine) / e : sine / cosine;
    return g;
}

/* (E φ² − E φφ)/(q e) */
static double gelu_gap(const gelu_parts *g)
{
    double lines = 0.25 + g->angle / (2 * PI) + g->r * g->turn / (2 * PI);
    double over =
        (2 - g->e) / g->a * (2 * g->q * g->q / (g->root + g->root_one) - (g->q - 1) * g->root_one);
    return lines + g->q / (2 * PI) * over / (g->root_one * g->root);
}

/* (E φ'² − E φ'φ')/e */
static double gelu_slope_gap(const gelu_parts *g)
{
    double one = g->root_one, root = g->root, both = one * root;
    double first = (g->rise + one) / both;
    double cubes = g->rise * (root * root + both + one * one) + one * one * one;
    return g->turn / (2 * PI) + g->q / (PI * g->a) * first +
           g->q / (2 * PI) * cubes / (both * both * both);
}

static void gelu_moments(rs_activation_moments *out, double ln_q, double ln_e)
{
    /* beyond 1e12 ReLU's to 1e-12 */
    if (ln_q > 27.7) {
        relu_moments(out, ln_q, ln_e);
        return;
    }
    gelu_parts g = gelu_split(exp(ln_q), exp(ln_e));
    double q = g.q, one = g.root_one;
    double square = 0.25 + g.angle / (2 * PI) + q / (PI * one * g.a), gap = gelu_gap(&g);
    double slope_gap = gelu_slope_gap(&g);
    out->ln_square = ln_q + log(square);
    out->ln_gap = ln_q + ln_e + log(gap);
    out->cosine = 1 - g.e * gap / square;
    out->slope = 0.25 + g.angle / (2 * PI) + q / (PI * g.a * one) + q / (2 * PI * one * one * one);
    out->slope_both = out->slope - g.e * slope_gap;
    out->ln_slope_gap = ln_e + log(slope_gap);
}

/* ---- sin ---- */

static void sin_moments(rs_activation_moments *out, double ln_q, double ln_e)
{
    double q = exp(ln_q), e = exp(ln_e), apart = exp(ln_q + ln_e), together = exp(-q * (2 - e));
    double ln_lost = apart > 1e-300 ? log(-expm1(-apart)) : ln_q + ln_e;
    out->ln_square = (q > 1e-300 ? log(-expm1(-2 * q)) : ln_q + log(2)) - log(2);
    out->ln_gap = ln_lost + log1p(together) - log(2);
    out->cosine = 1 - exp(out->ln_gap - out->ln_square);
    out->slope = (1 + exp(-2 * q)) / 2;
    out->slope_both = (exp(-apart) + together) / 2;
    out->ln_slope_gap =
        ln_lost + (q * (2 - e) > 1e-300 ? log(-expm1(-q * (2 - e))) : ln_q + log(2 - e)) - log(2);
}

/* ---- maps ---- */

rs_status rs_activation_map_open(rs_activation_map **out, rs_gauss_kind kind, rs_error *err)
{
    *out = rs_calloc(1, sizeof **out);
    if (!*out) return rs_fail_memory(err, "an activation's map", sizeof **out);
    (*out)->kind = kind;
    return RS_OK;
}

void rs_activation_map_close(rs_activation_map *map)
{
    rs_free(map);
}

bool rs_activation_map_at(rs_activation_map *map, double ln_q)
{
    if (map->ready && map->ln_q == ln_q) return true;
    map->ln_q = ln_q;
    map->ready = !isnan(ln_q);
    if (!map->ready || map->kind < RS_GAUSS_TANH) return map->ready;
    /* Far below, φ' is constant to rounding; the mean of φ, which is of order q, is not. */
    map->ready = rs_hermite_expand(&map->hermite, map->kind, exp(fmax(ln_q, -600)));
    if (ln_q < -600 && map->kind != RS_GAUSS_SIGMOID) map->hermite.mean = 0;
    return map->ready;
}

void rs_activation_map_moments(rs_activation_moments *out, const rs_activation_map *map,
                               double ln_e)
{
    double ln_q = map->ln_q;
    switch (map->kind) {
    case RS_GAUSS_LINEAR:
        *out = (rs_activation_moments){ln_q, ln_q + ln_e, 1 - exp(ln_e), 1, 1, -INFINITY};
        return;
    case RS_GAUSS_RELU:
        relu_moments(out, ln_q, ln_e);
        return;
    case RS_GAUSS_GELU:
        gelu_moments(out, ln_q, ln_e);
        return;
    case RS_GAUSS_SIN:
        sin_moments(out, ln_q, ln_e);
        return;
    default:
        rs_hermite_moments(out, &map->hermite, ln_q, ln_e);
    }
}
