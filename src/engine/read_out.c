/* read_out.c: whether a pass reads the states behind all layers together, and whether it can. */
#include "engine/ops.h"

#include "network/op_check.h"

/* Some tap asks for what stands behind the read-out. */
static bool is_heard(const rs_runner *run)
{
    const unsigned behind = 1u << RS_SITE_READ_OUT | 1u << RS_SITE_FINAL;
    for (size_t i = 0; i < run->n_taps; i++) {
        const rs_tap *tap = run->taps[i];
        if (tap->state && tap->sites & behind) return true;
        if (tap->logits && run->network->head.decoder.weight) return true;
    }
    return false;
}

rs_status rs_run_plan_read_out(rs_runner *run, bool wanted, rs_error *err)
{
    const rs_network *network = run->network;
    const rs_read_out_op *op = &network->read_out;
    int64_t d = network->d_model;
    run->reads = op->kind != RS_FUSION_NONE && (wanted || is_heard(run));
    if (!run->reads) return RS_OK;
    if (!run->ops->read_out)
        return rs_fail(err, RS_E_UNSUPPORTED, "--precision", "take --precision f64 or f32",
                       "the model reads the states of all layers together (\"fusion\"), which "
                       "this precision does not run");
    if (network->n_layers < 1)
        return rs_fail(err, RS_E_INTERNAL, "fusion", NULL, "a read-out of no layers");
    if (op->kind == RS_FUSION_MAX) return RS_OK;
    bool gate = op->kind == RS_FUSION_GATE;
    return rs_check_dense(&op->map, gate ? d : d * network->n_layers, gate ? 1 : d, "fusion", err);
}
