/*
 * design.h: an architecture that is asked about, before a weight is drawn: its description, the law
 * of its input and the laws of its weights.
 */
#ifndef RS_PREDICT_DESIGN_H
#define RS_PREDICT_DESIGN_H

#include "checkpoint/checkpoint.h"
#include "network/arch.h"
#include "predict/theory_network.h"

/* Whose weights. */
typedef struct rs_design_source {
    const char *path; /* ARCH.json, config.json or a checkpoint's folder; NULL: there is a preset */
    const char *preset; /* a name of presets.h; NULL */
    const char
        *init;       /* law of the maps; NULL: the file's own, or the model's library's; "measured":
                           design_measured.h */
    int64_t seq_len; /* tokens; 0: the architecture's, or 128 */
} rs_design_source;

typedef struct rs_design {
    const char *name;          /* the path or the preset's name; borrowed */
    const char *law;           /* of --init; NULL: the description's own */
    json_t *json;              /* the architecture file, or config.json; owned */
    bool published;            /* it is the config.json of a published model */
    rs_arch *arch;             /* NULL: it is published */
    rs_init *init;             /* of the plan's tensors */
    rs_checkpoint *checkpoint; /* whose weights were measured, and what it holds; else NULL */
    rs_network *stored;
    rs_network *network; /* maps and norms of its layers have laws and no numbers */
    rs_theory_input input;
    rs_theory_model *theory;
} rs_design;

/* Errors: those of reading the file; RS_E_NOT_FOUND and RS_E_UNSUPPORTED of presets; RS_E_USAGE where
 * "measured" has no checkpoint. On failure, too, it is to be closed. */
rs_status rs_design_open(rs_design *out, const rs_design_source *source, rs_error *err);
/* The same architecture with other words: json, an architecture file, becomes the design's. */
rs_status rs_design_of(rs_design *out, const rs_design *like, json_t *json, rs_error *err);
void rs_design_close(rs_design *design);

/* Draws its weights, within the memory; network and init are the caller's. */
rs_status rs_design_draw(rs_network **network, rs_init **init, const rs_design *design,
                         uint64_t seed, rs_memory_bound memory, rs_error *err);

#endif
