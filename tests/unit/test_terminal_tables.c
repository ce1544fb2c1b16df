/* test_terminal_tables.c: what a terminal shows of a table: rows and columns asked for, what is left
 * out unasked, and that no row is cut or torn apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_NAME                                                                                  \
    "model.decoder.layers.11.self_attention.relative_position_bias.query_projection.weight"

typedef struct cells {
    const char *name, *kind, *words;
    int64_t layer, constant;
    double rank, empty;
    bool alive;
} cells;

static const rs_column columns[] = {
    {.name = "layer", RS_CELL(cells, layer)},       {.name = "kind", RS_CELL(cells, kind)},
    {.name = "rank", RS_CELL(cells, rank)},         {.name = "alive", RS_CELL(cells, alive)},
    {.name = "constant", RS_CELL(cells, constant)}, {.name = "empty", RS_CELL(cells, empty)},
    {.name = "words", RS_CELL(cells, words)},       {.name = "name", RS_CELL(cells, name)},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Six rows: rank 3 - 1 3 2 3 ("-": none); the third column from the end is the same everywhere. */
static rs_result *make(size_t n_columns)
{
    static const double ranks[] = {3, NAN, 1, 3, 2, 3};
    rs_error err;
    rs_table *t;
    rs_result *r = rs_result_new("scan");
    assert_int_equal(rs_result_add_table(r, "summary", "Rows", NULL, columns, n_columns, &t, &err),
                     RS_OK);
    for (int i = 0; i < 6; i++) {
        const cells row = {.name = i ? "short" : LONG_NAME,
                           .kind = i % 2 ? "ov" : "qk",
                           .words = "a text that is longer than what stands beside it leaves room",
                           .layer = i,
                           .constant = 7,
                           .rank = ranks[i],
                           .empty = (double)NAN,
                           .alive = i > 2};
        assert_int_equal(rs_table_append(t, &row, &err), RS_OK);
    }
    return r;
}

static rs_buffer out;
static rs_error err;

/* Writes a result of the first n columns. */
static rs_status show(size_t n, rs_terminal how)
{
    rs_result *r = make(n);
    if (!how.width) how.width = 80;
    out.length = 0;
    rs_status status = rs_write_terminal(&out, r, &how, &err);
    rs_result_free(r);
    return status;
}

/* The first numbers of the lines behind the column names: the layers that are shown. */
static const char *layers(void)
{
    static char text[64];
    size_t n = 0;
    const char *line = strstr(out.data, "layer");
    for (line = strchr(line, '\n'); line && n < sizeof text - 4; line = strchr(line + 1, '\n')) {
        int layer;
        if (sscanf(line, "\n%d", &layer) != 1 || line[1] == '\n') break;
        n += (size_t)snprintf(text + n, sizeof text - n, "%d ", layer);
    }
    text[n] = 0;
    return text;
}

static void rows_are_chosen_and_sorted(void **state)
{
    static const struct {
        const char *where, *sort;
        int64_t top;
        const char *layers;
    } rows[] = {
        {NULL, "rank", 0, "0 3 5 4 2 1 "},
        {NULL, "rank:asc", 0, "2 4 0 3 5 1 "},
        {NULL, "rank:desc", 2, "0 3 "},
        {NULL, NULL, 2, "0 1 "},
        {NULL, "kind:asc", 0, "1 3 5 0 2 4 "},
        {NULL, "alive", 0, "3 4 5 0 1 2 "},
        {"kind=ov", NULL, 0, "1 3 5 "},
        {"kind!=ov", NULL, 0, "0 2 4 "},
        {"kind=ov,layer>1", "layer", 0, "5 3 "},
        {"rank>=2", NULL, 0, "0 3 4 5 "},
        {"rank<=2", NULL, 0, "2 4 "},
        {"rank<2", NULL, 0, "2 "},
        {"rank!=3", NULL, 0, "1 2 4 "},
        {"rank=-", NULL, 0, "1 "},
        {"rank!=-,alive=no", NULL, 0, "0 2 "},
        {"alive=yes", "rank:asc", 1, "4 "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(show(4, (rs_terminal){.where = rows[i].where,
                                               .sort = rows[i].sort,
                                               .top = rows[i].top,
                                               .columns = "layer,kind"}),
                         RS_OK);
        assert_string_equal(layers(), rows[i].layers);
    }
    assert_non_null(strstr(out.data, "(summary, 1 of 6 rows)"));
}

static void what_is_not_there_is_refused_by_name(void **state)
{
    static const struct {
        rs_terminal how;
        const char *where, *what, *hint;
    } rows[] = {
        {{.columns = "layer,knid"}, "columns", "no column 'knid'", "the nearest is 'kind'"},
        {{.sort = "rnak"}, "sort", "no column 'rnak'", "the nearest is 'rank'"},
        {{.sort = "rank:up"}, "sort", "'up' is no order", ":asc"},
        {{.where = "layr=1"}, "where", "no column 'layr'", "the nearest is 'layer'"},
        {{.where = "kind=qv"}, "where", "no row has that value", "the nearest value is 'q"},
        {{.where = "kind<qk"}, "where", "holds texts", "= or !="},
        {{.where = "layer=two"}, "where", "holds numbers", "number"},
        {{.where = "alive=perhaps"}, "where", "yes and no", "yes or no"},
        {{.where = "layer"}, "where", "'layer' is no condition", "COLUMN=VALUE"},
        {{.where = "layer=1,"}, "where", "'layer=1,' has an empty condition", "one comma"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(show(4, rows[i].how), RS_E_BAD_OPTION);
        assert_string_equal(err.where, rows[i].where);
        if (!strstr(err.what, rows[i].what)) fail_msg("%s", err.what);
        if (!strstr(err.hint, rows[i].hint)) fail_msg("%s", err.hint);
    }
}

/* Unasked, columns that tell nothing are not there; asked for, or with --wide, they are. */
static void columns_that_tell_nothing_are_left_out(void **state)
{
    (void)state;
    assert_int_equal(show(6, (rs_terminal){0}), RS_OK);
    assert_non_null(strstr(out.data, "rank"));
    assert_null(strstr(out.data, "constant"));
    assert_null(strstr(out.data, "empty"));
    assert_int_equal(show(6, (rs_terminal){.verbose = true}), RS_OK);
    assert_non_null(strstr(out.data, "the same in every row: constant, empty\n"));
    assert_int_equal(show(6, (rs_terminal){.columns = "constant,layer"}), RS_OK);
    assert_non_null(strstr(out.data, "constant  layer\n"));
    assert_int_equal(show(6, (rs_terminal){.wide = true}), RS_OK);
    assert_non_null(strstr(out.data, "constant  empty\n"));
    /* the same in the rows that are shown, but not in all: it says which rows they are */
    assert_int_equal(show(6, (rs_terminal){.where = "kind=ov"}), RS_OK);
    assert_non_null(strstr(out.data, "kind"));
}

/* At any width a row's cells stand in one place, the names of tensors are whole, and what has no
 * room is named. */
static void rows_are_whole_at_every_width(void **state)
{
    (void)state;
    for (int width = 32; width <= 200; width++) {
        assert_int_equal(show(COLUMNS, (rs_terminal){.width = width}), RS_OK);
        assert_null(strstr(out.data, "\xE2\x80\xA6"));
        assert_null(strstr(out.data, ".."));
        const char *first = strstr(out.data, "layer");
        bool records = strstr(first + 1, "\nlayer") != NULL;
        if (!records && strstr(first + 1, "layer  "))
            fail_msg("width %d: a second block:\n%s", width, out.data);
        if (!strstr(out.data, LONG_NAME)) {
            const char *missing = strstr(out.data, "not shown: ");
            if (!missing || !strstr(missing, "name"))
                fail_msg("width %d: no word of column name:\n%s", width, out.data);
        }
    }
    assert_int_equal(show(COLUMNS, (rs_terminal){.width = 40, .columns = "layer,name"}), RS_OK);
    assert_non_null(strstr(out.data, LONG_NAME));
    assert_int_equal(show(COLUMNS, (rs_terminal){.width = 40, .top = 2}), RS_OK);
    assert_non_null(strstr(out.data, "\nname   " LONG_NAME "\n")); /* few rows: a block each */
}

static void the_first_columns_are_those_of_the_table(void **state)
{
    rs_table *t;
    rs_column many[40];
    char names[40][16];
    rs_result *r = rs_result_new("scan");
    (void)state;
    for (int c = 0; c < 40; c++) {
        snprintf(names[c], sizeof names[c], "measure_%02d", c);
        many[c] = (rs_column){.name = names[c], .type = RS_COLUMN_REAL};
    }
    assert_int_equal(rs_result_add_table(r, "summary", "Rows", NULL, many, 40, &t, &err), RS_OK);
    for (int i = 0; i < 5; i++) {
        size_t row;
        assert_int_equal(rs_table_add_row(t, &row, &err), RS_OK);
        for (size_t c = 0; c < 40; c++)
            rs_table_set_real(t, row, c, (double)(i * 40) + (double)c);
    }
    rs_terminal how = {.width = 80};
    out.length = 0;
    assert_int_equal(rs_write_terminal(&out, r, &how, &err), RS_OK);
    assert_non_null(strstr(out.data, "not shown: measure_"));
    assert_non_null(strstr(out.data, " more: --columns, --wide or --csv\n"));
    rs_table_show_first(t, "measure_30,absent,measure_07");
    out.length = 0;
    assert_int_equal(rs_write_terminal(&out, r, &how, &err), RS_OK);
    assert_non_null(strstr(out.data, "measure_30  measure_07\n"));
    rs_result_free(r);
}

/* A summary of 40 rows shows its first, and says how many there are besides; asked for, all. */
static void a_long_summary_is_shortened(void **state)
{
    rs_table *t;
    rs_result *r = rs_result_new("certify");
    (void)state;
    assert_int_equal(rs_result_add_table(r, "summary", "Rows", NULL, columns, 4, &t, &err), RS_OK);
    for (int i = 0; i < 40; i++)
        assert_int_equal(rs_table_append(t, &(cells){.kind = "qk", .layer = i, .rank = i}, &err),
                         RS_OK);
    rs_terminal how = {.width = 80};
    out.length = 0;
    assert_int_equal(rs_write_terminal(&out, r, &how, &err), RS_OK);
    assert_string_equal(layers(), "0 1 2 3 4 5 6 7 8 9 10 11 ");
    assert_non_null(strstr(out.data, "\nand 28 more rows: --table summary\n"));
    const rs_terminal all[] = {{.width = 80, .tables = "summary"}, {.width = 80, .verbose = true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        out.length = 0;
        assert_int_equal(rs_write_terminal(&out, r, &all[i], &err), RS_OK);
        assert_null(strstr(out.data, "more rows"));
        assert_non_null(strstr(out.data, "\n   39 "));
    }
    how.where = "layer>20"; /* rows that were asked for are shown, all of them */
    out.length = 0;
    assert_int_equal(rs_write_terminal(&out, r, &how, &err), RS_OK);
    assert_non_null(strstr(out.data, "(summary, 19 of 40 rows)"));
    assert_non_null(strstr(out.data, "\n   39 "));
    rs_result_free(r);
}

/* ---- claims ---- */

typedef struct claim {
    const char *experiment, *claim, *verdict;
    double published, expected, measured, tolerance;
} claim;

static const rs_column claim_columns[] = {
    {.name = "experiment", RS_CELL(claim, experiment)},
    {.name = "claim", RS_CELL(claim, claim)},
    {.name = "published", RS_CELL(claim, published)},
    {.name = "expected", RS_CELL(claim, expected)},
    {.name = "measured", RS_CELL(claim, measured)},
    {.name = "tolerance", RS_CELL(claim, tolerance)},
    {.name = "verdict", RS_CELL(claim, verdict)},
};

static void claims_stand_beside_their_verdicts(void **state)
{
    static const claim rows[] = {
        {"one", "a ratio", "pass", NAN, 0.5, 0.5001, 0.001},
        {"one", "an error that is at most so large, told in a sentence that is longer than a line",
         "fail", NAN, NAN, 0.25, 0.01},
        {"two", "what the paper prints", "differs_from_paper", 0.75, 0.5, 0.5, 0.01},
        {"two", "what was not there", "skipped", NAN, NAN, NAN, NAN},
    };
    rs_table *t;
    rs_result *r = rs_result_new("lab");
    (void)state;
    assert_int_equal(rs_result_add_table(r, "claims", "Claims", NULL, claim_columns, 7, &t, &err),
                     RS_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(rs_table_append(t, &rows[i], &err), RS_OK);
    rs_terminal how = {.width = 80, .unicode = true, .tables = "claims"};
    out.length = 0;
    assert_int_equal(rs_write_terminal(&out, r, &how, &err), RS_OK);
    assert_non_null(strstr(out.data, "\none\n"));
    assert_non_null(strstr(out.data, "\ntwo\n"));
    const char *failed = strstr(out.data, "\xE2\x9C\x97 an error that");
    assert_non_null(failed);
    const char *bound = strstr(failed, "0.25  \xE2\x89\xA4 0.01\n");
    assert_true(bound && bound < strchr(failed, '\n')); /* on the first line of its claim */
    assert_non_null(strstr(out.data, "0.5  0.5 \xC2\xB1 0.01, paper 0.75\n"));
    assert_non_null(strstr(out.data, "\xE2\x9C\x93 1 of 4 claims holds; ~ 1 differs from the"));
    how = (rs_terminal){.width = 40, .tables = "claims"};
    out.length = 0;
    assert_int_equal(rs_write_terminal(&out, r, &how, &err), RS_OK);
    assert_non_null(strstr(out.data, "\npass a ratio\n       0.5001    0.5 +- 0.001\n"));
    assert_non_null(strstr(out.data, "\nFAIL an error that is at most"));
    for (const char *c = out.data; *c; c++)
        assert_true((unsigned char)*c < 0x80);
    rs_result_free(r);
}

typedef struct repeated_claim {
    const char *experiment, *claim, *verdict, *repeat;
    double measured, tolerance;
    bool ordering;
} repeated_claim;

static const rs_column repeated_columns[] = {
    {.name = "experiment", RS_CELL(repeated_claim, experiment)},
    {.name = "claim", RS_CELL(repeated_claim, claim)},
    {.name = "measured", RS_CELL(repeated_claim, measured)},
    {.name = "tolerance", RS_CELL(repeated_claim, tolerance)},
    {.name = "ordering", RS_CELL(repeated_claim, ordering)},
    {.name = "verdict", RS_CELL(repeated_claim, verdict)},
    {.name = "repeat", RS_CELL(repeated_claim, repeat)},
};

/* Above each experiment's claims is the command that repeats it, also where the first of them has no
 * room; orders of one seed, and those that show nothing, have a mark and a bound of their own. */
static void claims_stand_below_their_commands(void **state)
{
    rs_table *t;
    rs_result *r = rs_result_new("lab");
    (void)state;
    assert_int_equal(
        rs_result_add_table(r, "claims", "Claims", NULL, repeated_columns, 7, &t, &err), RS_OK);
    for (int i = 0; i < 40; i++) {
        char experiment[20], repeat[40], what[20];
        snprintf(experiment, sizeof experiment, "e%d", i / 20);
        snprintf(repeat, sizeof repeat, "rankscope lab run e%d --seed 3", i / 20);
        snprintf(what, sizeof what, "claim %d", i);
        const bool same = i % 20 == 19;
        const repeated_claim row = {
            experiment, what, same ? "no_difference" : "pass", repeat, 0.5, same ? NAN : 0.1, same};
        assert_int_equal(rs_table_append(t, &row, &err), RS_OK);
    }
    rs_result_show(r, "claims");
    const rs_terminal how[] = {{.width = 80, .unicode = true, .height = 24},
                               {.width = 80, .unicode = true, .tables = "claims"}};
    for (int k = 0; k < 2; k++) {
        out.length = 0;
        assert_int_equal(rs_write_terminal(&out, r, &how[k], &err), RS_OK);
        bool left = strstr(out.data, "\n\xE2\x9C\x93 claim 20 ") == NULL;
        assert_true(left == (k == 0));
        for (int e = 0; e < 2; e++) {
            char repeat[60], same[20];
            snprintf(repeat, sizeof repeat, "\nrankscope lab run e%d --seed 3\n", e);
            snprintf(same, sizeof same, "\n= claim %d ", 20 * e + 19);
            const char *above = strstr(out.data, repeat), *at = strstr(out.data, same);
            assert_true(above && at && above < at);
            assert_null(strstr(above + 1, repeat));
            assert_true(e == 1 || at < strstr(out.data, "\nrankscope lab run e1"));
            assert_non_null(strstr(at, "0.5  > ? (no spread)\n"));
        }
        assert_non_null(strstr(out.data, "38 of 40 claims hold; = 2 show no difference"));
    }
    rs_result_free(r);
}

/* A row of a table of bounds: one number thrice, of which cells claim different things. */
typedef struct bound_cells {
    double above, below, nearest;
} bound_cells;

static const rs_column bound_columns[] = {
    {.name = "above", RS_CELL(bound_cells, above), .bound = RS_BOUND_UPPER},
    {.name = "below", RS_CELL(bound_cells, below), .bound = RS_BOUND_LOWER},
    {.name = "nearest", RS_CELL(bound_cells, nearest)},
};

/* Doubles of all sizes and both signs, some of them with few digits. */
static double random_value(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    double size = pow(10, (double)(*state >> 58) * 9 - 290);
    double value = (double)(*state >> 11) / 9007199254740992.0 * size;
    if (*state & 4096) value = strtod("0.1", NULL) * (double)(*state >> 54);
    return *state & 8192 ? -value : value;
}

/* Cells of bounds claim no more than the bound: what is printed of an upper one is not below it, of a
 * lower one not above it, and neither is a digit off. */
static void bounds_are_rounded_outward(void **state)
{
    enum { VALUES = 4000 };
    static double values[VALUES];
    uint64_t random = 1;
    size_t rounded = 0;
    rs_table *t;
    rs_result *r = rs_result_new("certify");
    (void)state;
    assert_int_equal(rs_result_add_table(r, "bounds", NULL, NULL, bound_columns, 3, &t, &err),
                     RS_OK);
    for (int i = 0; i < VALUES; i++) {
        values[i] = random_value(&random);
        const bound_cells row = {values[i], values[i], values[i]};
        assert_int_equal(rs_table_append(t, &row, &err), RS_OK);
    }
    const rs_terminal how = {.width = 80, .tables = "bounds"};
    out.length = 0;
    assert_int_equal(rs_write_terminal(&out, r, &how, &err), RS_OK);
    const char *line = strchr(strstr(out.data, "nearest"), '\n') + 1;
    for (int i = 0; i < VALUES; i++) {
        char *end = NULL;
        double above = strtod(line, &end), below = strtod(end, &end), near = strtod(end, &end);
        if (*end != '\n') fail_msg("row %d is no row: %.60s", i, line);
        if (above < values[i] || below > values[i])
            fail_msg("%.17g is printed as at most %.17g, at least %.17g", values[i], above, below);
        assert_true(fabs(above - below) <= 1.0001e-3 * fabs(values[i]));
        rounded += above > near || below < near;
        line = end + 1;
    }
    assert_true(rounded > VALUES / 2);
    rs_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_chosen_and_sorted),
        cmocka_unit_test(what_is_not_there_is_refused_by_name),
        cmocka_unit_test(columns_that_tell_nothing_are_left_out),
        cmocka_unit_test(rows_are_whole_at_every_width),
        cmocka_unit_test(the_first_columns_are_those_of_the_table),
        cmocka_unit_test(a_long_summary_is_shortened),
        cmocka_unit_test(claims_stand_beside_their_verdicts),
        cmocka_unit_test(claims_stand_below_their_commands),
        cmocka_unit_test(bounds_are_rounded_outward),
    };
    int failed = cmocka_run_group_tests_name("terminal_tables", tests, NULL, NULL);
    rs_buffer_free(&out);
    return failed;
}
