/*
 * palette.h: the looks of curves and the colours of cells.
 *
 * Any two looks differ in dash or marker, and their colours by at least 10 of CIEDE2000 after
 * Machado's simulation of deuteranopia, on white and on the page's dark ground alike
 * (tests/unit/test_palette.c).
 */
#ifndef RS_REPORT_PALETTE_H
#define RS_REPORT_PALETTE_H

#include <stddef.h>

enum { RS_LOOKS = 12, RS_DASHES = 4 };

typedef enum rs_marker {
    RS_MARKER_CIRCLE,
    RS_MARKER_SQUARE,
    RS_MARKER_TRIANGLE,
    RS_MARKER_DIAMOND,
    RS_MARKER_CROSS,
    RS_MARKER_DOWN
} rs_marker;

/* How a curve looks. A published curve has the dash `rs_published_dash` and hollow markers. */
typedef struct rs_look {
    const char *light, *dark; /* "#rrggbb" on white, on a dark page */
    rs_marker marker;
    double dash[RS_DASHES]; /* lengths of strokes and gaps, ended by 0; none: unbroken */
} rs_look;

/* Looks 2i and 2i + 1 have one hue, dark and light: a curve and its published one. */
extern const rs_look rs_looks[RS_LOOKS];
extern const double rs_published_dash[RS_DASHES];
/* The order in which curves take looks. */
extern const int rs_look_order[RS_LOOKS];
/* A marker's name in Vega. */
const char *rs_marker_name(rs_marker marker);

#define RS_COLOUR_NONE "#9aa0a6"      /* a cell without a value */
#define RS_COLOUR_CHANCE "#8b929a"    /* bands of chance, rules */
#define RS_COLOUR_RULE "#5c646d"      /* words beside them */
#define RS_COLOUR_HIGHLIGHT "#d81b60" /* stands out on every cell and ground */
#define RS_COLOUR_GROUND_DARK "#1b2027"

/* The colour at t in 0 (dark) to 1 (light) of the ramp of cells: "#rrggbb" and a NUL. */
void rs_ramp(char out[8], double t);

#endif
