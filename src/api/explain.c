/* explain.c: rs_explain: what words, codes and columns mean, from where each is defined: the words
 * of the house and the codes in report/words.h, columns where their tables are made. */
#include "api/command.h"
#include "report/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the columns of all tables ---- */

/* A column by the name that a table shows. */
typedef struct shown_column {
    const rs_table_kind *kind;
    const rs_column *column;
    char name[96];
} shown_column;

/* Calls tell(user, ...) for every column of the kind until it says no; false then. */
static bool each_column_of(const rs_table_kind *kind,
                           bool (*tell)(void *user, const shown_column *shown), void *user)
{
    for (const rs_column_part *part = kind->parts; part->n; part++)
        for (size_t c = 0; c < part->n; c++) {
            const char *ending = part->endings ? part->endings : "";
            for (bool more = true; more;) {
                shown_column shown = {.kind = kind, .column = &part->columns[c]};
                size_t length = strcspn(ending, "|");
                snprintf(shown.name, sizeof shown.name, "%s%.*s", shown.column->name, (int)length,
                         ending);
                if (!tell(user, &shown)) return false;
                more = ending[length] != 0;
                ending += length + more;
            }
        }
    return true;
}

/* The same for every column of every table. */
static bool each_column(bool (*tell)(void *user, const shown_column *shown), void *user)
{
    const rs_table_kind *kind;
    for (size_t k = 0; (kind = rs_table_kind_at(k)); k++)
        if (!each_column_of(kind, tell, user)) return false;
    return true;
}

/* ---- table words ---- */

/* A row of table words. */
typedef struct entry {
    const char *name, *what, *meaning, *rule, *unit, *severity, *todo, *where, *see;
} entry;

static const rs_column entry_columns[] = {
    {.name = "name", RS_CELL(entry, name)},
    {.name = "kind",
     RS_CELL(entry, what),
     .formula =
         "word, variant, finding, verdict or column; of a column, how its number came to be"},
    {.name = "meaning", RS_CELL(entry, meaning), .title = NULL},
    {.name = "rule",
     RS_CELL(entry, rule),
     .title = "rule",
     .formula = "the definition, or when a code is given, with the option that sets it"},
    {.name = "unit", RS_CELL(entry, unit), .title = "unit"},
    {.name = "severity", RS_CELL(entry, severity), .title = "severity"},
    {.name = "todo", RS_CELL(entry, todo), .title = "what to do"},
    {.name = "where",
     RS_CELL(entry, where),
     .title = "in",
     .formula = "commands, and their tables"},
    {.name = "see", RS_CELL(entry, see), .title = "more"},
};

/* A row of table names. */
typedef struct names_row {
    const char *kind, *names;
    int64_t count;
} names_row;
static const rs_column names_columns[] = {
    {.name = "kind", RS_CELL(names_row, kind)},
    {.name = "count", RS_CELL(names_row, count)},
    {.name = "names", RS_CELL(names_row, names)},
};
const rs_table_kind rs_explain_words_kind = {"explain", "words", {RS_PART(entry_columns)}},
                    rs_explain_names_kind = {"explain", "names", {RS_PART(names_columns)}};

/* What was found. Columns of one name that mean the same are one entry. */
typedef struct search {
    const char *asked; /* NULL: all */
    rs_arena *arena;
    entry *found; /* [n] */
    size_t n;
    bool failed; /* out of memory */
} search;

/* Places are of commands in turn: "scan: heads, groups; probe: tokens". Adds a table to them. */
static const char *with_place(search *s, const char *places, const rs_table_kind *kind)
{
    const char *last = strrchr(places, ';');
    last = last ? last + 2 : places;
    size_t length = strlen(kind->command);
    bool same = strncmp(last, kind->command, length) == 0 && last[length] == ':';
    return same ? rs_arena_printf(s->arena, "%s, %s", places, kind->name)
                : rs_arena_printf(s->arena, "%s%s%s: %s", places, places[0] ? "; " : "",
                                  kind->command, kind->name);
}

/* The entry that says this of a column already; NULL: none does. */
static entry *known_entry(search *s, const shown_column *shown)
{
    for (size_t i = 0; i < s->n; i++) {
        entry *e = &s->found[i];
        if (e->what && strncmp(e->what, "column", 6) == 0 && strcmp(e->name, shown->name) == 0 &&
            rs_text_same(e->rule, shown->column->formula) &&
            rs_text_same(e->unit, shown->column->unit))
            return e;
    }
    return NULL;
}

static bool take_column(void *user, const shown_column *shown)
{
    search *s = user;
    if (s->asked && !rs_word_matches(shown->name, s->asked)) return true;
    const rs_column *column = shown->column;
    entry *known = known_entry(s, shown);
    const char *place = with_place(s, known ? known->where : "", shown->kind);
    s->failed |= !place;
    if (known) {
        known->where = place;
        return !s->failed;
    }
    const char *provenance = column->provenance;
    s->found[s->n++] = (entry){
        .name = rs_arena_printf(s->arena, "%s", shown->name),
        .what = rs_arena_printf(s->arena, "column%s%s", provenance ? ", " : "",
                                provenance ? provenance : ""),
        .meaning =
            column->title && !rs_word_matches(column->title, shown->name) ? column->title : NULL,
        .rule = column->formula,
        .unit = column->unit,
        .where = place};
    s->failed |= !s->found[s->n - 1].name || !s->found[s->n - 1].what;
    return !s->failed;
}

/* "scan|probe" as "scan, probe". */
static const char *commands_of(search *s, const char *commands)
{
    char *copy = commands ? rs_arena_printf(s->arena, "%s", commands) : NULL;
    s->failed |= commands && !copy;
    for (char *p = copy; p && *p; p++)
        if (*p == '|') *p = ' ';
    return copy;
}

static void take_words(search *s)
{
    const rs_word *word;
    for (size_t i = 0; (word = rs_word_at(i)); i++)
        if (!s->asked || rs_word_is(word, s->asked))
            s->found[s->n++] = (entry){.name = word->name,
                                       .what = rs_word_kind_name(word->kind),
                                       .meaning = word->meaning,
                                       .rule = word->rule,
                                       .severity = word->severity,
                                       .todo = word->todo,
                                       .where = commands_of(s, word->commands),
                                       .see = word->see};
}

/* ---- the nearest name ---- */

typedef struct nearest {
    const char *asked;
    char name[96];
    int distance;
} nearest;

static void compare(nearest *best, const char *name, size_t length)
{
    char text[96];
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    int distance = rs_edit_distance(best->asked, text);
    if (distance >= best->distance) return;
    best->distance = distance;
    snprintf(best->name, sizeof best->name, "%s", text);
}

static bool compare_column(void *user, const shown_column *shown)
{
    compare(user, shown->name, strlen(shown->name));
    return true;
}

static rs_status unknown_word(const char *asked, rs_error *err)
{
    nearest best = {.asked = asked, .distance = 1000};
    char hint[200];
    const rs_word *word;
    for (size_t i = 0; (word = rs_word_at(i)); i++) {
        compare(&best, word->name, strlen(word->name));
        for (const char *p = word->also; p;) {
            size_t length = strcspn(p, "|");
            compare(&best, p, length);
            p = p[length] ? p + length + 1 : NULL;
        }
    }
    each_column(compare_column, &best);
    snprintf(hint, sizeof hint, "nearest is '%s'; 'rankscope explain' shows what there is",
             best.name);
    return rs_fail(err, RS_E_NOT_FOUND, asked, hint, "no such word, code or column");
}

static bool count_column(void *user, const shown_column *shown)
{
    (void)shown;
    ++*(size_t *)user;
    return true;
}

static rs_status say_all(rs_result *result, size_t n, rs_error *err)
{
    char answer[160];
    snprintf(answer, sizeof answer, "rankscope has %zu words, codes and columns to explain.", n);
    const rs_verdict verdict = {.answer = answer,
                                .code = "listed",
                                .value = (double)n,
                                .threshold = NAN,
                                .next = "rankscope explain WORD; 'explain findings' lists a whole "
                                        "group, --verbose all"};
    return rs_result_set_verdict(result, &verdict, err);
}

static rs_status say_group(rs_result *result, const char *group, size_t n, rs_error *err)
{
    char answer[160];
    snprintf(answer, sizeof answer, "rankscope has %zu %s to explain.", n, group);
    const rs_verdict verdict = {.answer = answer,
                                .code = "listed",
                                .value = (double)n,
                                .threshold = NAN,
                                .next = "rankscope explain NAME"};
    return rs_result_set_verdict(result, &verdict, err);
}

/* The first meaning, and how many more there are. */
static rs_status set_verdict(rs_result *result, const search *s, rs_error *err)
{
    const entry *first = &s->found[0];
    const char *says = first->meaning ? first->meaning : first->rule;
    char answer[1024], more[64] = "";
    size_t others = s->n - 1;
    if (others)
        snprintf(more, sizeof more, " It has %zu other meaning%s.", others, others > 1 ? "s" : "");
    snprintf(answer, sizeof answer, "%s: %s%s%s", first->name, says ? says : first->what,
             says && says[strlen(says) - 1] == '.' ? "" : ".", more);
    const rs_verdict verdict = {
        .answer = answer, .code = "explained", .value = (double)s->n, .threshold = NAN};
    return rs_result_set_verdict(result, &verdict, err);
}

static rs_status explain_word(rs_result *result, const char *asked, rs_error *err)
{
    search s = {.asked = strcmp(asked, "all") == 0 ? NULL : asked,
                .arena = rs_result_arena(result)};
    rs_table *table;
    size_t most = 0;
    while (rs_word_at(most))
        most++;
    each_column(count_column, &most);
    s.found = rs_arena_alloc(s.arena, most, sizeof *s.found);
    if (!s.found) return rs_fail_memory(err, "explanation", most * sizeof *s.found);
    take_words(&s);
    each_column(take_column, &s);
    if (s.failed) return rs_fail_memory(err, "explanation", 0);
    if (s.n == 0) return unknown_word(asked, err);
    RS_TRY(rs_result_add_table(result, "words", "Words", "What it means", entry_columns,
                               sizeof entry_columns / sizeof *entry_columns, &table, err));
    rs_table_as_entries(table);
    rs_result_show(result, "words");
    for (size_t i = 0; i < s.n; i++)
        RS_TRY(rs_table_append(table, &s.found[i], err));
    return s.asked ? set_verdict(result, &s, err) : say_all(result, s.n, err);
}

/* ---- all names ---- */

typedef struct listing {
    rs_buffer names;
    int64_t count;
} listing;

static void list_name(listing *list, const char *name)
{
    rs_buffer_printf(&list->names, "%s%s", list->count++ ? ", " : "", name);
}

/* Whether the list has the name; it is short. */
static bool is_listed(const listing *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = list->names.data; p && (p = strstr(p, name)); p += length)
        if ((p == list->names.data || p[-1] == ' ') && (!p[length] || p[length] == ','))
            return true;
    return false;
}

static bool list_column(void *user, const shown_column *shown)
{
    listing *list = user;
    if (!is_listed(list, shown->name)) list_name(list, shown->name);
    return !list->names.failed;
}

static rs_status add_names(rs_table *table, const char *kind, listing *list, rs_error *err)
{
    const names_row row = {kind, list->names.data, list->count};
    rs_status status = list->names.failed ? rs_fail_memory(err, "names", list->names.length)
                                          : rs_table_append(table, &row, err);
    rs_buffer_free(&list->names);
    return status;
}

/* What lists the names of one kind: as a word it is none. */
static const char *const groups[] = {[RS_WORD_TERM] = "words",
                                     [RS_WORD_VARIANT] = "variants",
                                     [RS_WORD_FINDING] = "findings",
                                     [RS_WORD_VERDICT] = "verdicts"};
static const char COLUMNS[] = "columns";

static bool is_group(const char *word)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(groups[i], word) == 0) return true;
    return strcmp(word, COLUMNS) == 0;
}

/* The names of all kinds, of which few are shown, or of one (group), all of them. */
static rs_status list_names(rs_result *result, const char *group, rs_error *err)
{
    rs_table *table;
    const rs_word *word;
    size_t names = 0;
    RS_TRY(rs_result_add_table(result, "names", "Names",
                               "What 'rankscope explain WORD' knows: words of the house, codes, "
                               "columns of tables",
                               names_columns, sizeof names_columns / sizeof *names_columns, &table,
                               err));
    rs_table_as_entries(table);
    rs_result_show(result, "names");
    if (!group) rs_table_show_few(table, 2);
    for (int kind = RS_WORD_TERM; kind <= RS_WORD_VERDICT; kind++) {
        listing list = {0};
        if (group && strcmp(group, groups[kind]) != 0) continue;
        for (size_t i = 0; (word = rs_word_at(i)); i++)
            if ((int)word->kind == kind) list_name(&list, word->name);
        names += (size_t)list.count;
        RS_TRY(add_names(table, groups[kind], &list, err));
    }
    if (!group || strcmp(group, COLUMNS) == 0) {
        listing columns = {0};
        each_column(list_column, &columns);
        names += (size_t)columns.count;
        RS_TRY(add_names(table, COLUMNS, &columns, err));
    }
    return group ? say_group(result, group, names, err) : say_all(result, names, err);
}

/* ---- the command ---- */

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const char *word = task->settings->explain.word;
    if (!word || is_group(word)) return list_names(result, word, err);
    return explain_word(result, word, err);
}

static const rs_command command = {
    .name = "explain", .size = sizeof(rs_explain_settings), .fill = fill};

void rs_explain_settings_init(rs_explain_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_explain(rs_result **out, const rs_explain_settings *settings, rs_error *err)
{
    return rs_answer_path(out, &command, NULL, settings, err);
}
