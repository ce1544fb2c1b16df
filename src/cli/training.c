/* training.c: what standard error shows of a run that trains: a line a log, or on a terminal a few
 * lines that stay where they are, with a spark line of the loss. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POINTS = 512, LINES = 3 };

static struct {
    bool terminal, unicode, drawn;
    double loss[POINTS], accuracy[POINTS];
    int n;
    int64_t every; /* logs that make a point */
    int64_t seen;
} view;

/* Each point stands for twice as many logs once there is no room. */
static void keep_point(const rs_training_step *step)
{
    if (view.n == POINTS) {
        for (int i = 0; i < POINTS / 2; i++) {
            view.loss[i] = view.loss[2 * i];
            view.accuracy[i] = view.accuracy[2 * i];
        }
        view.n = POINTS / 2;
        view.every *= 2;
    }
    if (view.seen++ % view.every == 0) {
        view.loss[view.n] = step->loss;
        view.accuracy[view.n++] = step->accuracy;
    }
}

/* `width` characters of the points [n], from their least to their largest. */
static void spark(char *out, size_t size, const double *points, int n, int width)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
    double low = INFINITY, high = -INFINITY;
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(points[i])) low = fmin(low, points[i]), high = fmax(high, points[i]);
    for (int i = 0; i < width && i < n && low <= high; i++) {
        double value = points[n <= width ? i : (int)((double)i * (n - 1) / (width - 1))];
        int level = high > low ? (int)(7.999 * (value - low) / (high - low)) : 0;
        const char *bar = !isfinite(value) ? " " : (view.unicode ? bars : ascii)[level];
        if (at + strlen(bar) + 1 > size) return;
        memcpy(out + at, bar, strlen(bar) + 1);
        at += strlen(bar);
    }
}

static void write_left(char *out, size_t size, const rs_training_step *s)
{
    double rate = s->step > 0 ? s->seconds / (double)s->step : NAN;
    double left = rate * (double)(s->steps - s->step);
    out[0] = 0;
    if (isfinite(left) && s->step < s->steps)
        snprintf(out, size, ", %.*f %s left", left < 10 ? 1 : 0, left < 180 ? left : left / 60,
                 left < 180 ? "s" : "min");
}

static void draw(const rs_training_step *s)
{
    char loss[4 * 48 + 1], accuracy[4 * 48 + 1], left[64];
    spark(loss, sizeof loss, view.loss, view.n, 48);
    spark(accuracy, sizeof accuracy, view.accuracy, view.n, 48);
    write_left(left, sizeof left, s);
    if (view.drawn) fprintf(stderr, "\033[%dA", LINES);
    fprintf(stderr, "\033[Kstep %lld of %lld%s, %.0f tokens/s\n", (long long)s->step,
            (long long)s->steps, left, s->tokens_per_second);
    fprintf(stderr, "\033[Kloss     %-9.4g %s\n", s->loss, loss);
    if (isfinite(s->accuracy))
        fprintf(stderr, "\033[Kaccuracy %-9.4f %s\n", s->accuracy, accuracy);
    else
        fprintf(stderr, "\033[Kgradient %-9.4g\n", s->gradient_norm);
    view.drawn = true;
}

static void print_line(const rs_training_step *s)
{
    char accuracy[48] = "", eval[64] = "", left[64], loss[32] = "-";
    if (isfinite(s->loss)) snprintf(loss, sizeof loss, "%.4g", s->loss);
    char gradient[48] = "not finite";
    if (isfinite(s->gradient_norm)) snprintf(gradient, sizeof gradient, "%.3g", s->gradient_norm);
    if (isfinite(s->accuracy)) snprintf(accuracy, sizeof accuracy, "  accuracy %.4f", s->accuracy);
    if (isfinite(s->eval_loss)) snprintf(eval, sizeof eval, "  evaluation %.4g", s->eval_loss);
    write_left(left, sizeof left, s);
    fprintf(stderr, "step %lld/%lld  loss %s%s%s  gradient %s  %.0f tokens/s%s\n",
            (long long)s->step, (long long)s->steps, loss, accuracy, eval, gradient,
            s->tokens_per_second, left);
}

static void on_step(void *user, const rs_training_step *step)
{
    (void)user;
    keep_point(step);
    if (view.terminal)
        draw(step);
    else
        print_line(step);
    if (step->alarm) {
        cli_say("rankscope: alarm: %s", step->alarm);
        view.drawn = false;
    }
    fflush(stderr);
}

int cli_print_loader(const cli_args *args)
{
    rs_error err;
    char *text = NULL;
    if (rs_training_loader(&text, args->input, &args->training, &err) != RS_OK)
        return cli_fail(&err);
    fputs(text, stdout);
    free(text);
    return fflush(stdout) == 0 ? 0 : 1;
}

void cli_show_training(rs_training_settings *settings, const cli_args *args)
{
    if (args->quiet || settings->dry_run) return;
    view.terminal = isatty(STDERR_FILENO) && args->progress != 2;
    view.unicode = cli_has_unicode();
    view.every = 1;
    settings->logged = on_step;
    settings->call.progress = NULL; /* the view has what a bar would say */
}
