/* test_train_text.c: language models of a user's text: characters, ids, windows and hidden words by
 * direct loops, sets that share nothing, and refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "source_support.h"
#include "text/tokenizer.h"

#include <math.h>

/* A text whose characters are all different, so that an id is a place: U+4E00 and on. */
static void put_counting(const char *folder, const char *name, int n)
{
    char *text = malloc((size_t)n * 3);
    assert_non_null(text);
    for (int i = 0; i < n; i++) {
        unsigned point = 0x4E00u + (unsigned)i;
        text[3 * i] = (char)(0xE0 | point >> 12);
        text[3 * i + 1] = (char)(0x80 | (point >> 6 & 0x3F));
        text[3 * i + 2] = (char)(0x80 | (point & 0x3F));
    }
    put_bytes(folder, name, text, (size_t)n * 3);
    free(text);
}

static const char *data_of(const char *folder, const char *rest)
{
    static char text[16][600];
    static int which;
    which = (which + 1) % 16;
    snprintf(text[which], sizeof text[which], "'text': '%s/text'%s%s", folder, *rest ? ", " : "",
             rest);
    return text[which];
}

static void test_characters(void **state)
{
    /* the compiler knows what characters these are */
    static const char text[] = u8"b\u00e9a\U0001F600\n\u20acab\u00e9\U0001F600ba\u20ac\nabba";
    static const uint32_t points[] = {'b',     0xE9, 'a', 0x1F600, '\n', 0x20AC, 'a', 'b', 0xE9,
                                      0x1F600, 'b',  'a', 0x20AC,  '\n', 'a',    'b', 'b', 'a'};
    static const uint32_t sorted[] = {'\n', 'a', 'b', 0xE9, 0x20AC, 0x1F600};
    put_text(*state, "text", text);
    opened o = open_files("char-lm", data_of(*state, "'length': 3, 'eval_share': 0.5"), "");
    int64_t n;
    const uint32_t *characters = rs_task_characters(o.task, &n);
    assert_int_equal(n, 6);
    assert_memory_equal(characters, sorted, sizeof sorted);
    const rs_task_shape *shape = rs_task_sizes(o.task);
    assert_true(shape->n_tok == 3 && shape->vocab == 6 && shape->d_out == 6 && shape->d_in == 0);
    assert_true(shape->target == RS_TARGET_CLASSES && shape->train == 0 && !shape->varies);
    /* 9 characters are kept back: one window of 4 characters for each of two sets */
    assert_true(shape->eval == 1 && shape->probe == 1);
    rs_task_batch batch = new_batch(o.task, 2);
    for (int set = RS_TASK_EVAL; set <= RS_TASK_PROBE; set++) {
        fill_batch(&batch, o.task, (rs_task_set)set, 0);
        assert_int_equal(batch.samples, 1);
        int first = set == RS_TASK_EVAL ? 10 : 14;
        for (int t = 0; t < 3; t++) {
            assert_int_equal(characters[batch.tokens[t]], points[first + t]);
            assert_int_equal(characters[batch.classes[t]], points[first + t + 1]);
        }
    }
    rs_task_batch_free(&batch);
    close_opened(&o);
}

/* What a set of windows reaches of a counting text. */
typedef struct reach {
    int32_t first, last; /* of tokens and targets */
    int64_t samples;
} reach;

static void check_window(reach *all, const rs_task_batch *batch, int64_t i, int64_t n)
{
    const int32_t *tokens = batch->tokens + i * n, *classes = batch->classes + i * n;
    for (int64_t t = 0; t < n; t++) {
        assert_int_equal(tokens[t], tokens[0] + t);
        assert_int_equal(classes[t], tokens[t] + 1);
        assert_int_equal(batch->counted[i * n + t], 1);
    }
    assert_int_equal(batch->lengths[i], n);
    if (tokens[0] < all->first) all->first = tokens[0];
    if (classes[n - 1] > all->last) all->last = classes[n - 1];
    all->samples++;
}

static reach walk_set(rs_train_task *task, rs_task_set set, int64_t steps)
{
    const rs_task_shape *shape = rs_task_sizes(task);
    reach all = {INT32_MAX, -1, 0};
    rs_task_batch batch = new_batch(task, 7);
    for (int64_t step = 0; step < steps; step++) {
        fill_batch(&batch, task, set, step);
        for (int64_t i = 0; i < batch.samples; i++) {
            if (set != RS_TASK_TRAIN && all.samples) /* one behind the other */
                assert_int_equal(batch.tokens[i * shape->n_tok],
                                 all.first + all.samples * shape->n_tok);
            check_window(&all, &batch, i, shape->n_tok);
        }
        if (set == RS_TASK_TRAIN) assert_int_equal(batch.samples, 7);
    }
    rs_task_batch_free(&batch);
    return all;
}

/* Training, evaluation and the probe batch share no character, not even as a target. */
static void test_apart(void **state)
{
    static const struct {
        int n;
        const char *data, *rest;
        int64_t eval, probe;
    } cases[] = {
        {2000, "'length': 10", "", 11, 8}, /* 200 kept: 19 windows with two ends of their own */
        {2000, "'length': 10", "'probe_samples': 3", 16, 3},
        {2000, "'length': 10, 'eval_share': 0.5", "'probe_samples': 1000", 50, 49},
        {2000, "'length': 128", "", 1, 1}, /* 200 would hold one: 258 are kept */
        {2000, "'length': 1", "", 190, 8},
        {2000, "'length': 50, 'eval_share': 0", "", 0, 4},
        {30, "'length': 9", "", 1, 1},
        {4, "'length': 1, 'eval_share': 0", "", 0, 1},
        {6, "'length': 1", "", 1, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        put_counting(*state, "text", cases[c].n);
        opened o = open_files("char-lm", data_of(*state, cases[c].data), cases[c].rest);
        const rs_task_shape *shape = rs_task_sizes(o.task);
        assert_int_equal(shape->vocab, cases[c].n);
        assert_int_equal(shape->eval, cases[c].eval);
        assert_int_equal(shape->probe, cases[c].probe);
        reach eval = walk_set(o.task, RS_TASK_EVAL, 50),
              probe = walk_set(o.task, RS_TASK_PROBE, 50);
        reach train = walk_set(o.task, RS_TASK_TRAIN, 2000);
        assert_int_equal(eval.samples, cases[c].eval);
        assert_int_equal(probe.samples, cases[c].probe);
        assert_int_equal(train.first, 0);
        assert_int_equal(train.last + 1, eval.samples ? eval.first : probe.first);
        if (eval.samples) assert_int_equal(eval.last + 1, probe.first);
        assert_int_equal(probe.last, cases[c].n - 1);
        close_opened(&o);
    }
}

/* Every place of the training part is drawn about as often as any other. */
static void test_places(void **state)
{
    enum { N = 60, LENGTH = 4, STEPS = 3000, BATCH = 4 };
    put_counting(*state, "text", N);
    opened o = open_files("char-lm", data_of(*state, "'length': 4, 'eval_share': 0.2"), "");
    rs_task_batch batch = new_batch(o.task, BATCH);
    int drawn[N] = {0}, places = 0;
    double chi = 0;
    for (int64_t step = 0; step < STEPS; step++) {
        fill_batch(&batch, o.task, RS_TASK_TRAIN, step);
        for (int i = 0; i < BATCH; i++)
            drawn[batch.tokens[LENGTH * i]]++;
    }
    while (places < N && drawn[places])
        places++;
    assert_int_equal(places, 60 - 10 - LENGTH); /* 2 x 5 are kept back */
    double wanted = (double)STEPS * BATCH / places;
    for (int p = 0; p < places; p++)
        chi += (drawn[p] - wanted) * (drawn[p] - wanted) / wanted;
    assert_true(chi < 100); /* 45 degrees of freedom: mean 45, deviation 9.5 */
    rs_task_batch_free(&batch);
    close_opened(&o);
}

static void test_marks(void **state)
{
    /* 1000 characters: of the first 900, 300 a, 150 b, the rest c; the end is all d */
    char text[1001] = "";
    for (int i = 0; i < 1000; i++)
        text[i] = i >= 900 ? 'd' : i % 6 < 2 ? 'a' : i % 6 == 2 ? 'b' : 'c';
    put_text(*state, "text", text);
    opened o = open_files("char-lm", data_of(*state, "'length': 9"), "");
    /* 100 are kept back: (100 - 2) / 9 = 10 windows, 5 + 5, and two ends: 92; 8 more are trained on */
    double train = 908, counts[4] = {300, 150, 450, 8}, entropy = 0;
    assert_true(rs_task_sizes(o.task)->eval == 5 && rs_task_sizes(o.task)->probe == 5);
    for (int c = 0; c < 4; c++)
        entropy -= counts[c] / train * log(counts[c] / train);
    assert_true(fabs(mark_of(o.task, "unigram entropy") - entropy) < 1e-12);
    assert_true(fabs(mark_of(o.task, "uniform") - log(4)) < 1e-15);
    assert_true(fabs(mark_of(o.task, "commonest token") - 450 / train) < 1e-15);
    assert_non_null(strstr(rs_task_said(o.task), "1000 characters: 908 to train on"));
    close_opened(&o);
}

/* ---- a tokenizer's words ---- */

static const char *tokenised(const char *folder, const char *tokenizer, const char *rest)
{
    static char text[1200];
    snprintf(text, sizeof text,
             "'text': '%s/text', 'tokenizer': '" RS_TEST_DATA "/tokenizer/%s.json'%s%s", folder,
             tokenizer, *rest ? ", " : "", rest);
    return text;
}

static void put_page(const char *folder)
{
    size_t size;
    char *page = read_whole(RS_TEST_DATA "/tokenizer/real_text.txt", &size);
    put_bytes(folder, "text", page, size);
    free(page);
}

/* The ids of the whole page. */
static rs_token_ids encode_page(const char *tokenizer, int64_t *vocabulary)
{
    char path[512];
    size_t size;
    rs_tokenizer *t;
    rs_token_ids ids;
    rs_error err;
    snprintf(path, sizeof path, RS_TEST_DATA "/tokenizer/%s.json", tokenizer);
    char *page = read_whole(RS_TEST_DATA "/tokenizer/real_text.txt", &size);
    assert_int_equal(rs_tokenizer_open(&t, path, &err), RS_OK);
    assert_int_equal(rs_tokenizer_encode(&ids, t, page, size, false, &err), RS_OK);
    *vocabulary = rs_tokenizer_vocabulary(t);
    rs_tokenizer_close(t);
    free(page);
    return ids;
}

static void test_words(void **state)
{
    int64_t vocabulary;
    put_page(*state);
    rs_token_ids ids = encode_page("gpt2", &vocabulary);
    opened o = open_files("bpe-lm", tokenised(*state, "gpt2", "'length': 16"), "");
    const rs_task_shape *shape = rs_task_sizes(o.task);
    assert_true(shape->vocab == vocabulary && shape->d_out == vocabulary && shape->n_tok == 16);
    rs_task_batch batch = new_batch(o.task, (int64_t)ids.n);
    /* the probe's windows end the text, those of evaluation stand in front of them */
    int64_t at = (int64_t)ids.n - 16 * shape->probe - 1;
    fill_batch(&batch, o.task, RS_TASK_PROBE, 0);
    assert_memory_equal(batch.tokens, ids.ids + at, (size_t)(16 * shape->probe) * 4);
    assert_int_equal(batch.classes[16 * shape->probe - 1], ids.ids[ids.n - 1]);
    at -= 16 * shape->eval + 1;
    fill_batch(&batch, o.task, RS_TASK_EVAL, 0);
    assert_int_equal(batch.samples, shape->eval);
    assert_memory_equal(batch.tokens, ids.ids + at, (size_t)(16 * shape->eval) * 4);
    assert_memory_equal(batch.classes, ids.ids + at + 1, (size_t)(16 * shape->eval) * 4);
    assert_null(rs_task_characters(o.task, &vocabulary));
    double entropy = 0;
    for (int64_t i = 0; i < at; i++) { /* -(1/n) sum over places of ln p */
        double same = 0;
        for (int64_t j = 0; j < at; j++)
            same += ids.ids[j] == ids.ids[i];
        entropy -= log(same / (double)at) / (double)at;
    }
    assert_true(fabs(mark_of(o.task, "unigram entropy") - entropy) < 1e-10);
    rs_task_batch_free(&batch);
    rs_token_ids_free(&ids);
    close_opened(&o);
    check_keys("bpe-lm", tokenised(*state, "gpt2", "'length': 16"), "");
}

/* Hidden words: exactly so many, the text elsewhere, 80 of 100 the mask, 10 any token, 10 as they
 * were. */
static void test_masked(void **state)
{
    enum { BODY = 30, LENGTH = BODY + 2, MASK_RATE_OF_30 = 6, STEPS = 800, BATCH = 8 };
    int64_t vocabulary;
    put_page(*state);
    rs_token_ids ids = encode_page("bert", &vocabulary);
    opened o = open_files("mlm", tokenised(*state, "bert", "'length': 32, 'mask_rate': 0.2"), "");
    assert_true(rs_task_sizes(o.task)->vocab == vocabulary);
    rs_task_batch batch = new_batch(o.task, BATCH);
    double masked = 0, kept = 0, other = 0, all = 0;
    for (int64_t step = 0; step < STEPS; step++) {
        fill_batch(&batch, o.task, step % 2 ? RS_TASK_TRAIN : RS_TASK_EVAL, step % 2 ? step : 0);
        for (int64_t i = 0; i < batch.samples; i++) {
            const int32_t *tokens = batch.tokens + LENGTH * i,
                          *classes = batch.classes + LENGTH * i;
            int32_t text[LENGTH];
            int targets = 0;
            for (int t = 0; t < LENGTH; t++) {
                text[t] = classes[t] >= 0 ? classes[t] : tokens[t];
                targets += classes[t] >= 0;
                assert_int_equal(batch.counted[LENGTH * i + t], classes[t] >= 0);
                if (step % 2 == 0 || classes[t] < 0) continue;
                masked += tokens[t] == 4; /* [MASK], the fifth of this vocabulary */
                kept += tokens[t] == classes[t];
                other += tokens[t] != 4 && tokens[t] != classes[t];
                all++;
            }
            assert_int_equal(targets, MASK_RATE_OF_30);
            assert_true(text[0] == 2 && text[LENGTH - 1] == 3); /* [CLS] ... [SEP] */
            bool found = false;
            for (size_t at = 0; at + BODY <= ids.n && !found; at++)
                found = memcmp(ids.ids + at, text + 1, BODY * 4) == 0;
            assert_true(found);
        }
    }
    /* 19200 draws: a deviation is below .003; any token may be the mask or the same one */
    double v = (double)vocabulary;
    assert_true(fabs(masked / all - (0.8 + 0.1 / v)) < 0.015);
    assert_true(fabs(kept / all - (0.1 + 0.1 / v)) < 0.012);
    assert_true(fabs(other / all - 0.1 * (1 - 2 / v)) < 0.012);
    rs_task_batch_free(&batch);
    rs_token_ids_free(&ids);
    close_opened(&o);
    check_keys("mlm", tokenised(*state, "bert", "'length': 32"), "");
    o = open_files("mlm", tokenised(*state, "bert", "'length': 3, 'mask_rate': 0.01"), "");
    batch = new_batch(o.task, 2); /* at least one is asked for */
    fill_batch(&batch, o.task, RS_TASK_TRAIN, 0);
    assert_true(batch.classes[1] >= 0 && batch.classes[0] == -1 && batch.classes[2] == -1);
    rs_task_batch_free(&batch);
    close_opened(&o);
}

/* Other bytes are other data, whatever the file is called. */
static void test_fingerprint(void **state)
{
    static const char *const texts[] = {"abcabcabcabcabcabc", "abcabcabcabcabcabd",
                                        "bbcabcabcabcabcabc", "abcabcabcabcabcabcabc",
                                        "abcabcabcabcabcabc"};
    uint64_t prints[5];
    for (int i = 0; i < 5; i++) {
        char data[600], name[16];
        snprintf(name, sizeof name, "text%d", i);
        put_text(*state, name, texts[i]);
        snprintf(data, sizeof data, "'text': '%s/%s', 'length': 2", (char *)*state, name);
        opened o = open_files("char-lm", data, "");
        prints[i] = rs_task_fingerprint(o.task);
        close_opened(&o);
        for (int j = 0; j < i; j++)
            assert_int_equal(prints[i] == prints[j], i == 4 && j == 0);
    }
}

static void test_keyed(void **state)
{
    put_counting(*state, "text", 500);
    check_keys("char-lm", data_of(*state, "'length': 12"), "");
}

/* ---- refusals ---- */

static void test_refusals(void **state)
{
    char none[600], folder[600];
    put_counting(*state, "text", 100);
    put_text(*state, "empty", "");
    put_text(*state, "broken", "first line\nsecond \xE9t\xE9\n");
    put_text(*state, "cut", "fine until here \xE2\x82");
    snprintf(none, sizeof none, "'text': '%s/none'", (char *)*state);
    snprintf(folder, sizeof folder, "'text': '%s'", (char *)*state);
    char empty[600], broken[600], cut[600], lost[700], bare[700];
    snprintf(empty, sizeof empty, "'text': '%s/empty'", (char *)*state);
    snprintf(broken, sizeof broken, "'text': '%s/broken'", (char *)*state);
    snprintf(cut, sizeof cut, "'text': '%s/cut'", (char *)*state);
    snprintf(lost, sizeof lost, "'text': '%s/text', 'tokenizer': '%s/none'", (char *)*state,
             (char *)*state);
    snprintf(bare, sizeof bare, "'text': '%s/text', 'tokenizer': '%s'", (char *)*state,
             (char *)*state);
    const refusal cases[] = {
        {"char-lm", "", "", RS_E_TASK_SCHEMA, "t.json", "char-lm needs \"text\"", "data.text"},
        {"char-lm", none, "", RS_E_NOT_FOUND, "/none", "", ""},
        {"char-lm", folder, "", RS_E_UNREADABLE, "", "", ""},
        {"char-lm", empty, "", RS_E_EMPTY_FILE, "/empty", "empty", "text"},
        {"char-lm", broken, "", RS_E_INPUT_FORMAT, "/broken", "byte 18, in line 2, is not UTF-8",
         "iconv"},
        {"char-lm", cut, "", RS_E_INPUT_FORMAT, "/cut", "byte 16, in line 1", "iconv"},
        {"char-lm", data_of(*state, ""), "", RS_E_INPUT_SHAPE, "/text",
         "there are 100 characters; a window takes 129, and 258 are kept back", "length"},
        {"char-lm", data_of(*state, "'length': 99"), "", RS_E_INPUT_SHAPE, "", "a window takes 100",
         ""},
        {"char-lm", data_of(*state, "'length': 16777216"), "", RS_E_INPUT_SHAPE, "", "16777217",
         ""},
        {"char-lm", data_of(*state, "'length': 0"), "", RS_E_TASK_SCHEMA, "t.json", "\"length\"",
         ""},
        {"char-lm", data_of(*state, "'eval_share': 1"), "", RS_E_TASK_SCHEMA, "", "eval_share", ""},
        {"char-lm", data_of(*state, "'length': 20, 'eval_share': 0.9"), "", RS_E_INPUT_SHAPE, "",
         "90 are kept back", ""},
        {"char-lm", data_of(*state, "'patch': 2"), "", RS_E_TASK_SCHEMA, "", "unknown field", ""},
        {"bpe-lm", data_of(*state, ""), "", RS_E_TASK_SCHEMA, "t.json", "needs \"tokenizer\"", ""},
        {"bpe-lm", lost, "", RS_E_NOT_FOUND, "/none", "", ""},
        {"bpe-lm", bare, "", RS_E_TOKENIZER_MISSING, "", "tokenizer.json", ""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        check_refusal(&cases[c]);
    put_page(*state);
    refusal r = {"mlm",       tokenised(*state, "gpt2", "'length': 16"),
                 "",          RS_E_TOKENIZER_VOCABULARY,
                 "gpt2.json", "[MASK] or <mask>",
                 "bpe-lm"};
    check_refusal(&r);
    r = (refusal){"mlm",    tokenised(*state, "bert", "'length': 2"), "", RS_E_TASK_SCHEMA,
                  "t.json", "no room beside the tokenizer's 2",       ""};
    check_refusal(&r);
    r = (refusal){"mlm",    tokenised(*state, "bert", "'length': 16, 'mask_rate': 0"),
                  "",       RS_E_TASK_SCHEMA,
                  "t.json", "\"mask_rate\" is 0",
                  ""};
    check_refusal(&r);
    r = (refusal){"bpe-lm", tokenised(*state, "gpt2", "'length': 100000"),
                  "",       RS_E_INPUT_SHAPE,
                  "/text",  "tokens; a window takes 100001",
                  "length"};
    check_refusal(&r);
}

static void test_memory(void **state)
{
    put_counting(*state, "text", 300);
    check_memory("char-lm", data_of(*state, "'length': 20"), "");
    put_page(*state);
    check_memory("mlm", tokenised(*state, "bert", "'length': 20"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_characters),  cmocka_unit_test(test_apart),
        cmocka_unit_test(test_places),      cmocka_unit_test(test_marks),
        cmocka_unit_test(test_words),       cmocka_unit_test(test_masked),
        cmocka_unit_test(test_fingerprint), cmocka_unit_test(test_keyed),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
