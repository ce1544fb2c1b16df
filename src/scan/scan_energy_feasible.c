/* scan_energy_feasible.c: what stands between the two factors of a product. A product can take
 * their place where the model computes nothing else between them, and no other part of the model
 * uses one of them. */
#include "scan/scan_energy.h"

#include <string.h>

typedef struct answer {
    rs_feasible feasible;
    const char *reason;
} answer;

static const answer of_guess = {
    RS_FEASIBLE_UNKNOWN, "the family is a guess: what stands between the two factors is not known"};
static const answer of_shared = {RS_FEASIBLE_NO,
                                 "one of the two factors belongs to another product, too"};

/* [RoPE][QK-norm] */
static const answer of_qk[2][2] = {
    {{RS_FEASIBLE_YES, "nothing stands between W_Q and W_Kᵀ"},
     {RS_FEASIBLE_NO, "QK-norm stands between W_Q and W_Kᵀ"}},
    {{RS_FEASIBLE_NO, "RoPE turns queries against keys between W_Q and W_Kᵀ"},
     {RS_FEASIBLE_NO, "QK-norm and RoPE stand between W_Q and W_Kᵀ"}},
};
static const answer of_biased_qk = {
    RS_FEASIBLE_YES,
    "nothing but biases stands between W_Q and W_Kᵀ; --with-bias makes them part of the product"};

/* [a norm between them] */
static const answer of_ov[2] = {
    {RS_FEASIBLE_YES, "W_V and W_O act on units, what stands between them on tokens alone"},
    {RS_FEASIBLE_NO, "a norm stands between W_V and W_O"}};
static const answer of_cb = {RS_FEASIBLE_NO, "the scan's decay stands between W_C and W_Bᵀ"};
static const answer of_io = {RS_FEASIBLE_NO,
                             "convolution, SiLU, scan and gate stand between W_in and W_out"};

/* What acts on single units between the factors, as the product's own text names what it leaves out. */
static const struct {
    const char *text;
    answer answer;
} between[] = {
    {"norm and gate before W_O", {RS_FEASIBLE_NO, "a norm and a gate stand between W_V and W_O"}},
    {"gate before W_O", {RS_FEASIBLE_NO, "a gate on each unit stands between W_V and W_O"}},
    {"norm before W_O", {RS_FEASIBLE_NO, "a norm stands between W_V and W_O"}},
    {"norm of the values", {RS_FEASIBLE_NO, "a norm stands between W_V and W_O"}},
    {"elu + 1", {RS_FEASIBLE_NO, "elu + 1 of queries and keys stands between W_Q and W_Kᵀ"}},
};

static const answer *acts_between(const rs_product *p)
{
    for (size_t i = 0; i < sizeof between / sizeof *between; i++)
        if (p->corrections && strstr(p->corrections, between[i].text)) return &between[i].answer;
    return NULL;
}

static bool uses(const rs_product *p, const rs_factor *factor)
{
    return rs_factor_stored_alike(&p->a, factor) || rs_factor_stored_alike(&p->b, factor);
}

/* Products of one kind share keys and values by design (grouped queries):
 * they are taken together. */
static bool takes_from(const rs_product *other, const rs_product *p)
{
    if (other->kind == p->kind && other->attention == p->attention) return false;
    return uses(other, &p->a) || uses(other, &p->b);
}

static bool same_layer(const rs_product *a, const rs_product *b)
{
    return a->layer == b->layer && a->stack == b->stack;
}

static bool shared(const rs_model *model, const rs_product *p)
{
    const rs_product *begin = model->products, *end = begin + model->n_products;
    for (const rs_product *q = p; q > begin && same_layer(q - 1, p);)
        if (takes_from(--q, p)) return true;
    for (const rs_product *q = p + 1; q < end && same_layer(q, p); q++)
        if (takes_from(q, p)) return true;
    return false;
}

static const answer *judge_product(const rs_model *model, const rs_product *p, rs_fold fold)
{
    if (p->kind == RS_PRODUCT_CB) return &of_cb;
    if (p->kind == RS_PRODUCT_IO) return &of_io;
    if (model->guessed) return &of_guess;
    const answer *found = acts_between(p);
    if (found) return found;
    if (p->kind == RS_PRODUCT_OV) {
        bool norm = p->a.inner_gain || p->b.inner_gain;
        return shared(model, p) && !norm ? &of_shared : &of_ov[norm];
    }
    bool rope = p->rope != RS_ROPE_NONE && p->rope_dims > 0;
    bool norm = p->qk_norm || p->a.inner_gain || p->b.inner_gain;
    if (!rope && !norm && shared(model, p)) return &of_shared;
    bool biased = !fold.biases && (p->a.bias || p->b.bias);
    return !rope && !norm && biased ? &of_biased_qk : &of_qk[rope][norm];
}

rs_feasible rs_product_feasible(const char **reason, const rs_model *model,
                                const rs_product *product, rs_fold fold)
{
    const answer *found = judge_product(model, product, fold);
    *reason = found->reason;
    return found->feasible;
}
