/*
 * edit_ablate.c: heads that are left out: W_O,h = 0. What a head writes then reaches nothing, while
 * the output's bias, the other heads and every other number stay what they are.
 */
#include "network/edit_parts.h"

#include "base/memory.h"
#include "network/op_traits.h"

#include <stdio.h>
#include <string.h>

/* ---- which maps ---- */

static rs_dense *map_of(rs_branch *branch, rs_role role)
{
    const rs_weight_list *list = &rs_branch_traits(branch)->weights;
    for (size_t i = 0; i < list->n; i++) {
        const rs_weight_row *row = &list->rows[i];
        rs_dense *map = row->role == role ? rs_weight_map_to_fill(row, branch) : NULL;
        if (map && map->weight) return map;
    }
    return NULL;
}

/* What reads the heads side by side; NULL: they are added up. */
static rs_dense *output_map(rs_branch *branch)
{
    rs_dense *map = map_of(branch, RS_ROLE_O);
    return map ? map : map_of(branch, RS_ROLE_SSM_OUT);
}

/* Where heads are added up without an output map, each must have values of its own. */
static bool own_values(const rs_branch *branch, int32_t heads)
{
    const rs_op_traits *traits = rs_branch_traits(branch);
    return traits->parts && traits->parts(branch, RS_ROLE_V) == heads;
}

int32_t rs_branch_ablatable(const rs_branch *branch, const char **why)
{
    rs_branch copy = *branch;
    const char *reason = NULL, **say = why ? why : &reason;
    int32_t heads = rs_branch_heads(branch);
    const rs_dense *out = output_map(&copy);
    if (heads == 0 || (out && out->in % heads != 0))
        *say = "it has no heads";
    else if (!out && !own_values(branch, heads))
        *say = "its heads have no output map, nor values of their own";
    else
        return heads;
    return 0;
}

/* ---- numbers that become 0 ---- */

/* A copy whose numbers can be changed, in the narrowest type that holds them all (dtype.h). */
static rs_status copy_tensor(const rs_tensor **at, rs_arena *arena, rs_error *err)
{
    const rs_tensor *from = *at;
    bool wide = rs_dtype_info(from->dtype)->decode_f64 != NULL;
    size_t size = wide ? sizeof(double) : sizeof(float);
    rs_tensor *copy = rs_arena_alloc(arena, 1, sizeof *copy);
    void *data = rs_arena_alloc(arena, (size_t)from->count, size);
    if (!copy || !data) return rs_fail_memory(err, from->name, (size_t)from->count * size);
    if (wide)
        rs_tensor_decode_f64(data, from, 0, from->count);
    else
        rs_tensor_decode_f32(data, from, 0, from->count);
    *copy = *from;
    copy->dtype = wide ? RS_F64 : RS_F32;
    copy->data = data;
    copy->bytes = (uint64_t)from->count * size;
    *at = copy;
    return RS_OK;
}

/* Entry i of such a copy becomes 0. */
static void clear_entry(const rs_tensor *copy, int64_t i)
{
    size_t size = copy->dtype == RS_F64 ? sizeof(double) : sizeof(float);
    memset((uint8_t *)(uintptr_t)copy->data + (size_t)i * size, 0, size);
}

static int64_t stored_vector(const rs_dense *map, int64_t u)
{
    return map->first + u / map->run * map->stride + u % map->run;
}

/* The weight from input i to output u. */
static void clear_weight(const rs_dense *map, int64_t u, int64_t i)
{
    int64_t v = stored_vector(map, u);
    clear_entry(map->weight, map->out_is_row ? v * map->cols + i : i * map->cols + v);
}

static void clear_head(const rs_dense *map, bool by_input, int32_t head, int32_t heads)
{
    int64_t width = (by_input ? map->in : map->out) / heads, first = head * width;
    for (int64_t i = first; i < first + width; i++) {
        for (int64_t u = 0; u < map->out && by_input; u++)
            clear_weight(map, u, i);
        for (int64_t j = 0; j < map->in && !by_input; j++)
            clear_weight(map, i, j);
        if (!by_input && map->bias) clear_entry(map->bias, stored_vector(map, i));
    }
}

static rs_status count_heads(int32_t *heads, const rs_branch *branch, const char *where,
                             rs_error *err)
{
    const char *why;
    *heads = rs_branch_ablatable(branch, &why);
    return *heads > 0 ? RS_OK
                      : rs_fail(err, RS_E_BAD_OPTION, where, NULL,
                                "no head of this mixer (%s) can be left out: %s",
                                rs_branch_traits(branch)->name, why);
}

rs_status rs_branch_ablate(rs_branch *branch, const int32_t *heads, size_t n, rs_arena *arena,
                           const char *where, rs_error *err)
{
    int32_t all;
    RS_TRY(count_heads(&all, branch, where, err));
    rs_dense *out = output_map(branch), *map = out ? out : map_of(branch, RS_ROLE_V);
    RS_TRY(copy_tensor(&map->weight, arena, err));
    if (!out && map->bias) RS_TRY(copy_tensor(&map->bias, arena, err));
    for (size_t i = 0; i < n; i++)
        clear_head(map, out != NULL, heads[i], all);
    return RS_OK;
}

/* ---- lists ---- */

enum { MOST_NUMBER = 1 << 20 };

/* The next pair of a list; returns what follows it, or NULL where the text is none. */
static const char *next_pair(int32_t pair[2], const char *text)
{
    for (int i = 0; i < 2; i++) {
        size_t digits = strspn(text, "0123456789");
        pair[i] = 0;
        for (size_t c = 0; c < digits && pair[i] < MOST_NUMBER; c++)
            pair[i] = 10 * pair[i] + (text[c] - '0');
        text += digits;
        if (digits == 0 || (i == 0 && *text++ != ':')) return NULL;
    }
    if (!*text) return text;
    return (*text == ',' || *text == ':') && text[1] ? text + 1 : NULL;
}

rs_status rs_ablation_check(const char *text, const char *where, rs_error *err)
{
    int32_t pair[2];
    for (const char *at = text; *at;) {
        at = next_pair(pair, at);
        if (!at)
            return rs_fail(err, RS_E_BAD_OPTION, where, "layers and heads count from 0",
                           "\"%.80s\" given; L:H for each head, such as 0:3,5:1, is needed", text);
    }
    return RS_OK;
}

static rs_branch *mixer_of(rs_layer *layer)
{
    const rs_branch *mixer = rs_layer_mixer(layer);
    return mixer ? &layer->branches[mixer - layer->branches] : NULL;
}

static rs_status check_pair(const rs_edition *e, int32_t l, int32_t head)
{
    char where[96];
    int32_t all;
    snprintf(where, sizeof where, "--ablate %d:%d", (int)l, (int)head);
    if (l >= e->network->n_layers)
        return rs_fail(e->err, RS_E_BAD_OPTION, where, "layers count from 0",
                       "there is no layer %d: this network has %d", (int)l,
                       (int)e->network->n_layers);
    const rs_branch *mixer = rs_layer_mixer(&e->network->layers[l]);
    if (!mixer)
        return rs_fail(e->err, RS_E_BAD_OPTION, where, NULL,
                       "layer %d has nothing that mixes tokens", (int)l);
    RS_TRY(count_heads(&all, mixer, where, e->err));
    if (head >= all)
        return rs_fail(e->err, RS_E_BAD_OPTION, where, "heads count from 0",
                       "there is no head %d: this mixer (%s) has %d", (int)head,
                       rs_branch_traits(mixer)->name, (int)all);
    return RS_OK;
}

/* Pair `at` of the edit's lists, counted over all of them; false behind the last. */
static bool list_next(const rs_edit *edit, size_t *list, const char **at, int32_t pair[2])
{
    while (*list < RS_ABLATIONS && edit->ablate[*list]) {
        if (!*at) *at = edit->ablate[*list];
        if (**at && (*at = next_pair(pair, *at))) return true;
        *at = NULL;
        ++*list;
    }
    return false;
}

/* The heads of layer l, each once; `heads` has room for `most`. */
static size_t heads_of_layer(int32_t *heads, int32_t most, const rs_edit *edit, int32_t l)
{
    size_t list = 0, n = 0;
    const char *at = NULL;
    int32_t pair[2];
    while (list_next(edit, &list, &at, pair)) {
        bool known = pair[0] != l || pair[1] >= most;
        for (size_t i = 0; i < n && !known; i++)
            known = heads[i] == pair[1];
        if (!known) heads[n++] = pair[1];
    }
    return n;
}

/* Each layer at once: its output map is copied once. */
rs_status rs_edit_ablate(const rs_edition *e)
{
    size_t list = 0;
    const char *at = NULL;
    int32_t pair[2];
    while (list_next(e->edit, &list, &at, pair))
        RS_TRY(check_pair(e, pair[0], pair[1]));
    for (int32_t l = 0; l < e->network->n_layers && list > 0; l++) {
        rs_branch *mixer = mixer_of(&e->network->layers[l]);
        int32_t all = mixer ? rs_branch_ablatable(mixer, NULL) : 0;
        int32_t *heads = rs_calloc((size_t)all + 1, sizeof *heads);
        if (!heads) return rs_fail_memory(e->err, "heads", (size_t)all * sizeof *heads);
        size_t n = heads_of_layer(heads, all, e->edit, l);
        rs_status status =
            n > 0 ? rs_branch_ablate(mixer, heads, n, e->network->arena, "--ablate", e->err)
                  : RS_OK;
        rs_free(heads);
        if (status != RS_OK) return status;
    }
    return RS_OK;
}

static bool is_listed(const rs_edit *edit, int32_t l)
{
    size_t list = 0;
    const char *at = NULL;
    int32_t pair[2] = {-1, 0};
    while (list_next(edit, &list, &at, pair))
        if (pair[0] == l) return true;
    return false;
}

double rs_ablation_bytes(const rs_network *network, const rs_edit *edit)
{
    double bytes = 0;
    for (int32_t l = 0; l < network->n_layers && edit->ablate[0]; l++) {
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        if (!mixer || rs_branch_ablatable(mixer, NULL) == 0 || !is_listed(edit, l)) continue;
        rs_branch copy = *mixer;
        const rs_dense *out = output_map(&copy), *map = out ? out : map_of(&copy, RS_ROLE_V);
        bytes += (double)map->weight->count * sizeof(double);
    }
    return bytes;
}
