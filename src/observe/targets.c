/* targets.c: a target for each row: next tokens, masked ones, classes. */
#include "observe/targets.h"

#include "base/memory.h"
#include "base/random.h"
#include "network/op_traits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *rs_grad_loss_name(rs_grad_loss loss)
{
    static const char *const names[] = {"auto", "lm", "mlm", "class", "random", "norm2"};
    return names[loss];
}

/* ---- what a network can have ---- */

static bool has_targets(rs_grad_loss kind)
{
    return kind == RS_GRAD_LOSS_LM || kind == RS_GRAD_LOSS_MLM || kind == RS_GRAD_LOSS_CLASS;
}

rs_status rs_targets_check(const rs_targets *t, const rs_network *network, rs_error *err)
{
    const char *name = rs_grad_loss_name(t->kind);
    if (!has_targets(t->kind)) return RS_OK;
    if (!network->head.decoder.weight)
        return rs_fail(err, RS_E_UNSUPPORTED, "--loss", "take --loss random or --loss norm2",
                       "the network has no head, whose logits the loss %s is made of", name);
    if (t->kind != RS_GRAD_LOSS_CLASS && network->embedding.tokens &&
        network->head.decoder.out < network->embedding.vocabulary)
        return rs_fail(
            err, RS_E_UNSUPPORTED, "--loss", "take --loss class, random or norm2",
            "the head has %lld outputs for a vocabulary of %lld: it predicts no tokens, so "
            "the loss %s is not this network's",
            (long long)network->head.decoder.out, (long long)network->embedding.vocabulary, name);
    if (t->kind == RS_GRAD_LOSS_LM && !network->head.next_token)
        return rs_fail(err, RS_E_UNSUPPORTED, "--loss", "take --loss mlm, random or norm2",
                       "the head does not predict the next token: a token sees those behind it, so "
                       "the loss lm is not this network's");
    return RS_OK;
}

static rs_status check_request(const rs_targets *t, const rs_loss_request *request,
                               const rs_inputs *inputs, rs_error *err)
{
    const char *name = rs_grad_loss_name(t->kind);
    bool ids = t->kind == RS_GRAD_LOSS_LM || t->kind == RS_GRAD_LOSS_MLM;
    if (has_targets(t->kind) && request->at != RS_GRAD_AT_AUTO)
        return rs_fail(err, RS_E_USAGE, "--loss-at", "leave it out, or take --loss random or norm2",
                       "the loss %s is of logits, which stand behind the final norm", name);
    if (t->kind == RS_GRAD_LOSS_CLASS && !request->target)
        return rs_fail(err, RS_E_USAGE, "--loss", "say which: --target 3",
                       "the loss class needs the class of the samples");
    if (t->kind != RS_GRAD_LOSS_CLASS && request->target)
        return rs_fail(err, RS_E_USAGE, "--target", "add --loss class, or leave it out",
                       "the loss %s has no classes", name);
    if (ids && !inputs->ids)
        return rs_fail(err, RS_E_UNSUPPORTED, "--loss", "take --loss random or --loss norm2",
                       "the loss %s predicts tokens, and the inputs are %s without any", name,
                       inputs->images ? "images" : "states");
    return RS_OK;
}

/* ---- next tokens ---- */

static void next_tokens(rs_targets *t, const rs_inputs *in)
{
    for (int64_t s = 0; s < in->samples; s++)
        for (int64_t row = in->begin[s]; row < in->begin[s + 1]; row++) {
            t->rows[row] = row + 1 < in->begin[s + 1] ? in->ids[row + 1] : -1;
            t->n += t->rows[row] >= 0;
        }
}

/* ---- masked tokens ---- */

static const double masked_share = 0.15;

/* The first of some tokens [n] that tokenizer and network know; -1: none. */
static int32_t known_token(const rs_network *network, const rs_tokenizer *tokenizer,
                           const char *const *names, size_t n)
{
    for (size_t i = 0; tokenizer && i < n; i++) {
        int32_t id = rs_tokenizer_id(tokenizer, names[i]);
        if (id >= 0 && id < network->embedding.vocabulary) return id;
    }
    return -1;
}

int32_t rs_targets_stand_in(const rs_network *network, const rs_tokenizer *tokenizer)
{
    static const char *const names[] = {"[UNK]", "<unk>", "[MASK]",       "<mask>",
                                        "[PAD]", "<pad>", "<|endoftext|>"};
    int32_t id = known_token(network, tokenizer, names, sizeof names / sizeof *names);
    if (id < 0 && network->padding_row < network->embedding.vocabulary)
        id = (int32_t)network->padding_row;
    return id;
}

static rs_status mask_id(int32_t *id, const rs_network *network, const rs_tokenizer *tokenizer,
                         rs_error *err)
{
    static const char *const names[] = {"[MASK]", "<mask>"};
    *id = known_token(network, tokenizer, names, sizeof names / sizeof *names);
    if (*id >= 0) return RS_OK;
    return rs_fail(err, RS_E_UNSUPPORTED, "--loss",
                   "take --loss random or norm2, or put tokenizer.json beside the model",
                   "%s, so the loss mlm has nothing to put in the place of tokens",
                   tokenizer ? "the model's tokenizer has neither [MASK] nor <mask>"
                             : "the model has no tokenizer that names its [MASK]");
}

/* Tokens that the model puts around a text say nothing to predict. */
static bool is_frame(const rs_tokenizer *tokenizer, const rs_network *network, int32_t id)
{
    const int32_t *around[2];
    size_t n[2];
    if (id == network->padding_row) return true;
    rs_tokenizer_specials(tokenizer, &around[0], &n[0], &around[1], &n[1]);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < n[side]; i++)
            if (around[side][i] == id) return true;
    return false;
}

/* Row i is masked where the number that belongs to (seed, i) is below the share; where none is, the
 * row of the least number. */
static rs_status masked_tokens(rs_targets *t, const rs_network *network, const rs_inputs *in,
                               const rs_tokenizer *tokenizer, uint64_t seed, rs_error *err)
{
    int64_t rows = in->begin[in->samples], least = -1;
    double lowest = 2;
    int32_t mask;
    RS_TRY(mask_id(&mask, network, tokenizer, err));
    t->ids = rs_malloc((size_t)rows + 1, sizeof *t->ids);
    if (!t->ids) return rs_fail_memory(err, "targets", (size_t)rows * sizeof *t->ids);
    for (int64_t row = 0; row < rows; row++) {
        rs_random random = rs_random_new(seed, (uint64_t)row);
        double drawn = rs_random_uniform(&random);
        bool frame = is_frame(tokenizer, network, in->ids[row]), masked = drawn < masked_share;
        t->rows[row] = masked && !frame ? in->ids[row] : -1;
        t->ids[row] = masked && !frame ? mask : in->ids[row];
        t->n += t->rows[row] >= 0;
        if (!frame && drawn < lowest) lowest = drawn, least = row;
    }
    if (t->n > 0 || least < 0) return RS_OK;
    t->rows[least] = in->ids[least];
    t->ids[least] = mask;
    t->n = 1;
    return RS_OK;
}

/* ---- classes ---- */

static rs_status bad_target(const char *text, const char *why, rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, "--target",
                   "give one class for all samples, or one for each, such as 3,1,4", "'%s': %s",
                   text, why);
}

/* Of a model that predicts the next token the last row has seen the whole sample, of others the
 * first is the one that is read. */
static void set_class(rs_targets *t, const rs_inputs *in, int64_t sample, int32_t class, bool last)
{
    int64_t from = in->begin[sample], to = in->begin[sample + 1];
    if (from == to) return;
    t->rows[last ? to - 1 : from] = class;
    t->n++;
}

static rs_status classes(rs_targets *t, const rs_network *network, const rs_inputs *in,
                         const char *text, bool last, rs_error *err)
{
    const char *at = text;
    int64_t sample = 0;
    long class = 0;
    for (int64_t row = 0; row < in->begin[in->samples]; row++)
        t->rows[row] = -1;
    while (true) {
        char *end;
        errno = 0;
        class = strtol(at, &end, 10);
        if (end == at || errno || class < 0 || (*end && *end != ','))
            return bad_target(text, "classes are whole numbers from 0 on", err);
        if (class > 0 && class >= network->head.decoder.out)
            return rs_fail(err, RS_E_TOKEN_RANGE, "--target", "give one of these",
                           "class %ld: the head has outputs 0 to %lld", class,
                           (long long)network->head.decoder.out - 1);
        if (sample < in->samples) set_class(t, in, sample, (int32_t) class, last);
        sample++;
        if (!*end) break;
        at = end + 1;
    }
    if (sample == 1)
        for (; sample < in->samples; sample++)
            set_class(t, in, sample, (int32_t) class, last);
    if (sample != in->samples)
        return bad_target(text, "there are not as many classes as samples", err);
    return RS_OK;
}

/* ---- all ---- */

static rs_status make(rs_targets *t, const rs_loss_request *request, const rs_network *network,
                      const rs_inputs *inputs, const rs_tokenizer *tokenizer, rs_error *err)
{
    switch (t->kind) {
    case RS_GRAD_LOSS_LM:
        next_tokens(t, inputs);
        return RS_OK;
    case RS_GRAD_LOSS_MLM:
        return masked_tokens(t, network, inputs, tokenizer, request->seed, err);
    case RS_GRAD_LOSS_CLASS:
        return classes(t, network, inputs, request->target, network->head.next_token, err);
    default:
        return RS_OK;
    }
}

rs_status rs_targets_open(rs_targets *t, const rs_loss_request *request, const rs_network *network,
                          const rs_inputs *inputs, const rs_tokenizer *tokenizer, rs_error *err)
{
    const rs_head_op *head = &network->head;
    bool predicts = head->decoder.weight && head->next_token && inputs->ids;
    *t = (rs_targets){.kind = request->loss};
    if (t->kind == RS_GRAD_LOSS_AUTO && request->at == RS_GRAD_AT_AUTO && predicts)
        t->kind = RS_GRAD_LOSS_LM;
    else if (t->kind == RS_GRAD_LOSS_AUTO)
        t->kind = RS_GRAD_LOSS_RANDOM;
    RS_TRY(rs_targets_check(t, network, err));
    RS_TRY(check_request(t, request, inputs, err));
    t->loss = (rs_loss){.kind = t->kind == RS_GRAD_LOSS_RANDOM ? RS_LOSS_RANDOM : RS_LOSS_SQUARE,
                        .weight = 1,
                        .at_state = request->at != RS_GRAD_AT_FINAL,
                        .seed = request->seed};
    if (!has_targets(t->kind)) return RS_OK;
    size_t rows = (size_t)inputs->begin[inputs->samples];
    t->rows = rs_malloc(rows + 1, sizeof *t->rows);
    if (!t->rows) return rs_fail_memory(err, "targets", rows * sizeof *t->rows);
    RS_TRY(make(t, request, network, inputs, tokenizer, err));
    if (t->n == 0)
        return rs_fail(err, RS_E_UNSUPPORTED, "--loss", "give longer samples, or --loss random",
                       "no token of the inputs has a target of the loss %s",
                       rs_grad_loss_name(t->kind));
    t->loss.kind = RS_LOSS_TARGETS;
    t->loss.weight = 1.0 / (double)t->n;
    t->loss.targets = t->rows;
    return RS_OK;
}

/* ---- what relevance explains ---- */

/* No token of the network sees one behind it, and some see one in front. */
static bool looks_back(const rs_network *network)
{
    bool mixes = false;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (!rs_layer_mixes_with(&network->layers[l], b)) continue;
            if (!rs_branch_traits(branch)->causal(branch)) return false;
            mixes = true;
        }
    return mixes;
}

rs_status rs_targets_explain(rs_targets *t, const char *target, const rs_network *network,
                             const rs_inputs *in, rs_error *err)
{
    bool head = network->head.decoder.weight;
    size_t rows = (size_t)in->begin[in->samples];
    *t = (rs_targets){.kind = RS_GRAD_LOSS_CLASS,
                      .last = network->head.next_token || looks_back(network),
                      .largest = head && !target};
    t->loss = (rs_loss){.kind = head ? RS_LOSS_OUTPUT : RS_LOSS_LENGTH, .weight = 1};
    if (target && !head)
        return rs_fail(err, RS_E_UNSUPPORTED, "--target",
                       "leave it out: the length of the final state is explained then",
                       "the network has no head, of whose outputs one could be explained");
    t->rows = rs_malloc(rows + 1, sizeof *t->rows);
    if (!t->rows) return rs_fail_memory(err, "targets", rows * sizeof *t->rows);
    t->loss.targets = t->rows;
    return classes(t, network, in, target ? target : "0", t->last, err);
}

void rs_targets_close(rs_targets *t)
{
    rs_free(t->rows);
    rs_free(t->ids);
    *t = (rs_targets){0};
}
