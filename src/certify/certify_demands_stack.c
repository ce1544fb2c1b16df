/* certify_demands_stack.c: the published theorem as its paper states it, for all layers of a network
 * at once: C_M and S are the largest of any layer, K layers keep kept^K, and the condition on the
 * tokens is one on those that enter the first layer (docs/certificates_lambda.md, L10). */
#include "certify/certify_lambda.h"

#include "proof/lambda_span.h"

#include <math.h>

static const char nonfinite_text[] = "tokens and branches that are finite";
static const char equal_text[] = "the tokens of the input differ";
static const char unknown_text[] = "mixing matrices and a value map whose norms are known";

/* What the layers of one sample have in common. */
typedef struct stack {
    const rs_lambda_row *first; /* of the first layer with a mixer; NULL: there is none */
    int32_t layers, worst;      /* worst: with the largest ‖M‖_F */
    double stretch, bound, frobenius;
    const char *failed;
} stack;

static bool mixes(const rs_network *network, int32_t l)
{
    const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
    return mixer && mixer->scale != 0;
}

/* A NaN is larger than any number. */
static void keep_most(double *most, double value)
{
    if (!(value <= *most) && !isnan(*most)) *most = value;
}

/* Whether theorem 4.1 is about layer l; the number that it would ask for plays no part. */
static const char *layer_fails(const rs_certify_lambda *lambda, const rs_lambda_row *row, int32_t l)
{
    const rs_lambda_wish wish = {
        .kept = rs_certify_lambda_kept(lambda), .layers = 1, .published = 0};
    if (!row->told) return row->nonfinite ? nonfinite_text : equal_text;
    rs_lambda_number number = rs_lambda_published_eq7(&row->facts, &wish);
    return number.valid ? rs_certify_lambda_adds_more(lambda, l) : number.failed_hypothesis;
}

static void add_layer(stack *all, const rs_certify_lambda *lambda, int64_t s, int32_t l)
{
    const rs_lambda_row *row = rs_certify_lambda_row(lambda, s, l);
    double frobenius = rs_certify_lambda_frobenius(lambda, s, l);
    if (!all->first) all->first = row;
    all->layers++;
    if (!all->failed) all->failed = layer_fails(lambda, row, l);
    if (frobenius > all->frobenius) all->worst = l;
    keep_most(&all->frobenius, row->nonfinite ? (double)NAN : frobenius);
    keep_most(&all->stretch, rs_certify_lambda_stretch(lambda, l));
    /* a layer that reads equal tokens is not told of: the same bound holds of it as of the others */
    if (row->told || row->nonfinite) keep_most(&all->bound, row->published);
}

static stack stack_of(const rs_certify_lambda *lambda, int64_t s)
{
    const rs_network *network = rs_certify_lambda_network(lambda);
    stack all = {.frobenius = 0, .stretch = 0, .bound = 0};
    for (int32_t l = 0; l < network->n_layers; l++)
        if (mixes(network, l)) add_layer(&all, lambda, s, l);
    return all;
}

bool rs_certify_stack_demand(rs_stack_demand *out, const rs_certify_lambda *lambda, int64_t s)
{
    stack all = stack_of(lambda, s);
    const rs_lambda_row *first = all.first;
    if (!first || !(first->nonfinite || (first->told && !first->at_floor))) return false;
    rs_lambda_wish wish = {.kept = rs_certify_lambda_kept(lambda), .layers = all.layers};
    *out = (rs_stack_demand){.bound = all.bound,
                             .measured = rs_times_up(all.stretch, all.frobenius),
                             .eq7_measured = NAN,
                             .both = NAN,
                             .both_measured = NAN,
                             .layer = all.worst,
                             .layers = all.layers,
                             .failed = all.failed,
                             .failed_measured = all.failed};
    if (first->nonfinite) return true;
    wish.published = all.bound;
    out->both = rs_lambda_published_both(&first->facts, &wish).value;
    wish.published = out->measured;
    out->eq7_measured = rs_lambda_published_eq7(&first->facts, &wish).value;
    out->both_measured = rs_lambda_published_both(&first->facts, &wish).value;
    if (!out->failed && isnan(out->both)) out->failed = unknown_text;
    if (!out->failed_measured && isnan(out->both_measured)) out->failed_measured = unknown_text;
    return true;
}
