/* arch_weights.c: for arch_files.py. ARCH.json LAW SEED: writes to standard output the weights that `probe ARCH.json --init
 * LAW --seed SEED` draws, each as a line "NAME ROWS COLUMNS" and ROWS*COLUMNS doubles: maps as y = W x with W [out, in], of
 * layer L as L.B.FIELD, B its branch. */
#include "checkpoint/json_text.h"
#include "network/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(const char *prefix, const char *field, int64_t rows, int64_t cols, const double *x)
{
    printf("%s%s %lld %lld\n", prefix, field, (long long)rows, (long long)cols);
    fwrite(x, sizeof *x, (size_t)(rows * cols), stdout);
}

static double number(const rs_tensor *t, int64_t i)
{
    float single;
    double whole;
    if (t->dtype == RS_F64) {
        memcpy(&whole, t->data + 8 * i, 8);
        return whole;
    }
    memcpy(&single, t->data + 4 * i, 4);
    return (double)single;
}

static void vector(const char *prefix, const char *field, const rs_tensor *t)
{
    if (!t) return;
    double *x = malloc((size_t)(t->count + 1) * sizeof *x);
    for (int64_t i = 0; i < t->count; i++)
        x[i] = number(t, i);
    int64_t rows = t->rank ? t->shape[0] : 1;
    put(prefix, field, rows, rows ? t->count / rows : 0, x);
    free(x);
}

static void dense(const char *prefix, const char *field, const rs_dense *map)
{
    if (!map->weight) return;
    double *x = malloc((size_t)(map->out * map->in + 1) * sizeof *x);
    for (int64_t u = 0; u < map->out; u++) {
        int64_t v = map->first + u / map->run * map->stride + u % map->run;
        for (int64_t i = 0; i < map->in; i++)
            x[u * map->in + i] =
                number(map->weight, map->out_is_row ? v * map->cols + i : i * map->cols + v);
    }
    put(prefix, field, map->out, map->in, x);
    char name[64];
    snprintf(name, sizeof name, "%s.bias", field);
    vector(prefix, name, map->bias);
    free(x);
}

static void conv(const char *prefix, const rs_conv_op *op)
{
    vector(prefix, "conv", op->weight);
    vector(prefix, "conv1", op->more[0]);
    vector(prefix, "conv2", op->more[1]);
    vector(prefix, "conv.bias", op->bias);
}

static void norm(const char *prefix, const char *field, const rs_norm_op *op)
{
    char name[64];
    vector(prefix, field, op->gain);
    snprintf(name, sizeof name, "%s.bias", field);
    vector(prefix, name, op->bias);
}

static void mixer(const char *p, const rs_branch *b)
{
    switch (b->kind) {
    case RS_BRANCH_ATTENTION:
        dense(p, "q", &b->attention.q), dense(p, "k", &b->attention.k),
            dense(p, "v", &b->attention.v), dense(p, "o", &b->attention.o);
        vector(p, "distance", b->attention.distance_bias);
        break;
    case RS_BRANCH_MLP:
        dense(p, "up", &b->mlp.up), dense(p, "gate", &b->mlp.gate), dense(p, "down", &b->mlp.down);
        break;
    case RS_BRANCH_SSD:
        dense(p, "in", &b->ssd.in), dense(p, "o", &b->ssd.o), conv(p, &b->ssd.conv),
            norm(p, "norm", &b->ssd.norm);
        vector(p, "dt_bias", b->ssd.dt_bias), vector(p, "a_log", b->ssd.a_log),
            vector(p, "d", b->ssd.d);
        break;
    case RS_BRANCH_S6:
        dense(p, "in", &b->s6.in), dense(p, "x", &b->s6.x), dense(p, "step", &b->s6.step),
            dense(p, "o", &b->s6.o);
        conv(p, &b->s6.conv), vector(p, "a_log", b->s6.a_log), vector(p, "d", b->s6.d);
        norm(p, "dt_norm", &b->s6.dt_norm), norm(p, "b_norm", &b->s6.b_norm),
            norm(p, "c_norm", &b->s6.c_norm);
        break;
    case RS_BRANCH_LINEAR:
        dense(p, "q", &b->linear.q), dense(p, "k", &b->linear.k), dense(p, "v", &b->linear.v),
            dense(p, "o", &b->linear.o);
        dense(p, "gate", &b->linear.gate), norm(p, "norm", &b->linear.norm);
        break;
    case RS_BRANCH_S4D:
        dense(p, "o", &b->s4d.o), dense(p, "gate", &b->s4d.gate),
            vector(p, "log_step", b->s4d.log_step), vector(p, "c", b->s4d.c);
        vector(p, "log_decay", b->s4d.log_decay), vector(p, "frequency", b->s4d.frequency),
            vector(p, "d", b->s4d.d);
        break;
    case RS_BRANCH_RECURRENCE:
        dense(p, "in", &b->recurrence.in), dense(p, "gates", &b->recurrence.gates),
            dense(p, "o", &b->recurrence.o);
        conv(p, &b->recurrence.conv);
        break;
    case RS_BRANCH_DELTA:
        dense(p, "q", &b->delta.q), dense(p, "k", &b->delta.k), dense(p, "v", &b->delta.v),
            dense(p, "z", &b->delta.z);
        dense(p, "b", &b->delta.b), dense(p, "a", &b->delta.a), dense(p, "o", &b->delta.o),
            conv(p, &b->delta.conv);
        vector(p, "a_log", b->delta.a_log), vector(p, "dt_bias", b->delta.dt_bias),
            norm(p, "norm", &b->delta.norm);
        break;
    case RS_BRANCH_SHORT_CONV:
        dense(p, "in", &b->short_conv.in), dense(p, "o", &b->short_conv.o),
            conv(p, &b->short_conv.conv);
        break;
    case RS_BRANCH_GRAPH:
        dense(p, "q", &b->graph.q), dense(p, "k", &b->graph.k), dense(p, "v", &b->graph.v),
            dense(p, "o", &b->graph.o);
        break;
    }
}

static int told(const rs_error *err)
{
    fprintf(stderr, "%s: %s\n", err->where, err->what);
    return 2;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    rs_error err = {0};
    json_t *json;
    rs_init *init;
    rs_network *network;
    FILE *file = argc == 4 ? fopen(argv[1], "rb") : NULL;
    if (!file) return 2;
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    if (rs_json_load(&json, argv[1], text, length, &(rs_json_rules){.max_depth = 64}, &err))
        return told(&err);
    if (rs_init_open(&init, argv[2], strtoull(argv[3], NULL, 10), &err)) return told(&err);
    if (rs_network_from_arch(&network, json, argv[1], init, &err)) return told(&err);
    vector("", "embedding", network->embedding.tokens);
    vector("", "positions", network->embedding.positions);
    dense("", "head", &network->head.decoder);
    norm("", "final", &network->final_norm);
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            char prefix[64];
            const rs_branch *branch = &network->layers[l].branches[b];
            snprintf(prefix, sizeof prefix, "%d.%d.", (int)l, (int)b);
            mixer(prefix, branch);
            norm(prefix, "before", &branch->before), norm(prefix, "inside", &branch->inside),
                norm(prefix, "after", &branch->after);
        }
    return 0;
}
