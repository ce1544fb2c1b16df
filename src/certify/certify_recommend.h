/*
 * certify_recommend.h: `certify --recommend KEPT`: the smallest change of the mixers' skips λ that a
 * search finds to leave more than KEPT of relative μ = ‖X − 1x̄ᵀ‖_F/‖X‖_F behind the last layer.
 *
 * From below: certify_recommend_run.c runs the network at given λ, in numbers and with their price,
 * certify_recommend_proof.c certifies its layers at them, certify_recommend_search.c looks for λ, certify_recommend_layers.c for one a layer,
 * certify_recommend.c does all in turn, certify_recommend_table.c says it. Nothing of the last
 * layer's relative μ is proved: it is what a float64 run measures.
 */
#ifndef RS_CERTIFY_CERTIFY_RECOMMEND_H
#define RS_CERTIFY_CERTIFY_RECOMMEND_H

#include "certify/certify_gather.h"

#include "base/memory.h"

/* What a recommendation may be. */
typedef enum rs_recommend_kind {
    RS_RECOMMEND_NONE,     /* the model as it is */
    RS_RECOMMEND_POSITIVE, /* one λ, above the own one */
    RS_RECOMMEND_NEGATIVE, /* one λ, below it */
    RS_RECOMMEND_LAYERS,   /* a λ for each layer */
    RS_RECOMMEND_KINDS
} rs_recommend_kind;

/* One layer of a candidate; NaN: it has none. */
typedef struct rs_recommend_layer {
    double lambda;
    double relative; /* relative μ behind the layer, mean over the samples */
    double share;    /* ‖αO‖_F/‖λX + αO‖_F of its mixer, mean over the samples */
    double kept;   /* μ behind the mixer over μ before it: the least over the samples, measured */
    double proved; /* and what is certified of it in every sample */
    const char *unproved; /* why there is no such number */
} rs_recommend_layer;

/* A candidate. */
typedef struct rs_recommended {
    bool tried;         /* it has a row */
    bool found;         /* it keeps enough, in a run by itself */
    const char *failed; /* why it was not found */
    double lambda;      /* of all mixers; NaN: they differ, or none was found */
    double
        falls_short; /* the nearest λ on its way from the own one that fell short in the search */
    double change;   /* root mean square over the mixers' layers of λ − own λ */
    double most_change;              /* the largest |λ − own λ| */
    const char *option;              /* words for --lambda that make it */
    double relative;                 /* relative μ behind the last layer */
    double log10_norm, log10_growth; /* ‖X‖_F there, and over ‖X‖_F of what enters */
    double share;                    /* mean over the layers of their share */
    double logits; /* ‖Z − Z_own‖_F/‖Z_own‖_F of the logits Z; NaN: there is no head */
    double loss;   /* mean −ln p of the next token; NaN: it is no language model */
    int64_t cases, proved;      /* mixers on samples; and those with a certified number */
    rs_recommend_layer *layers; /* [layers] */
} rs_recommended;

/* A recommendation in the making. */
typedef struct rs_recommending {
    const rs_certify_scene *scene;
    double kept;
    rs_arena *arena;
    rs_weights *weights; /* float64, of all runs */
    size_t branches;
    int32_t layers, mixers; /* mixers: layers that have a λ */
    int64_t samples;        /* those with tokens */
    double *own;            /* [layers] the model's λ; NaN: the layer has none */
    double centre;          /* mean of the own λ: no λ for all is a smaller change */
    double limit;           /* the largest |λ| that is tried */
    rs_recommended of[RS_RECOMMEND_KINDS];
} rs_recommending;

/* ---- certify_recommend_run.c ---- */

/* Whether λ edits this branch, as --lambda mixer:X does (network/edit.h). */
bool rs_recommend_is_mixer(const rs_branch *branch);
/* Relative μ behind the last layer at n lists of λ [n, layers], side by side; NaN where a sample has
 * none. */
rs_status rs_recommend_sweep(double *relative, const rs_recommending *w, const double *lambdas,
                             int32_t n, rs_error *err);
/* The network of a candidate: of the model as it is nothing is changed, not even mixers of one layer
 * that differ. */
rs_status rs_recommend_candidate(rs_network **out, const rs_recommended *r,
                                 const rs_recommending *w, rs_error *err);
/* Runs the candidate's λ (layers[].lambda) as any run does: relative μ of all layers, norms, shares
 * and loss. */
rs_status rs_recommend_run(rs_recommended *r, const rs_recommending *w, rs_error *err);
/* The change of the logits against the network as it is. */
rs_status rs_recommend_logits(rs_recommended *r, const rs_recommending *w, rs_error *err);
/* The most decades by which the skips make the state grow at these λ. room: [branches]. */
double rs_recommend_decades(const rs_recommending *w, const double *lambdas, double *room);

/* ---- certify_recommend_proof.c ---- */

/* Certifies what each mixer keeps at the candidate's λ. */
rs_status rs_recommend_prove(rs_recommended *r, const rs_recommending *w, rs_error *err);

/* ---- certify_recommend_search.c ---- */

/* Whether a relative μ is enough, and more than rounding. */
bool rs_recommend_enough(const rs_recommending *w, double relative);
/* One λ for all mixers, on both sides of the own one: sets found or failed, and layers[].lambda. */
rs_status rs_recommend_one(rs_recommending *w, rs_error *err);

/* ---- certify_recommend_layers.c ---- */

/* A λ for each layer, from one λ that is enough. */
rs_status rs_recommend_each(rs_recommending *w, const rs_recommended *one, rs_error *err);

/* ---- certify_recommend.c, certify_recommend_table.c ---- */

/* Adds tables recommendation and recommendation_layers and their finding, for options->recommend. */
rs_status rs_certify_recommend(rs_result *result, const rs_certify_scene *scene, rs_error *err);
rs_status rs_recommend_tables(rs_result *result, const rs_recommending *w, rs_error *err);
const char *rs_recommend_kind_name(rs_recommend_kind kind);

#endif
