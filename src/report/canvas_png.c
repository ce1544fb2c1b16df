/*
 * canvas_png.c: a picture as PNG, drawn by Cairo.
 *
 * Cairo is loaded when a PNG is asked for and not before: linked, it would bring a dozen libraries
 * of window systems into every run and into every program that uses the library. RS_CAIRO is set by
 * cmake/cairo.cmake where its header was found.
 */
#include "report/canvas.h"

#define HINT_SVG "use --svg, which needs nothing"

#ifndef RS_CAIRO

rs_status rs_canvas_png_ready(rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, "--png",
                   HINT_SVG "; or install libcairo2-dev and build "
                            "again",
                   "this rankscope was built without Cairo, which draws PNG");
}

const char *rs_canvas_png_version(void)
{
    return NULL;
}

rs_status rs_canvas_png(rs_canvas *canvas, rs_buffer *out, double width, double height,
                        double scale, rs_error *err)
{
    (void)canvas, (void)out, (void)width, (void)height, (void)scale;
    return rs_canvas_png_ready(err);
}

rs_status rs_canvas_png_end(rs_canvas *canvas, rs_error *err)
{
    (void)canvas;
    return rs_canvas_png_ready(err);
}

#else

#include <cairo.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* What is used of Cairo: X(its function). */
#define FUNCTIONS(X)                                                                               \
    X(cairo_image_surface_create)                                                                  \
    X(cairo_surface_destroy)                                                                       \
    X(cairo_surface_write_to_png_stream)                                                           \
    X(cairo_create)                                                                                \
    X(cairo_destroy)                                                                               \
    X(cairo_status)                                                                                \
    X(cairo_scale)                                                                                 \
    X(cairo_move_to)                                                                               \
    X(cairo_line_to)                                                                               \
    X(cairo_close_path)                                                                            \
    X(cairo_new_path)                                                                              \
    X(cairo_arc)                                                                                   \
    X(cairo_set_source_rgba)                                                                       \
    X(cairo_fill_preserve)                                                                         \
    X(cairo_stroke)                                                                                \
    X(cairo_set_line_width)                                                                        \
    X(cairo_set_line_join)                                                                         \
    X(cairo_set_dash)                                                                              \
    X(cairo_select_font_face)                                                                      \
    X(cairo_set_font_size)                                                                         \
    X(cairo_text_extents)                                                                          \
    X(cairo_show_text)                                                                             \
    X(cairo_save)                                                                                  \
    X(cairo_restore)                                                                               \
    X(cairo_translate)                                                                             \
    X(cairo_rotate)                                                                                \
    X(cairo_get_target)                                                                            \
    X(cairo_version_string)

#define MEMBER(name) __typeof__(name) *name;
static struct {
    FUNCTIONS(MEMBER)
    bool loaded;
    char why[200];
} cairo;

/* The library stays: fonts that it has read hang on it. */
static void load(void)
{
#ifdef __APPLE__
    static const char name[] = "libcairo.2.dylib";
#else
    static const char name[] = "libcairo.so.2";
#endif
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
    void *found;
#define LOAD(function)                                                                             \
    found = library ? dlsym(library, #function) : NULL;                                            \
    all = all && found;                                                                            \
    memcpy(&cairo.function, &found, sizeof found);
    FUNCTIONS(LOAD)
    const char *why = all ? NULL : dlerror();
    if (!all) snprintf(cairo.why, sizeof cairo.why, "%s", why ? why : "a function is missing");
    cairo.loaded = all;
}

rs_status rs_canvas_png_ready(rs_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (cairo.loaded) return RS_OK;
    return rs_fail(err, RS_E_BAD_OPTION, "--png", HINT_SVG "; or install libcairo2",
                   "Cairo, which draws PNG, cannot be loaded: %s", cairo.why);
}

const char *rs_canvas_png_version(void)
{
    return rs_canvas_png_ready(NULL) == RS_OK ? cairo.cairo_version_string() : NULL;
}

static void set_colour(cairo_t *to, const char *colour, double opacity)
{
    unsigned rgb[3] = {0, 0, 0};
    sscanf(colour, "#%2x%2x%2x", &rgb[0], &rgb[1], &rgb[2]);
    cairo.cairo_set_source_rgba(to, rgb[0] / 255.0, rgb[1] / 255.0, rgb[2] / 255.0, opacity);
}

/* Fills and strokes the path that stands. */
static void draw(cairo_t *to, const rs_pen *pen)
{
    int n = 0;
    if (pen->fill) {
        set_colour(to, pen->fill, pen->opacity > 0 ? pen->opacity : 1);
        cairo.cairo_fill_preserve(to);
    }
    if (pen->stroke) {
        while (pen->dash && n < 4 && pen->dash[n] > 0)
            n++;
        cairo.cairo_set_dash(to, pen->dash, n, 0);
        set_colour(to, pen->stroke, 1);
        cairo.cairo_set_line_width(to, pen->width);
        cairo.cairo_stroke(to);
    }
    cairo.cairo_new_path(to);
}

static void path(rs_canvas *canvas, const rs_point *points, size_t n, bool closed,
                 const rs_pen *pen)
{
    cairo_t *to = canvas->own;
    for (size_t i = 0; i < n; i++)
        (i ? cairo.cairo_line_to : cairo.cairo_move_to)(to, points[i].x, points[i].y);
    if (closed) cairo.cairo_close_path(to);
    draw(to, pen);
}

static void disc(rs_canvas *canvas, rs_point at, double radius, const rs_pen *pen)
{
    cairo.cairo_new_path(canvas->own);
    cairo.cairo_arc(canvas->own, at.x, at.y, radius, 0, 6.283185307179586);
    draw(canvas->own, pen);
}

static void words(rs_canvas *canvas, const rs_words *w)
{
    cairo_t *to = canvas->own;
    cairo_text_extents_t extents;
    cairo.cairo_select_font_face(to, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                                 w->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo.cairo_set_font_size(to, w->size);
    cairo.cairo_text_extents(to, w->text, &extents);
    double back = w->anchor == RS_ANCHOR_START    ? 0
                  : w->anchor == RS_ANCHOR_MIDDLE ? extents.x_advance / 2
                                                  : extents.x_advance;
    cairo.cairo_save(to);
    cairo.cairo_translate(to, w->at.x, w->at.y);
    if (w->upwards) cairo.cairo_rotate(to, -1.5707963267948966);
    set_colour(to, w->colour, 1);
    cairo.cairo_move_to(to, -back, 0);
    cairo.cairo_show_text(to, w->text);
    cairo.cairo_new_path(to);
    cairo.cairo_restore(to);
}

rs_status rs_canvas_png(rs_canvas *canvas, rs_buffer *out, double width, double height,
                        double scale, rs_error *err)
{
    RS_TRY(rs_canvas_png_ready(err));
    cairo_surface_t *surface = cairo.cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, (int)ceil(width * scale), (int)ceil(height * scale));
    cairo_t *to = cairo.cairo_create(surface);
    *canvas = (rs_canvas){.path = path, .disc = disc, .words = words, .out = out, .own = to};
    cairo.cairo_surface_destroy(surface); /* `to` holds it */
    if (cairo.cairo_status(to) != CAIRO_STATUS_SUCCESS) {
        cairo.cairo_destroy(to);
        return rs_fail_memory(err, "PNG", (size_t)(width * height * scale * scale * 4));
    }
    cairo.cairo_scale(to, scale, scale);
    cairo.cairo_set_line_join(to, CAIRO_LINE_JOIN_ROUND);
    return RS_OK;
}

static cairo_status_t take(void *user, const unsigned char *bytes, unsigned length)
{
    rs_buffer *out = user;
    rs_buffer_append(out, (const char *)bytes, length);
    return out->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

rs_status rs_canvas_png_end(rs_canvas *canvas, rs_error *err)
{
    cairo_t *to = canvas->own;
    cairo_status_t status = cairo.cairo_status(to);
    if (status == CAIRO_STATUS_SUCCESS)
        status =
            cairo.cairo_surface_write_to_png_stream(cairo.cairo_get_target(to), take, canvas->out);
    cairo.cairo_destroy(to);
    return status == CAIRO_STATUS_SUCCESS ? RS_OK : rs_fail_memory(err, "PNG", 0);
}

#endif
