/* probe_sweep_spec.c: the text of --sweep. */
#include "probe/probe_sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char form[] = "such as lambda=-20:20:41 or lambda=mixer:-20:20:41,gate=both,norm=on";

static rs_status refuse(const char *what, const char *piece, size_t n, rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, "--sweep", form, "\"%.*s\" %s", (int)(n < 80 ? n : 80),
                   piece, what);
}

/* A number that ends with `end`, or with the piece. */
static bool take_number(double *out, const char **at, const char *stop)
{
    char *end;
    *out = strtod(*at, &end);
    if (end == *at || end > stop || !isfinite(*out)) return false;
    *at = end;
    return true;
}

static rs_status take_lambda(rs_sweep_spec *spec, const char *piece, size_t n, rs_error *err)
{
    static const char *const kinds[] = {"mixer:", "mlp:"};
    const char *at = piece, *stop = piece + n;
    double points = 1;
    for (size_t i = 0; i < 2; i++)
        if (strncmp(at, kinds[i], strlen(kinds[i])) == 0) {
            spec->of = kinds[i];
            at += strlen(kinds[i]);
            break;
        }
    if (!take_number(&spec->low, &at, stop)) return refuse("is no range of lambda", piece, n, err);
    spec->high = spec->low;
    if (at < stop) {
        if (*at++ != ':' || !take_number(&spec->high, &at, stop) || at >= stop || *at++ != ':' ||
            !take_number(&points, &at, stop) || at != stop)
            return refuse("is no range LOW:HIGH:POINTS of lambda", piece, n, err);
        if (points != floor(points) || points < 1 || points > RS_SWEEP_MOST)
            return rs_fail(err, RS_E_BAD_OPTION, "--sweep", form,
                           "a sweep has 1 to %d points, not %g", RS_SWEEP_MOST, points);
        if (points == 1 && spec->low != spec->high)
            return refuse("has one point for two ends", piece, n, err);
        if (spec->low > spec->high) return refuse("ends below its beginning", piece, n, err);
    }
    spec->n = (int32_t)points;
    return RS_OK;
}

static rs_status take_switch(rs_sweep_switch *out, const char *piece, size_t n, rs_error *err)
{
    static const char *const words[] = {
        [RS_SWEEP_ON] = "on", [RS_SWEEP_OFF] = "off", [RS_SWEEP_BOTH] = "both"};
    for (int i = RS_SWEEP_ON; i <= RS_SWEEP_BOTH; i++)
        if (n == strlen(words[i]) && strncmp(piece, words[i], n) == 0) {
            *out = (rs_sweep_switch)i;
            return RS_OK;
        }
    return refuse("is none of on, off and both", piece, n, err);
}

static rs_status take_kept(rs_sweep_spec *spec, const char *piece, size_t n, rs_error *err)
{
    const char *at = piece, *stop = piece + n;
    if (!take_number(&spec->kept, &at, stop) || at != stop || !(spec->kept > 0 && spec->kept < 1))
        return refuse("is no fraction between 0 and 1", piece, n, err);
    return RS_OK;
}

rs_status rs_sweep_parse(rs_sweep_spec *spec, const char *text, rs_error *err)
{
    *spec = (rs_sweep_spec){.of = "", .gate = RS_SWEEP_ON, .norm = RS_SWEEP_ON, .kept = 0.9};
    for (const char *piece = text;;) {
        size_t n = strcspn(piece, ",");
        const char *equals = memchr(piece, '=', n);
        size_t name = equals ? (size_t)(equals - piece) : n, rest = n - name - (equals != NULL);
        if (!equals) return refuse("has no =", piece, n, err);
        if (name == 6 && strncmp(piece, "lambda", 6) == 0) {
            RS_TRY(take_lambda(spec, equals + 1, rest, err));
        } else if (name == 4 && strncmp(piece, "gate", 4) == 0) {
            RS_TRY(take_switch(&spec->gate, equals + 1, rest, err));
        } else if (name == 4 && strncmp(piece, "norm", 4) == 0) {
            RS_TRY(take_switch(&spec->norm, equals + 1, rest, err));
        } else if (name == 4 && strncmp(piece, "kept", 4) == 0) {
            RS_TRY(take_kept(spec, equals + 1, rest, err));
        } else {
            return refuse("is not lambda, gate, norm or kept", piece, name, err);
        }
        if (!piece[n]) break;
        piece += n + 1;
    }
    if (spec->n > 0) return RS_OK;
    return rs_fail(err, RS_E_BAD_OPTION, "--sweep", form, "no range of lambda is given");
}

double rs_sweep_lambda(const rs_sweep_spec *spec, int32_t i)
{
    int32_t last = spec->n - 1;
    if (spec->lambdas) return spec->lambdas[i];
    if (i == 0 || last == 0) return spec->low;
    if (i == last) return spec->high;
    /* both ends weighted: points of a symmetric range are symmetric, and its middle is 0 */
    return (spec->low * (double)(last - i) + spec->high * (double)i) / (double)last;
}
