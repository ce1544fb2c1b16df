/* grid.c: what --grid says. */
#include "predict/grid.h"

#include "base/memory.h"
#include "network/arch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char example[] =
    "write FIELD=LOW:HIGH or FIELD=LOW:HIGH:N, with log: before LOW for equal ratios, and a comma "
    "before a second field: depth=1:128,branch_mixer=0:2:21";

void rs_grid_free(rs_grid *grid)
{
    for (int a = 0; a < RS_GRID_AXES; a++)
        rs_free(grid->axes[a].values);
    *grid = (rs_grid){0};
}

static rs_status bad(const char *text, const char *what, rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, "grid", example, "\"%.100s\": %s", text, what);
}

/* The number that *text begins with; *text goes on behind it. */
static bool take_number(double *out, const char **text)
{
    char *end;
    errno = 0;
    *out = strtod(*text, &end);
    if (end == *text || errno != 0 || !isfinite(*out)) return false;
    *text = end;
    return true;
}

static bool is_whole(double x)
{
    return x == floor(x) && fabs(x) < 1e9;
}

static rs_status fill_axis(rs_grid_axis *axis, double low, double high, double n, bool logarithmic,
                           const char *text, rs_error *err)
{
    if (!is_whole(n) || n < 1 || n > 1e7) return bad(text, "so many values are none", err);
    if (logarithmic && !(low > 0 && high > 0)) return bad(text, "log: needs numbers above 0", err);
    bool whole = is_whole(low) && is_whole(high) && n == high - low + 1;
    axis->n = (int64_t)n;
    axis->values = rs_malloc((size_t)n, sizeof *axis->values);
    if (!axis->values) return rs_fail_memory(err, "a grid", (size_t)n * sizeof *axis->values);
    for (int64_t i = 0; i < axis->n; i++) {
        double share = axis->n > 1 ? (double)i / (double)(axis->n - 1) : 0;
        axis->values[i] = whole         ? low + (double)i
                          : logarithmic ? exp(log(low) + share * (log(high) - log(low)))
                                        : low + share * (high - low);
    }
    axis->values[0] = low;
    if (axis->n > 1) axis->values[axis->n - 1] = high;
    return RS_OK;
}

/* A field of whole numbers takes the nearest ones, each once. */
static void round_axis(rs_grid_axis *axis)
{
    int64_t n = 0;
    for (int64_t i = 0; i < axis->n; i++) {
        double value = round(axis->values[i]);
        if (n == 0 || value != axis->values[n - 1]) axis->values[n++] = value;
    }
    axis->n = n;
}

/* One FIELD=...; *text goes on behind it. */
static rs_status parse_axis(rs_grid_axis *axis, const char **text, rs_error *err)
{
    const char *at = *text, *equals = strchr(at, '=');
    double low, high, n;
    if (!equals || equals == at || (size_t)(equals - at) >= sizeof axis->field)
        return bad(at, "there is no field", err);
    snprintf(axis->field, sizeof axis->field, "%.*s", (int)(equals - at), at);
    at = equals + 1;
    bool logarithmic = strncmp(at, "log:", 4) == 0;
    if (logarithmic) at += 4;
    if (!take_number(&low, &at) || *at++ != ':' || !take_number(&high, &at))
        return bad(*text, "there are no two numbers", err);
    if (high < low) return bad(*text, "the second number is below the first", err);
    n = high - low + 1;
    if (*at == ':') {
        at++;
        if (!take_number(&n, &at)) return bad(*text, "there is no number of values", err);
    } else if (logarithmic || !is_whole(low) || !is_whole(high)) {
        return bad(*text, "how many values there are is not said", err);
    }
    if (*at && *at != ',') return bad(*text, "something stands behind it", err);
    RS_TRY(fill_axis(axis, low, high, n, logarithmic, *text, err));
    if (rs_arch_field_is_whole(axis->field)) round_axis(axis);
    *text = *at ? at + 1 : at;
    return RS_OK;
}

rs_status rs_grid_parse(rs_grid *out, const char *text, rs_error *err)
{
    *out = (rs_grid){0};
    rs_status status = *text ? RS_OK : bad(text, "there is no field", err);
    for (const char *at = text; *at && status == RS_OK;) {
        if (out->n_axes == RS_GRID_AXES)
            status = bad(text, "a grid has two fields at most", err);
        else
            status = parse_axis(&out->axes[out->n_axes++], &at, err);
    }
    if (status == RS_OK && out->n_axes == 2 && strcmp(out->axes[0].field, out->axes[1].field) == 0)
        status = bad(text, "a field stands there twice", err);
    if (status != RS_OK) rs_grid_free(out);
    return status;
}
