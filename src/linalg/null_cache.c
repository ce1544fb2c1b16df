/* null_cache.c: null models by shape, so that none is drawn twice. */
#include "base/memory.h"
#include "linalg/null_model.h"

struct rs_null_entry {
    int64_t m, n, r;
    uint64_t seed;
    rs_null_model *model;
};

rs_status rs_null_cache_get(const rs_null_model **out, rs_null_cache *cache, int64_t m, int64_t n,
                            int64_t r, uint64_t seed, rs_error *err)
{
    for (size_t i = 0; i < cache->n; i++) {
        const struct rs_null_entry *e = &cache->entries[i];
        if (e->m != m || e->n != n || e->r != r || e->seed != seed) continue;
        *out = e->model;
        return RS_OK;
    }
    if (!RS_GROW(cache->entries, cache->n, cache->capacity))
        return rs_fail_memory(err, "null model", 0);
    rs_null_model *model = rs_calloc(1, sizeof *model);
    if (!model) return rs_fail_memory(err, "null model", sizeof *model);
    rs_status status = rs_null_model_new(model, m, n, r, seed, err);
    if (status != RS_OK) {
        rs_free(model);
        return status;
    }
    cache->entries[cache->n++] = (struct rs_null_entry){m, n, r, seed, model};
    *out = model;
    return RS_OK;
}

void rs_null_cache_close(rs_null_cache *cache)
{
    for (size_t i = 0; i < cache->n; i++) {
        rs_null_model_free(cache->entries[i].model);
        rs_free(cache->entries[i].model);
    }
    rs_free(cache->entries);
    *cache = (rs_null_cache){0};
}
