/* test_kept_memory.c: memory that calls leave to each other: whole, their own, and no more of it
 * than one call has held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/kept_memory.h"
#include "base/memory.h"
#include "property.h"

#include <string.h>

static void a_block_serves_again(void **state)
{
    (void)state;
    rs_kept_memory w = {0};
    void *first = rs_kept_take(&w, 1000), *second = rs_kept_take(&w, 100);
    assert_non_null(first);
    assert_non_null(second);
    rs_kept_give(&w, first);
    rs_kept_give(&w, second);
    assert_int_equal(w.kept, 1100);
    assert_ptr_equal(rs_kept_take(&w, 60), second); /* the smallest that fits */
    assert_ptr_equal(rs_kept_take(&w, 700), first);
    rs_kept_give(&w, first);
    void *other = rs_kept_take(&w, 400); /* more than half of 1000 would be idle */
    assert_int_equal(w.taken, 500);
    assert_int_equal(w.kept, 0); /* and 1000 beside them are more than was ever in use */
    rs_kept_give(&w, other);
    rs_kept_give(&w, second);
    rs_kept_give(&w, NULL);
    rs_kept_close(&w);
    assert_int_equal(w.n, 0);
}

static void without_kept_memory_it_is_plain(void **state)
{
    (void)state;
    void *data = rs_kept_take(NULL, 10);
    assert_non_null(data);
    rs_kept_give(NULL, data);
    rs_kept_give(NULL, NULL);
}

enum { HELD = 200, LARGEST = 3000 }; /* more at once than there is room to note */

typedef struct held {
    unsigned char *data;
    size_t bytes;
    unsigned char mark;
} held;

static void give(rs_kept_memory *w, held *h)
{
    for (size_t k = 0; k < h->bytes; k++)
        assert_int_equal(h->data[k], h->mark); /* nobody else wrote to it */
    rs_kept_give(w, h->data);
    *h = (held){0};
}

static void blocks_are_their_takers_own(void **state)
{
    (void)state;
    for (int t = property_start(200, 61000000); property_next(&t);) {
        rs_random random = property_random();
        rs_kept_memory w = {0};
        held all[HELD] = {{0}};
        size_t most = 0, now = 0; /* bytes asked for */
        for (int i = 0; i < 2000; i++) {
            held *h = &all[(size_t)(rs_random_uniform(&random) * HELD)];
            if (h->data) {
                now -= h->bytes;
                give(&w, h);
            } else {
                h->bytes = (size_t)(rs_random_uniform(&random) * LARGEST);
                h->mark = (unsigned char)i;
                h->data = rs_kept_take(&w, h->bytes);
                assert_non_null(h->data);
                memset(h->data, h->mark, h->bytes);
                now += h->bytes;
            }
            most = now > most ? now : most;
            assert_true(w.taken + w.kept <= w.most && w.most <= 2 * most + HELD);
        }
        for (int i = 0; i < HELD; i++)
            if (all[i].data) give(&w, &all[i]);
        assert_int_equal(w.taken, 0);
        rs_kept_close(&w);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_serves_again),
        cmocka_unit_test(without_kept_memory_it_is_plain),
        cmocka_unit_test(blocks_are_their_takers_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
