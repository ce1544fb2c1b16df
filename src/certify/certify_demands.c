/* certify_demands.c: table demands: how strong a skip each statement, published or proved, asks for
 * if every mixer is to keep the wanted fraction of μ on every sample. */
#include "certify/certify_lambda.h"
#include "certify/certify_parts.h"

#include <math.h>
#include <string.h>

/* A row of table demands. */
typedef struct demand_cells {
    const char *statement, *source;
    double published, certified; /* one of the two */
    bool conditional;
    double bound; /* S C_M */
    int64_t layers;
    double kept, least, most; /* least, most: |λ| of the model's mixers */
    rs_truth met;
    int64_t sample, layer, applies, of;
    const char *failed;
} demand_cells;

#define COLUMN(member, name, kind, formula)                                                        \
    RS_CERTIFY_COLUMN(demand_cells, member, name, kind, formula)

static const rs_column columns[] = {
    {.name = "statement",
     RS_CELL(demand_cells, statement),
     .formula = "docs/certify.md lists them"},
    {.name = "source",
     RS_CELL(demand_cells, source),
     .formula = "its number in docs/certificates_lambda.md"},
    COLUMN(
        published, "published", "published",
        "the largest |λ| that the published formula asks for in any layer on any sample, whether "
        "or not its hypotheses hold; null where it gives a layer no number"),
    RS_CERTIFY_BOUND(demand_cells, certified, "certified", UPPER,
                     "each λ of at least this size is proved enough in every layer on every "
                     "sample; null where the statement does not apply to one of them"),
    RS_CERTIFY_TWIN(demand_cells, conditional, certified, "certified_conditional", "certified",
                    "certified holds if the exact branches are as the float64 pass met them (of "
                    "attention its mixing matrices), and is not proved"),
    COLUMN(bound, "s_c_m", "published",
           "S C_M of equation 7, the largest: S what the value map stretches by, C_M = √n of "
           "attention, in the rows _measured the largest ‖M‖_F that the pass met"),
    {.name = "layers",
     RS_CELL(demand_cells, layers),
     .formula = "how many layers in a row the statement is about; rows of more than one count "
                "samples for cases"},
    COLUMN(kept, "kept", NULL, "fraction of μ that each mixer is to keep (--kept)"),
    COLUMN(met, "met", NULL,
           "the λ of every mixer is as the row asks; it means something where the statement "
           "applies, and of certified no more than certified_conditional lets it"),
    COLUMN(least, "lambda_least", NULL, "smallest |λ| of the model's mixers"),
    COLUMN(most, "lambda_most", NULL, "largest |λ| of the model's mixers"),
    {.name = "layer", RS_CELL(demand_cells, layer), .formula = "the one that asks for most"},
    {.name = "sample", RS_CELL(demand_cells, sample), .formula = "and on which sample"},
    {.name = "applies",
     RS_CELL(demand_cells, applies),
     .formula = "cases in which every hypothesis of the statement holds"},
    {.name = "of",
     RS_CELL(demand_cells, of),
     .formula = "cases: mixers times samples (samples, where layers is more than 1), less those "
                "whose tokens are equal or differ by "
                "rounding alone"},
    {.name = "failed",
     RS_CELL(demand_cells, failed),
     .formula = "hypothesis that fails in most of the other cases"},
};
const rs_table_kind rs_certify_demands_kind = {"certify", "demands", {RS_PART(columns)}};

/* ---- what a statement asks of one mixer on one sample ---- */

typedef struct demand {
    double asked;       /* |λ|; NaN: nothing */
    const char *failed; /* hypothesis that fails; NULL: it applies */
    bool conditional;
    double bound; /* S C_M; NaN: it plays no part */
} demand;

/* Of a row whose demand and reason are members of their own. hangs: on the row's condition. */
#define ASKED_BY(name, member, reason, hangs)                                                      \
    static demand name(const rs_lambda_row *row)                                                   \
    {                                                                                              \
        return (demand){row->member, row->reason, (hangs) && row->condition, NAN};                 \
    }
ASKED_BY(by_theorem_a, theorem_a, failed_a, !row->by_weights.a)
ASKED_BY(by_theorem_a_layer, theorem_a_layer, failed_a_layer, !row->by_weights.a_layer)
ASKED_BY(by_theorem_b, theorem_b, failed_b, true)
ASKED_BY(by_theorem_d, theorem_d, failed_d, !row->by_weights.d)
ASKED_BY(by_any_input, any_demand, failed_any, false)

static const char equal_text[] = "the tokens of the input differ";

static demand by_eq7(const rs_lambda_row *row)
{
    return (demand){row->eq7, row->failed_eq7, false, row->published};
}

/* The two conditions share their hypotheses; the one on the input asks for tokens that differ. */
static demand by_eq7_and_input(const rs_lambda_row *row)
{
    bool none = !row->failed_eq7 && isnan(row->published_both);
    return (demand){row->published_both, none ? equal_text : row->failed_eq7, false,
                    row->published};
}

/* Half lines may begin on the other side of 0. */
static demand by_certified_positive(const rs_lambda_row *row)
{
    double asked = isnan(row->certified) ? (double)NAN : fmax(0, row->certified);
    return (demand){asked, isnan(asked) ? row->failed_certified : NULL, row->condition, NAN};
}

static demand by_certified_negative(const rs_lambda_row *row)
{
    bool none = isnan(row->certified_negative);
    const char *failed = row->failed_certified ? row->failed_certified
                                               : "a half line of negative λ that was found certain";
    return (demand){none ? (double)NAN : fmax(0, -row->certified_negative), none ? failed : NULL,
                    row->condition, NAN};
}

static demand by_certified(const rs_lambda_row *row)
{
    demand above = by_certified_positive(row), below = by_certified_negative(row);
    if (above.failed) return above;
    if (below.failed) return below;
    above.asked = fmax(above.asked, below.asked);
    return above;
}

/* ---- what it asks of the whole network on one sample ---- */

static demand stack_both(const rs_stack_demand *of)
{
    return (demand){of->both, of->failed, false, of->bound};
}

static demand stack_eq7_measured(const rs_stack_demand *of)
{
    return (demand){of->eq7_measured, of->failed_measured, false, of->measured};
}

static demand stack_both_measured(const rs_stack_demand *of)
{
    return (demand){of->both_measured, of->failed_measured, false, of->measured};
}

/* Of which sign a λ has to be. */
typedef enum sides { EITHER, POSITIVE, NEGATIVE } sides;

typedef struct statement {
    const char *name, *source;
    demand (*asks)(const rs_lambda_row *row); /* NULL: */
    demand (*of_stack)(const rs_stack_demand *of);
    sides side;
    bool published, beyond; /* beyond: what it asks for is not enough itself */
} statement;

static const statement statements[] = {
    {"eq7", "L10", by_eq7, NULL, EITHER, true, true},
    {"eq7_and_input", "L10", by_eq7_and_input, NULL, EITHER, true, false},
    {"eq7_and_input_stack", "L10", NULL, stack_both, EITHER, true, false},
    {"eq7_measured", "L10", NULL, stack_eq7_measured, EITHER, true, true},
    {"eq7_and_input_measured", "L10", NULL, stack_both_measured, EITHER, true, false},
    {"theorem_a", "L6", by_theorem_a, NULL, EITHER, false, false},
    {"theorem_a_layer", "L7", by_theorem_a_layer, NULL, EITHER, false, false},
    {"theorem_b", "L8", by_theorem_b, NULL, EITHER, false, false},
    {"theorem_d", "L9", by_theorem_d, NULL, EITHER, false, false},
    {"any_input", "L19", by_any_input, NULL, EITHER, false, false},
    {"certified", "L1, L3", by_certified, NULL, EITHER, false, false},
    {"certified_positive", "L1, L3", by_certified_positive, NULL, POSITIVE, false, false},
    {"certified_negative", "L1, L3", by_certified_negative, NULL, NEGATIVE, false, false},
};
enum { STATEMENTS = sizeof statements / sizeof *statements };

/* ---- over all cases ---- */

static const char nonfinite_text[] = "tokens and branches that are finite";
static const char no_case_text[] = "a mixer that reads tokens that differ";

/* How often each hypothesis failed: texts are static, and there are few. */
enum { MOST_REASONS = 64 };
typedef struct reasons {
    const char *text[MOST_REASONS];
    int64_t count[MOST_REASONS];
    int n;
} reasons;

static void add_reason(reasons *r, const char *text)
{
    int i = 0;
    while (i < r->n && strcmp(r->text[i], text) != 0)
        i++;
    if (i == MOST_REASONS) return;
    if (i == r->n) r->text[r->n++] = text;
    r->count[i]++;
}

static const char *commonest(const reasons *r)
{
    int best = 0;
    for (int i = 1; i < r->n; i++)
        if (r->count[i] > r->count[best]) best = i;
    return r->n ? r->text[best] : NULL;
}

/* What one statement asks of all cases so far. */
typedef struct tally {
    double most, bound;
    int64_t sample, layer, applies, of, layers;
    bool conditional, none; /* none: a case has no number */
    reasons failed;
} tally;

static void count(tally *t, const demand *d, int64_t s, int64_t l)
{
    t->of++;
    if (d->failed)
        add_reason(&t->failed, d->failed);
    else
        t->applies++;
    t->conditional = t->conditional || d->conditional;
    t->none = t->none || isnan(d->asked);
    if (d->bound > t->bound) t->bound = d->bound;
    if (d->asked > t->most) t->most = d->asked, t->sample = s, t->layer = l;
}

/* The skips of the mixers that the table speaks of. */
typedef struct own_skips {
    double low, high, least, most; /* of λ; of |λ| */
} own_skips;

static bool is_case(const rs_lambda_row *row)
{
    return row->nonfinite || (row->told && !row->at_floor);
}

static own_skips skips_of(const rs_certify_lambda *lambda)
{
    own_skips own = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (int64_t s = 0; s < rs_certify_lambda_samples(lambda); s++)
        for (int32_t l = 0; l < rs_certify_lambda_network(lambda)->n_layers; l++) {
            const rs_lambda_row *row = rs_certify_lambda_row(lambda, s, l);
            if (!is_case(row)) continue;
            own.low = fmin(own.low, row->lambda);
            own.high = fmax(own.high, row->lambda);
            own.least = fmin(own.least, fabs(row->lambda));
            own.most = fmax(own.most, fabs(row->lambda));
        }
    return own;
}

static rs_truth is_met(const statement *of, double asked, const own_skips *own)
{
    if (isnan(asked)) return RS_UNKNOWN;
    if (of->side == POSITIVE) return own->low >= asked;
    if (of->side == NEGATIVE) return -own->high >= asked;
    return of->beyond ? own->least > asked : own->least >= asked;
}

static demand_cells cells_of(const statement *of, const tally *t, const own_skips *own, double kept)
{
    double asked = t->of && !t->none ? t->most : (double)NAN;
    bool null = isnan(asked);
    return (demand_cells){.statement = of->name,
                          .source = of->source,
                          .published = of->published ? asked : (double)NAN,
                          .certified = of->published ? (double)NAN : asked,
                          .conditional = t->conditional,
                          .bound = t->of && !t->none && t->bound >= 0 ? t->bound : (double)NAN,
                          .layers = t->layers,
                          .kept = kept,
                          .least = own->least,
                          .most = own->most,
                          .met = is_met(of, asked, own),
                          .sample = null ? RS_NULL_INT : t->sample,
                          .layer = null ? RS_NULL_INT : t->layer,
                          .applies = t->applies,
                          .of = t->of,
                          .failed = t->of ? commonest(&t->failed) : no_case_text};
}

static void tally_rows(tally *t, const statement *of, const rs_certify_lambda *lambda)
{
    for (int64_t s = 0; s < rs_certify_lambda_samples(lambda); s++)
        for (int32_t l = 0; l < rs_certify_lambda_network(lambda)->n_layers; l++) {
            const rs_lambda_row *row = rs_certify_lambda_row(lambda, s, l);
            if (!is_case(row)) continue;
            demand asked = row->told ? of->asks(row) : (demand){NAN, nonfinite_text, false, NAN};
            count(t, &asked, s, l);
        }
}

static void tally_samples(tally *t, const statement *of, const rs_certify_lambda *lambda)
{
    for (int64_t s = 0; s < rs_certify_lambda_samples(lambda); s++) {
        rs_stack_demand stack;
        if (!rs_certify_stack_demand(&stack, lambda, s)) continue;
        demand asked = of->of_stack(&stack);
        t->layers = stack.layers;
        count(t, &asked, s, stack.layer);
    }
}

rs_status rs_certify_demands_table(rs_result *result, const rs_certify_lambda *lambda,
                                   rs_error *err)
{
    rs_table *t;
    own_skips own = skips_of(lambda);
    double kept = rs_certify_lambda_kept(lambda);
    RS_TRY(rs_result_add_table(result, "demands", "Skip strengths that the statements ask for",
                               "The smallest |λ| that, by each published or proved statement, is "
                               "enough for every mixer on every sample to keep the wanted "
                               "fraction of μ(X) = ‖X − 1x̄ᵀ‖_F",
                               columns, sizeof columns / sizeof *columns, &t, err));
    rs_table_show_first(t,
                        "statement,published,certified,met,lambda_least,layer,applies,of,failed");
    for (int i = 0; i < STATEMENTS; i++) {
        tally all = {.most = -1, .bound = -1, .layers = 1};
        if (statements[i].asks)
            tally_rows(&all, &statements[i], lambda);
        else
            tally_samples(&all, &statements[i], lambda);
        const demand_cells cells = cells_of(&statements[i], &all, &own, kept);
        RS_TRY(rs_table_append(t, &cells, err));
    }
    return RS_OK;
}
