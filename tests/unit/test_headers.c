/* test_headers.c: every header of src/ and the public one in one file (cmake/headers.cmake lists
 * them). That this compiles is what is tested: no name means two things. */
#include "every_header.h"

int main(void)
{
    return 0;
}
