/* fuzz_model.c: the first byte chooses a checkpoint (LLaMA-, BERT-, Mamba-2-like), the rest is its
 * configuration, or from 128 on a --map. */
#include "../tests/unit/model_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const *const kinds[] = {fixture_llama, fixture_bert, fixture_mamba2};
    if (size < 1) return 0;
    bool map = data[0] >= 128;
    json_t *json = NULL;
    rs_error err;
    if (rs_config_parse(&json, "config.json", (const char *)data + 1, size - 1, &err) != RS_OK)
        return 0;
    rs_checkpoint *checkpoint = fixture_make(RS_FORMAT_SAFETENSORS, NULL, kinds[data[0] % 3], 2);
    rs_model *model = NULL;
    if (!checkpoint) abort();
    if (!map) checkpoint->config = json;
    if (rs_model_open(&model, checkpoint, map ? json : NULL, "map.json", &err) == RS_OK) {
        for (size_t i = 0; i < model->n_products; i++) {
            const rs_product *p = &model->products[i];
            const rs_factor *factors[2] = {&p->a, &p->b};
            if (p->a.inner != p->b.inner || !p->corrections) abort();
            for (size_t f = 0; f < 2; f++) {
                int64_t limit = factors[f]->vector_is_row ? factors[f]->rows : factors[f]->cols;
                if (factors[f]->first < 0 || factors[f]->first + factors[f]->inner > limit ||
                    factors[f]->rows * factors[f]->cols != factors[f]->tensor->count)
                    abort();
            }
        }
        if (!model->n_products) abort();
    }
    rs_model_close(model);
    if (map) json_decref(json);
    rs_checkpoint_close(checkpoint);
    return 0;
}
