/* cpu.h: what the processor is and can do. */
#ifndef RS_BASE_CPU_H
#define RS_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* The processor's own name ("AMD EPYC 7763"), or its architecture where it has none. */
void rs_cpu_name(char *name, size_t size);

/* The instruction sets that matter here; rs_cpu_vector_level gives the widest with fused
 * multiply-add that both the processor and the operating system offer. */
typedef enum rs_cpu_level {
    RS_CPU_PLAIN,
    RS_CPU_SSE,
    RS_CPU_AVX,
    RS_CPU_AVX2,
    RS_CPU_AVX512,
    RS_CPU_NEON
} rs_cpu_level;
rs_cpu_level rs_cpu_vector_level(void);
const char *rs_cpu_level_name(rs_cpu_level level);
bool rs_cpu_is_amd(void);

#endif
