/*
 * lrp_conservation.c: relevance by gradients of an output with matrices, norms' factors and φ(a)/a held
 * constant is conserved at every cut; without these rules it is not (Ali et al. 2022;
 * docs/theory/gradients.md, 9). Under collapse the profile over tokens no longer depends on the token
 * that is explained.
 */
#include "lab/lrp_networks.h"

#include <math.h>

enum { DEPTHS = 4, DRAWS = 20 };
static const int depths[DEPTHS] = {1, 2, 4, 8};
static const int32_t first_token[RS_LRP_TOKENS] = {0, -1, -1, -1, -1, -1, -1};
static const int32_t last_token[RS_LRP_TOKENS] = {-1, -1, -1, -1, -1, -1, 0};

typedef struct conserved {
    rs_lrp_found head[2], norm[2];            /* rules, and nothing held */
    double plain[DEPTHS], norms_held[DEPTHS]; /* sum R / f of post-norm networks, draw 0 */
    double rules[2][DEPTHS];                  /* largest |sum R / f - 1|: post-norm, pre-norm */
    double matrices_held;                     /* largest |sum R / f| of post-norm networks */
    double gelu[2];                           /* sum R / f without the ratio, and with it */
    double bias_share, bias_deviation;        /* of a network with biases */
    double effective[2][DEPTHS], cosine[2][DEPTHS]; /* means over draws: without skips, with them */
} conserved;

/* ---- passes ---- */

static double ratio_of(const rs_lrp_found *found)
{
    return found->cuts[0].sum / found->explained;
}

static rs_status run_golden(conserved *c, const rs_context *context, rs_error *err)
{
    static const int32_t each[RS_LRP_HEAD_TOKENS] = {0, 1, 2, 3};
    double x[RS_LRP_HEAD_TOKENS * RS_LRP_HEAD_WIDTH], z[RS_LRP_NORM_WIDTH];
    const unsigned holds[] = {RS_HOLD_ALL, 0};
    rs_toy toy;
    RS_TRY(rs_lrp_head(&toy, x, context, err));
    rs_status status = RS_OK;
    for (int i = 0; i < 2 && status == RS_OK; i++)
        status =
            rs_lrp_explain(&c->head[i], &toy, x, RS_LRP_HEAD_TOKENS, each, NULL, holds[i], err);
    rs_toy_close(&toy);
    RS_TRY(status);
    RS_TRY(rs_lrp_norm(&toy, z, context, err));
    for (int i = 0; i < 2 && status == RS_OK; i++)
        status = rs_lrp_explain(&c->norm[i], &toy, z, 1, each, NULL, holds[i], err);
    rs_toy_close(&toy);
    return status;
}

/* One network on the tokens of one draw. */
static rs_status run_drawn(rs_lrp_found *found, const rs_lrp_network *network, int draw,
                           unsigned hold, bool compares, const rs_context *context, rs_error *err)
{
    double x[RS_LRP_TOKENS * RS_LRP_WIDTH];
    rs_toy toy;
    RS_TRY(rs_lrp_open(&toy, network, context, err));
    rs_lrp_tokens(x, draw);
    rs_status status = rs_lrp_explain(found, &toy, x, RS_LRP_TOKENS, first_token,
                                      compares ? last_token : NULL, hold, err);
    rs_toy_close(&toy);
    return status;
}

/* What the rules, and each alone, leave of networks of one depth. */
static rs_status run_depth(conserved *c, int at, const rs_context *context, rs_error *err)
{
    rs_lrp_network post = {.layers = depths[at], .skip = 1, .post = true}, pre = post;
    rs_lrp_found found;
    pre.post = false;
    RS_TRY(run_drawn(&found, &post, 0, 0, false, context, err));
    c->plain[at] = ratio_of(&found);
    RS_TRY(run_drawn(&found, &post, 0, RS_HOLD_NORM, false, context, err));
    c->norms_held[at] = ratio_of(&found);
    for (int draw = 0; draw < DRAWS; draw++) {
        RS_TRY(run_drawn(&found, &post, draw, RS_HOLD_ATTENTION, false, context, err));
        c->matrices_held = fmax(c->matrices_held, fabs(ratio_of(&found)));
        for (int place = 0; place < 2; place++) {
            RS_TRY(run_drawn(&found, place ? &pre : &post, draw, RS_HOLD_ALL, false, context, err));
            for (int l = 0; l <= depths[at]; l++)
                c->rules[place][at] =
                    fmax(c->rules[place][at], fabs(found.cuts[l].sum / found.explained - 1));
        }
    }
    return RS_OK;
}

static rs_status run_profiles(conserved *c, int at, const rs_context *context, rs_error *err)
{
    for (int skips = 0; skips < 2; skips++)
        for (int draw = 0; draw < DRAWS; draw++) {
            const rs_lrp_network network = {.layers = depths[at], .skip = skips, .post = true};
            rs_lrp_found found;
            RS_TRY(run_drawn(&found, &network, draw, RS_HOLD_ALL, true, context, err));
            c->effective[skips][at] += found.cuts[0].effective / DRAWS;
            c->cosine[skips][at] += found.cuts[0].cosine / DRAWS;
        }
    return RS_OK;
}

static rs_status run_rest(conserved *c, const rs_context *context, rs_error *err)
{
    const rs_lrp_network gelu = {.layers = 4, .skip = 1, .post = true, .gelu = true};
    const rs_lrp_network biased = {.layers = 4, .skip = 1, .post = true, .biases = true};
    const unsigned holds[] = {RS_HOLD_ATTENTION | RS_HOLD_NORM, RS_HOLD_ALL};
    rs_lrp_found found;
    for (int i = 0; i < 2; i++) {
        RS_TRY(run_drawn(&found, &gelu, 0, holds[i], false, context, err));
        c->gelu[i] = ratio_of(&found);
    }
    RS_TRY(run_drawn(&found, &biased, 0, RS_HOLD_ALL, false, context, err));
    c->bias_share = found.cuts[0].biases / found.explained;
    for (int l = 0; l <= biased.layers; l++)
        c->bias_deviation = fmax(c->bias_deviation, found.cuts[l].deviation);
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("depth", "layers", "layers of the network"),
    RS_LAB_Y("value", "cosine, or share of the tokens",
             "of the profiles over tokens of two explained tokens; (Σ|g_t|)²/Σ|g_t|² over their "
             "number: as series says"));
static const rs_table_kind table_kind = {"lab", "lrp_conservation", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Relevance under collapse",
    .about =
        "By depth, without skips and with them: the cosine between the profiles over tokens of "
        "the relevance for the first and for the last token's output, and the share of the "
        "tokens that carry the derivative. Without skips the profiles become one: what is "
        "explained no longer matters.",
};

/* Digits of tests/oracle/lab_expected.py: complex steps on the same networks. */
static const struct {
    double plain, norms_held, effective[2], cosine[2];
} expected[DEPTHS] = {
    {1.68312092795, 2.5763096283, {4.9829652130, 2.9356505265}, {0.4832223878, 0.2435083460}},
    {0.135022170984, 1.14618956512, {6.0320682728, 4.5202133978}, {0.6495027583, 0.1753229484}},
    {0.109694527363, 0.710594569995, {6.1657190474, 5.7809439420}, {0.9999991227, 0.5200348643}},
    {0.647261730976, 5.94330765694, {6.1834367077, 6.3346288791}, {1.0000000000, 0.7810520867}}};

static rs_status claim_golden(rs_lab_report *report, const conserved *c, rs_error *err)
{
    const double head = -0.051119616283, norm = -1.419093629202;
    RS_TRY(rs_lab_expect(report, "attention head: the output", head, c->head[0].explained, 1e-11,
                         err));
    RS_TRY(rs_lab_expect(report, "attention head, matrix held: sum of relevance", head,
                         c->head[0].cuts[0].sum, 1e-11, err));
    RS_TRY(rs_lab_expect(report, "attention head, nothing held: f + 2 sum_j Cov(q_ij, G_j.x_i)",
                         -0.242650510, c->head[1].cuts[0].sum, 1e-8, err));
    RS_TRY(rs_lab_expect(report, "LayerNorm: the output", norm, c->norm[0].explained, 1e-11, err));
    RS_TRY(rs_lab_expect(report, "LayerNorm, its factor held: sum of relevance", norm,
                         c->norm[0].cuts[0].sum, 1e-11, err));
    return rs_lab_expect(report, "LayerNorm, nothing held: f eps/(eps + variance)", -0.052048288754,
                         c->norm[1].cuts[0].sum, 1e-11, err);
}

static rs_status claim_rules(rs_lab_report *report, const conserved *c, rs_error *err)
{
    static const char *const rules[2][DEPTHS] = {
        {"post-norm, 1 layer: largest |sum R/f - 1|", "post-norm, 2 layers: the same",
         "post-norm, 4 layers: the same", "post-norm, 8 layers: the same"},
        {"pre-norm, 1 layer: largest |sum R/f - 1|", "pre-norm, 2 layers: the same",
         "pre-norm, 4 layers: the same", "pre-norm, 8 layers: the same"}};
    static const char *const plain[DEPTHS] = {
        "post-norm, 1 layer, nothing held: sum R/f", "2 layers, nothing held: sum R/f",
        "4 layers, nothing held: sum R/f", "8 layers, nothing held: sum R/f"};
    static const char *const norms[DEPTHS] = {
        "post-norm, 1 layer, norms alone held: sum R/f", "2 layers, norms alone held: sum R/f",
        "4 layers, norms alone held: sum R/f", "8 layers, norms alone held: sum R/f"};
    for (int place = 0; place < 2; place++)
        for (int i = 0; i < DEPTHS; i++)
            RS_TRY(rs_lab_at_most(report, rules[place][i], c->rules[place][i], 1e-12, err));
    RS_TRY(rs_lab_at_most(report, "post-norm, matrices alone held: largest |sum R/f|",
                          c->matrices_held, 1e-6, err));
    for (int i = 0; i < DEPTHS; i++) {
        RS_TRY(rs_lab_expect(report, plain[i], expected[i].plain, c->plain[i], 1e-9, err));
        RS_TRY(
            rs_lab_expect(report, norms[i], expected[i].norms_held, c->norms_held[i], 1e-9, err));
    }
    RS_TRY(rs_lab_expect(report, "GELU without the rule for activations: sum R/f", 1.15716536604,
                         c->gelu[0], 1e-9, err));
    return rs_lab_at_most(report, "GELU with it: |sum R/f - 1|", fabs(c->gelu[1] - 1), 1e-12, err);
}

static rs_status claim_rest(rs_lab_report *report, const conserved *c, rs_error *err)
{
    static const char *const tokens[2][DEPTHS] = {
        {"no skips, 1 layer: tokens that carry the derivative", "no skips, 2 layers: the same",
         "no skips, 4 layers: the same", "no skips, 8 layers: the same"},
        {"skips, 1 layer: tokens that carry the derivative", "skips, 2 layers: the same",
         "skips, 4 layers: the same", "skips, 8 layers: the same"}};
    static const char *const cosines[2][DEPTHS] = {
        {"no skips, 1 layer: cosine of profiles", "no skips, 2 layers: cosine",
         "no skips, 4 layers: cosine", "no skips, 8 layers: cosine"},
        {"skips, 1 layer: cosine of profiles", "skips, 2 layers: cosine", "skips, 4 layers: cosine",
         "skips, 8 layers: cosine"}};
    RS_TRY(rs_lab_at_most(report, "biases: |sum R + biases - f| over its terms", c->bias_deviation,
                          1e-12, err));
    RS_TRY(rs_lab_expect(report, "biases: their share of the output", 0.342902993823, c->bias_share,
                         1e-9, err));
    RS_TRY(rs_lab_at_most(report, "no skips, 8 layers: 1 - cosine of profiles",
                          1 - c->cosine[0][DEPTHS - 1], 1e-9, err));
    for (int skips = 0; skips < 2; skips++)
        for (int i = 0; i < DEPTHS; i++) {
            RS_TRY(rs_lab_expect(report, tokens[skips][i], expected[i].effective[skips],
                                 c->effective[skips][i], 1e-8, err));
            RS_TRY(rs_lab_expect(report, cosines[skips][i], expected[i].cosine[skips],
                                 c->cosine[skips][i], 1e-8, err));
        }
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, const conserved *c, rs_error *err)
{
    static const char *const cosines[] = {"cosine, no skips", "cosine, skips"},
                             *const tokens[] = {"share of tokens, no skips",
                                                "share of tokens, skips"};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int skips = 0; skips < 2; skips++)
        for (int i = 0; i < DEPTHS; i++)
            RS_TRY(rs_lab_curves_add(table, cosines[skips], depths[i], c->cosine[skips][i], err));
    for (int skips = 0; skips < 2; skips++)
        for (int i = 0; i < DEPTHS; i++)
            RS_TRY(rs_lab_curves_add(table, tokens[skips], depths[i],
                                     c->effective[skips][i] / RS_LRP_TOKENS, err));
    RS_TRY(claim_golden(report, c, err));
    RS_TRY(claim_rules(report, c, err));
    return claim_rest(report, c, err);
}

static rs_status run_lrp_conservation(rs_lab_report *report, const rs_lab_options *options,
                                      const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    conserved c = {0};
    RS_TRY(run_golden(&c, context, err));
    for (int i = 0; i < DEPTHS; i++) {
        RS_TRY(run_depth(&c, i, context, err));
        RS_TRY(run_profiles(&c, i, context, err));
    }
    RS_TRY(run_rest(&c, context, err));
    return write_up(report, &c, err);
}

const rs_lab_experiment rs_lab_lrp_conservation = {
    "lrp-conservation",
    "Relevance is conserved, and collapses with the tokens",
    "Ali et al. 2022, conservative propagation",
    "Gradient times input of one output, with attention's matrices, what norms divide by and "
    "φ(a)/a "
    "held constant, adds up to that output at every cut of random transformers; without the rules "
    "it does not, and behind a LayerNorm next to nothing is left. Without skips the profile over "
    "tokens soon is the same whichever token is explained. After Ali, Schnake, Eberle, Montavon, "
    "Müller, Wolf, ICML 2022 (arXiv 2202.07304).",
    run_lrp_conservation,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
