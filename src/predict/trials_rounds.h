/* trials_rounds.h: rounds of the trials' Philox4x32 (Salmon et al., SC 2011, table 2: 7 pass
 * BigCrush). Private to trials_draw_*.c. */
#ifndef RS_PREDICT_TRIALS_ROUNDS_H
#define RS_PREDICT_TRIALS_ROUNDS_H

enum { RS_TRIALS_ROUNDS = 7 };

#endif
