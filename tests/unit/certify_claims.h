/* certify_claims.h: what has to hold of any result of `certify`: measured diameters within their
 * bounds, and what hangs on a condition marked. Include behind cmocka.h. */
#ifndef RS_TEST_CERTIFY_CLAIMS_H
#define RS_TEST_CERTIFY_CLAIMS_H

#include "certify_support.h"

/* A chain speaks of all samples: null where one has none, no smaller than any that has one. */
static inline void check_chains(const rs_result *result, const char *name)
{
    const rs_table *chains = rs_result_table(result, "chains");
    const rs_table *bounds = rs_result_table(result, "bounds");
    for (size_t row = 0; row < rs_table_rows(chains); row++) {
        int64_t source = whole(chains, row, "source_layer"), layer = whole(chains, row, "layer");
        double largest = cell(chains, row, "log10_certified");
        if (isnan(largest)) continue;
        for (size_t k = 0; k < rs_table_rows(bounds); k++) {
            int64_t at = whole(bounds, k, "layer");
            if (source > 0 && at == source - 1 && whole(bounds, k, "at_floor") == 1)
                fail_msg("%s: chain from %d although a state is rounding", name, (int)source);
            double from_input = cell(bounds, k, "log10_certified_from_input");
            if (source > 0 || at != layer) continue;
            bool none = isnan(from_input) && cell(bounds, k, "certified_from_input") != 0;
            if (none || largest < from_input - 1e-12)
                fail_msg("%s: chain to %d is not of every sample", name, (int)layer);
        }
    }
}

/* Every measured diameter within what is proved of it; the float64 pass errs by rounding. */
static inline int64_t check_bounds(const rs_result *result, const char *name)
{
    const rs_table *bounds = rs_result_table(result, "bounds");
    int64_t proved = 0;
    assert_non_null(bounds);
    check_chains(result, name);
    for (size_t row = 0; row < rs_table_rows(bounds); row++) {
        double measured = cell(bounds, row, "measured_diameter");
        double room = 1e-11 * (measured + cell(bounds, row, "entering_diameter") + 1);
        const char *const upper[] = {"certified_one_layer", "certified_from_input",
                                     "certified_diameter"};
        for (size_t k = 0; k < 3; k++) {
            double at_most = cell(bounds, row, upper[k]);
            if (!isnan(at_most) && !(measured <= at_most + room))
                fail_msg("%s, row %zu: %s %g, measured %g", name, row, upper[k], at_most, measured);
            proved += !isnan(at_most);
        }
        double at_least = cell(bounds, row, "certified_at_least");
        if (!isnan(at_least) && !(measured >= at_least - room))
            fail_msg("%s, row %zu: at least %g, measured %g", name, row, at_least, measured);
        double composite = cell(bounds, row, "residual_1inf");
        double recursion = cell(bounds, row, "log10_recursion");
        if (!isnan(recursion) && composite > 1e-10)
            assert_true(log10(composite) <= recursion + 1e-9);
        recursion = cell(bounds, row, "log10_recursion_one_layer");
        if (!isnan(recursion) && composite > 1e-10)
            assert_true(log10(composite) <= recursion + 1e-9);
    }
    return proved;
}

/* Every certified number says whether it hangs on a condition; what does is in no sentence that
 * speaks of proof, and gone under --rigorous. */
static inline void check_conditions(const rs_result *result, bool rigorous)
{
    static const struct {
        const char *table, *column;
    } twins[] = {{"bounds", "certified_diameter"},
                 {"bounds", "certified_one_layer"},
                 {"bounds", "certified_from_input"},
                 {"bounds", "certified_at_least"},
                 {"bounds", "recursion"},
                 {"bounds", "recursion_one_layer"},
                 {"lambda", "lambda_certified"},
                 {"lambda", "lambda_certified_negative"},
                 {"lambda", "kept_now_error"},
                 {"lambda", "demanded_by_theorem_a"},
                 {"lambda", "demanded_by_theorem_a_layer"},
                 {"lambda", "demanded_by_theorem_b"},
                 {"lambda", "demanded_by_theorem_d"},
                 {"lambda", "weights_only_gain"},
                 {"lambda", "over_smoothing_v"},
                 {"lambda", "mlp_weights_only_gain"},
                 {"lambda", "demanded_for_any_input"},
                 {"lambda", "kept_for_any_input"},
                 {"lambda", "theorem_d_kept"}};
    int64_t conditional = 0, proved = 0;
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        const rs_table *table = rs_result_table(result, twins[i].table);
        char name[80];
        snprintf(name, sizeof name, "%s_conditional", twins[i].column);
        for (size_t row = 0; row < rs_table_rows(table); row++) {
            int64_t twin = whole(table, row, name);
            if (isnan(cell(table, row, twins[i].column))) continue;
            if (twin != 0 && twin != 1) fail_msg("row %zu: no %s", row, name);
            conditional += twin == 1;
            proved += twin == 0 && strcmp(twins[i].table, "bounds") == 0;
        }
    }
    assert_true(!rigorous || conditional == 0);
    if (!conditional || proved) return;
    static const char *const words[] = {"prov", "certif"};
    for (size_t i = 0; i < rs_result_finding_count(result); i++) {
        const rs_finding *f = rs_result_finding_at(result, i);
        bool denies = strstr(f->message, "not proved") || strstr(f->message, "is proved to keep") ||
                      strcmp(f->code, "bound_vacuous") == 0 ||
                      strcmp(f->code, "no_certificate") == 0;
        for (size_t k = 0; k < 2; k++)
            if (!denies && strstr(f->message, words[k])) fail_msg("%s: %s", f->code, f->message);
    }
}

#endif
