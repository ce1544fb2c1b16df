/* gradient_names.c: what tables call a parameter: the branch or the end of the network that it stands
 * in, its weight, and which tensor of it (docs/probe.md, Gradients). */
#include "observe/gather_gradients.h"

#include "network/op_traits.h"

#include <stdio.h>
#include <string.h>

/* The groups of the table's order. */
enum { GROUP_EMBEDDING, GROUP_LAYERS, GROUP_END, GROUP_SUMS };

static const char *place_of(const rs_network *network, const rs_parameter *p)
{
    const rs_layer *layer = &network->layers[p->layer];
    const rs_branch *branch = &layer->branches[p->branch];
    const rs_op_traits *traits = rs_branch_traits(branch);
    if (branch == rs_layer_mixer(layer)) return "mixer";
    if (!traits->mixes) return "mlp";
    return traits->reads_memory(branch) ? "cross" : traits->word;
}

/* The place of a weight in a list; -1: it is not there. */
static int32_t find(const rs_weight_list *list, const rs_parameter *p)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->rows[i].role == p->role && strcmp(list->rows[i].name, p->name) == 0)
            return (int32_t)i;
    return -1;
}

static const char *ending(const rs_parameter *p, rs_weight_form form)
{
    switch (p->part) {
    case RS_OF_WEIGHT:
        return form == RS_WEIGHT_NUMBERS ? "" : ".weight";
    case RS_OF_BIAS:
        return ".bias";
    case RS_OF_GAIN:
        return ".gain";
    case RS_OF_MORE_1:
        return ".weight_1";
    case RS_OF_MORE_2:
        return ".weight_2";
    case RS_OF_SKIP:
        return "skip";
    case RS_OF_SCALE:
        return "scale";
    case RS_OF_IDENTITY:
        return "identity";
    case RS_OF_SOFTMAX:
        return "softmax";
    case RS_OF_UNIFORM:
        return "uniform";
    }
    return "";
}

/* "before", "inside", "after" stand around the op's own list, the branch's own numbers behind all; the final
 * norm in front of the head, the read-out in front of that. */
enum { PLACES = 1024, READ_OUT_PLACE = -2 };
static int32_t outer_place(const char *name)
{
    if (strcmp(name, "before") == 0 || strcmp(name, "final") == 0) return -1;
    if (strcmp(name, "inside") == 0) return 1000;
    return strcmp(name, "after") == 0 ? 1001 : 1002;
}

void rs_gradient_name(rs_gradient_row *row, const rs_network *network, const rs_parameter *p)
{
    const rs_weight_list *list = NULL;
    const char *place = "", *name = p->name;
    row->group = GROUP_END;
    if (p->layer >= 0) {
        list = &rs_branch_traits(&network->layers[p->layer].branches[p->branch])->weights;
        place = place_of(network, p);
        row->group = GROUP_LAYERS;
    } else if (find(&rs_embedding_weights, p) >= 0) {
        list = &rs_embedding_weights;
        place = "embedding";
        row->group = GROUP_EMBEDDING;
    } else if (find(&rs_read_out_weights, p) >= 0) {
        list = &rs_read_out_weights;
    } else if (find(&rs_head_weights, p) >= 0) {
        list = &rs_head_weights;
        place = "head";
    }
    int32_t at = list ? find(list, p) : -1;
    if (rs_part_is_number(p->part)) name = "";
    row->place = at >= 0 ? at : outer_place(p->name);
    if (list == &rs_read_out_weights) row->place = READ_OUT_PLACE;
    char of[24] = "";
    if (row->use == RS_USE_SUM && p->layer >= 0)
        snprintf(of, sizeof of, "layer.%d.", (int)network->layers[p->layer].stored);
    snprintf(row->parameter, sizeof row->parameter, "%s%s%s%s%s%s", of, place, *place ? "." : "",
             name, ending(p, at >= 0 ? list->rows[at].form : RS_WEIGHT_NORM),
             row->use == RS_USE_SUM ? ".sum" : "");
    for (char *c = row->parameter; *c; c++)
        if (*c == ' ') *c = '_';
    if (row->use != RS_USE_SUM) return;
    row->group = GROUP_SUMS;
    if (p->layer < 0) return;
    int32_t branches = RS_BRANCHES_MAX * (1 + network->layers[p->layer].stored);
    row->place += 2 * PLACES * (branches + p->branch);
}
