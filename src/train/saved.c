/* saved.c: reads checkpoints of a run. */
#include "train/saver.h"
#include "train/saver_parts.h"

#include "base/json_parse.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <string.h>

rs_status rs_saved_state(json_t **out, const char *folder, int64_t step, rs_error *err)
{
    char path[RS_SAVED_PATH];
    rs_mapping *mapping;
    *out = NULL;
    RS_TRY(rs_saved_path(path, folder, step, "state.json", err));
    RS_TRY(rs_mapping_open(&mapping, path, err));
    rs_status status = rs_config_parse(out, path, (const char *)mapping->data, mapping->size, err);
    rs_mapping_close(mapping);
    return status;
}

/* The tensor's numbers, which must be `count` of the run's precision. */
static rs_status read_tensor(void *out, const rs_checkpoint *from, const rs_trained_list *list,
                             int64_t item, const char *ending, rs_error *err)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", list->names[item].name, ending);
    const rs_tensor *tensor = rs_checkpoint_find(from, name);
    if (!tensor)
        return rs_fail(err, RS_E_TENSOR_MISSING, from->path, NULL,
                       "there is no tensor %s of this run", name);
    if (tensor->count != list->items[item].count ||
        tensor->dtype != (list->size == 4 ? RS_F32 : RS_F64))
        return rs_fail(err, RS_E_TENSOR_SHAPE, from->path, NULL,
                       "tensor %s has %lld numbers of %s, the run has %lld of %s", name,
                       (long long)tensor->count, rs_dtype_info(tensor->dtype)->name,
                       (long long)list->items[item].count, list->size == 4 ? "F32" : "F64");
    memcpy(out, tensor->data, (size_t)tensor->count * list->size);
    return RS_OK;
}

static rs_status read_model(rs_learner *l, const rs_checkpoint *from, bool model, rs_error *err)
{
    const rs_trained_list *list = &l->trained;
    static const char *const endings[] = {".state_1", ".state_2"};
    for (int64_t i = 0; i < list->n; i++) {
        if ((list->places[i].tensor != NULL) == model)
            RS_TRY(read_tensor(list->items[i].weight, from, list, i, "", err));
        for (int k = 0; k < rs_optimiser_states(l->settings->rule.kind) && !model; k++) {
            void *state = rs_optimiser_state(l->optimiser, i, k);
            if (state) RS_TRY(read_tensor(state, from, list, i, endings[k], err));
        }
    }
    return RS_OK;
}

/* Whether a run has numbers beside its tensors. */
static bool has_training(const rs_learner *l)
{
    bool any = rs_optimiser_states(l->settings->rule.kind) > 0;
    for (int64_t i = 0; i < l->trained.n; i++)
        any = any || !l->trained.places[i].tensor;
    return any;
}

static rs_status read_file(rs_learner *l, const char *folder, int64_t step, bool model,
                           rs_error *err)
{
    char path[RS_SAVED_PATH];
    rs_checkpoint *from = NULL;
    RS_TRY(rs_saved_path(path, folder, step, model ? "model.safetensors" : "training.safetensors",
                         err));
    RS_TRY(rs_checkpoint_open(&from, path, NULL, err));
    rs_status status = read_model(l, from, model, err);
    rs_checkpoint_close(from);
    return status;
}

rs_status rs_saved_load(rs_learner *l, const char *folder, int64_t step, rs_error *err)
{
    RS_TRY(read_file(l, folder, step, true, err));
    if (has_training(l)) RS_TRY(read_file(l, folder, step, false, err));
    rs_trained_hand_over(&l->trained);
    rs_weights_changed(l->weights);
    l->step = step;
    *rs_optimiser_steps(l->optimiser) = step;
    return rs_saved_link(folder, step, err);
}
