/* predict_depth.c: the deepest stack of the same kind that has the same verdict, by theory. */
#include "predict/predict_parts.h"

#include "base/memory.h"

#include <math.h>

/* Layers that one search may run, where states are two numbers and where they are a matrix. */
enum { LAYERS = 16384, MASKED_LAYERS = 144, DEEPEST = 4096 };

static int64_t budget_of(const rs_predict_run *run)
{
    rs_formula formula = run->theory[0].backward;
    bool masked = formula == RS_FORMULA_GRAM_BACKWARD, turned = false;
    for (int32_t l = 0; l <= run->forecast.n_layers; l++) {
        turned |= run->theory[l].forward == RS_FORMULA_GRAM_TURNED;
        masked |= run->theory[l].forward == RS_FORMULA_GRAM || turned;
    }
    if (!masked) return LAYERS;
    double n = (double)run->design->input.n / 128, work = n * n * (turned ? n : 1);
    return (int64_t)fmin(LAYERS, MASKED_LAYERS / fmax(work, 1e-3));
}

static rs_status verdict_at(rs_predict_verdict *out, const rs_predict_run *run, int64_t depth,
                            rs_error *err)
{
    rs_forecast f;
    bool made;
    const rs_predict_field field = {"depth", (double)depth};
    *out = RS_PREDICT_UNKNOWN;
    RS_TRY(rs_predict_changed(&f, &made, run, &field, 1, err));
    if (made) *out = f.found.verdict;
    rs_forecast_free(&f);
    return RS_OK;
}

/* Doubles the depth while the verdict stays, then halves the interval in which it changes. */
rs_status rs_predict_reach_of(rs_predict_reach *out, const rs_predict_run *run, rs_error *err)
{
    rs_predict_verdict same = run->forecast.found.verdict, at = same;
    int64_t good = run->forecast.n_layers, bad = 0, budget = budget_of(run);
    *out = (rs_predict_reach){.then = RS_PREDICT_UNKNOWN};
    if (same == RS_PREDICT_UNKNOWN || good < 1) {
        out->why = "theory has no verdict";
        return RS_OK;
    }
    if (!rs_predict_can_change(run)) {
        out->why = rs_predict_fixed_because(run);
        return RS_OK;
    }
    while (!bad) {
        int64_t next = good * 2;
        if (next > DEEPEST || next > budget) break;
        budget -= next;
        RS_TRY(verdict_at(&at, run, next, err));
        if (at == RS_PREDICT_UNKNOWN) break;
        if (at != same) {
            bad = next;
            out->then = at;
        } else {
            good = next;
        }
    }
    while (bad - good > 1 && bad - good > good / 32) {
        int64_t middle = (good + bad) / 2;
        if (middle > budget) break;
        budget -= middle;
        RS_TRY(verdict_at(&at, run, middle, err));
        if (at == same) {
            good = middle;
        } else {
            bad = middle;
            out->then = at;
        }
    }
    out->deepest = good;
    out->tried = bad ? bad : good;
    out->ends = bad != 0;
    return RS_OK;
}
