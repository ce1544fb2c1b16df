/*
 * picture.h: a figure as a file that stands by itself, dark words on white, of a size for papers.
 * The same figure gives the same bytes.
 */
#ifndef RS_REPORT_PICTURE_H
#define RS_REPORT_PICTURE_H

#include "report/result.h"

rs_status rs_write_svg(rs_buffer *out, const rs_result *result, size_t figure, rs_error *err);
/* Twice the pixels of the SVG. RS_E_BAD_OPTION where PNG cannot be drawn. */
rs_status rs_write_png(rs_buffer *out, const rs_result *result, size_t figure, rs_error *err);

#endif
