/* progress.c: interruption, the clock, and the progress bar on standard error. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;
static volatile sig_atomic_t put_off; /* a signal that is to end the program once it may; or 0 */
static bool pipe_ends_us;             /* whoever started the program lets SIGPIPE end it */

/* The first signal asks the work to stop; a second one does not wait for it. While files are being
 * put in place, which takes no time, neither ends the program: they appear together. */
static void on_stop(int number)
{
    (void)number;
    if (interrupted && rs_output_abandon()) _exit(130);
    interrupted = 1;
}

/* Ends at once as without a handler (SIGQUIT with its core), but leaves nothing behind; while files
 * are being put in place, once that is over (cli_die_of_signal). */
static void on_end(int number)
{
    interrupted = 1;
    put_off = number;
    if (!rs_output_abandon()) return;
    signal(number, SIG_DFL);
    raise(number);
}

static void handle(int number, void (*handler)(int), bool although_ignored)
{
    struct sigaction before, action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN && !although_ignored)
        return; /* nohup */
    sigaction(number, &action, NULL);
}

void cli_install_signals(void)
{
    handle(SIGINT, on_stop, true);
    handle(SIGTERM, on_stop, true);
    handle(SIGHUP, on_end, false);
    handle(SIGQUIT, on_end, false);
    /* A file over the size limit is then a failed write with a message, not a death. */
    signal(SIGXFSZ, SIG_IGN);
    /* A reader that goes away is a failed write too: what was written is taken back first. */
    pipe_ends_us = signal(SIGPIPE, SIG_IGN) == SIG_DFL;
}

void cli_die_of_signal(void)
{
    if (!put_off) return;
    signal(put_off, SIG_DFL);
    raise(put_off);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

void cli_die_of_broken_pipe(void)
{
    if (!pipe_ends_us) return;
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

/* With the wrong access, so that using it fails as a closed one does. */
void cli_open_standard(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

/* ---- the bar ---- */

enum { AUTO, ALWAYS }; /* of --progress */

static struct {
    bool always, shown;
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

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* At most six times a second, and only once two seconds of work have passed unless --progress
 * always. */
static void on_progress(void *user, const char *phase, uint64_t done, uint64_t total,
                        const char *unit)
{
    (void)user;
    double now = seconds_now();
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

void cli_watch(cli_args *args)
{
    rs_call_settings *call = &args->common.call;
    bar.always = args->progress == ALWAYS;
    bool shown = !args->quiet && (bar.always || (args->progress == AUTO && isatty(STDERR_FILENO)));
    call->progress = shown ? on_progress : NULL;
    call->stop = &interrupted;
    args->output.stop = &interrupted;
}
