/* gram_turned_causal.h: gram_turned.h's sums where each row sees the keys up to itself. */
#ifndef RS_PREDICT_GRAM_TURNED_CAUSAL_H
#define RS_PREDICT_GRAM_TURNED_CAUSAL_H

#include "predict/gram_turned.h"

typedef struct rs_gram_turned_causal rs_gram_turned_causal;
rs_status rs_gram_turned_causal_open(rs_gram_turned_causal **out, int64_t n, rs_error *err);
void rs_gram_turned_causal_close(rs_gram_turned_causal *turned); /* NULL is fine */

bool rs_gram_turned_causal_gather(double *rest, rs_gram_turned_causal *turned,
                                  const rs_gram_turned_law *law);
bool rs_gram_turned_causal_scatter(double *back, double *shared, rs_gram_turned_causal *turned,
                                   const rs_gram_turned_law *law, const double *given);

#endif
