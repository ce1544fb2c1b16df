/* hold_threads.c: linked into the unit tests. They call functions below rankscope.h, which rely on
 * BLAS being held to one thread; only test_threads_held.c does without. */
#include "linalg/threads.h"

__attribute__((constructor)) static void hold_threads(void)
{
    rs_threads_hold();
}
