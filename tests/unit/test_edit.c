/* test_edit.c: what each intervention does to the description of a network, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "network/edit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct subject {
    rs_init *init;
    rs_network *network;
} subject;

/* A small network of any norm; "parallel" makes its MLPs join. */
static subject make(const char *norm, const char *mask, bool parallel)
{
    subject s = {NULL, NULL};
    char text[256];
    snprintf(text, sizeof text,
             "{\"depth\": 3, \"d_model\": 4, \"mlp_width\": 5, \"norm\": \"%s\", \"mask\": \"%s\", "
             "\"vocab\": 7}",
             norm, mask);
    json_t *json = json_loads(text, 0, NULL);
    rs_error err;
    assert_int_equal(rs_init_open(&s.init, NULL, 1, &err), RS_OK);
    if (rs_network_from_arch(&s.network, json, "arch", s.init, &err) != RS_OK)
        fail_msg("%s", err.what);
    json_decref(json);
    for (int32_t l = 0; parallel && l < 3; l++)
        s.network->layers[l].branches[1].joins = true;
    return s;
}

static void destroy(subject *s)
{
    rs_network_close(s->network);
    rs_init_close(s->init);
}

/* Applies options "name" or "name value", NULL-terminated. */
static rs_status apply(subject *s, const char *const *options, rs_error *err)
{
    rs_edit edit;
    rs_edit_init(&edit);
    for (; *options; options++) {
        static char name[8][64];
        static int slot;
        char *mine = name[slot++ % 8];
        snprintf(mine, 64, "%s", *options);
        char *value = strchr(mine, ' ');
        if (value) *value++ = 0;
        RS_TRY(rs_edit_option(&edit, mine, value, err));
    }
    return rs_edit_apply(s->network, &edit, err);
}

static void edit(subject *s, const char *const *options)
{
    rs_error err;
    if (apply(s, options, &err) != RS_OK) fail_msg("%s: %s", err.where, err.what);
}
#define EDIT(s, ...) edit(s, (const char *const[]){__VA_ARGS__, NULL})

static void name_it(subject *s, const char *name, bool compat)
{
    rs_edit e;
    rs_error err;
    rs_edit_init(&e);
    e.dong2021_code = compat;
    assert_int_equal(rs_edit_named(&e, name, &err), RS_OK);
    if (rs_edit_apply(s->network, &e, &err) != RS_OK) fail_msg("%s", err.what);
}

static const rs_branch *branch(const subject *s, int32_t layer, int32_t b)
{
    assert_true(b < s->network->layers[layer].n_branches);
    return &s->network->layers[layer].branches[b];
}

static bool has_note(const subject *s, const char *code)
{
    for (size_t i = 0; i < s->network->notes.n; i++)
        if (strcmp(s->network->notes.items[i].code, code) == 0) return true;
    return false;
}

/* ---- the published variants (docs/theory/collapse.md, 13) ---- */

static void the_published_variants_on_post_norm(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t branches;
        double mixer_skip;
        bool norm;
    } rows[] = {{"full", 2, 1, true},
                {"san", 1, 0, true},
                {"san+mlp", 2, 0, true},
                {"san+skip", 1, 1, true},
                {"pure", 1, 0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        subject s = make("post", "none", false);
        name_it(&s, rows[i].name, false);
        for (int32_t l = 0; l < 3; l++) {
            assert_int_equal(s.network->layers[l].n_branches, rows[i].branches);
            assert_true(branch(&s, l, 0)->skip == rows[i].mixer_skip);
            assert_true(branch(&s, l, 0)->scale == 1);
            assert_int_equal(branch(&s, l, 0)->after.kind,
                             rows[i].norm ? RS_NORM_LAYERNORM : RS_NORM_NONE);
            if (rows[i].branches == 2) {
                assert_int_equal(branch(&s, l, 1)->kind, RS_BRANCH_MLP);
                assert_true(branch(&s, l, 1)->skip == 1);
                assert_int_equal(branch(&s, l, 1)->after.kind, RS_NORM_LAYERNORM);
            }
        }
        destroy(&s);
    }
}

static void pre_norm_keeps_the_norm_before_the_mixer(void **state)
{
    (void)state;
    subject s = make("pre", "causal", false);
    name_it(&s, "san", false);
    assert_int_equal(branch(&s, 0, 0)->before.kind, RS_NORM_LAYERNORM);
    assert_int_equal(s.network->layers[0].n_branches, 1);
    assert_int_equal(s.network->final_norm.kind, RS_NORM_LAYERNORM);
    assert_true(branch(&s, 0, 0)->attention.causal);
    destroy(&s);
    s = make("sandwich", "none", false);
    name_it(&s, "pure", false);
    assert_int_equal(branch(&s, 0, 0)->before.kind, RS_NORM_NONE);
    assert_int_equal(branch(&s, 0, 0)->inside.kind, RS_NORM_NONE);
    assert_int_equal(s.network->final_norm.kind, RS_NORM_LAYERNORM);
    destroy(&s);
}

static void parallel_blocks_keep_the_running_sum(void **state)
{
    (void)state;
    subject s = make("pre", "none", true);
    name_it(&s, "san+mlp", false);
    assert_true(branch(&s, 1, 0)->skip == 0);
    assert_true(branch(&s, 1, 1)->skip == 1 && branch(&s, 1, 1)->joins);
    destroy(&s);
    s = make("pre", "none", true);
    EDIT(&s, "no-skip");
    assert_true(branch(&s, 1, 0)->skip == 0 && branch(&s, 1, 1)->skip == 1);
    destroy(&s);
    s = make("pre", "none", true);
    EDIT(&s, "lambda 0.5");
    assert_true(branch(&s, 1, 0)->skip == 0.5 && branch(&s, 1, 1)->skip == 1);
    destroy(&s);
    s = make("pre", "none", true);
    rs_error err;
    const char *const mlp_only[] = {"lambda mlp:0.5", NULL};
    assert_int_equal(apply(&s, mlp_only, &err), RS_E_BAD_OPTION);
    assert_non_null(strstr(err.what, "skip of its own"));
    destroy(&s);
}

static void alberts_activation_is_left_only_under_compat(void **state)
{
    (void)state;
    subject s = make("post", "none", false);
    s.network->dong2021_code = true;
    name_it(&s, "san", false);
    assert_int_equal(s.network->layers[0].n_branches, 1);
    destroy(&s);
    s = make("post", "none", false);
    s.network->dong2021_code = true;
    name_it(&s, "san", true);
    assert_int_equal(s.network->layers[0].n_branches, 2);
    const rs_branch *left = branch(&s, 2, 1);
    assert_int_equal(left->after.kind, RS_NORM_LAYERNORM);
    assert_true(left->skip == 1 && left->scale == 1);
    assert_int_equal(left->mlp.activation, RS_ACT_GELU);
    assert_int_equal(left->mlp.width, 4);
    assert_ptr_equal(left->mlp.up.weight, left->mlp.down.weight);
    assert_null(left->mlp.up.bias);
    const float *identity = (const float *)(const void *)left->mlp.up.weight->data;
    for (int i = 0; i < 16; i++)
        assert_true(identity[i] == (i / 4 == i % 4 ? 1.0F : 0.0F));
    assert_true(branch(&s, 2, 0)->skip == 0);
    assert_true(has_note(&s, "dong2021_code"));
    destroy(&s);
    s = make("post", "none", false); /* not ALBERT: nothing is left */
    name_it(&s, "san", true);
    assert_int_equal(s.network->layers[0].n_branches, 1);
    destroy(&s);
    s = make("post", "none", false);
    s.network->dong2021_code = true;
    name_it(&s, "pure", true);
    assert_int_equal(s.network->layers[0].n_branches, 1);
    destroy(&s);
}

/* ---- single options ---- */

static void skips_and_scales(void **state)
{
    (void)state;
    subject s = make("pre", "none", false);
    EDIT(&s, "no-skip");
    assert_true(branch(&s, 0, 0)->skip == 0 && branch(&s, 0, 1)->skip == 0);
    destroy(&s);
    s = make("pre", "none", false);
    EDIT(&s, "no-mixer-skip", "lambda mlp:0.25");
    assert_true(branch(&s, 2, 0)->skip == 0 && branch(&s, 2, 1)->skip == 0.25);
    destroy(&s);
    s = make("pre", "none", false);
    EDIT(&s, "lambda 0.5,l/L,-1", "residual-scale 1/sqrt(L)");
    for (int32_t b = 0; b < 2; b++) {
        assert_true(branch(&s, 0, b)->skip == 0.5);
        assert_true(branch(&s, 1, b)->skip == 1.0 / 3);
        assert_true(branch(&s, 2, b)->skip == -1);
        for (int32_t l = 0; l < 3; l++)
            assert_true(fabs(branch(&s, l, b)->scale - 0.57735026918962576) < 1e-15);
    }
    destroy(&s);
    s = make("pre", "none", false);
    EDIT(&s, "lambda mixer:0.5:0.25:0", "lambda mlp:2", "residual-scale 1:2:3");
    assert_true(branch(&s, 1, 0)->skip == 0.25 && branch(&s, 1, 1)->skip == 2);
    assert_true(branch(&s, 1, 0)->scale == 2 && branch(&s, 2, 1)->scale == 3);
    destroy(&s);
}

static void mlps_and_norms(void **state)
{
    (void)state;
    subject s = make("post", "none", false);
    EDIT(&s, "no-mlp-branch", "residual-scale 3");
    assert_int_equal(s.network->layers[0].n_branches, 2);
    assert_true(branch(&s, 0, 1)->scale == 0 && branch(&s, 0, 1)->skip == 1);
    assert_int_equal(branch(&s, 0, 1)->after.kind, RS_NORM_LAYERNORM);
    assert_true(branch(&s, 0, 0)->scale == 3);
    EDIT(&s, "no-norm");
    assert_int_equal(branch(&s, 0, 1)->after.kind, RS_NORM_NONE);
    assert_int_equal(branch(&s, 0, 0)->after.kind, RS_NORM_NONE);
    assert_false(has_note(&s, "no_norm"));
    EDIT(&s, "no-norm");
    assert_true(has_note(&s, "no_norm"));
    destroy(&s);
    s = make("pre", "none", false);
    s.network->layers[0].branches[0].attention.q_norm.kind = RS_NORM_RMSNORM;
    EDIT(&s, "no-norm");
    assert_int_equal(branch(&s, 0, 0)->attention.q_norm.kind, RS_NORM_RMSNORM);
    assert_true(has_note(&s, "no_norm"));
    destroy(&s);
}

static void masks(void **state)
{
    (void)state;
    subject s = make("pre", "sliding:2", false);
    assert_true(s.network->head.next_token);
    EDIT(&s, "no-mask");
    assert_false(branch(&s, 0, 0)->attention.causal);
    assert_int_equal(branch(&s, 0, 0)->attention.window, 0);
    assert_false(s.network->head.next_token); /* a loss would be a look at the answer */
    assert_false(has_note(&s, "no_mask"));
    EDIT(&s, "no-mask");
    assert_true(has_note(&s, "no_mask"));
    destroy(&s);
}

static void mixtures(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        double identity, softmax, uniform;
    } rows[] = {
        {"center-attention", 0, 1, 1},
        {"centre-attention", 0, 1, 1},
        {"remove-gap", 0, 1, 1},
        {"uniform-attention", 0, 0, -1},
        {"shaped 1,0.5,0.25", 1, .5, .25},
        {"shaped 1:1:1", 1, 1, 1},
        {"attention-rescale 0.5", 0, 1.5, 0.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        subject s = make("pre", "none", false);
        EDIT(&s, rows[i].option, "temperature 4");
        EDIT(&s, "temperature 1/2");
        for (int32_t l = 0; l < 3; l++) {
            const rs_attention_op *a = &branch(&s, l, 0)->attention;
            assert_true(a->mix_identity == rows[i].identity && a->mix_softmax == rows[i].softmax &&
                        a->mix_uniform == rows[i].uniform && a->temperature == 2);
        }
        destroy(&s);
    }
    /* cross-attention has no uniform matrix to take away from the tokens */
    subject s = make("pre", "none", false);
    s.network->layers[0].branches[0].attention.cross = true;
    EDIT(&s, "center-attention", "temperature 4");
    assert_true(branch(&s, 0, 0)->attention.mix_uniform == 0);
    assert_true(branch(&s, 0, 0)->attention.temperature == 1);
    assert_true(branch(&s, 1, 0)->attention.mix_uniform == 1);
    destroy(&s);
    rs_error err;
    s = make("pre", "causal", false);
    const char *const gap[] = {"remove-gap", NULL}, *const both[] = {"remove-gap", "no-mask", NULL};
    assert_int_equal(apply(&s, gap, &err), RS_E_BAD_OPTION);
    assert_non_null(strstr(err.hint, "--center-attention"));
    assert_int_equal(apply(&s, both, &err), RS_OK);
    destroy(&s);
}

static void depth(void **state)
{
    (void)state;
    subject s = make("pre", "none", false);
    EDIT(&s, "depth 7", "residual-scale 1/L", "lambda 1,2,3,4,5,6,7");
    assert_int_equal(s.network->n_layers, 7);
    for (int32_t l = 0; l < 7; l++) {
        assert_int_equal(s.network->layers[l].stored, l % 3);
        assert_ptr_equal(branch(&s, l, 0)->attention.q.weight,
                         branch(&s, l % 3, 0)->attention.q.weight);
        assert_true(branch(&s, l, 0)->skip == l + 1 && branch(&s, l, 1)->scale == 1.0 / 7);
    }
    EDIT(&s, "depth 2");
    assert_int_equal(s.network->n_layers, 2);
    destroy(&s);
}

/* A copy is edited; what it was copied from is not. */
/* ---- heads left out ---- */

static subject make_of(const char *text)
{
    subject s = {NULL, NULL};
    rs_error err;
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_int_equal(rs_init_open(&s.init, NULL, 1, &err), RS_OK);
    if (rs_network_from_arch(&s.network, json, "arch", s.init, &err) != RS_OK)
        fail_msg("%s", err.what);
    json_decref(json);
    return s;
}

/* Of an output map [out, in] stored by rows, exactly the inputs of the heads become 0. */
static void ablation_clears_one_part(void **state)
{
    (void)state;
    enum { D = 12, HEADS = 3, PART = D / HEADS };
    subject s =
        make_of("{\"depth\": 2, \"d_model\": 12, \"heads\": 3, \"d_head\": 4, \"vocab\": 7}");
    float before[D * D], after[D * D];
    const rs_tensor *stored = branch(&s, 1, 0)->attention.o.weight;
    const rs_tensor *bias = branch(&s, 1, 0)->attention.o.bias;
    rs_tensor_decode_f32(before, stored, 0, D * D);
    EDIT(&s, "ablate 1:1", "ablate 1:2");
    const rs_dense *o = &branch(&s, 1, 0)->attention.o;
    assert_true(o->out_is_row && o->weight != stored);
    assert_ptr_equal(o->bias, bias);
    rs_tensor_decode_f32(after, o->weight, 0, D * D);
    for (int i = 0; i < D * D; i++)
        assert_true(after[i] == (i % D / PART == 0 ? before[i] : 0));
    rs_tensor_decode_f32(after, stored, 0, D * D); /* what the model's owner has is as it was */
    assert_memory_equal(after, before, sizeof before);
    destroy(&s);
}

/* Without an output map a head's values and their bias go. */
static void ablation_without_an_output_map(void **state)
{
    (void)state;
    const char *why = NULL;
    subject s = make("pre", "none", false);
    rs_branch *b = &s.network->layers[0].branches[0];
    b->attention.o = (rs_dense){0};
    assert_int_equal(rs_branch_ablatable(b, &why), 1);
    EDIT(&s, "ablate 0:0");
    float values[16];
    rs_tensor_decode_f32(values, b->attention.v.weight, 0, 16);
    for (int i = 0; i < 16; i++)
        assert_true(values[i] == 0);
    b->attention.heads = 2; /* two heads that read the same values */
    assert_int_equal(rs_branch_ablatable(b, &why), 0);
    assert_non_null(strstr(why, "nor values of their own"));
    assert_int_equal(rs_branch_ablatable(&s.network->layers[0].branches[1], &why), 0);
    assert_string_equal(why, "it has no heads");
    destroy(&s);
}

static void copies_are_apart(void **state)
{
    (void)state;
    subject s = make("pre", "causal", false);
    rs_network *copy = NULL;
    rs_error err;
    assert_int_equal(rs_network_copy(&copy, s.network, &err), RS_OK);
    rs_edit e;
    rs_edit_init(&e);
    assert_int_equal(rs_edit_named(&e, "pure", &err), RS_OK);
    assert_int_equal(rs_edit_option(&e, "depth", "9", &err), RS_OK);
    assert_int_equal(rs_edit_apply(copy, &e, &err), RS_OK);
    assert_int_equal(copy->n_layers, 9);
    assert_int_equal(s.network->n_layers, 3);
    assert_int_equal(s.network->layers[0].n_branches, 2);
    assert_true(branch(&s, 0, 0)->skip == 1);
    rs_network_close(copy);
    destroy(&s);
}

/* ---- refusals ---- */

static void options_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *what, *hint;
        rs_status status;
    } rows[] = {
        {"no-skips", NULL, "is no intervention", "did you mean \"no-skip\"?", RS_E_BAD_OPTION},
        {"no-skip", "1", "takes no value", "", RS_E_BAD_OPTION},
        {"lambda", NULL, "needs a value", "", RS_E_BAD_OPTION},
        {"lambda", "", "needs a value", "", RS_E_BAD_OPTION},
        {"lambda", "attn:0.5", "does not know \"attn\"", "", RS_E_EXPRESSION},
        {"lambda", "0.5,,1", "an early end", "", RS_E_EXPRESSION},
        {"lambda", "mixer:", "an early end", "", RS_E_EXPRESSION},
        {"residual-scale", "1/sqrt(D)", "does not know \"D\"", "", RS_E_EXPRESSION},
        {"temperature", "0", "a number above 0", "", RS_E_BAD_OPTION},
        {"temperature", "-1", "a number above 0", "", RS_E_BAD_OPTION},
        {"temperature", "1/0", "a division by zero", "", RS_E_EXPRESSION},
        {"temperature", "nan", "does not know \"nan\"", "", RS_E_EXPRESSION},
        {"shaped", "1,2", "A,B,C", "", RS_E_BAD_OPTION},
        {"shaped", "1,2,3,4", "A,B,C", "", RS_E_BAD_OPTION},
        {"shaped", "1,,3", "an early end", "", RS_E_EXPRESSION},
        {"attention-rescale", "w", "does not know \"w\"", "", RS_E_EXPRESSION},
        {"depth", "0", "1 to 65536", "", RS_E_BAD_OPTION},
        {"depth", "65537", "1 to 65536", "", RS_E_BAD_OPTION},
        {"depth", "99999999999999999999", "1 to 65536", "", RS_E_BAD_OPTION},
        {"depth", "3.5", "1 to 65536", "", RS_E_BAD_OPTION},
        {"depth", "-3", "1 to 65536", "", RS_E_BAD_OPTION},
        {"fusion", "mean", "concat, max, gate", "", RS_E_BAD_OPTION},
        {"ablate", "3", "L:H for each head", "from 0", RS_E_BAD_OPTION},
        {"ablate", "1:2,", "L:H for each head", "", RS_E_BAD_OPTION},
        {"ablate", "1,2", "L:H for each head", "", RS_E_BAD_OPTION},
        {"ablate", "0:-1", "L:H for each head", "", RS_E_BAD_OPTION},
        {"ablate", "0:1:2", "L:H for each head", "", RS_E_BAD_OPTION},
        {"ablate", "", "needs a value", "", RS_E_BAD_OPTION},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rs_edit e;
        rs_error err;
        rs_edit_init(&e);
        rs_status status = rs_edit_option(&e, rows[i].name, rows[i].value, &err);
        if (status != rows[i].status || !strstr(err.what, rows[i].what) ||
            !strstr(err.hint, rows[i].hint))
            fail_msg("%s %s: %s: %s; %s", rows[i].name, rows[i].value ? rows[i].value : "",
                     rs_status_name(status), err.what, err.hint);
        char where[64];
        snprintf(where, sizeof where, "--%s", rows[i].name);
        assert_string_equal(err.where, where);
    }
    rs_edit e;
    rs_error err;
    rs_edit_init(&e);
    assert_int_equal(rs_edit_option(&e, "fusion", "gate", &err), RS_OK);
    assert_int_equal(e.fusion, RS_FUSION_GATE);
    assert_int_equal(rs_edit_named(&e, "sans", &err), RS_E_BAD_OPTION);
    assert_non_null(strstr(err.hint, "did you mean \"san\"?"));
}

static void networks_refuse_what_they_cannot_mean(void **state)
{
    (void)state;
    static const struct {
        const char *option, *what;
        rs_status status;
    } rows[] = {
        {"lambda 1,2", "2 numbers given; this network has 3 layers", RS_E_BAD_OPTION},
        {"residual-scale 1,2,3,4", "4 numbers given", RS_E_BAD_OPTION},
        {"residual-scale 1/l", "a division by zero", RS_E_EXPRESSION},
        {"no-gate", "no gated mixer", RS_E_BAD_OPTION},
        {"no-inner-norm", "no norm inside of a mixer", RS_E_BAD_OPTION},
        {"norm-placement behind", "pre or post is needed", RS_E_BAD_OPTION},
        {"ablate 3:0", "no layer 3: this network has 3", RS_E_BAD_OPTION},
        {"ablate 99999999999999999999:0", "no layer", RS_E_BAD_OPTION},
        {"ablate 0:0,2:1", "no head 1: this mixer (attention) has 1", RS_E_BAD_OPTION},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        subject s = make("pre", "none", false);
        rs_error err;
        const char *const options[] = {rows[i].option, NULL};
        assert_int_equal(apply(&s, options, &err), rows[i].status);
        if (!strstr(err.what, rows[i].what)) fail_msg("%s: %s", rows[i].option, err.what);
        destroy(&s);
    }
}

/* ---- --variants ---- */

static rs_status parse(rs_variant **v, size_t *n, const char *text, rs_arena *arena, rs_error *err)
{
    rs_edit base;
    rs_edit_init(&base);
    base.temperature = 3;
    return rs_variants_parse(v, n, text, &base, arena, err);
}

static void variants_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *names;
    } rows[] = {
        {"full", "full "},
        {"full,san", "full san "},
        {"dong", "san san+mlp san+skip full "},
        {"all", "san san+mlp san+skip full pure "},
        {"pure,dong", "pure san san+mlp san+skip full "},
        {"half=lambda:0.5", "half "},
        {"full,half=lambda:0.5,no-mlp,san", "full half san "},
        {"a=no-mlp,b=no-norm,temperature:2,full", "a b full "},
        {"a=temperature:2,temperature=4,b=no-mlp", "a b "},
        {"cold=san,temperature:0.5", "cold "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rs_arena *arena = rs_arena_new();
        rs_variant *v;
        size_t n;
        rs_error err;
        char names[256] = "";
        if (parse(&v, &n, rows[i].text, arena, &err) != RS_OK)
            fail_msg("%s: %s", rows[i].text, err.what);
        for (size_t k = 0; k < n; k++) {
            strcat(names, v[k].name);
            strcat(names, " ");
        }
        assert_string_equal(names, rows[i].names);
        rs_arena_free(arena);
    }
    rs_arena *arena = rs_arena_new();
    rs_variant *v;
    size_t n;
    rs_error err;
    assert_int_equal(parse(&v, &n,
                           "full,x=san,lambda:mixer:0.5:0.25,shaped:1:2:3,depth:4,"
                           "residual-scale:1/sqrt(L),y=no-mask,temperature=5",
                           arena, &err),
                     RS_OK);
    assert_int_equal(n, 3);
    assert_true(v[0].edit.temperature == 3 && !v[0].edit.no_mlp);
    assert_true(v[1].edit.no_mlp && v[1].edit.no_mixer_skip && v[1].edit.temperature == 3);
    assert_string_equal(v[1].edit.mixer_lambda, "0.5:0.25");
    assert_null(v[1].edit.mlp_lambda);
    assert_true(v[1].edit.mix_identity == 1 && v[1].edit.mix_softmax == 2 &&
                v[1].edit.mix_uniform == 3);
    assert_int_equal(v[1].edit.depth, 4);
    assert_string_equal(v[1].edit.residual_scale, "1/sqrt(L)");
    assert_true(v[2].edit.no_mask && !v[2].edit.no_mlp && v[2].edit.temperature == 5);
    assert_null(v[2].edit.residual_scale);
    rs_arena_free(arena);
}

static void variants_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what;
    } rows[] = {
        {"", "there is no variant \"\""},        {"sann", "there is no variant \"sann\""},
        {"full,", "there is no variant \"\""},   {"full,full", "\"full\" is listed twice"},
        {"dong,san", "\"san\" is listed twice"}, {"a=no-mlp,a=no-norm", "\"a\" is listed twice"},
        {"=no-mlp", "without a name"},           {"san=no-norm", "the name of a set"},
        {"all=no-norm", "the name of a set"},    {"a=", "without any option"},
        {"a=nomlp", "is no intervention"},       {"a=no-mlp,nonorm", "is no intervention"},
        {"a=lambda", "needs a value"},           {"no-mlp", "there is no variant \"no-mlp\""},
        {"lambda:0.5", "there is no variant"},   {"lambda=0.5", "there is no variant"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rs_arena *arena = rs_arena_new();
        rs_variant *v;
        size_t n;
        rs_error err;
        assert_int_equal(parse(&v, &n, rows[i].text, arena, &err), RS_E_BAD_OPTION);
        if (!strstr(err.what, rows[i].what)) fail_msg("%s: %s", rows[i].text, err.what);
        rs_arena_free(arena);
    }
    char many[65 * 16] = "";
    for (int i = 0; i < 65; i++)
        snprintf(many + strlen(many), 16, "%sv%d=no-mlp", i ? "," : "", i);
    rs_arena *arena = rs_arena_new();
    rs_variant *v;
    size_t n;
    rs_error err;
    assert_int_equal(parse(&v, &n, many, arena, &err), RS_E_BAD_OPTION);
    assert_non_null(strstr(err.what, "more than 64"));
    rs_arena_free(arena);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int64_t n = 0;
    for (int64_t i = 0; i <= n; i++) {
        subject s = make("post", "none", false);
        s.network->dong2021_code = true;
        rs_edit e;
        rs_error err;
        rs_edit_init(&e);
        e.dong2021_code = e.no_mlp = e.no_mask = true;
        e.depth = 5;
        int64_t before = rs_memory_requests();
        rs_memory_fail_at(i);
        rs_arena *arena = rs_arena_new();
        rs_variant *v;
        size_t count;
        rs_status status = arena ? parse(&v, &count, "dong", arena, &err) : RS_E_NO_MEMORY;
        if (status == RS_OK) status = rs_edit_apply(s.network, &e, &err);
        rs_memory_fail_at(0);
        if (i == 0) n = rs_memory_requests() - before;
        /* an arena may serve a late request from a block that it has */
        assert_true(status == RS_E_NO_MEMORY || (i == 0 && status == RS_OK));
        rs_arena_free(arena);
        destroy(&s);
    }
    assert_true(n >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_variants_on_post_norm),
        cmocka_unit_test(pre_norm_keeps_the_norm_before_the_mixer),
        cmocka_unit_test(parallel_blocks_keep_the_running_sum),
        cmocka_unit_test(alberts_activation_is_left_only_under_compat),
        cmocka_unit_test(skips_and_scales),
        cmocka_unit_test(mlps_and_norms),
        cmocka_unit_test(masks),
        cmocka_unit_test(mixtures),
        cmocka_unit_test(depth),
        cmocka_unit_test(ablation_clears_one_part),
        cmocka_unit_test(ablation_without_an_output_map),
        cmocka_unit_test(copies_are_apart),
        cmocka_unit_test(options_are_refused_by_name),
        cmocka_unit_test(networks_refuse_what_they_cannot_mean),
        cmocka_unit_test(variants_are_parsed),
        cmocka_unit_test(variants_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
