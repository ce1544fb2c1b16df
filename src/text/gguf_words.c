/*
 * gguf_words.c: how each name of tokenizer.ggml.pre normalises a text and cuts it into words.
 *
 * A row is there when two sources agree on it: the model's own tokenizer.json, the converters of
 * transformers, llama.cpp's table of names. Where they differ in detail the tokenizer.json is
 * followed, since it is what the model was trained with. docs/tokenize.md lists what is missing.
 */
#include "text/steps.h"

#include <string.h>

/* ---- steps ---- */

typedef rs_status add_step(rs_split_steps *steps, const char *regex, const char *where,
                           rs_error *err);

typedef struct rs_word_step {
    add_step *add;
    const char *regex;
} step;

/* Each match is a piece. */
static rs_status isolate(rs_split_steps *steps, const char *regex, const char *where, rs_error *err)
{
    return rs_split_steps_isolate(steps, regex, where, err);
}

static rs_status each_digit(rs_split_steps *steps, const char *regex, const char *where,
                            rs_error *err)
{
    (void)regex;
    (void)where;
    return rs_split_steps_digits(steps, true, err);
}

static rs_status digit_runs(rs_split_steps *steps, const char *regex, const char *where,
                            rs_error *err)
{
    (void)regex;
    (void)where;
    return rs_split_steps_digits(steps, false, err);
}

static rs_status each_sign(rs_split_steps *steps, const char *regex, const char *where,
                           rs_error *err)
{
    (void)regex;
    (void)where;
    return rs_split_steps_punctuation(steps, RS_ISOLATED, err);
}

static rs_status sign_runs(rs_split_steps *steps, const char *regex, const char *where,
                           rs_error *err)
{
    (void)regex;
    (void)where;
    return rs_split_steps_punctuation(steps, RS_CONTIGUOUS, err);
}

/* Each match is a piece, and bytes become characters. */
static rs_status bytes(rs_split_steps *steps, const char *regex, const char *where, rs_error *err)
{
    return rs_split_steps_bytes(steps, regex, where, err);
}

/* ---- expressions ---- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BLANKS "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* cl100k and its kin: letters with what stands before them, numbers, signs with line ends. */
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
#define CL100K(number) CONTRACTIONS "|" LETTERS number SIGNS BLANKS

/* o200k and its kin: words break where capitals begin. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, end)                                                                   \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" end "|"                                           \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" end "|"
#define NO_HAN(class) "(?:(?!\\p{Han})" class ")"
#define SIGNS_SLASH "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|"
#define O200K(number) CASED(UPPER, LOWER, CONTRACTIONS "?") number SIGNS_SLASH BLANKS

/* DeepSeek's letters are the cased ones of Unicode 9, as ranges. */
#define CASED_LETTERS                                                                              \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"                 \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"         \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"                  \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                       \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"        \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"         \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                  \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"         \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                  \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"                 \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"               \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"         \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define HAN_TO_HANGUL "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define HAN_AND_KANA "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define MARKED_WORDS                                                                               \
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
/* What ends BLOOM's words: blanks, brackets, bars, and full stops of many scripts. */
#define BLOOM_WORDS " ?[^()\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c}]+"

/* ---- pipelines, each ended by an empty step ---- */

static const step gpt2[] = {{bytes, GPT2}, {0}};
static const step digits_gpt2[] = {{each_digit, 0}, {bytes, GPT2}, {0}};
static const step llama3[] = {{bytes, CL100K("\\p{N}{1,3}")}, {0}};
/* bailingmoe spells it otherwise (possessive, one line end), with the same matches. */
static const step qwen2[] = {{bytes, CL100K("\\p{N}")}, {0}};
static const step ufakzeka[] = {{bytes, LETTERS "\\p{N}" SIGNS BLANKS}, {0}};
static const step qwen35[] = {{bytes, CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                                                   "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" BLANKS},
                              {0}};
static const step seed_coder[] = {
    {bytes, CONTRACTIONS "|" LETTERS "\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" BLANKS}, {0}};
static const step exaone_moe[] = {
    {bytes, CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
                         "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    {0}};
static const step minicpm5[] = {{isolate, "\\p{N}{1,3}"}, {bytes, CL100K("\\p{N}+")}, {0}};
static const step gpt4o[] = {{bytes, O200K("\\p{N}{1,3}")}, {0}};
static const step tekken[] = {{bytes, CASED(UPPER, LOWER, "") "\\p{N}" SIGNS_SLASH BLANKS}, {0}};
static const step kimi[] = {
    {bytes,
     "\\p{Han}+|" CASED(NO_HAN(UPPER), NO_HAN(LOWER), CONTRACTIONS "?") "\\p{N}{1,3}" SIGNS BLANKS},
    {0}};
/* Groups of three digits from the right. A word character behind them is seen by \w here, since
 * PCRE2's \b knows fewer. */
static const step tiny_aya[] = {
    {isolate, "\\d{1,3}(?=(?:\\d{3})*(?!\\w))"}, {bytes, O200K("\\p{N}{1,3}")}, {0}};
static const step youtu[] = {
    {isolate, "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+"
              "|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}"
              "\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+"
              "|" HAN_AND_KANA},
    {bytes, O200K("\\p{N}")},
    {0}};
/* Falcon looks for digits among the characters that bytes have become: six bytes of other scripts
 * (as B2, the sign for two raised) count as digits there. */
static const step falcon[] = {
    {sign_runs, 0}, {bytes, GPT2}, {digit_runs, 0}, {isolate, "[0-9][0-9][0-9]"}, {0}};
static const step deepseek_llm[] = {
    {isolate, "[\\r\\n]"},
    {isolate, "\\s?[" CASED_LETTERS "]+"},
    {isolate, "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}"
              "\\x{3000}-\\x{3002}]+"},
    {isolate, "\\s+$"},
    {isolate, HAN_TO_HANGUL},
    {each_digit, 0},
    {bytes, 0},
    {0}};
static const step deepseek_coder[] = {{isolate, "[\\r\\n]"},
                                      {isolate, "\\s?\\p{L}+"},
                                      {isolate, "\\s?\\p{P}+"},
                                      {isolate, HAN_TO_HANGUL},
                                      {each_digit, 0},
                                      {bytes, 0},
                                      {0}};
static const step deepseek_v3[] = {{isolate, "\\p{N}{1,3}"},
                                   {isolate, HAN_AND_KANA},
                                   {bytes, MARKED_WORDS "[\\r\\n]*|" BLANKS},
                                   {0}};
static const step spark[] = {{isolate, "\\p{N}{1,3}"},
                             {isolate, HAN_AND_KANA},
                             {isolate, MARKED_WORDS "|[\\r\\n]|\\s+(?!\\S)|\\s+"},
                             {each_digit, 0},
                             {bytes, 0},
                             {0}};
static const step bloom[] = {{bytes, BLOOM_WORDS}, {0}};
static const step viking[] = {{isolate, BLOOM_WORDS}, {each_digit, 0}, {bytes, 0}, {0}};
static const step superbpe[] = {
    {digit_runs, 0}, {isolate, "(?=(\\d{3})+(?!\\d))"}, {bytes, 0}, {0}};
static const step chameleon[] = {{isolate, "<sentinel:[0-9]+>"},
                                 {isolate, "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"},
                                 {isolate, "([\\t\\n]|    |  )"},
                                 {each_digit, 0},
                                 {each_sign, 0},
                                 {bytes, GPT2},
                                 {0}};
/* llama.cpp's own, for files whose converter knew no name. */
static const step plain[] = {{isolate, "[\\p{P}$+<=>^~|]+"}, {isolate, GPT2}, {isolate, "\\p{N}+"},
                             {isolate, "[0-9][0-9][0-9]"},   {bytes, 0},      {0}};

/* ---- names ---- */

#define RAW RS_WORDS_RAW
#define NFC RS_WORDS_NFC
#define OPEN RS_WORDS_OPEN

static const rs_gguf_words names[] = {
    {"gpt-2", gpt2, RAW, false, false},
    {"default", plain, RAW, false, false},
    {"phi-2", gpt2, RAW, false, false},
    {"roberta-bpe", gpt2, RAW, false, false},
    {"mpt", gpt2, NFC, false, false},
    {"olmo", gpt2, NFC, false, false},
    {"a.x-4.0", gpt2, OPEN, false, false},
    {"exaone4", gpt2, OPEN, false, false},
    {"granite-docling", gpt2, OPEN, false, false},
    {"jais", gpt2, OPEN, false, false},
    {"mellum", gpt2, OPEN, false, false},
    {"modern-bert", gpt2, OPEN, false, false},
    {"trillion", gpt2, OPEN, false, false},
    {"smollm", digits_gpt2, RAW, false, false},
    {"starcoder", digits_gpt2, RAW, false, false},
    {"refact", digits_gpt2, RAW, false, false},
    {"command-r", digits_gpt2, NFC, false, false},
    {"codeshell", digits_gpt2, OPEN, false, false},
    {"mellum2", digits_gpt2, OPEN, false, false},
    {"llama-bpe", llama3, RAW, true, true},
    {"llama3", llama3, RAW, true, true},
    {"llama-v3", llama3, RAW, true, true},
    {"jina-v5-nano", llama3, OPEN, true, true},
    {"lfm2", llama3, OPEN, true, true},
    {"midm-2.0", llama3, OPEN, true, true},
    {"pixtral", llama3, OPEN, true, true},
    {"dbrx", llama3, RAW, false, false},
    {"smaug-bpe", llama3, RAW, false, false},
    {"chatglm-bpe", llama3, RAW, false, false},
    {"glm4", llama3, RAW, false, false},
    {"qwen2", qwen2, NFC, false, false},
    {"deepseek-r1-qwen", qwen2, NFC, false, false},
    {"bailingmoe", qwen2, OPEN, false, false},
    {"bailingmoe2", qwen2, OPEN, false, false},
    {"f2llmv2", qwen2, OPEN, false, false},
    {"grok-2", qwen2, OPEN, false, false},
    {"hunyuan", qwen2, OPEN, false, false},
    {"kormo", qwen2, OPEN, false, false},
    {"llada-moe", qwen2, OPEN, false, false},
    {"megrez", qwen2, OPEN, false, false},
    {"solar-open", qwen2, OPEN, false, false},
    {"stablelm2", qwen2, OPEN, false, false},
    {"ufakzeka", ufakzeka, OPEN, false, false},
    {"qwen35", qwen35, NFC, false, false},
    {"seed-coder", seed_coder, OPEN, false, false},
    {"exaone-moe", exaone_moe, OPEN, false, false},
    {"minicpm5", minicpm5, OPEN, true, false},
    {"gpt-4o", gpt4o, RAW, false, false},
    {"kanana2", gpt4o, OPEN, false, false},
    {"llama4", gpt4o, OPEN, false, false},
    {"minimax-m2", gpt4o, OPEN, false, false},
    {"talkie", gpt4o, OPEN, false, false},
    {"granite-embed-multi-97m", gpt4o, OPEN, true, false},
    {"tekken", tekken, RAW, true, true},
    {"kimi-k2", kimi, RAW, true, false},
    {"tiny_aya", tiny_aya, OPEN, false, false},
    {"cohere2moe", tiny_aya, OPEN, false, false},
    {"youtu", youtu, OPEN, true, false},
    {"falcon", falcon, RAW, false, false},
    {"deepseek-llm", deepseek_llm, RAW, false, false},
    {"deepseek-coder", deepseek_coder, RAW, false, false},
    {"deepseek-v3", deepseek_v3, RAW, false, false},
    {"hunyuan-dense", deepseek_v3, OPEN, false, false},
    {"hy_v4", deepseek_v3, OPEN, false, false},
    {"joyai-llm", deepseek_v3, OPEN, false, false},
    {"spark2_5", spark, OPEN, false, false},
    {"bloom", bloom, RAW, false, false},
    {"gpt3-finnish", bloom, OPEN, false, false},
    {"poro-chat", bloom, OPEN, false, false},
    {"viking", viking, OPEN, false, false},
    {"superbpe", superbpe, OPEN, false, false},
    {"chameleon", chameleon, OPEN, false, true},
};

const rs_gguf_words *rs_gguf_words_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == length && memcmp(names[i].name, name, length) == 0)
            return &names[i];
    return NULL;
}

rs_status rs_gguf_words_add(rs_tokenizer *t, const rs_gguf_words *words, const char *where,
                            rs_error *err)
{
    if (words->form == RS_WORDS_NFC) RS_TRY(rs_normal_steps_form(&t->normal, RS_NFC, err));
    if (words->form == RS_WORDS_OPEN) RS_TRY(rs_normal_steps_settled(&t->normal, words->name, err));
    for (const step *s = words->steps; s->add; s++)
        RS_TRY(s->add(&t->split, s->regex, where, err));
    return RS_OK;
}
