/* forward_workspace.c: memory that a runner keeps from pass to pass, and its rotation tables. */
#include "engine/tape.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

rs_status rs_run_grow(rs_runner *run, rs_work_buffer *store, size_t n, size_t size,
                      const char *what, rs_error *err)
{
    size_t bytes;
    if (!rs_size_mul(n, size, &bytes)) return rs_fail_memory(err, what, SIZE_MAX);
    if (store->data && bytes <= store->bytes) return RS_OK;
    rs_kept_give(run->context->kept, store->data);
    run->held -= store->bytes;
    *store = (rs_work_buffer){.data = rs_kept_take(run->context->kept, bytes)};
    if (!store->data) return rs_fail_memory(err, what, bytes);
    store->bytes = bytes;
    run->held += bytes;
    if (run->held > run->peak) run->peak = run->held;
    return RS_OK;
}

rs_work_buffer *rs_run_room(rs_runner *run, rs_room room)
{
    bool kept = run->record && run->record->keeps >> room & 1u;
    return kept ? &run->record->kept[room] : &run->rooms[room];
}

rs_status rs_run_grow_threads(rs_runner *run, size_t n, size_t size, const char *what,
                              rs_error *err)
{
    for (int i = 0; i < run->threads; i++)
        RS_TRY(rs_run_grow(run, &run->thread_rooms[i], n, size, what, err));
    return RS_OK;
}

rs_status rs_run_state(rs_runner *run, rs_state *state, int64_t rows, int64_t cols, rs_error *err)
{
    size_t count;
    if (!rs_size_mul((size_t)rows, (size_t)cols, &count))
        return rs_fail_memory(err, "activations", SIZE_MAX);
    RS_TRY(rs_run_grow(run, &state->store, count, run->ops->size, "activations", err));
    state->rows = rows;
    state->cols = cols;
    return RS_OK;
}

static bool same_law(const rs_rope_op *a, const rs_rope_op *b)
{
    return a->law == b->law && a->dims == b->dims && a->theta == b->theta &&
           a->factor == b->factor && a->low_freq_factor == b->low_freq_factor &&
           a->high_freq_factor == b->high_freq_factor && a->beta_fast == b->beta_fast &&
           a->beta_slow == b->beta_slow && a->attention_factor == b->attention_factor &&
           a->original_positions == b->original_positions && a->truncate == b->truncate &&
           a->divisors == b->divisors;
}

static void fill_rotation(rs_rotation *table, const double *inverse, double factor, bool f32)
{
    int64_t pairs = table->rope.dims / 2, count = table->n * pairs;
    for (int64_t p = 0; p < table->n; p++)
        for (int64_t t = 0; t < pairs; t++) {
            double angle = (double)p * inverse[t], c = cos(angle) * factor, s = sin(angle) * factor;
            int64_t at = p * pairs + t;
            if (f32) {
                ((float *)table->store.data)[at] = (float)c;
                ((float *)table->store.data)[count + at] = (float)s;
            } else {
                ((double *)table->store.data)[at] = c;
                ((double *)table->store.data)[count + at] = s;
            }
        }
}

rs_status rs_run_rotation(rs_runner *run, const rs_rotation **out, const rs_rope_op *rope,
                          int64_t length, int64_t n, rs_error *err)
{
    int64_t law_n = rs_rope_own_length(rope, length);
    for (int i = 0; i < RS_ROTATIONS; i++) {
        rs_rotation *table = &run->rotations[i];
        if (table->n >= n && table->law_n == law_n && same_law(&table->rope, rope)) {
            *out = table;
            return RS_OK;
        }
    }
    rs_rotation *table = &run->rotations[run->next_rotation];
    size_t pairs = (size_t)rope->dims / 2;
    table->n = 0;
    RS_TRY(
        rs_run_grow(run, &table->store, 2 * pairs * (size_t)n, run->ops->size, "rotations", err));
    double *inverse = rs_malloc(pairs, sizeof *inverse), factor = 1;
    if (!inverse) return rs_fail_memory(err, "rotations", pairs * sizeof *inverse);
    rs_rope_frequencies(inverse, &factor, rope, length);
    table->rope = *rope;
    table->n = n;
    table->law_n = law_n;
    fill_rotation(table, inverse, factor, run->ops->size == sizeof(float));
    rs_free(inverse);
    run->next_rotation = (run->next_rotation + 1) % RS_ROTATIONS;
    *out = table;
    return RS_OK;
}

void rs_run_release(rs_runner *run)
{
    rs_state *states[] = {&run->x,      &run->normed, &run->branch_out,
                          &run->joined, &run->mixed,  &run->wide};
    rs_kept_memory *memory = run->context->kept;
    rs_tape_close(run);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        rs_kept_give(memory, states[i]->store.data);
    rs_kept_give(memory, run->spread_begin.data);
    rs_kept_give(memory, run->picked_store.data);
    rs_kept_give(memory, run->read.data);
    for (int i = 0; i < RS_ROOMS; i++)
        rs_kept_give(memory, run->rooms[i].data);
    for (int i = 0; run->thread_rooms && i < run->threads; i++)
        rs_kept_give(memory, run->thread_rooms[i].data);
    rs_free(run->thread_rooms);
    for (int i = 0; i < RS_ROTATIONS; i++)
        rs_kept_give(memory, run->rotations[i].store.data);
    rs_free(run);
}
