/* network_parts.c: whether a layer is attention, a state-space mixer, an MLP, or several of them. */
#include "network/network_build.h"

static rs_status refuse_experts(rs_net_builder *nb, int32_t stored)
{
    double experts = nb->forward->no_experts; /* of what is drawn: no tensor says */
    if (nb->init && nb->forward->experts) RS_TRY(rs_net_real(nb, nb->forward->experts, &experts));
    if (experts > nb->forward->no_experts)
        return rs_fail(
            nb->err, RS_E_UNSUPPORTED, nb->b->fields.path, "a configuration without experts is run",
            "%s is %g: mixtures of experts are not run here", nb->forward->experts, experts);
    if (nb->init ||
        !(rs_net_has(nb, RS_ROLE_MOE_EXPERT, stored) || rs_net_has(nb, RS_ROLE_MOE_ROUTER, stored)))
        return RS_OK;
    return rs_fail(nb->err, RS_E_UNSUPPORTED, nb->b->checkpoint->path, "scan reads its weights",
                   "layer %d is a mixture of experts, which is not run here", (int)stored);
}

/* By its tensors, a sum of rs_layer_parts' values; 0: they do not say. */
static int parts_stored(const rs_net_builder *nb, int32_t stored)
{
    int parts = 0;
    if (rs_net_has(nb, RS_ROLE_SSM_IN, stored) || rs_net_has(nb, RS_ROLE_SSM_CONV, stored))
        parts |= RS_LAYER_SSM;
    if (rs_net_has(nb, RS_ROLE_Q, stored) || rs_net_has(nb, RS_ROLE_QKV, stored))
        parts |= RS_LAYER_ATTENTION;
    if (!parts && rs_net_has(nb, RS_ROLE_MLP_UP, stored)) parts = RS_LAYER_NEITHER;
    return parts;
}

static const char *words_for(int parts)
{
    if (parts & RS_LAYER_EXPERTS) return "a mixture of experts";
    if (parts & RS_LAYER_NEITHER) return "an MLP alone";
    return parts & RS_LAYER_SSM ? "a state-space mixer" : "attention";
}

static rs_status refuse_parts(rs_net_builder *nb, int32_t stored, const char *field, int said,
                              int there)
{
    if (said & RS_LAYER_EXPERTS)
        return rs_fail(
            nb->err, RS_E_UNSUPPORTED, nb->b->fields.path, "a configuration without experts is run",
            "%s makes layer %d a mixture of experts, which is not run here", field, (int)stored);
    if (!said && !there)
        return rs_fail(nb->err, RS_E_CONFIG_LAYERS, nb->b->fields.path, RS_CONFIG_HINT,
                       "neither the configuration nor a tensor says whether layer %d is attention, "
                       "a state-space mixer or an MLP",
                       (int)stored);
    return rs_fail(nb->err, RS_E_CONFIG_LAYERS, nb->b->fields.path, RS_CONFIG_HINT,
                   "%s says that layer %d has %s, and the checkpoint stores %s there", field,
                   (int)stored, words_for(said), words_for(there));
}

/* What a layer has, its tensors say, or the configuration of what is drawn. A list of layers that
 * says otherwise belongs to another model. */
rs_status rs_net_parts(rs_net_builder *nb, int32_t stored, int *parts)
{
    const char *field;
    RS_TRY(refuse_experts(nb, stored));
    bool alone = nb->forward->one_branch;
    *parts = RS_LAYER_ATTENTION;
    if (!nb->forward->ssm) return RS_OK;
    int said = rs_layer_parts(nb->b, stored, &field), there = 0;
    if (!nb->init) there = parts_stored(nb, stored);
    *parts = nb->init || !field ? said : there;
    if (said & RS_LAYER_EXPERTS || (said && there && field && said != there))
        return refuse_parts(nb, stored, field, said, there);
    if (!*parts) *parts = said; /* what is absent is then told by its names */
    if (!*parts && alone) return refuse_parts(nb, stored, field, said, there);
    if (!*parts) *parts = RS_LAYER_SSM;
    return RS_OK;
}
