/* task_points.c: convex hull, circle, and functions of every entry (docs/train.md, Tasks). */
#include "train/task_parts.h"

#include <math.h>
#include <string.h>

const char *const rs_entry_map_names[] = {"heaviside", "sigmoid", "sign", "absolute",
                                          "square",    "sine",    NULL};

/* ---- convex hull ---- */

rs_status rs_hull_shape(rs_task_shape *out, const rs_task_data *data, const char *where,
                        rs_error *err)
{
    if (data->length < 1 || !(data->side > 0) || !(data->shift >= 0))
        return rs_task_refuse(where, err,
                              "\"length\" is at least 1, \"side\" above 0, \"shift\" not below 0");
    *out = (rs_task_shape){.n_tok = data->length, .d_in = 2, .d_out = 2};
    return RS_OK;
}

/* Twice the area of the triangle, positive when it turns left. */
static double turn_of(const double *points, int32_t a, int32_t b, int32_t c)
{
    const double *o = points + 2 * a, *p = points + 2 * b, *q = points + 2 * c;
    return (p[0] - o[0]) * (q[1] - o[1]) - (p[1] - o[1]) * (q[0] - o[0]);
}

static bool is_before(const double *points, int32_t a, int32_t b)
{
    const double *p = points + 2 * a, *q = points + 2 * b;
    return p[0] < q[0] || (p[0] == q[0] && p[1] < q[1]);
}

/* One half of the hull: over the points in order, or against it. */
static int64_t add_chain(int32_t *chain, const double *points, const int32_t *order, int64_t n,
                         bool backwards)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t next = order[backwards ? n - 1 - i : i];
        while (count > 1 && turn_of(points, chain[count - 2], chain[count - 1], next) <= 0)
            count--;
        chain[count++] = next;
    }
    return count;
}

void rs_hull_labels(int32_t *labels, const double *points, int64_t n, int32_t *order)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i;
        for (; at > 0 && is_before(points, (int32_t)i, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = (int32_t)i;
    }
    memset(labels, 0, (size_t)n * sizeof *labels);
    for (int side = 0; side < 2; side++) {
        int64_t count = add_chain(order + n, points, order, n, side == 1);
        for (int64_t i = 0; i < count; i++)
            labels[order[n + i]] = 1;
    }
}

void rs_hull_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                    int64_t index)
{
    (void)index;
    const rs_task_data *data = &task->data;
    double shift[2];
    rs_random_normals(random, shift, 2);
    for (int64_t i = 0; i < 2 * data->length; i++)
        out->rows[i] = data->side * rs_random_uniform(random) + data->shift * shift[i % 2];
    rs_hull_labels(out->classes, out->rows, data->length, task->scratch);
}

/* ---- circle ---- */

rs_status rs_circle_shape(rs_task_shape *out, const rs_task_data *data, const char *where,
                          rs_error *err)
{
    if (data->angles < 4 || data->angles > INT32_MAX || !(data->radius > 0))
        return rs_task_refuse(where, err, "\"angles\" is at least 4, \"radius\" above 0");
    *out = (rs_task_shape){.n_tok = 2,
                           .d_in = 2,
                           .target = RS_TARGET_REALS,
                           .d_out = 2,
                           .train = data->angles / 2 - 1};
    return RS_OK;
}

static void add_point(double *point, const rs_task_data *data, int64_t at)
{
    double angle = 6.283185307179586476925286766559 * (double)at / (double)data->angles;
    point[0] += data->radius * cos(angle);
    point[1] += data->radius * sin(angle);
}

/* Sample i is points i and i + 499 of 1000: the released program's offset, one short of opposite. Its
 * training "with a skip" adds to a batch's points those of the batch before: a lag of 30 samples. */
void rs_circle_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                      int64_t index)
{
    (void)random;
    const rs_task_data *data = &task->data;
    int64_t offset = data->angles / 2 - 1;
    memset(out->rows, 0, 4 * sizeof *out->rows);
    memset(out->values, 0, 4 * sizeof *out->values);
    for (int64_t t = 0; t < 2; t++) {
        int64_t at = index + t * offset;
        add_point(out->rows + 2 * t, data, at);
        add_point(out->values + 2 * t, data, at + 1);
        if (data->lag > 0 && index >= data->lag) add_point(out->rows + 2 * t, data, at - data->lag);
    }
}

/* ---- functions of every entry ---- */

rs_status rs_entry_shape(rs_task_shape *out, const rs_task_data *data, const char *where,
                         rs_error *err)
{
    if (data->length < 1 || data->width < 1 || data->width > INT32_MAX || !(data->deviation > 0))
        return rs_task_refuse(where, err,
                              "\"length\" and \"width\" are at least 1, \"deviation\" is above 0");
    *out = (rs_task_shape){.n_tok = data->length,
                           .d_in = data->width,
                           .target = RS_TARGET_REALS,
                           .d_out = data->width};
    return RS_OK;
}

double rs_entry_value(rs_entry_map map, double x)
{
    switch (map) {
    case RS_MAP_SIGMOID:
        return 1 / (1 + exp(-20 * (x + 0.5)));
    case RS_MAP_SIGN:
        return (x > 0) - (x < 0);
    case RS_MAP_ABSOLUTE:
        return fabs(x);
    case RS_MAP_SQUARE:
        return x * x;
    case RS_MAP_SINE:
        return sin(3.1415926535897932384626433832795 * x);
    default:
        return x >= 0;
    }
}

void rs_entry_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                     int64_t index)
{
    (void)index;
    const rs_task_data *data = &task->data;
    size_t n = (size_t)(data->length * data->width);
    rs_random_normals(random, out->rows, n);
    for (size_t i = 0; i < n; i++) {
        out->rows[i] *= data->deviation;
        out->values[i] = rs_entry_value(data->map, out->rows[i]);
    }
}
