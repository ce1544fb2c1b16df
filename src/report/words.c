/* words.c: looking words up. */
#include "report/words_lists.h"

#include <stdio.h>
#include <string.h>

const char *rs_word_kind_name(rs_word_kind kind)
{
    static const char *const names[] = {[RS_WORD_TERM] = "word",
                                        [RS_WORD_VARIANT] = "variant",
                                        [RS_WORD_FINDING] = "finding",
                                        [RS_WORD_VERDICT] = "verdict"};
    return names[kind];
}

/* A byte as it is compared. */
static int folded(unsigned char c)
{
    if (c == '-' || c == '_') return ' ';
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

bool rs_word_matches(const char *name, const char *asked)
{
    for (; *name && folded((unsigned char)*name) == folded((unsigned char)*asked); name++, asked++)
        ;
    return !*name && !*asked;
}

/* Calls `test` for the name and each other spelling until it says yes. */
static bool any_spelling(const rs_word *word, bool (*test)(const char *, const char *),
                         const char *text)
{
    if (test(word->name, text)) return true;
    for (const char *p = word->also; p;) {
        char spelling[64];
        size_t length = strcspn(p, "|");
        snprintf(spelling, sizeof spelling, "%.*s", (int)length, p);
        if (test(spelling, text)) return true;
        p = p[length] ? p + length + 1 : NULL;
    }
    return false;
}

bool rs_word_is(const rs_word *word, const char *asked)
{
    return any_spelling(word, rs_word_matches, asked);
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c >= 0x80;
}

/* Whether `text` begins with `name`; an ending s belongs to it. */
static bool begins_with(const char *name, const char *text)
{
    for (; *name; name++, text++)
        if (folded((unsigned char)*name) != folded((unsigned char)*text)) return false;
    if (*text == 's') text++;
    return !is_letter(folded((unsigned char)*text));
}

bool rs_word_is_of(const rs_word *word, const char *command)
{
    size_t length = strlen(command);
    for (const char *p = word->commands; p && *p; p += strspn(p, "|")) {
        size_t n = strcspn(p, "|");
        if (n == length && strncmp(p, command, n) == 0) return true;
        p += n;
    }
    return !word->commands;
}

static bool stands_in(const char *name, const char *text)
{
    int before = ' ';
    for (; *text; before = folded((unsigned char)*text), text++)
        if (!is_letter(before) && begins_with(name, text)) return true;
    return false;
}

bool rs_word_stands_in(const rs_word *word, const char *text)
{
    return text && any_spelling(word, stands_in, text);
}

/* ---- all of them ---- */

static const rs_word_list *const books[] = {
    rs_words_of_the_house,   rs_words_of_weights, rs_words_of_runs,    rs_words_of_training,
    rs_words_of_predictions, rs_words_of_proofs,  rs_words_of_verdicts};

const rs_word *rs_word_at(size_t index)
{
    for (size_t b = 0; b < sizeof books / sizeof *books; b++)
        for (const rs_word_list *list = books[b]; list->n; list++) {
            if (index < list->n) return &list->words[index];
            index -= list->n;
        }
    return NULL;
}
