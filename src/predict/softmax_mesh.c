/*
 * softmax_mesh.c: Gaussian averages of exp(−e^w) and its fellows, in three ways by the deviation s of
 * the logits (docs/theory/mean_field.md, 2). Small s: nodes of z = m/s. Middle: u and m share one mesh,
 * so that h is asked for once a point. Large s: h is a step blurred by a log-Gamma variable, which is
 * narrow beside the Gaussian.
 */
#include "predict/softmax_mesh.h"

#include "linalg/vector.h"

#include <math.h>

#define STEP 0.2        /* of u where h is resolved: exp(−π²/STEP) is 4e-22 */
#define REACH 8.9       /* of m/s: the Gaussian's tail beyond is 1e-18 */
#define SMALL 0.3       /* s below which u's step is too coarse for the Gaussian */
#define LARGE 10.0      /* s from which the blurred step is used */
#define COLD 100.0      /* s from which few nodes resolve its blur */
#define LEFT 20.0       /* e^{−2·LEFT} of the integrand is left out below */
#define RIGHT 4.5       /* exp(−e^RIGHT) is 0 */
#define LARGE_STEP 0.06 /* of u/s */

enum { NODES = 11, WEIGHTS_MOST = 1600, SHARED_MOST = 4096 };

/* Gauss-Hermite, 11 nodes: the middle and those above it. */
static const double node[] = {0,
                              0.928868997381064,
                              1.876035020154846,
                              2.865123160643645,
                              3.936166607129977,
                              5.1880012243748705};
static const double node_weight[] = {0.3694083694083693,    0.24224029987396997,
                                     0.06613874607105778,   0.0067202852355372706,
                                     0.0001956719302712236, 8.121849790214909e-07};

/* Weights of m and their products with y = e^m − base, y², e^{3m} and e^{4m}. */
typedef struct gaussian {
    int count;
    double base;
    double one[WEIGHTS_MOST], growth[WEIGHTS_MOST], square[WEIGHTS_MOST], cube[WEIGHTS_MOST],
        fourth[WEIGHTS_MOST];
} gaussian;

static void set_weight(gaussian *g, int k, double weight, double y)
{
    double rate = y + g->base;
    g->one[k] = weight;
    g->growth[k] = weight * y;
    g->square[k] = weight * y * y;
    g->cube[k] = weight * rate * rate * rate;
    g->fourth[k] = g->cube[k] * rate;
}

/* g2 g0 − g1² is e^{2u} times the same of y, which loses no digits where the mean of y is no larger
 * than its deviation: base 1 for small s, 0 for others, whose weight h lies at any m. */
static void put(rs_softmax_mesh *mesh, int i, const gaussian *g, const double *h,
                const double *hidden)
{
    double u = mesh->first + i * mesh->step;
    int count = g->count; /* beyond which h is 0 */
    while (count > 0 && h[count - 1] == 0)
        count--;
    double kept = rs_dot(g->one, h, count);
    double mean = rs_dot(g->growth, h, count), square = rs_dot(g->square, h, count);
    double first = mean + g->base * kept, rate = exp(u), twice = rate * rate;
    mesh->kept[i] = kept;
    mesh->hidden[i] = rs_dot(g->one, hidden, g->count);
    mesh->paired[i] = twice * first * first;
    mesh->spread[i] = twice * (square * kept - mean * mean);
    mesh->second[i] = twice * (square + g->base * (2 * mean + g->base * kept));
    mesh->third[i] = twice * rate * rs_dot(g->cube, h, count);
    mesh->fourth[i] = twice * twice * rs_dot(g->fourth, h, count);
}

static void make_by_nodes(rs_softmax_mesh *mesh, double s)
{
    gaussian g;
    double h[NODES], hidden[NODES], m[NODES];
    g.count = NODES;
    g.base = 1;
    for (int k = 0; k < NODES; k++) {
        int from_middle = k - NODES / 2, at = from_middle < 0 ? -from_middle : from_middle;
        m[k] = from_middle < 0 ? -s * node[at] : s * node[at];
        set_weight(&g, k, node_weight[at], expm1(m[k]));
    }
    for (int i = 0; i < mesh->n; i++) {
        for (int k = 0; k < NODES; k++) {
            double rate = exp(mesh->first + i * mesh->step + m[k]);
            hidden[k] = -expm1(-rate);
            h[k] = 1 - hidden[k];
        }
        put(mesh, i, &g, h, hidden);
    }
}

/* A mesh of w reaches `half` steps beyond that of u on both sides. */
static void make_shared(rs_softmax_mesh *mesh, double s)
{
    gaussian g;
    double h[SHARED_MOST], hidden[SHARED_MOST], total = 0;
    int half = (int)ceil(REACH * s / mesh->step);
    g.count = 2 * half + 1;
    g.base = 0;
    for (int k = -half; k <= half; k++)
        total += exp(-(k * mesh->step / s) * (k * mesh->step / s) / 2);
    for (int k = -half; k <= half; k++) {
        double m = k * mesh->step, z = m / s;
        set_weight(&g, k + half, exp(-z * z / 2) / total, exp(m));
    }
    for (int i = 0; i < mesh->n + 2 * half; i++) {
        double rate = exp(mesh->first + (i - half) * mesh->step);
        hidden[i] = -expm1(-rate);
        h[i] = rate < 80 ? exp(-rate) : 0; /* of 1e-35 and less */
    }
    for (int i = 0; i < mesh->n; i++)
        put(mesh, i, &g, h + i, hidden + i);
}

/* ---- large s ---- */

/* Nodes and weights of Gauss under the density e^{w − e^w} of ln t, t of the law e^{−t}: from its moments,
 * derivatives of Γ at 1, with 120 digits. Twelve from LARGE on, four from COLD on: relative errors are
 * below 2e-13 for up to 1e6 keys. */
static const double gauss_12[] = {-35.574494934100706,  -26.96557854286019,  -20.631522637432813,
                                  -15.601138632969317,  -11.495975110955309, -8.120300635419545,
                                  -5.359950695940417,   -3.1449587207282774, -1.419510154738647,
                                  -0.10393184160258163, 0.9145752853429169,  1.7637846966977222};
static const double gauss_12_weight[] = {
    3.74201941257998e-15,  1.4027014992259412e-11, 6.131502619849088e-09, 7.588451840545607e-07,
    3.779831163321243e-05, 0.0009079664239773564,  0.01159669863972881,   0.08086030695071775,
    0.2855649476970727,    0.41962869700260236,    0.18745933948755875,   0.013943480495991705};
static const double gauss_4[] = {-8.401180188549409, -3.5914517036305034, -0.8485041269401032,
                                 0.8388161651805045};
static const double gauss_4_weight[] = {0.0014504465174389914, 0.09542131408747512,
                                        0.5807360536846524, 0.3223921857104335};

/* 1 − h is the distribution of ln t: E h and its fellows are averages over w of the Gaussian at (u − w)/s.
 * g1 = −g0', g2 = g1 − g1', g3 = 2 g2 − g2', g4 = 3 g3 − g3' (′ by u). */
static void make_blurred(rs_softmax_mesh *mesh, double s)
{
    static const double half = 0.70710678118654752440, density = 0.39894228040143267794;
    bool cold = s >= COLD;
    const double *nodes = cold ? gauss_4 : gauss_12;
    const double *weights = cold ? gauss_4_weight : gauss_12_weight;
    int count = cold ? 4 : 12;
    for (int i = 0; i < mesh->n; i++) {
        double u = mesh->first + i * mesh->step, kept = 0, hidden = 0, g[4] = {0};
        for (int j = 0; j < count; j++) {
            double z = (u - nodes[j]) / s, tail = erfc(fabs(z) * half) / 2;
            double bell = weights[j] * density / s * exp(-z * z / 2), slope = z / s;
            hidden += weights[j] * (z < 0 ? tail : 1 - tail);
            kept += weights[j] * (z < 0 ? 1 - tail : tail);
            g[0] += bell;
            g[1] += bell * (1 + slope);
            double third = (1 + slope) * (2 + slope) - 1 / (s * s);
            g[2] += bell * third;
            g[3] += bell * ((3 + slope) * third - (3 + 2 * slope) / (s * s));
        }
        mesh->hidden[i] = hidden;
        mesh->kept[i] = kept;
        mesh->paired[i] = g[0] * g[0];
        mesh->spread[i] = g[1] * kept - mesh->paired[i];
        mesh->second[i] = g[1];
        mesh->third[i] = g[2];
        mesh->fourth[i] = g[3];
    }
}

static void set_range(rs_softmax_mesh *mesh, double low, double high, double step)
{
    double points = ceil((high - low) / step) + 1;
    mesh->first = low;
    mesh->step = step;
    mesh->n = points < RS_SOFTMAX_MESH_MOST ? (int)points : RS_SOFTMAX_MESH_MOST;
}

void rs_softmax_mesh_make(rs_softmax_mesh *mesh, double n, double c)
{
    double s = sqrt(c);
    if (s >= LARGE) {
        set_range(mesh, -REACH * s, REACH * s + RIGHT, LARGE_STEP * s);
        make_blurred(mesh, s);
        return;
    }
    set_range(mesh, -log(n) - REACH * s - LEFT, RIGHT + REACH * s, STEP);
    if (s < SMALL)
        make_by_nodes(mesh, s);
    else
        make_shared(mesh, s);
}
