/* philox.h: the constants of Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), for loops of vector
 * code over many counters; single draws are base/random.h's. */
#ifndef RS_BASE_PHILOX_H
#define RS_BASE_PHILOX_H

enum { RS_PHILOX_ROUNDS = 10 };
#define RS_PHILOX_FACTOR_0 0xD2511F53u
#define RS_PHILOX_FACTOR_1 0xCD9E8D57u
#define RS_PHILOX_STEP_0 0x9E3779B9u
#define RS_PHILOX_STEP_1 0xBB67AE85u

#endif
