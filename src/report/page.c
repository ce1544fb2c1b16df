/* page.c: page.html inside the program. RS_PAGE_FILE is set by cmake/web.cmake. */
#include "report/page.h"

#include "base/embed.h"

RS_EMBED(rs_page_begin, rs_page_end, RS_PAGE_FILE);
