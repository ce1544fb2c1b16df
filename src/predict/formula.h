/* formula.h: which formula made a number of the theory. */
#ifndef RS_PREDICT_FORMULA_H
#define RS_PREDICT_FORMULA_H

typedef enum rs_formula {
    RS_FORMULA_NONE, /* there is no number, and a reason stands beside it */
    RS_FORMULA_INPUT,
    RS_FORMULA_LINEAR_FORWARD,
    RS_FORMULA_MEAN_FIELD,
    RS_FORMULA_CONDENSED,
    RS_FORMULA_CONDENSED_ROUGH,
    RS_FORMULA_GRAM,
    RS_FORMULA_GRAM_TURNED,
    RS_FORMULA_LINEAR_BACKWARD,
    RS_FORMULA_BACKWARD,
    RS_FORMULA_GRAM_BACKWARD,
    RS_FORMULA_GRAM_QUERIES,
    RS_FORMULA_COUNT
} rs_formula;

/* Its name and section ("mean field with exact softmax moments (docs/theory/mean_field.md, 4)"). */
const char *rs_formula_text(rs_formula formula);

#endif
