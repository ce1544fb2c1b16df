/* compress.h: `rankscope scan --energy` to its end: what the activations of a text say of each matrix, and
 * what the model loses when it is cut for good (docs/compression.md). */
#ifndef RS_COMPRESS_COMPRESS_H
#define RS_COMPRESS_COMPRESS_H

#include "observe/opened.h"
#include "scan/scan.h"

/* A scan with energies, as the command line asks for it. */
typedef struct rs_compress_request {
    rs_scan_request scan;
    rs_input_source source; /* texts; none: the weights are measured alone */
    rs_precision precision; /* of passes over them: F32 or F64 */
    const char *write;      /* folder for the truncated checkpoint of the one energy; NULL: none */
} rs_compress_request;

/* Opens, scans and closes; inputs is filled as soon as files are open. Errors: those of rs_scan_path, with
 * a text those of a run; RS_E_UNSUPPORTED for a model that is lent. */
rs_status rs_compress_path(rs_result *result, rs_input_files *inputs,
                           const rs_compress_request *request, const rs_context *context,
                           rs_error *err);
/* The same of a model that is open, without a text. */
rs_status rs_compress_model(rs_result *result, const rs_model *model,
                            const rs_scan_options *options, const rs_context *context,
                            rs_error *err);

extern const rs_table_kind rs_scan_compression_kind;

#endif
