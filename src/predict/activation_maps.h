/*
 * activation_maps.h: what an activation makes of two jointly Gaussian numbers u, v of variance q and
 * correlation 1 − e: E φ(u)φ(v) and E φ'(u)φ'(v) (docs/theory/mean_field.md, 3).
 */
#ifndef RS_PREDICT_ACTIVATION_MAPS_H
#define RS_PREDICT_ACTIVATION_MAPS_H

#include "base/error.h"
#include "linalg/activation.h"

/* The activations that have such maps. */
typedef enum rs_gauss_kind {
    RS_GAUSS_LINEAR,
    RS_GAUSS_RELU,
    RS_GAUSS_GELU,
    RS_GAUSS_SIN,
    RS_GAUSS_TANH, /* from here on by an expansion in Hermite polynomials */
    RS_GAUSS_SIGMOID,
    RS_GAUSS_GELU_TANH,
    RS_GAUSS_QUICK_GELU,
    RS_GAUSS_SILU,
    RS_GAUSS_KINDS
} rs_gauss_kind;

/* false: there is no map for it. */
bool rs_gauss_of_activation(rs_gauss_kind *out, rs_activation activation);

/* Logarithms are natural; -INFINITY is the logarithm of 0. */
typedef struct rs_activation_moments {
    double ln_square;  /* E φ(u)² */
    double ln_gap;     /* E φ(u)² − E φ(u)φ(v): relatively exact however small */
    double cosine;     /* E φ(u)φ(v) / E φ(u)² */
    double slope;      /* E φ'(u)² */
    double slope_both; /* E φ'(u)φ'(v) */
    double ln_slope_gap;
} rs_activation_moments;

/* An activation at one variance: the expansion is made once for many correlations. */
typedef struct rs_activation_map rs_activation_map;
/* RS_E_NO_MEMORY. The map has no variance yet. */
rs_status rs_activation_map_open(rs_activation_map **out, rs_gauss_kind kind, rs_error *err);
void rs_activation_map_close(rs_activation_map *map); /* NULL is fine */
/* Moves the map to variance e^ln_q. false: the expansion would be too long there (tanh and its like
 * beyond q of about 30, SiLU beyond 130), or ln_q is NaN. */
bool rs_activation_map_at(rs_activation_map *map, double ln_q);
/* At correlation 1 − e^ln_e, ln_e at most ln 2. Errors are below 1e-12, of gaps too. */
void rs_activation_map_moments(rs_activation_moments *out, const rs_activation_map *map,
                               double ln_e);

/* κ(1 − e) = (sin θ + (π − θ) cos θ)/π, cos θ = 1 − e, as (1 − κ)/e, and θ (Cho and Saul 2009). */
double rs_relu_gap_ratio(double e);
double rs_relu_angle(double e);

#endif
