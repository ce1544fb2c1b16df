/* formula.c: the formulas by their texts. */
#include "predict/formula.h"

#include <stddef.h>

static const char *const texts[RS_FORMULA_COUNT] = {
    [RS_FORMULA_NONE] = "none",
    [RS_FORMULA_INPUT] = "the input's law",
    [RS_FORMULA_LINEAR_FORWARD] =
        "uniform attention, linear MLP, no norm: exact (docs/theory/mean_field.md, 4)",
    [RS_FORMULA_MEAN_FIELD] =
        "mean field with exact softmax moments (docs/theory/mean_field.md, 4)",
    [RS_FORMULA_CONDENSED] =
        "mean field, condensed attention by a double integral (docs/theory/mean_field.md, 2)",
    [RS_FORMULA_CONDENSED_ROUGH] =
        "mean field, condensed attention by largest logits: rough (docs/theory/mean_field.md, 2)",
    [RS_FORMULA_GRAM] = "Gram matrix of masked attention (docs/theory/mean_field.md, 6)",
    [RS_FORMULA_GRAM_TURNED] =
        "Gram matrix of masked attention with rotary positions (docs/theory/mean_field.md, 6)",
    [RS_FORMULA_LINEAR_BACKWARD] =
        "uniform attention, linear MLP, no norm: closed form (docs/theory/mean_field.md, 5)",
    [RS_FORMULA_BACKWARD] = "backward mean field (docs/theory/mean_field.md, 5)",
    [RS_FORMULA_GRAM_BACKWARD] =
        "Gram matrix of masked attention, backward (docs/theory/mean_field.md, 6)",
    [RS_FORMULA_GRAM_QUERIES] =
        "Gram matrix of masked attention, logits row by row (docs/theory/mean_field.md, 6)",
};

const char *rs_formula_text(rs_formula formula)
{
    return (unsigned)formula < RS_FORMULA_COUNT ? texts[formula] : texts[RS_FORMULA_NONE];
}
