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
#define LARGE 16.0      /* s from which the blurred step is used */
#define LEFT 20.0       /* e^{−2·LEFT} of the integrand is left out below */
#define RIGHT 4.5       /* exp(−e^RIGHT) is 0 */
#define LARGE_STEP 0.03 /* of u/s */

enum { NODES = 11, WEIGHTS_MOST = 1600, SHARED_MOST = 4096, GAMMA_NODES = 192 };

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

/* Weights of m and their products with y = e^m − base, y² and e^{3m}. */
typedef struct gaussian {
    int count;
    double one[WEIGHTS_MOST], growth[WEIGHTS_MOST], square[WEIGHTS_MOST], cube[WEIGHTS_MOST];
} gaussian;

static void set_weight(gaussian *g, int k, double weight, double y, double m)
{
    g->one[k] = weight;
    g->growth[k] = weight * y;
    g->square[k] = weight * y * y;
    g->cube[k] = weight * exp(3 * m);
}

/* g2 g0 − g1² is e^{2u} times the same of y, which loses no digits where the mean of y is no larger
 * than its deviation: base 1 for small s, 0 for others, whose weight h lies at any m. */
static void put(rs_softmax_mesh *mesh, int i, const gaussian *g, const double *h,
                const double *hidden)
{
    double u = mesh->first + i * mesh->step, kept = rs_dot(g->one, h, g->count);
    double mean = rs_dot(g->growth, h, g->count), square = rs_dot(g->square, h, g->count);
    mesh->kept[i] = kept;
    mesh->hidden[i] = rs_dot(g->one, hidden, g->count);
    mesh->spread[i] = exp(2 * u) * (square * kept - mean * mean);
    mesh->third[i] = exp(3 * u) * rs_dot(g->cube, h, g->count);
}

static void make_by_nodes(rs_softmax_mesh *mesh, double s)
{
    gaussian g;
    double h[NODES], hidden[NODES], m[NODES];
    g.count = NODES;
    for (int k = 0; k < NODES; k++) {
        int from_middle = k - NODES / 2, at = from_middle < 0 ? -from_middle : from_middle;
        m[k] = from_middle < 0 ? -s * node[at] : s * node[at];
        set_weight(&g, k, node_weight[at], expm1(m[k]), m[k]);
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
    for (int k = -half; k <= half; k++)
        total += exp(-(k * mesh->step / s) * (k * mesh->step / s) / 2);
    for (int k = -half; k <= half; k++) {
        double m = k * mesh->step, z = m / s;
        set_weight(&g, k + half, exp(-z * z / 2) / total, exp(m), m);
    }
    for (int i = 0; i < mesh->n + 2 * half; i++) {
        double rate = exp(mesh->first + (i - half) * mesh->step);
        hidden[i] = -expm1(-rate);
        h[i] = exp(-rate);
    }
    for (int i = 0; i < mesh->n; i++)
        put(mesh, i, &g, h + i, hidden + i);
}

/* ---- large s ---- */

/* Nodes of w under the density e^{kw − e^w}/Γ(k), k = 1, 2, 3. */
typedef struct blur {
    double w[GAMMA_NODES], weight[3][GAMMA_NODES];
} blur;

static void make_blur(blur *b)
{
    double total[3] = {0};
    for (int i = 0; i < GAMMA_NODES; i++) {
        double w = b->w[i] = RIGHT - i * STEP * 1.2;
        for (int k = 0; k < 3; k++)
            total[k] += b->weight[k][i] = exp((k + 1) * w - exp(w));
    }
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < GAMMA_NODES; i++)
            b->weight[k][i] /= total[k];
    }
}

static void make_blurred(rs_softmax_mesh *mesh, double s)
{
    static const double half = 0.70710678118654752440, density = 0.39894228040143267794;
    blur b;
    make_blur(&b);
    for (int i = 0; i < mesh->n; i++) {
        double u = mesh->first + i * mesh->step, g[3] = {0};
        mesh->hidden[i] = mesh->kept[i] = 0;
        for (int j = 0; j < GAMMA_NODES; j++) {
            double z = (u - b.w[j]) / s, bell = density / s * exp(-z * z / 2);
            mesh->hidden[i] += b.weight[0][j] * erfc(-z * half) / 2;
            mesh->kept[i] += b.weight[0][j] * erfc(z * half) / 2;
            for (int k = 0; k < 3; k++)
                g[k] += b.weight[k][j] * bell;
        }
        mesh->spread[i] = g[1] * mesh->kept[i] - g[0] * g[0];
        mesh->third[i] = 2 * g[2];
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
