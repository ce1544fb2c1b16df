/* output_live.c: see output_live.h. Everything here but claiming may run in a signal handler. */
#include "report/output_live.h"

#include "report/result.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* `lab run all` with tables and pictures takes some seventy; a checkpoint that is written (scan --write) has a
 * file a shard, the largest ones two hundred. */
enum { SLOTS = 1024, ABANDONED = -1 };

static struct {
    atomic_int kind;
    char name[RS_PATH_SIZE], target[RS_PATH_SIZE];
} live[SLOTS];

/* How many threads are between enter and leave, or ABANDONED. */
static atomic_int placing;

int rs_live_claim(void)
{
    for (int i = 0; i < SLOTS; i++) {
        int expected = RS_LIVE_FREE;
        if (atomic_compare_exchange_strong(&live[i].kind, &expected, RS_LIVE_CLAIMED)) return i;
    }
    return -1;
}

void rs_live_release(int slot)
{
    if (slot >= 0) atomic_store(&live[slot].kind, RS_LIVE_FREE);
}

void rs_live_set(int slot, rs_live_kind kind, const char *name, const char *target)
{
    atomic_store(&live[slot].kind, RS_LIVE_CLAIMED);
    memcpy(live[slot].name, name, strlen(name) + 1);
    if (target) memcpy(live[slot].target, target, strlen(target) + 1);
    atomic_store(&live[slot].kind, (int)kind);
}

void rs_live_enter(void)
{
    int now = atomic_load(&placing);
    do
        while (now == ABANDONED) {
            pause(); /* the handler in another thread ends the process */
            now = atomic_load(&placing);
        }
    while (!atomic_compare_exchange_weak(&placing, &now, now + 1));
}

void rs_live_leave(void)
{
    atomic_fetch_sub(&placing, 1);
}

bool rs_live_abandoned(void)
{
    return atomic_load(&placing) == ABANDONED;
}

bool rs_output_abandon(void)
{
    int kept = errno, idle = 0;
    if (!atomic_compare_exchange_strong(&placing, &idle, ABANDONED) && idle != ABANDONED)
        return false;
    for (int i = 0; i < SLOTS; i++) {
        int kind = atomic_load(&live[i].kind);
        if (kind == RS_LIVE_TEMPORARY || kind == RS_LIVE_NEW) unlink(live[i].name);
        if (kind == RS_LIVE_REPLACED) rename(live[i].name, live[i].target);
    }
    for (int i = SLOTS - 1; i >= 0; i--) /* one within another: the inner was made later */
        if (atomic_load(&live[i].kind) == RS_LIVE_FOLDER) rmdir(live[i].name);
    errno = kept;
    return true;
}
