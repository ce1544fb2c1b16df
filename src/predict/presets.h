/* presets.h: architectures by name, as architecture files (docs/predict.md says where their numbers
 * come from). */
#ifndef RS_PREDICT_PRESETS_H
#define RS_PREDICT_PRESETS_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

typedef struct rs_preset {
    const char *name, *says; /* says: what it is, in a line */
    const char *refused;     /* what to ask instead; NULL: there is a file */
    const char *file;        /* what it says beside the defaults of presets */
} rs_preset;

/* Preset i; NULL behind the last. */
const rs_preset *rs_preset_at(size_t i);

/* The architecture file of a preset; owned by the caller. RS_E_NOT_FOUND names the nearest,
 * RS_E_UNSUPPORTED says what to ask instead. */
rs_status rs_preset_open(json_t **out, const char *name, rs_error *err);

#endif
