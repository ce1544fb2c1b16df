/*
 * opened.h: what a command that runs a model opens: a checkpoint or a description with random
 * weights, its tokenizer, the inputs; and the files that its outputs must not replace.
 */
#ifndef RS_OBSERVE_OPENED_H
#define RS_OBSERVE_OPENED_H

#include "observe/inputs.h"
#include "observe/needs.h"
#include "scan/scan.h"

/* A model that is open already, and stays so. */
typedef struct rs_lent_model {
    rs_checkpoint *checkpoint;
    const rs_model *model; /* as scan understands the checkpoint */
    rs_network *network;   /* NULL: no pass is asked for */
} rs_lent_model;

/* What a command wants opened. */
typedef struct rs_open_request {
    const rs_lent_model *lent; /* NULL: path says what to open; else path and init are not read */
    const char *path;          /* a checkpoint; with init also ARCH.json or config.json */
    const char *init; /* law of --init that weights are drawn by; NULL: a checkpoint's own */
    bool lenient;
    bool wants_model;     /* as scan reads it; of a checkpoint alone */
    bool wants_twin;      /* the same model with weights drawn by default */
    bool wants_tokenizer; /* although the inputs are no text; that there is none is no error then */
    rs_input_source source;
    rs_run_need *need;       /* adds up what the command will hold; NULL: not known */
    const void *options;     /* argument of `need` */
    const char *memory_hint; /* what to do where that is too much; NULL: smaller inputs */
} rs_open_request;

/* What was opened. */
typedef struct rs_opened {
    const rs_open_request *request; /* set while opening */
    bool lent;                      /* checkpoint and network are not ours to close */
    rs_input_files *files;
    json_t *config; /* contents of ARCH.json or config.json */
    char *config_path;
    rs_arch *arch;
    rs_init *init;
    rs_checkpoint *checkpoint; /* NULL: the weights are drawn */
    const rs_model *model;     /* NULL: not wanted, or the weights are drawn */
    rs_model *own_model;       /* to be closed */
    rs_network *network;
    rs_init *twin_init;
    rs_network *twin;        /* NULL: not wanted */
    rs_tokenizer *tokenizer; /* NULL: none */
    rs_inputs *inputs;
} rs_opened;

/*
 * Opens what the request says and writes meta "model" into the result. `files` is filled as soon as
 * files are open. On failure, too, *o is to be closed.
 */
rs_status rs_opened_open(rs_opened *o, rs_result *result, rs_input_files *files,
                         const rs_open_request *request, const rs_context *context, rs_error *err);
void rs_opened_close(rs_opened *o);

/* The folder that PATH is or lies in, in buffer where it is not PATH itself: what belongs to the model lies
 * beside it. */
const char *rs_model_folder(char *buffer, size_t size, const char *path);

#endif
