/* progress.c: interruption, the clock, and the progress bar on standard error. */
#include "cli/cli.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

/* The first signal asks the work to stop; a second one does not wait for it. */
static void on_signal(int number)
{
    (void)number;
    if (interrupted) {
        rs_output_abandon();
        _exit(130);
    }
    interrupted = 1;
}

void cli_install_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A file over the size limit is then a failed write with a message, not a death. */
    signal(SIGXFSZ, SIG_IGN);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

/* ---- the bar ---- */

static struct {
    bool enabled, always, shown;
    double begun, last;
    char phase[32];
} bar;

static void draw(const char *phase, uint64_t done, uint64_t total, const char *unit, double elapsed)
{
    double fraction = total ? (double)done / (double)total : 0.0;
    double rate = elapsed > 0 ? (double)done / elapsed : 0.0;
    char text[128], speed[64] = "";
    if (rate > 0)
        snprintf(speed, sizeof speed, "  %.*f/s  %.0f s left", rate < 10 ? 2 : 0, rate,
                 (double)(total - done) / rate);
    snprintf(text, sizeof text, "%s %3.0f %%  %llu/%llu %s%s", phase, 100 * fraction,
             (unsigned long long)done, (unsigned long long)total, unit, speed);
    fprintf(stderr, "\r%-78.78s", text);
    fflush(stderr);
    bar.shown = true;
}

/* At most six times a second, and only once two seconds of work have passed unless --progress
 * always. */
static void on_progress(void *user, const char *phase, uint64_t done, uint64_t total,
                        const char *unit)
{
    (void)user;
    double now = rs_seconds();
    if (strcmp(bar.phase, phase) != 0) {
        snprintf(bar.phase, sizeof bar.phase, "%s", phase);
        bar.begun = now;
        bar.last = 0;
    }
    if (!bar.always && now - bar.begun < 2.0) return;
    if (now - bar.last < 1.0 / 6 && done < total) return;
    bar.last = now;
    draw(phase, done, total, unit, now - bar.begun);
}

void cli_progress_done(void)
{
    if (bar.shown) fprintf(stderr, "\r%78s\r", "");
    bar.shown = false;
}

rs_context cli_context(const cli_args *args)
{
    bar.always = strcmp(args->progress, "always") == 0;
    bar.enabled = !args->quiet &&
                  (bar.always || (strcmp(args->progress, "auto") == 0 && isatty(STDERR_FILENO)));
    return (rs_context){.threads = args->threads > 0 ? (int)args->threads : rs_default_threads(),
                        .seed = args->seed,
                        .progress = bar.enabled ? on_progress : NULL,
                        .cancel = &interrupted,
                        .memory = rs_memory_bound_of(args->memory_bytes)};
}
