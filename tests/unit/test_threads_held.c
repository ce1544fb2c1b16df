/*
 * test_threads_held.c: the host's numbers of threads, BLAS's and OpenMP's, are the same before and
 * after every function of rankscope.h, alone and with two host threads inside at once; and a second
 * call has as many threads as the first.
 *
 * Threads are counted where they work: the library asks OpenMP for the number of the thread that it
 * is on, and gets the answer from the function below, which looks how many the team has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rankscope.h"
#include "session_support.h"

#include <cblas.h>
#include <ctype.h>
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL RS_TEST_DATA "/forward/llama"
enum { BLAS_THREADS = 3, OPENMP_THREADS = 2 };

/* ---- how many threads work ---- */

static pthread_once_t found = PTHREAD_ONCE_INIT;
static int (*thread_num)(void);
static atomic_int largest_team;              /* of any thread since it was set to 0 */
static _Thread_local int largest_team_of_me; /* of those that this thread was part of */

static void find_thread_num(void)
{
    void *symbol = dlsym(RTLD_NEXT, "omp_get_thread_num");
    if (!symbol) abort();
    memcpy(&thread_num, &symbol, sizeof symbol);
}

int omp_get_thread_num(void)
{
    int team = omp_get_num_threads(), before = atomic_load(&largest_team);
    while (team > before && !atomic_compare_exchange_weak(&largest_team, &before, team)) {
    }
    if (team > largest_team_of_me) largest_team_of_me = team;
    pthread_once(&found, find_thread_num);
    return thread_num();
}

/* ---- every function of rankscope.h ---- */

/* What a host thread has at hand. */
typedef struct host {
    rs_result *result;
    int failures; /* cmocka's assertions are for the main thread */
} host;

static void expect(host *h, bool holds, const char *what)
{
    if (holds) return;
    h->failures++;
    fprintf(stderr, "%s\n", what);
}

#define EXPECT(h, condition) expect((h), (condition), __FILE__ ": " #condition)

static void statuses(host *h)
{
    rs_error err;
    EXPECT(h, rs_fail(&err, RS_E_USAGE, "here", NULL, "%d", 5) == RS_E_USAGE);
    EXPECT(h, strcmp(err.what, "5") == 0);
    EXPECT(h, rs_output_same("here", "./here"));
    rs_output_png_ready(&err);
    EXPECT(h, rs_edit_distance("seqlen", "seq-len") == 1);
    EXPECT(h, strcmp(rs_status_name(RS_OK), "ok") == 0);
    EXPECT(h, rs_status_exit_code(RS_E_USAGE) == 2);
    EXPECT(h, strcmp(rs_version(), RS_VERSION) == 0);
    rs_guard_install();
}

static void scan(host *h)
{
    rs_scan_settings s;
    rs_scan_settings_init(&s, sizeof s);
    s.matrices = "all";
    s.spectra = true;
    EXPECT(h, rs_scan_checkpoint(&h->result, MODEL, &s, NULL) == RS_OK);
}

/* Of two checkpoints, one of which is not there: it is skipped, and the other scanned. Products alone are
 * gone through without asking for a thread's number. */
static void scans_series(host *h)
{
    static const char *const others[] = {MODEL "/nowhere"}, *const same[] = {MODEL};
    rs_scan_settings s;
    rs_scan_settings_init(&s, sizeof s);
    s.others = others;
    s.n_others = 1;
    EXPECT(h, rs_scan_checkpoint(&h->result, MODEL "/neither", &s, NULL) == RS_E_NOT_FOUND);
    EXPECT(h, rs_scan_checkpoint(&h->result, MODEL, &s, NULL) == RS_OK);
    rs_result_free(h->result);
    s.others = same;
    EXPECT(h, rs_scan_checkpoint(&h->result, MODEL, &s, NULL) == RS_OK);
    rs_result_free(h->result);
    h->result = NULL;
}

static void scan_fails(host *h)
{
    rs_scan_settings s;
    rs_scan_settings_init(&s, sizeof s);
    EXPECT(h, rs_scan_checkpoint(NULL, MODEL, &s, NULL) == RS_E_USAGE);
    EXPECT(h, rs_scan_checkpoint(&h->result, MODEL "/nowhere", &s, NULL) == RS_E_NOT_FOUND);
    s.matrices = "nothing of this name";
    EXPECT(h, rs_scan_checkpoint(&h->result, MODEL, &s, NULL) == RS_E_BAD_OPTION);
    s.call.threads = -1;
    EXPECT(h, rs_scan_checkpoint(&h->result, MODEL, &s, NULL) == RS_E_BAD_OPTION);
}

/* So many tokens that the embedding, which all threads of a team enter, is worth several. */
static void make_run(rs_run_settings *run)
{
    run->random = 100;
    run->seq_len = 32;
    run->batch = 100;
}

static void probe(host *h)
{
    rs_probe_settings s;
    rs_probe_settings_init(&s, sizeof s);
    make_run(&s.run);
    EXPECT(h, rs_probe_checkpoint(&h->result, MODEL, &s, NULL) == RS_OK);
}

static void probe_fails(host *h)
{
    rs_probe_settings s;
    rs_probe_settings_init(&s, sizeof s);
    EXPECT(h, rs_probe_checkpoint(&h->result, MODEL, &s, NULL) == RS_E_USAGE);
    make_run(&s.run);
    s.output = RS_TEST_DATA "/nowhere/output.safetensors";
    EXPECT(h, rs_probe_checkpoint(&h->result, MODEL, &s, NULL) != RS_OK);
    s.call.memory = 1;
    EXPECT(h, rs_probe_checkpoint(&h->result, MODEL, &s, NULL) == RS_E_MEMORY_LIMIT);
}

static void certify(host *h)
{
    rs_certify_settings s;
    rs_certify_settings_init(&s, sizeof s);
    make_run(&s.run);
    s.run.random = 4;
    EXPECT(h, rs_certify_checkpoint(&h->result, MODEL, &s, NULL) == RS_OK);
}

static void certify_fails(host *h)
{
    rs_certify_settings s;
    rs_certify_settings_init(&s, sizeof s);
    make_run(&s.run);
    s.variant = "full,san";
    EXPECT(h, rs_certify_checkpoint(&h->result, MODEL, &s, NULL) == RS_E_BAD_OPTION);
}

static void paths(host *h)
{
    rs_paths_settings s;
    rs_paths_settings_init(&s, sizeof s);
    make_run(&s.run);
    s.run.random = 2;
    s.paths = 2;
    EXPECT(h, rs_paths_checkpoint(&h->result, MODEL, &s, NULL) == RS_OK);
}

static void paths_fail(host *h)
{
    rs_paths_settings s;
    rs_paths_settings_init(&s, sizeof s);
    make_run(&s.run);
    EXPECT(h, rs_paths_checkpoint(&h->result, MODEL "/nowhere", &s, NULL) == RS_E_NOT_FOUND);
}

/* With inputs: products are gone through without asking for a thread's number. */
static void compares(host *h)
{
    static const char *const others[] = {MODEL}, *const none[] = {MODEL "/nowhere"};
    rs_compare_settings s;
    rs_compare_settings_init(&s, sizeof s);
    EXPECT(h, rs_compare_checkpoints(&h->result, MODEL, &s, NULL) == RS_E_USAGE);
    s.n_others = 1;
    s.others = none;
    EXPECT(h, rs_compare_checkpoints(&h->result, MODEL, &s, NULL) == RS_E_NOT_FOUND);
    s.others = others;
    make_run(&s.run);
    EXPECT(h, rs_compare_checkpoints(&h->result, MODEL, &s, NULL) == RS_OK);
}

/* Two models over the same inputs. */
static void beside(host *h)
{
    static const char *const others[] = {MODEL}, *const none[] = {MODEL "/nowhere"};
    rs_probe_settings s;
    rs_certify_settings c;
    rs_probe_settings_init(&s, sizeof s);
    make_run(&s.run);
    s.n_others = 1;
    EXPECT(h, rs_probe_checkpoint(&h->result, MODEL, &s, NULL) == RS_E_USAGE);
    s.others = none;
    EXPECT(h, rs_probe_checkpoint(&h->result, MODEL, &s, NULL) == RS_E_NOT_FOUND);
    rs_certify_settings_init(&c, sizeof c);
    make_run(&c.run);
    c.others = none;
    c.n_others = 1;
    EXPECT(h, rs_certify_checkpoint(&h->result, MODEL, &c, NULL) == RS_E_NOT_FOUND);
    s.others = others;
    EXPECT(h, rs_probe_checkpoint(&h->result, MODEL, &s, NULL) == RS_OK);
}

static void tokenizes(host *h)
{
    static const char text[] = "to be or not";
    rs_tokenize_settings s;
    rs_tokenize_settings_init(&s, sizeof s);
    s.bytes = text;
    s.n_bytes = strlen(text);
    EXPECT(h, rs_tokenize(&h->result, RS_TEST_DATA "/tokenizer/gpt2.json", &s, NULL) == RS_OK);
}

static void runs_lab(host *h)
{
    rs_lab_settings s;
    rs_lab_settings_init(&s, sizeof s);
    EXPECT(h, rs_lab(&h->result, &s, NULL) == RS_OK);
    rs_result_free(h->result);
    s.experiment = "dobrushin-mask";
    s.quick = true;
    EXPECT(h, rs_lab(&h->result, &s, NULL) == RS_OK);
}

static void trains(host *h)
{
    static const char *const sets[] = {"steps=2", "batch=2", "model.d_model=8", "model.depth=1"};
    rs_training_settings s;
    char *program = NULL;
    rs_training_settings_init(&s, sizeof s);
    s.sets = sets;
    s.n_sets = 4;
    EXPECT(h, rs_training_loader(&program, "reversal", &s, NULL) == RS_OK);
    free(program);
    EXPECT(h, rs_train(&h->result, "reversal", &s, NULL) == RS_OK);
    EXPECT(h, !rs_result_stopped(h->result));
}

/* Trials of a network, and of the cells of a grid. */
static void predicts(host *h)
{
    rs_predict_settings s;
    rs_predict_settings_init(&s, sizeof s);
    s.preset = "attention-only-6";
    s.seq_len = 6;
    s.trials = 3;
    s.grid = "d_model=8:12:2";
    EXPECT(h, rs_predict(&h->result, NULL, &s, NULL) == RS_OK);
    rs_result_free(h->result);
    h->result = NULL;
    s.preset = "moe";
    EXPECT(h, rs_predict(&h->result, NULL, &s, NULL) == RS_E_UNSUPPORTED);
    s.preset = "list";
    EXPECT(h, rs_predict(&h->result, NULL, &s, NULL) == RS_OK);
}

static void explains(host *h)
{
    rs_explain_settings s;
    rs_explain_settings_init(&s, sizeof s);
    EXPECT(h, rs_explain(&h->result, &s, NULL) == RS_OK);
    EXPECT(h, rs_command_tables(NULL, 0, "explain") > 0);
    rs_result_free(h->result);
    s.word = "dead_head";
    EXPECT(h, rs_explain(&h->result, &s, NULL) == RS_OK);
}

static void examines(host *h)
{
    rs_doctor_settings s;
    rs_doctor_settings_init(&s, sizeof s);
    EXPECT(h, rs_doctor(&h->result, &s, NULL) == RS_OK);
    const char *better = rs_better_blas_core();
    EXPECT(h, !better || better[0]);
}

/* ---- sessions ---- */

static const int32_t ids[64];

static void give_ids(rs_run_settings *run)
{
    run->ids = ids;
    run->ids_samples = 4;
    run->ids_length = 16;
}

static void session_scan(host *h)
{
    rs_scan_settings s;
    rs_scan_settings_init(&s, sizeof s);
    s.matrices = "all";
    held model = hold("forward/llama");
    rs_session *session = open_session(2, &model);
    EXPECT(h, rs_session_scan(&h->result, session, &s, NULL) == RS_OK);
    s.call.threads = -1;
    EXPECT(h, rs_session_scan(NULL, session, &s, NULL) == RS_E_USAGE);
    rs_session_close(session);
    let_go(&model);
}

static void session_runs(host *h)
{
    rs_probe_settings p;
    rs_certify_settings c;
    rs_paths_settings s;
    rs_probe_settings_init(&p, sizeof p);
    rs_certify_settings_init(&c, sizeof c);
    rs_paths_settings_init(&s, sizeof s);
    held model = hold("forward/llama");
    rs_session *session = open_session(2, &model);
    EXPECT(h, rs_session_probe(&h->result, session, &p, NULL) == RS_E_USAGE);
    give_ids(&p.run);
    give_ids(&c.run);
    give_ids(&s.run);
    EXPECT(h, rs_session_probe(&h->result, session, &p, NULL) == RS_OK);
    rs_result_free(h->result);
    EXPECT(h, rs_session_certify(&h->result, session, &c, NULL) == RS_OK);
    rs_result_free(h->result);
    EXPECT(h, rs_session_paths(&h->result, session, &s, NULL) == RS_OK);
    rs_session_close(session);
    let_go(&model);
}

static rs_status hear_gradient(void *user, const rs_gradient_data *gradient)
{
    int *told = user;
    *told += gradient->count > 0;
    return RS_OK;
}

static void session_gradients(host *h)
{
    rs_gradients_settings s;
    int told = 0;
    rs_gradients_settings_init(&s, sizeof s);
    held model = hold("forward/llama");
    rs_session *session = open_session(2, &model);
    EXPECT(h, rs_session_gradients(NULL, session, &s, hear_gradient, &told, NULL) == RS_E_USAGE);
    give_ids(&s.run);
    EXPECT(h, rs_session_gradients(NULL, session, &s, hear_gradient, &told, NULL) == RS_OK);
    EXPECT(h, told > 0);
    rs_session_close(session);
    let_go(&model);
}

/* ---- results ---- */

static void read_columns(host *h)
{
    rs_column_data column;
    const char *table = rs_result_table_name(h->result, 0);
    EXPECT(h, rs_result_table_count(h->result) > 0 && table);
    EXPECT(h, rs_result_column_count(h->result, table) > 0);
    const char *name = rs_result_column_name(h->result, table, 0);
    EXPECT(h, rs_result_column(&column, h->result, table, name, NULL) == RS_OK);
    EXPECT(h, rs_result_column(&column, h->result, table, "none", NULL) == RS_E_NOT_FOUND);
}

/* After each command: what can be done with its result. */
static void read_result(host *h)
{
    char *text;
    rs_form forms[] = {RS_FORM_JSON, RS_FORM_HTML, RS_FORM_TERMINAL};
    for (int i = 0; i < 3; i++) {
        EXPECT(h, rs_result_text(&text, NULL, h->result, forms[i], NULL) == RS_OK);
        rs_text_free(text);
    }
    EXPECT(h, rs_result_text(&text, NULL, NULL, RS_FORM_JSON, NULL) == RS_E_USAGE);
    EXPECT(h, rs_result_csv(&text, NULL, h->result, "no such table", NULL) == RS_E_NOT_FOUND);
    EXPECT(h, rs_result_csv(&text, NULL, h->result, "heads", NULL) != RS_E_INTERNAL);
    rs_text_free(text);
    EXPECT(h, rs_result_count_findings(h->result, 3) == 0);
    EXPECT(h, rs_result_severity(h->result) >= 0);
    EXPECT(h, rs_result_verdict(NULL) == NULL);
    rs_output_settings output;
    rs_output_settings_init(&output, sizeof output);
    output.json = "/dev/null";
    EXPECT(h, rs_result_note(h->result, "step", "{\"n\": 1}", NULL) == RS_OK);
    EXPECT(h, rs_result_write(h->result, &output, NULL) == RS_OK);
    read_columns(h);
    rs_result_free(h->result);
    h->result = NULL;
}

static const struct step {
    const char *names; /* the functions that it calls */
    void (*call)(host *h);
    bool gives_result;
    bool alone; /* it works on one thread, or on as many as its own settings say */
} steps[] = {
    {"rs_status_name rs_status_exit_code rs_version rs_guard_install rs_fail rs_output_same "
     "rs_output_png_ready "
     "rs_edit_distance",
     statuses, false, false},
    {"rs_scan_settings_init rs_scan_checkpoint", scan, true, false},
    {"rs_scan_checkpoint", scans_series, false, false},
    {"rs_scan_checkpoint", scan_fails, false, false},
    {"rs_probe_settings_init rs_probe_checkpoint", probe, true, false},
    {"rs_probe_checkpoint", probe_fails, false, false},
    {"rs_certify_settings_init rs_certify_checkpoint", certify, true, false},
    {"rs_certify_checkpoint", certify_fails, false, false},
    {"rs_paths_settings_init rs_paths_checkpoint", paths, true, false},
    {"rs_paths_checkpoint", paths_fail, false, false},
    {"rs_compare_settings_init rs_compare_checkpoints", compares, true, false},
    {"rs_probe_checkpoint rs_certify_checkpoint", beside, true, false},
    {"rs_tokenize_settings_init rs_tokenize", tokenizes, true, true},
    {"rs_lab_settings_init rs_lab", runs_lab, true, true},
    {"rs_predict_settings_init rs_predict", predicts, true, true},
    {"rs_training_settings_init rs_training_loader rs_train rs_result_stopped", trains, true, true},
    {"rs_explain_settings_init rs_explain rs_command_tables", explains, true, true},
    {"rs_doctor_settings_init rs_doctor rs_better_blas_core", examines, true, true},
    {"rs_session_settings_init rs_session_open rs_session_tensors rs_session_scan "
     "rs_session_close",
     session_scan, true, false},
    {"rs_session_probe rs_session_certify rs_session_paths", session_runs, true, false},
    {"rs_gradients_settings_init rs_session_gradients", session_gradients, false, false},
    {"rs_result_text rs_result_csv rs_text_free rs_result_count_findings rs_result_free "
     "rs_result_severity rs_result_verdict rs_output_settings_init rs_result_note rs_result_write",
     NULL, false, false},
    {"rs_result_table_count rs_result_table_name rs_result_column_count rs_result_column_name "
     "rs_result_column",
     NULL, false, false},
};
/* rs_output_abandon ends all writing of the process: it is for a handler that ends it. */
static const char ENDS_THE_PROCESS[] = "rs_output_abandon";
enum { STEPS = sizeof steps / sizeof *steps };

static bool is_called(const char *name, size_t length)
{
    for (int i = 0; i < STEPS; i++)
        for (const char *p = strstr(steps[i].names, name); p; p = strstr(p + 1, name))
            if (p[length] == ' ' || p[length] == 0) return true;
    return false;
}

/* A function of the header that no step calls is a hole in this test. */
static void no_function_is_left_out(void **state)
{
    (void)state;
    FILE *file = fopen(RS_SOURCE_DIR "/include/rankscope.h", "r");
    assert_non_null(file);
    char line[512], name[64];
    int functions = 0;
    while (fgets(line, sizeof line, file)) {
        const char *p = isalpha((unsigned char)line[0]) ? strchr(line, '(') : NULL;
        size_t n = 0;
        while (p && p - n > line &&
               (islower((unsigned char)p[-1 - (long)n]) || p[-1 - (long)n] == '_'))
            n++;
        if (n == 0 || n >= sizeof name || strncmp(line, "typedef", 7) == 0) continue;
        memcpy(name, p - n, n);
        name[n] = 0;
        functions++;
        if (!is_called(name, n) && strcmp(name, ENDS_THE_PROCESS) != 0)
            fail_msg("no step of this test calls %s", name);
    }
    fclose(file);
    assert_true(functions >= 30);
}

/* ---- one host thread ---- */

static void check_counts(int openmp, const char *after)
{
    if (openblas_get_num_threads() != BLAS_THREADS || omp_get_max_threads() != openmp)
        fail_msg("after %s BLAS has %d threads (not %d) and OpenMP %d (not %d)", after,
                 openblas_get_num_threads(), BLAS_THREADS, omp_get_max_threads(), openmp);
}

static void set_counts(int openmp)
{
    openblas_set_num_threads(BLAS_THREADS);
    omp_set_num_threads(openmp);
}

static void every_call_leaves_both_counts(void **state)
{
    (void)state;
    host h = {0};
    set_counts(OPENMP_THREADS);
    for (int i = 0; i < STEPS; i++) {
        if (!steps[i].call) continue;
        steps[i].call(&h);
        check_counts(OPENMP_THREADS, steps[i].names);
        if (!steps[i].gives_result) continue;
        read_result(&h);
        check_counts(OPENMP_THREADS, "reading a result");
    }
    assert_int_equal(h.failures, 0);
}

static void a_second_call_has_as_many_threads(void **state)
{
    (void)state;
    host h = {0};
    set_counts(OPENMP_THREADS);
    for (int i = 0; i < STEPS; i++)
        for (int round = 0; round < 2 && steps[i].gives_result && !steps[i].alone; round++) {
            atomic_store(&largest_team, 0);
            steps[i].call(&h);
            rs_result_free(h.result);
            if (atomic_load(&largest_team) != OPENMP_THREADS)
                fail_msg("call %d of %s used %d threads, not %d", round, steps[i].names,
                         atomic_load(&largest_team), OPENMP_THREADS);
        }
    assert_int_equal(h.failures, 0);
}

/* ---- two at once ---- */

enum { HOSTS = 2, ROUNDS = 3 };

/* Meets the other host thread: neither is inside the library before both have come. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    int here, round;
} meeting;

static void meet(meeting *m)
{
    pthread_mutex_lock(&m->lock);
    int round = m->round;
    if (++m->here == HOSTS) {
        m->here = 0;
        m->round++;
        pthread_cond_broadcast(&m->all_here);
    }
    while (m->round == round)
        pthread_cond_wait(&m->all_here, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

typedef struct guest {
    host h;
    meeting *m;
    int openmp; /* its own count, another than the other's */
} guest;

static void one_step(guest *g, const struct step *step)
{
    largest_team_of_me = 0;
    step->call(&g->h);
    EXPECT(&g->h, omp_get_max_threads() == g->openmp);
    if (step->call == probe) EXPECT(&g->h, largest_team_of_me == g->openmp);
    if (step->gives_result) read_result(&g->h);
    EXPECT(&g->h, omp_get_max_threads() == g->openmp);
}

static void *visit(void *given)
{
    guest *g = given;
    omp_set_num_threads(g->openmp);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < STEPS; i++) {
            if (!steps[i].call) continue;
            meet(g->m);
            EXPECT(&g->h, openblas_get_num_threads() == BLAS_THREADS);
            meet(g->m);
            one_step(g, &steps[i]);
        }
    meet(g->m);
    EXPECT(&g->h, openblas_get_num_threads() == BLAS_THREADS);
    return NULL;
}

static void two_threads_at_once(void **state)
{
    (void)state;
    meeting m = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    guest guests[HOSTS] = {{.m = &m, .openmp = 2}, {.m = &m, .openmp = 3}};
    pthread_t threads[HOSTS];
    set_counts(OPENMP_THREADS);
    for (int i = 0; i < HOSTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, visit, &guests[i]), 0);
    for (int i = 0; i < HOSTS; i++)
        pthread_join(threads[i], NULL);
    check_counts(OPENMP_THREADS, "two threads at once");
    for (int i = 0; i < HOSTS; i++)
        assert_int_equal(guests[i].h.failures, 0);
}

/* The count of threads that is held is not the one that a call has to divide among. */
static void a_call_says_the_same_on_one_thread_and_on_three(void **state)
{
    (void)state;
    char *text[2];
    for (int i = 0; i < 2; i++) {
        rs_result *result;
        rs_probe_settings s;
        rs_probe_settings_init(&s, sizeof s);
        make_run(&s.run);
        set_counts(i == 0 ? 1 : 3);
        assert_int_equal(rs_probe_checkpoint(&result, MODEL, &s, NULL), RS_OK);
        assert_int_equal(rs_result_csv(&text[i], NULL, result, "tokens", NULL), RS_OK);
        rs_result_free(result);
        check_counts(i == 0 ? 1 : 3, "probe");
    }
    assert_string_equal(text[0], text[1]);
    rs_text_free(text[0]);
    rs_text_free(text[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_function_is_left_out),
        cmocka_unit_test(every_call_leaves_both_counts),
        cmocka_unit_test(a_second_call_has_as_many_threads),
        cmocka_unit_test(two_threads_at_once),
        cmocka_unit_test(a_call_says_the_same_on_one_thread_and_on_three),
    };
    return cmocka_run_group_tests_name("threads_held", tests, NULL, NULL);
}
