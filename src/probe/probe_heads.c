/*
 * probe_heads.c: what stands out among the heads. A head is judged against what it would show if its
 * weights had just been drawn (columns ..._null): what every untrained network of the same shape
 * shows is no finding about this one.
 */
#include "probe/probe_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Logits of this share of the drawn ones' variance, or of so many times it, are no longer what a
 * draw gives: over heads and layers of random networks it varies by less than a factor of two. */
static const double LIKE_DRAWN = 4;

typedef struct head_rule {
    const char *code;
    rs_severity severity;
    bool above;
    bool logits;         /* logits as drawn ones explain it */
    const char *message; /* variant, layer, head, a number */
    const char *more[2]; /* a second and a third, while there are any */
    const char *end;     /* NULL: none */
    const char *hint;
    const char *worst;
} head_rule;

enum { SINK, UNIFORM, CONDENSED, LOW_RANK, RULES };
static const head_rule rules[RULES] = {
    [SINK] = {"attention_sink",
              RS_INFO,
              true,
              false,
              "%s: layer %d, head %d gives %.3g of its weight to the first token",
              {", where all keys alike would give %.3g", " (entropy %.3g nats)"},
              NULL,
              "usual in trained models: a head with nothing to add parks its weight there; such "
              "tokens often carry very large activations",
              "strongest"},
    [UNIFORM] =
        {"uniform_attention",
         RS_WARN,
         true,
         true,
         "%s: layer %d, head %d attends to all tokens alike: its entropy is %.4g of the most "
         "possible",
         {", logit variance %.3g", " where drawn weights give %.3g"},
         "; it averages the tokens and pulls them together",
         "raise the logits (lower --temperature shows what that does), or look whether the query "
         "and key weights have decayed: rankscope scan",
         "most uniform"},
    [CONDENSED] =
        {"condensed_attention",
         RS_INFO,
         false,
         true,
         "%s: layer %d, head %d puts nearly all weight of each query on one key: entropy %.3g of "
         "the most possible",
         {", logit variance %.3g", " where drawn weights give %.3g"},
         NULL,
         "in training, such a head has almost no gradient through its softmax: watch the scale of "
         "its logits",
         "most condensed"},
    [LOW_RANK] =
        {"low_rank_attention",
         RS_INFO,
         false,
         false,
         "%s: layer %d, head %d has %.3g of the effective rank that random logits of its variance "
         "give",
         {": %.3g", " where those give %.3g"},
         NULL,
         "usual in deep layers of trained models: such a head moves tokens in few directions; "
         "columns ..._rank and ..._rank_null of table attention have them all",
         "lowest"},
};

/* The heads that a rule names, but that a drawn network shows as well. */
typedef struct untrained {
    int64_t sinks, uniform, condensed;
    double most_weight;             /* of the sinks */
    double least_ratio, most_ratio; /* of the uniform ones; of the condensed ones */
    double least_variance, most_variance, least_drawn, most_drawn;
} untrained;

typedef struct heads {
    rs_result *result;
    const rs_probed *of;
    const rs_probe_thresholds *thresholds;
    int64_t total; /* heads that were measured */
    untrained untrained;
    rs_error *err;
} heads;

/* Whether drawn weights would do the same. Where the law of drawing is not known, drawn weights are
 * their own reference, and trained ones have none. */
static bool as_drawn(const heads *h, const rs_attention_row *row, int rule)
{
    if (!h->of->network->checkpoint) return true;
    if (!rules[rule].logits) return false;
    double drawn = row->null.logit_variance, own = row->mean.logit_variance;
    if (isnan(drawn) || isnan(own)) return false;
    return rule == UNIFORM ? own * LIKE_DRAWN >= drawn : own <= LIKE_DRAWN * drawn;
}

static void count_untrained(untrained *u, const rs_attention_row *row, int rule)
{
    if (rule == SINK)
        u->sinks++, u->most_weight = fmax(u->most_weight, row->mean.first_token_weight);
    if (rule == UNIFORM) u->uniform++, u->least_ratio = fmin(u->least_ratio, row->entropy_ratio);
    if (rule == CONDENSED) u->condensed++, u->most_ratio = fmax(u->most_ratio, row->entropy_ratio);
    u->least_variance = fmin(u->least_variance, row->mean.logit_variance);
    u->most_variance = fmax(u->most_variance, row->mean.logit_variance);
    u->least_drawn = fmin(u->least_drawn, row->null.logit_variance);
    u->most_drawn = fmax(u->most_drawn, row->null.logit_variance);
}

typedef struct judged {
    double value, limit, second, third;
} judged;

/* A sink takes what is left beside the weight that all keys alike give the first token. */
static judged judge(const heads *h, const rs_attention_row *row, int rule)
{
    const rs_probe_thresholds *t = h->thresholds;
    double alike = row->null.first_token_weight;
    if (rule == SINK)
        return (judged){row->mean.first_token_weight, alike + t->attention_sink * (1 - alike),
                        alike, row->mean.entropy};
    if (rule == LOW_RANK)
        return (judged){row->mean.effective_rank / row->null.effective_rank, t->low_rank_attention,
                        row->mean.effective_rank, row->null.effective_rank};
    double limit = rule == UNIFORM ? t->uniform_attention : t->condensed_attention;
    return (judged){row->entropy_ratio, limit, row->mean.logit_variance, row->null.logit_variance};
}

/* Whether the matrix that meets the values is the softmax: the entries of an edited one (P - U, say)
 * are no shares of a head's weight. */
static bool is_softmax(const heads *h, const rs_attention_row *row)
{
    const rs_branch *mixer = rs_layer_mixer(&h->of->network->layers[row->layer]);
    if (!mixer || mixer->kind != RS_BRANCH_ATTENTION) return false;
    return !rs_attention_is_edited(&mixer->attention);
}

static rs_status check_head(heads *h, const rs_attention_row *row, int which)
{
    const head_rule *rule = &rules[which];
    judged j = judge(h, row, which);
    if (which == SINK && !is_softmax(h, row)) return RS_OK;
    if (!(rule->above ? j.value > j.limit : j.value < j.limit)) return RS_OK;
    if (which != LOW_RANK && as_drawn(h, row, which)) {
        count_untrained(&h->untrained, row, which);
        return RS_OK;
    }
    char message[400];
    /* Logits may overflow, and weights of zeros draw no null: what is no number is not told. */
    const double more[2] = {j.second, j.third};
    size_t used = (size_t)snprintf(message, sizeof message, rule->message, h->of->name,
                                   (int)row->layer, (int)row->head, j.value);
    for (int i = 0; i < 2 && isfinite(more[i]) && used < sizeof message; i++)
        used += (size_t)snprintf(message + used, sizeof message - used, rule->more[i], more[i]);
    if (rule->end && used < sizeof message)
        snprintf(message + used, sizeof message - used, "%s", rule->end);
    rs_finding f = rs_finding_of(rule->severity, rule->code);
    f.variant = h->of->name;
    f.layer = row->layer;
    f.head = row->head;
    f.value = j.value;
    f.threshold = j.limit;
    f.message = message;
    f.hint = rule->hint;
    f.table = "attention";
    f.cases = "heads";
    f.worst = rule->worst;
    f.of = h->total;
    return rs_result_add_finding(h->result, &f, h->err);
}

/* ---- what says something of all of them ---- */

static rs_status say(const heads *h, rs_severity severity, const char *code, double value,
                     const char *message, const char *hint)
{
    rs_finding f = rs_finding_of(severity, code);
    f.variant = h->of->name;
    f.value = value;
    f.message = message;
    f.hint = hint;
    f.table = "attention";
    return rs_result_add_finding(h->result, &f, h->err);
}

/* The heads of the largest kind: one head may be of two. */
static double most_heads(const untrained *u)
{
    return fmax((double)(u->uniform + u->condensed), (double)u->sinks);
}

static rs_status say_untrained(const heads *h)
{
    const untrained *u = &h->untrained;
    char what[340] = "", message[740], drawn[120] = "", variance[80] = "";
    size_t used = 0;
    if (!u->uniform && !u->condensed && !u->sinks) return RS_OK;
    if (u->uniform)
        used = (size_t)snprintf(what, sizeof what,
                                "%lld of %lld heads attend to all tokens alike (entropy at least "
                                "%.4g of the most possible)",
                                (long long)u->uniform, (long long)h->total, u->least_ratio);
    if (u->condensed)
        used += (size_t)snprintf(what + used, sizeof what - used,
                                 "%s%lld of %lld heads attend to one key each (entropy at most "
                                 "%.3g of the most possible)",
                                 used ? ", " : "", (long long)u->condensed, (long long)h->total,
                                 u->most_ratio);
    if (u->sinks)
        snprintf(what + used, sizeof what - used,
                 "%s%lld of %lld heads give the first token much of their weight (at most %.3g)",
                 used ? ", " : "", (long long)u->sinks, (long long)h->total, u->most_weight);
    if (isfinite(u->most_drawn))
        snprintf(drawn, sizeof drawn, ", where drawn weights give %.2g to %.2g", u->least_drawn,
                 u->most_drawn);
    if (isfinite(u->most_variance))
        snprintf(variance, sizeof variance, ": logit variance %.2g to %.2g", u->least_variance,
                 u->most_variance);
    snprintf(message, sizeof message,
             "%s: %s, as in any network of this shape at initialisation%s%s", h->of->name, what,
             variance, variance[0] ? drawn : "");
    return say(h, RS_INFO, "untrained_attention", most_heads(u), message,
               h->of->network->checkpoint ? "columns ..._null of table attention have the "
                                            "reference; --null random runs an untrained twin"
                                          : NULL);
}

static rs_status say_unconverged(const heads *h, int64_t unconverged)
{
    char message[200];
    if (!unconverged) return RS_OK;
    snprintf(message, sizeof message,
             "%s: an eigenvalue iteration failed on %lld attention matrices; their values are left "
             "out of the means",
             h->of->name, (long long)unconverged);
    return say(h, RS_WARN, "unconverged", (double)unconverged, message, NULL);
}

/* With a handful of tokens every head looks uniform or condensed. */
rs_status rs_probe_heads(rs_result *result, const rs_probed *v, const rs_probe_options *options,
                         rs_error *err)
{
    enum { LEAST_TOKENS = 8 };
    const rs_measured *m = v->measured;
    int64_t unconverged = 0;
    heads h = {.result = result,
               .of = v,
               .thresholds = &options->thresholds,
               .untrained = {.least_ratio = INFINITY,
                             .most_ratio = -INFINITY,
                             .most_weight = -INFINITY,
                             .least_variance = INFINITY,
                             .most_variance = -INFINITY,
                             .least_drawn = INFINITY,
                             .most_drawn = -INFINITY},
               .err = err};
    if (m->rows < LEAST_TOKENS * m->samples) return RS_OK;
    for (size_t i = 0; i < m->n_attention; i++) {
        h.total += m->attention[i].samples > 0;
        unconverged += m->attention[i].unconverged;
    }
    for (size_t i = 0; i < m->n_attention; i++)
        for (int rule = 0; rule < RULES; rule++)
            RS_TRY(check_head(&h, &m->attention[i], rule));
    RS_TRY(say_untrained(&h));
    return say_unconverged(&h, unconverged);
}
