/* lambda_properties.h: a table of inequalities, attacked with search_ratio; and with one constant
 * wrong, which must be found out. Include behind cmocka.h. */
#ifndef RS_TEST_LAMBDA_PROPERTIES_H
#define RS_TEST_LAMBDA_PROPERTIES_H

#include "lambda_cases.h"

/* Slack of the long double oracle itself. */
static const double ORACLE = 1e-15;

typedef struct property {
    const char *name;
    ratio_function ratio;
    int starts, steps;
    double tight; /* the search must get at least this close to equality */
    rs_lambda_constant constant;
    double mutation; /* a factor on it that must be found out; 0: no constant, or tested by value */
} property;

static inline uint64_t seed_of(const property *p)
{
    uint64_t seed = 0x9e3779b97f4a7c15u;
    for (const char *c = p->name; *c; c++)
        seed = seed * 31 + (unsigned char)*c;
    return seed;
}

static inline void no_property_is_violated(const property *p, int n)
{
    int failures = 0;
    for (; n > 0; n--, p++) {
        searched all = search_ratio(p->ratio, seed_of(p), p->starts, p->steps, false);
        print_message("%-26s %8lld trials, largest left/right %.9f\n", p->name,
                      (long long)all.trials, all.largest);
        bool holds = all.broken == 0 && all.largest >= p->tight;
        if (!holds)
            print_error("%s: %lld violations, the worst from start %d, seed %llu\n", p->name,
                        (long long)all.broken, running_property.worst_instance,
                        (unsigned long long)seed_of(p) +
                            (unsigned long long)running_property.worst_instance);
        failures += !holds;
    }
    assert_int_equal(failures, 0);
}

static inline void each_wrong_constant_is_found_out(const property *p, int n)
{
    int failures = 0;
    for (; n > 0; n--, p++) {
        if (p->mutation == 0) continue;
        rs_lambda_scale_constant(p->constant, p->mutation);
        searched all = search_ratio(p->ratio, seed_of(p), p->starts, p->steps, true);
        rs_lambda_scale_constant(p->constant, 1);
        if (all.broken == 0) print_error("%s: not found out, %.9f\n", p->name, all.largest);
        failures += all.broken == 0;
    }
    assert_int_equal(failures, 0);
}

#endif
