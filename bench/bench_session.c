/*
 * bench_session.c: what a scan costs that is asked again and again of weights in memory, beside the
 * least that its spectra could cost on this machine in the same minute.
 *
 *   bench_session THREADS REPEATS
 *
 * The model is of BERT-base's shape: 12 layers of 12 heads, 768 features, float32. The floor is
 * what no route to the spectra can do without: for each of the 576 factors (64 vectors of 768
 * numbers) a Gram matrix and its Cholesky factor, for each of the 288 products the singular values
 * of a 64x64 matrix (LAPACK's dgesdd without vectors), all in float64 on the same threads. It is
 * measured twice: on the model's own factors, which come from memory as the scan's do (226 MB in
 * float64, where the scan reads 113 MB), and on those of one product again and again, which stay in
 * cache. All three take turns; prints one JSON object with their median seconds.
 */
#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/threads.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 12, HEADS = 12, D = 768, R = D / HEADS, MATRICES = 4 };

static const char config[] =
    "{\"model_type\": \"bert\", \"hidden_size\": 768, \"num_hidden_layers\": 12, "
    "\"num_attention_heads\": 12, \"intermediate_size\": 3072, \"vocab_size\": 100, "
    "\"max_position_embeddings\": 16, \"hidden_act\": \"gelu\"}";

/* ---- weights ---- */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static float *draw_weights(void)
{
    size_t n = (size_t)LAYERS * MATRICES * D * D;
    float *w = rs_malloc(n, sizeof *w);
    uint64_t state = 1;
    for (size_t i = 0; w && i < n; i++) {
        double sum = 0; /* of four uniform numbers: near enough to a normal one */
        for (int k = 0; k < 4; k++)
            sum += (double)next_random(&state) / 2147483648.0 - 0.5;
        w[i] = (float)(0.05 * sum);
    }
    return w;
}

static char names[LAYERS * MATRICES][96];
static const int64_t shape[] = {D, D};

static void name_tensors(rs_tensor_data *tensors, const float *w)
{
    static const char *const parts[] = {"attention.self.query", "attention.self.key",
                                        "attention.self.value", "attention.output.dense"};
    for (int i = 0; i < LAYERS * MATRICES; i++) {
        snprintf(names[i], sizeof *names, "encoder.layer.%d.%s.weight", i / MATRICES,
                 parts[i % MATRICES]);
        tensors[i] = (rs_tensor_data){.name = names[i],
                                      .dtype = "F32",
                                      .rank = 2,
                                      .shape = shape,
                                      .data = w + (size_t)i * D * D};
    }
}

/* ---- the floor ---- */

typedef struct floor_memory {
    double *factors;  /* [products, 2, D, R] in float64 */
    double *products; /* [threads, 3, R, R] and work behind them */
    size_t stride;
} floor_memory;

/* step: numbers from one product's factors to the next one's. */
static double floor_once(const floor_memory *m, size_t step, int threads)
{
    double begin = omp_get_wtime();
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int p = 0; p < LAYERS * HEADS * 2; p++) {
        double *a = m->products + (size_t)omp_get_thread_num() * m->stride, *b = a + R * R,
               *c = b + R * R, *sigma = c + R * R, *work = sigma + R;
        const double *factors = m->factors + (size_t)p * step;
        int integers[8 * R];
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, R, D, 1.0, factors, R, 0.0, a, R);
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, R, D, 1.0, factors + D * R, R, 0.0, b,
                    R);
        LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', R, a, R);
        LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', R, b, R);
        memcpy(c, a, sizeof(double) * R * R);
        LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', R, R, c, R, sigma, NULL, 1, NULL, 1, work,
                            16 * R * R, integers);
    }
    return omp_get_wtime() - begin;
}

static bool open_floor(floor_memory *m, const float *w, int threads)
{
    m->stride = 3 * R * R + R + 16 * R * R;
    const int all = LAYERS * MATRICES * D * D;
    m->factors = rs_malloc((size_t)all, sizeof(double));
    m->products = rs_calloc((size_t)threads, m->stride * sizeof(double));
    for (int i = 0; m->factors && i < all; i++)
        m->factors[i] = w[i];
    return m->factors && m->products;
}

/* ---- taking turns ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

static int fail(const rs_error *err)
{
    fprintf(stderr, "bench_session: %s: %s\n", err->where, err->what);
    return 1;
}

static int take_turns(rs_session *session, const floor_memory *m, int threads, int repeats)
{
    rs_scan_settings settings;
    rs_error err;
    double *scans = rs_malloc(3 * (size_t)repeats, sizeof *scans), *floors = scans + repeats,
           *cached = floors + repeats;
    if (!scans) return 1;
    rs_scan_settings_init(&settings, sizeof settings);
    for (int i = -1; i < repeats; i++) { /* the first draws the null models: not counted */
        rs_result *result;
        double begin = omp_get_wtime();
        if (rs_session_scan(&result, session, &settings, &err) != RS_OK) return fail(&err);
        double seconds = omp_get_wtime() - begin;
        rs_result_free(result);
        double own = floor_once(m, 2 * D * R, threads), one = floor_once(m, 0, threads);
        if (i < 0) continue;
        scans[i] = seconds;
        floors[i] = own;
        cached[i] = one;
    }
    printf("{\"scan\": %.6g, \"floor\": %.6g, \"floor_in_cache\": %.6g, \"threads\": %d}\n",
           median(scans, repeats), median(floors, repeats), median(cached, repeats), threads);
    rs_free(scans);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: bench_session THREADS REPEATS\n");
        return 2;
    }
    rs_tensor_data tensors[LAYERS * MATRICES];
    rs_session_settings settings;
    rs_session *session;
    rs_error err;
    floor_memory memory;
    rs_session_settings_init(&settings, sizeof settings);
    settings.call.threads = atoi(argv[1]);
    float *w = draw_weights();
    if (!w || !open_floor(&memory, w, settings.call.threads)) return 1;
    name_tensors(tensors, w);
    if (rs_session_open(&session, &settings, &err) != RS_OK ||
        rs_session_tensors(session, tensors, LAYERS * MATRICES, config, NULL, &err) != RS_OK)
        return fail(&err);
    rs_threads_hold(); /* of the floor */
    int code = take_turns(session, &memory, settings.call.threads, atoi(argv[2]));
    rs_threads_release();
    rs_session_close(session);
    rs_free(memory.factors);
    rs_free(memory.products);
    rs_free(w);
    return code;
}
