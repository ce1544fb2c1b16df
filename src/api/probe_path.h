/* probe_path.h: `rankscope probe` from a path to a filled result. */
#ifndef RS_API_PROBE_PATH_H
#define RS_API_PROBE_PATH_H

#include "observe/opened.h"
#include "probe/probe.h"

/* A probe as the command line asks for it. */
typedef struct rs_probe_request {
    const rs_lent_model *lent; /* a model that is open already, instead of path; NULL */
    const char *path;          /* a checkpoint; with init also ARCH.json or config.json */
    const char *init; /* law of --init that weights are drawn by; NULL: a checkpoint's own */
    bool lenient;
    bool scan;              /* the tables of `scan`, by its defaults, stand beside these */
    bool certify, rigorous; /* those of `certify` do, for the network with options.edit */
    bool twin;              /* --null random */
    rs_probe_options options;
} rs_probe_request;

/* probe_path.c: opens, probes and closes. inputs is filled as soon as files are open; files that
 * are written wait in its outputs. */
rs_status rs_probe_path(rs_result *result, rs_input_files *inputs, const rs_probe_request *request,
                        const rs_context *context, rs_error *err);

#endif
