/*
 * walk.c: the program itself, with one request for memory after the other made to fail.
 *
 *   memory_walk MOST WORD... -- FILE...
 *
 * runs `rankscope WORD...` once to count its requests, and then twice for each of them: that one
 * refused alone, and with all behind it. (MOST > 0: an even sample of MOST such runs, the two kinds
 * in turn.) Requests are rankscope's own, jansson's, PCRE2's and FLINT's. Those of OpenBLAS, of
 * LAPACK and of the C library (regcomp, opendir, stdio) are left out: they offer no hook.
 *
 * Each such run must end with exit 1, say out-of-memory on standard error and nothing on standard
 * output, leave none of the FILEs (the outputs that WORDs name) and no block of memory behind.
 *
 * The command line is linked in with its main renamed; each run is a process of its own, forked
 * before anything has been started, so that request number n is the same one in each.
 */
#include "cli/cli.h"

#include "base/memory.h"
#include "linalg/ball.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int rankscope_main(int argc, char **argv);

/* The program would start itself anew to change OpenBLAS's kernel (blas_rescue.c). */
void cli_rescue_blas(char **argv)
{
    (void)argv;
}

/* ---- FLINT: it ends the process where it gets no memory, and so must never ask for any ---- */

static void *flint_allocate(size_t bytes)
{
    return rs_malloc(bytes, 1);
}

static void *flint_zeroed(size_t n, size_t size)
{
    return rs_calloc(n, size);
}

static void *flint_grow(void *block, size_t bytes)
{
    return rs_realloc(block, bytes, 1);
}

/* ---- one run ---- */

typedef struct walk {
    int argc;
    char **argv;                /* of the program, argv[0] its name */
    char **files;               /* outputs, ending with NULL */
    int64_t *requests, *blocks; /* shared with the child: what it made, what it left */
} walk;

enum { ALONE, ALL_BEHIND };
enum { CRASHED = 200 };

static void to_file(int fd, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, fd) < 0) _exit(CRASHED);
    close(file);
}

static void child(const walk *w, int64_t n, int how)
{
    to_file(STDOUT_FILENO, "walk.out");
    to_file(STDERR_FILENO, "walk.err");
    rs_memory_watch_json();
    __flint_set_memory_functions(flint_allocate, flint_zeroed, flint_grow, rs_free);
    int64_t requests = rs_memory_requests(), blocks = rs_memory_blocks();
    if (how == ALONE)
        rs_memory_fail_once(n);
    else
        rs_memory_fail_at(n);
    int code = rankscope_main(w->argc, w->argv);
    flint_cleanup_master();
    *w->requests = rs_memory_requests() - requests;
    *w->blocks = rs_memory_blocks() - blocks;
    fflush(NULL);
    exit(code); /* not _exit: LeakSanitizer looks at what is left */
}

/* The exit code of the run whose request n fails (0: none does). */
static int run(const walk *w, int64_t n, int how)
{
    for (char **file = w->files; *file; file++)
        unlink(*file);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) child(w, n, how);
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : CRASHED;
}

/* ---- what it left ---- */

static bool is_empty(const char *path)
{
    FILE *file = fopen(path, "rb");
    int c = file ? fgetc(file) : EOF;
    if (file) fclose(file);
    return c == EOF;
}

static void read_text(char *text, size_t size, const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(text, 1, size - 1, file) : 0;
    if (file) fclose(file);
    text[n] = 0;
}

/* What is wrong with a run that was refused a request; NULL: nothing. */
static const char *fault(const walk *w, int code, const char *said)
{
    if (code == 0) return "exit 0";
    if (code == CRASHED) return "crashed";
    if (code != 1) return "another exit code than 1";
    if (!strstr(said, "[out-of-memory]")) return "standard error does not say out-of-memory";
    if (!is_empty("walk.out")) return "wrote to standard output";
    for (char **file = w->files; *file; file++)
        if (access(*file, F_OK) == 0) return "left an output file";
    return *w->blocks == 0 ? NULL : "memory is left";
}

static int walk_all(const walk *w, int64_t most)
{
    char said[4096];
    int code = run(w, 0, ALONE);
    int64_t total = *w->requests;
    if (code != 0 || *w->blocks != 0) {
        read_text(said, sizeof said, "walk.err");
        printf("%s: exit %d, %lld blocks left without any failure: %s\n", w->argv[1], code,
               (long long)*w->blocks, said);
        return 1;
    }
    bool sample = most > 0 && 2 * total > most;
    int64_t points = sample ? most : 2 * total;
    int faults = 0;
    for (int64_t i = 0; i < points; i++) {
        int64_t n = sample ? i * total / points + 1 : i / 2 + 1;
        int how = i % 2 ? ALL_BEHIND : ALONE;
        code = run(w, n, how);
        read_text(said, sizeof said, "walk.err");
        const char *wrong = fault(w, code, said);
        if (!wrong) continue;
        if (faults++ < 40)
            printf("%s: request %lld of %lld refused (%s): %s: exit %d, %lld blocks left; %s\n",
                   w->argv[1], (long long)n, (long long)total,
                   how == ALONE ? "alone" : "and all behind it", wrong, code, (long long)*w->blocks,
                   said);
    }
    printf("%s: %lld requests, %lld refusals, %d wrong\n", w->argv[1], (long long)total,
           (long long)points, faults);
    return faults ? 1 : 0;
}

int main(int argc, char **argv)
{
    int end = 2;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    if (argc < 3 || end == argc) {
        fprintf(stderr, "usage: memory_walk MOST WORD... -- FILE...\n");
        return 2;
    }
    int64_t *shared =
        mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 2;
    argv[end] = NULL;
    walk w = {.argc = end - 1,
              .argv = argv + 1,
              .files = argv + end + 1,
              .requests = &shared[0],
              .blocks = &shared[1]};
    int64_t most = strtoll(argv[1], NULL, 10);
    argv[1] = argv[0];
    return walk_all(&w, most);
}
