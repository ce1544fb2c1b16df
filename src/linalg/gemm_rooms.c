/* gemm_rooms.c: rooms do not come from base/memory.h: a refusal changes no result and is no failure of a
 * command's. */
#include "linalg/gemm_rooms.h"

#include "linalg/gemm.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

enum { ROOMS = 256, KINDS = 2 };
/* Each has a line of the cache, which threads would else take from one another at every product. */
static struct {
    _Alignas(64) atomic_flag taken;
    void *memory;
} rooms[KINDS][ROOMS];
static const size_t bytes_of[KINDS] = {
    [RS_GEMM_OWN] = RS_GEMM_ROOM, [RS_GEMM_SHARED] = RS_GEMM_TEAM_ROOM};
static atomic_bool refuses[KINDS];

/* The room that this thread had last. */
static _Thread_local int last_room[KINDS];

void *rs_gemm_take_room(rs_gemm_room kind)
{
    if (atomic_load_explicit(&refuses[kind], memory_order_relaxed)) return NULL;
    for (int i = 0; i < ROOMS; i++) {
        int at = (last_room[kind] + i) % ROOMS;
        if (atomic_flag_test_and_set_explicit(&rooms[kind][at].taken, memory_order_acquire))
            continue;
        if (!rooms[kind][at].memory) rooms[kind][at].memory = aligned_alloc(64, bytes_of[kind]);
        last_room[kind] = at;
        if (rooms[kind][at].memory) return rooms[kind][at].memory;
        atomic_flag_clear_explicit(&rooms[kind][at].taken, memory_order_release);
        return NULL;
    }
    return NULL;
}

void rs_gemm_leave_room(rs_gemm_room kind)
{
    atomic_flag_clear_explicit(&rooms[kind][last_room[kind]].taken, memory_order_release);
}

void rs_gemm_refuse_rooms(rs_gemm_room kind, bool refused)
{
    atomic_store_explicit(&refuses[kind], refused, memory_order_relaxed);
}

__attribute__((destructor)) static void free_rooms(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < ROOMS; i++)
            if (!atomic_flag_test_and_set_explicit(&rooms[kind][i].taken, memory_order_acquire)) {
                free(rooms[kind][i].memory);
                rooms[kind][i].memory = NULL;
                atomic_flag_clear_explicit(&rooms[kind][i].taken, memory_order_release);
            }
}
