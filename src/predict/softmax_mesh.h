/* softmax_mesh.h: the functions under softmax_moments.c's integrals, on equal steps of u. */
#ifndef RS_PREDICT_SOFTMAX_MESH_H
#define RS_PREDICT_SOFTMAX_MESH_H

enum { RS_SOFTMAX_MESH_MOST = 2048 };

/* For m ~ N(0, c) and h(w) = exp(−e^w), at u = first + i·step. */
typedef struct rs_softmax_mesh {
    int n;
    double first, step;
    double kept[RS_SOFTMAX_MESH_MOST];   /* g0 = E h(u+m) */
    double hidden[RS_SOFTMAX_MESH_MOST]; /* 1 − g0 */
    double spread[RS_SOFTMAX_MESH_MOST]; /* g2 g0 − g1² */
    double paired[RS_SOFTMAX_MESH_MOST]; /* g1² */
    double second[RS_SOFTMAX_MESH_MOST]; /* g2 */
    double third[RS_SOFTMAX_MESH_MOST];  /* g3 */
    double fourth[RS_SOFTMAX_MESH_MOST]; /* g4 */
} rs_softmax_mesh;

/* Wide enough for up to n keys. c > 0 and finite, n >= 2. */
void rs_softmax_mesh_make(rs_softmax_mesh *mesh, double n, double c);

#endif
