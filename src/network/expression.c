/* expression.c: formulas such as "1/sqrt(L)" of architecture files and of the command line. */
#include "base/json_parse.h"
#include "base/memory.h"
#include "base/text.h"
#include "network/init.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 64, LONGEST = 256 };

typedef struct formula {
    const char *text, *at;
    const char *const *names;
    const double *values; /* NULL: only the spelling is checked */
    const char *where;
    int depth;
    rs_error *err;
} formula;

static rs_status sum(double *value, formula *f);

static rs_status wrong(const formula *f, const char *what, const char *hint)
{
    return rs_fail(f->err, RS_E_EXPRESSION, f->where, hint, "%s at character %d of \"%.100s\"",
                   what, (int)(f->at - f->text) + 1, f->text);
}

/* Every step is looked at, so that the message can name the operation at fault. */
static rs_status has_value(const formula *f, double value, const char *what)
{
    return !f->values || isfinite(value) ? RS_OK : wrong(f, what, NULL);
}

static void skip_space(formula *f)
{
    while (isspace((unsigned char)*f->at))
        f->at++;
}

static bool accept(formula *f, char c)
{
    skip_space(f);
    if (*f->at != c) return false;
    f->at++;
    return true;
}

/* Digits through the JSON reader, which does not depend on the locale; it wants "0.5", not ".5". */
static rs_status number(double *value, formula *f)
{
    char digits[LONGEST + 8] = "0";
    size_t n = 1;
    bool any = false, point = false;
    const char *p = f->at;
    for (; isdigit((unsigned char)*p) || (*p == '.' && !point); p++) {
        point |= *p == '.';
        any |= *p != '.';
        if (n == 1 && !point && digits[0] == '0')
            digits[0] = *p; /* leading zeros go */
        else
            digits[n++] = *p;
    }
    if (!any) return wrong(f, "a lone point", "write numbers as 0.5 or 1e-3");
    if (digits[n - 1] == '.') digits[n++] = '0';
    bool exponent = false;
    if (*p == 'e' || *p == 'E') {
        size_t sign = p[1] == '+' || p[1] == '-';
        if (isdigit((unsigned char)p[1 + sign])) {
            exponent = true;
            for (digits[n++] = *p++; isdigit((unsigned char)*p) || sign; sign = 0)
                digits[n++] = *p++;
        }
    }
    if (!point && !exponent) {
        digits[n++] = '.';
        digits[n++] = '0';
    }
    int64_t failures = rs_memory_failures();
    json_t *json = rs_json_parse(digits, n, JSON_DECODE_ANY, NULL);
    rs_status kept = rs_memory_check(failures, f->where, f->err);
    if (kept != RS_OK) json_decref(json);
    RS_TRY(kept);
    if (!json) return wrong(f, "a number out of range", NULL);
    *value = json_real_value(json);
    json_decref(json);
    f->at = p;
    return RS_OK;
}

static rs_status unknown_name(const formula *f, size_t length)
{
    char name[LONGEST + 1], list[192];
    size_t n = length < LONGEST ? length : LONGEST, used = 0;
    memcpy(name, f->at, n);
    name[n] = 0;
    list[0] = 0;
    for (size_t i = 0; f->names && f->names[i] && used < sizeof list - 1; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", f->names[i]);
    return rs_fail(f->err, RS_E_EXPRESSION, f->where, NULL,
                   "does not know \"%.60s\" in \"%.100s\"; known are %.190ssqrt( )", name, f->text,
                   list);
}

static rs_status word(double *value, formula *f)
{
    size_t length = 0;
    while (isalnum((unsigned char)f->at[length]) || f->at[length] == '_')
        length++;
    if (length == 4 && memcmp(f->at, "sqrt", 4) == 0) {
        f->at += length;
        if (!accept(f, '(')) return wrong(f, "sqrt without (", "write sqrt(...)");
        RS_TRY(sum(value, f));
        if (!accept(f, ')')) return wrong(f, "a missing )", NULL);
        *value = sqrt(*value);
        return has_value(f, *value, "the square root of a negative number");
    }
    for (size_t i = 0; f->names && f->names[i]; i++)
        if (strlen(f->names[i]) == length && memcmp(f->at, f->names[i], length) == 0) {
            f->at += length;
            *value = f->values ? f->values[i] : 1;
            return has_value(f, *value, "a name whose value is not finite");
        }
    return unknown_name(f, length);
}

static rs_status atom(double *value, formula *f)
{
    if (accept(f, '(')) {
        RS_TRY(sum(value, f));
        return accept(f, ')') ? RS_OK : wrong(f, "a missing )", NULL);
    }
    if (isdigit((unsigned char)*f->at) || *f->at == '.') return number(value, f);
    if (isalpha((unsigned char)*f->at) || *f->at == '_') return word(value, f);
    return wrong(f, *f->at ? "an unexpected character" : "an early end",
                 "formulas are made of numbers, names, + - * / ^ ( ) and sqrt");
}

/* '^' binds tighter than a minus in front and groups to the right: -2^2 = -4, 2^3^2 = 512. */
static rs_status power(double *value, formula *f)
{
    if (++f->depth > DEEPEST) return wrong(f, "more than 64 levels of nesting", NULL);
    if (accept(f, '-')) {
        RS_TRY(power(value, f));
        *value = -*value;
    } else if (accept(f, '+')) {
        RS_TRY(power(value, f));
    } else {
        RS_TRY(atom(value, f));
        if (accept(f, '^')) {
            double exponent = 0;
            RS_TRY(power(&exponent, f));
            *value = pow(*value, exponent);
            RS_TRY(has_value(f, *value, "a power that is not a finite number"));
        }
    }
    f->depth--;
    return RS_OK;
}

static rs_status product(double *value, formula *f)
{
    RS_TRY(power(value, f));
    for (;;) {
        double factor = 0;
        if (accept(f, '*')) {
            RS_TRY(power(&factor, f));
            *value *= factor;
            RS_TRY(has_value(f, *value, "a product that is too large"));
        } else if (accept(f, '/')) {
            RS_TRY(power(&factor, f));
            if (f->values && factor == 0) return wrong(f, "a division by zero", NULL);
            *value /= factor;
            RS_TRY(has_value(f, *value, "a quotient that is too large"));
        } else {
            return RS_OK;
        }
    }
}

static rs_status sum(double *value, formula *f)
{
    RS_TRY(product(value, f));
    for (;;) {
        double term = 0;
        if (accept(f, '+')) {
            RS_TRY(product(&term, f));
            *value += term;
        } else if (accept(f, '-')) {
            RS_TRY(product(&term, f));
            *value -= term;
        } else {
            return RS_OK;
        }
        RS_TRY(has_value(f, *value, "a sum that is too large"));
    }
}

rs_status rs_expression(double *value, const char *text, const char *const *names,
                        const double *values, const char *where, rs_error *err)
{
    *value = 0;
    formula f = {text, text, names, values, where, 0, err};
    if (strlen(text) > LONGEST)
        return rs_fail(err, RS_E_EXPRESSION, where, NULL,
                       "is a formula of %zu characters; at most %d are read", strlen(text),
                       (int)LONGEST);
    double result = 0;
    RS_TRY(sum(&result, &f));
    skip_space(&f);
    if (*f.at) return wrong(&f, "an unexpected character", NULL);
    *value = result;
    return RS_OK;
}
