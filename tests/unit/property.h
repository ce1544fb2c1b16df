/*
 * property.h: statements that must hold for every instance drawn. Include behind cmocka.h.
 *
 *     for (int t = property_start(400, 31); property_next(&t);) {
 *         rs_random random = property_random();
 *         ... asserts, property_worst(ratio) ...
 *     }
 *     property_holds(1);
 *
 * An instance hangs on its seed alone (31 + t here), and the program ends by printing number and
 * seed of each instance at which a test ended. The loop is left at its end or by a failure, never
 * by `break` or `return`.
 *
 * RS_TEST_MULTIPLIER in the environment, a whole number from 1 on, makes that many times as many
 * instances; the first ones stay what they are.
 */
#ifndef RS_TEST_PROPERTY_H
#define RS_TEST_PROPERTY_H

#include "base/random.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct property_state {
    const char *name; /* of the test whose loop runs; NULL: none does */
    int count, instance;
    uint64_t first_seed;
    double worst; /* the largest value that property_worst was given, and at which instance */
    int worst_instance;
} property_state;

static property_state running_property;

static inline uint64_t property_seed(void)
{
    return running_property.first_seed + (uint64_t)running_property.instance;
}

static inline void property_report(void)
{
    if (running_property.name)
        fprintf(stderr, "%s ended at instance %d of %d, seed %llu\n", running_property.name,
                running_property.instance, running_property.count,
                (unsigned long long)property_seed());
    running_property.name = NULL;
}

/* Times RS_TEST_MULTIPLIER. */
static inline int property_count(int count)
{
    const char *text = getenv("RS_TEST_MULTIPLIER");
    char *end;
    long factor = text && *text ? strtol(text, &end, 10) : 1;
    if (text && *text && (*end || factor < 1))
        fail_msg("RS_TEST_MULTIPLIER is '%s': it must be a whole number from 1 on", text);
    return factor > INT_MAX / count ? INT_MAX : count * (int)factor;
}

#define property_start(count, seed) property_open(__func__, count, seed)
static inline int property_open(const char *name, int count, uint64_t seed)
{
    static bool registered;
    if (!registered) atexit(property_report);
    registered = true;
    property_report();
    running_property =
        (property_state){.count = property_count(count), .first_seed = seed, .worst = -INFINITY};
    running_property.name = name;
    return -1;
}

/* False, and the loop counts as passed, behind the last instance. */
static inline bool property_next(int *instance)
{
    running_property.instance = ++*instance;
    if (*instance < running_property.count) return true;
    running_property.name = NULL;
    return false;
}

/* The instance's own random numbers. */
static inline rs_random property_random(void)
{
    return rs_random_new(property_seed(), running_property.first_seed);
}

/* 64 random bits of the instance (SplitMix64 of its seed). */
static inline uint64_t property_bits(void)
{
    uint64_t z = property_seed() * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Notes a value that must stay small; returns the largest until now. NaN is larger than all. */
static inline double property_worst(double value)
{
    if (value > running_property.worst || (isnan(value) && !isnan(running_property.worst))) {
        running_property.worst = value;
        running_property.worst_instance = running_property.instance;
    }
    return running_property.worst;
}

/* Behind the loop: no value was above `most`. */
static inline void property_holds(double most)
{
    if (!(running_property.worst <= most))
        fail_msg("%.17g is above %.17g at instance %d of %d, seed %llu", running_property.worst,
                 most, running_property.worst_instance, running_property.count,
                 (unsigned long long)running_property.first_seed +
                     (unsigned long long)running_property.worst_instance);
}

#endif
