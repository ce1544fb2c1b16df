/* palette.c: see palette.h. */
#include "report/palette.h"

#include <math.h>
#include <stdio.h>

/* Found by a search for twelve colours with the greatest least difference to a reader with
 * deuteranopia, each with a contrast of at least 3 on its ground. */
const rs_look rs_looks[RS_LOOKS] = {
    {"#2a52a0", "#2187f8", RS_MARKER_CIRCLE, {0}},
    {"#4692fa", "#94befa", RS_MARKER_CIRCLE, {3, 3}},
    {"#bc330f", "#c26146", RS_MARKER_SQUARE, {7, 3}},
    {"#bc8365", "#fab18c", RS_MARKER_SQUARE, {0}},
    {"#136a4e", "#1aa37d", RS_MARKER_TRIANGLE, {7, 3, 1.5, 3}},
    {"#38a386", "#8bdebf", RS_MARKER_TRIANGLE, {0}},
    {"#401a6c", "#a876c0", RS_MARKER_DIAMOND, {3, 3}},
    {"#b17abe", "#e4c3eb", RS_MARKER_DIAMOND, {12, 4}},
    {"#634e00", "#bc9206", RS_MARKER_CROSS, {12, 4}},
    {"#ad8b04", "#f4da55", RS_MARKER_CROSS, {7, 3}},
    {"#30363d", "#8a939c", RS_MARKER_DOWN, {12, 4, 3, 4}},
    {"#767f8c", "#f2f6f9", RS_MARKER_DOWN, {0}},
};
const double rs_published_dash[RS_DASHES] = {1.5, 3.5};
const int rs_look_order[RS_LOOKS] = {0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11};

const char *rs_marker_name(rs_marker marker)
{
    static const char *const names[] = {"circle",  "square", "triangle-up",
                                        "diamond", "cross",  "triangle-down"};
    return names[marker];
}

/* The ramp known as viridis at nine places. */
static const unsigned char ramp[][3] = {
    {0x44, 0x01, 0x54}, {0x47, 0x2d, 0x7b}, {0x3b, 0x52, 0x8b},
    {0x2c, 0x72, 0x8e}, {0x21, 0x91, 0x8c}, {0x28, 0xae, 0x80},
    {0x5e, 0xc9, 0x62}, {0xad, 0xdc, 0x30}, {0xfd, 0xe7, 0x25},
};
enum { RAMP = sizeof ramp / sizeof *ramp };

void rs_ramp(char out[8], double t)
{
    double place = fmin(fmax(t, 0), 1) * (RAMP - 1);
    int i = place >= RAMP - 1 ? RAMP - 2 : (int)place;
    unsigned rgb[3];
    for (int c = 0; c < 3; c++)
        rgb[c] = (unsigned)lround(ramp[i][c] + (place - i) * (ramp[i + 1][c] - ramp[i][c])) & 255U;
    snprintf(out, 8, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
}
