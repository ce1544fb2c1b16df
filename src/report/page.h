/* page.h: the report page (web/), bundled at build time and embedded by cmake/web.cmake. */
#ifndef RS_REPORT_PAGE_H
#define RS_REPORT_PAGE_H

/* The bytes of page.html, from the first to before rs_page_end. Not terminated by a NUL. */
extern const char rs_page_begin[];
extern const char rs_page_end[];

#endif
