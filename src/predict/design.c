/* design.c: from a path or a preset to a description and its laws. */
#include "predict/design.h"

#include "base/memory.h"
#include "network/saved.h"
#include "predict/design_measured.h"
#include "predict/presets.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 128 }; /* of a description that does not say how many */

/* ---- laws of weights ---- */

static rs_status law_map(void *user, double *mean_square, const rs_dense *dense, rs_error *err)
{
    (void)user, (void)err;
    *mean_square = rs_weight_law_square(rs_init_law(dense->weight), dense->in, dense->out);
    return RS_OK;
}

static bool law_has_mean(void *user, const rs_dense *dense)
{
    (void)user;
    return rs_weight_law_mean(rs_init_law(dense->weight)) != 0;
}

/* Gains start at 1, unless the architecture gives them, or they were measured. */
static rs_status law_gain(void *user, double *mean_square, const rs_norm_op *norm, rs_error *err)
{
    if (norm->gain->fixed) return rs_theory_stored.gain(user, mean_square, norm, err);
    const rs_weight_law *law = rs_init_law(norm->gain);
    *mean_square = law->kind == RS_LAW_NORMAL ? law->mean * law->mean : 1;
    return RS_OK;
}

static const rs_theory_weights laws = {.map = law_map, .has_mean = law_has_mean, .gain = law_gain};

/* Who knows what is outside of the layers: nothing of it is drawn where weights were measured. */
static const rs_theory_weights *outside_of(const rs_design *d)
{
    return d->checkpoint ? &rs_theory_stored : &laws;
}

/* The mean square of a tensor's entries. NULL: 0. */
static rs_status tensor_square(double *out, const rs_design *d, const rs_tensor *tensor,
                               rs_error *err)
{
    *out = 0;
    if (!tensor) return RS_OK;
    int64_t rows = tensor->shape[0], width = tensor->count / rows;
    if (!d->checkpoint) {
        *out = rs_weight_law_square(rs_init_law(tensor), width, rows);
        return RS_OK;
    }
    rs_dense as_map = {.weight = tensor,
                       .rows = rows,
                       .cols = width,
                       .out_is_row = true,
                       .in = width,
                       .out = rows,
                       .run = rows,
                       .stride = rows};
    return rs_theory_stored.map(NULL, out, &as_map, err);
}

/* ---- what enters the first layer ---- */

/* Squares per entry of what an embedding adds up. */
typedef struct embedded {
    double own;    /* of every token for itself */
    double common; /* the same for all */
} embedded;

/* Positions whose numbers are given, n of them: what they have in common, as pairs of tokens see it. */
static void given_positions(embedded *out, const rs_tensor *table, int64_t n, int64_t d)
{
    const float *p = (const float *)(const void *)table->data;
    double square = 0, all = 0, count = (double)n;
    for (int64_t c = 0; c < d; c++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            sum += (double)p[i * d + c];
            square += (double)p[i * d + c] * (double)p[i * d + c];
        }
        all += sum * sum;
    }
    double common = n > 1 ? (all - square) / (count * (count - 1)) / (double)d : 0;
    out->common += common;
    out->own += square / count / (double)d - common;
}

static rs_status embed_tokens(embedded *out, const rs_design *d, rs_error *err)
{
    const rs_embedding_op *e = &d->network->embedding;
    double tokens, positions, types;
    RS_TRY(tensor_square(&tokens, d, e->tokens, err));
    const rs_tensor *table = e->positions;
    bool given = table && table->fixed && table->count >= d->input.n * e->width;
    RS_TRY(tensor_square(&positions, d, given ? NULL : table, err));
    RS_TRY(tensor_square(&types, d, e->types, err));
    if (e->patch.weight) { /* pixels of N(0, 1) */
        RS_TRY(outside_of(d)->map(NULL, &tokens, &e->patch, err));
        tokens *= (double)e->patch.in;
    }
    double scale = e->scale * e->scale;
    *out = (embedded){.own = scale * tokens + positions, .common = types};
    if (given) given_positions(out, table, d->input.n, e->width);
    return RS_OK;
}

/* Tokens that differ: whatever text there is, no id stands twice. */
static rs_status embedding_law(rs_theory_input *out, const rs_design *d, rs_error *err)
{
    const rs_embedding_op *e = &d->network->embedding;
    embedded x;
    double d_model = (double)d->network->d_model, gain = 1, map = 1;
    RS_TRY(embed_tokens(&x, d, err));
    double all = x.own + x.common;
    if (!(all > 0))
        return rs_fail(err, RS_E_UNSUPPORTED, d->name, "give an architecture file with \"input\"",
                       "nothing tells how large the tokens are that enter the first layer");
    out->rho = x.common / all;
    if (e->norm.kind != RS_NORM_NONE) {
        if (e->norm.gain) RS_TRY(outside_of(d)->gain(NULL, &gain, &e->norm, err));
        all = gain * all / (all + e->norm.eps);
    }
    if (e->projection.weight) {
        RS_TRY(outside_of(d)->map(NULL, &map, &e->projection, err));
        all *= map * (double)e->projection.in;
    }
    out->norm2 = all * d_model;
    return RS_OK;
}

static rs_status read_input(rs_design *d, int64_t seq_len, rs_error *err)
{
    const rs_embedding_op *e = &d->network->embedding;
    const rs_arch *arch = d->arch;
    bool embeds = e->tokens || e->patch.weight;
    d->input.n = seq_len > 0 ? seq_len : arch ? arch->seq_len : TOKENS;
    if (e->patch.weight && seq_len == 0)
        d->input.n = e->image_height / e->patch_height * (e->image_width / e->patch_width) +
                     (e->class_token ? 1 : 0);
    if (arch && (!embeds || json_object_get(d->json, "input"))) {
        d->input.rho = arch->input_rho;
        d->input.norm2 = arch->input_norm2;
        return RS_OK;
    }
    return embedding_law(&d->input, d, err);
}

/* ---- opening ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static rs_status read_path(rs_design *d, const char *path, rs_error *err)
{
    if (ends_with(path, ".gguf") || ends_with(path, ".safetensors"))
        return rs_fail(err, RS_E_UNSUPPORTED, path,
                       "give the folder with its config.json, and --init measured for what its "
                       "weights are",
                       "a file of weights is no description of an architecture");
    char *file;
    rs_status status = rs_config_open(&d->json, &file, path, err);
    rs_free(file);
    RS_TRY(status);
    const json_t *saved;
    d->published =
        json_object_get(d->json, "model_type") || json_object_get(d->json, "architectures");
    if (!rs_is_saved(d->json)) return RS_OK;
    RS_TRY(rs_saved_arch(&saved, d->json, path, err));
    json_t *arch = json_deep_copy(saved);
    if (!arch) return rs_fail_memory(err, path, 1);
    json_decref(d->json);
    d->json = arch;
    d->published = false;
    return RS_OK;
}

/* The description with laws in place of weights. */
static rs_status plan(rs_design *d, rs_error *err)
{
    RS_TRY(rs_init_open(&d->init, d->law, 0, err));
    return d->published ? rs_network_plan(&d->network, d->json, d->name, d->init, err)
                        : rs_arch_plan(&d->network, d->json, d->name, d->init, err);
}

static rs_status open_measured(rs_design *d, const char *path, rs_error *err)
{
    const rs_checkpoint_options how = {0};
    if (!path || ends_with(path, ".json"))
        return rs_fail(err, RS_E_USAGE, "init",
                       "give the folder of a checkpoint, or --init default",
                       "there are no weights to measure");
    RS_TRY(rs_checkpoint_open(&d->checkpoint, path, &how, err));
    RS_TRY(rs_network_open(&d->stored, d->checkpoint, err));
    RS_TRY(rs_init_open(&d->init, NULL, 0, err));
    rs_init_plan(d->init);
    return rs_measured_plan(&d->network, d->init, d->stored, err);
}

static rs_status finish(rs_design *d, int64_t seq_len, bool measured, const char *path,
                        rs_error *err)
{
    if (!d->published) RS_TRY(rs_arch_read(&d->arch, d->json, d->name, err));
    RS_TRY(measured ? open_measured(d, path, err) : plan(d, err));
    RS_TRY(read_input(d, seq_len, err));
    return rs_theory_model_open(&d->theory, d->network, &d->input, &laws, err);
}

rs_status rs_design_open(rs_design *out, const rs_design_source *source, rs_error *err)
{
    bool measured = source->init && strcmp(source->init, "measured") == 0;
    *out = (rs_design){.name = source->preset ? source->preset : source->path};
    if (!measured && source->init && strcmp(source->init, "default") != 0) out->law = source->init;
    if (source->preset)
        RS_TRY(rs_preset_open(&out->json, source->preset, err));
    else
        RS_TRY(read_path(out, source->path, err));
    bool sets = source->seq_len > 0 && !out->published && !measured;
    if (sets && json_object_set_new(out->json, "seq_len", json_integer(source->seq_len)) != 0)
        return rs_fail_memory(err, out->name, 1);
    return finish(out, source->seq_len, measured, source->preset ? NULL : source->path, err);
}

rs_status rs_design_of(rs_design *out, const rs_design *like, json_t *json, rs_error *err)
{
    *out = (rs_design){.name = like->name, .law = like->law, .json = json};
    return finish(out, 0, false, NULL, err);
}

void rs_design_close(rs_design *d)
{
    rs_theory_model_close(d->theory);
    rs_network_close(d->network);
    rs_network_close(d->stored);
    rs_arch_close(d->arch);
    rs_init_close(d->init);
    rs_checkpoint_close(d->checkpoint);
    json_decref(d->json);
    *d = (rs_design){0};
}

rs_status rs_design_draw(rs_network **network, rs_init **init, const rs_design *d, uint64_t seed,
                         rs_memory_bound memory, rs_error *err)
{
    RS_TRY(rs_init_open(init, d->law, seed, err));
    rs_init_set_memory(*init, memory, d->name, NULL, NULL);
    if (d->checkpoint) return rs_measured_draw(network, *init, d->network, err);
    return d->published ? rs_network_from_config(network, d->json, d->name, *init, err)
                        : rs_network_from_arch(network, d->json, d->name, *init, err);
}
