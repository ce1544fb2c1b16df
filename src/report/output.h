/*
 * output.h: files that appear whole or not at all, alone or together. rs_output_write (result.h)
 * takes all bytes at once; here is a file of known size that is written in pieces, in any order,
 * for what is too large to hold.
 */
#ifndef RS_REPORT_OUTPUT_H
#define RS_REPORT_OUTPUT_H

#include "report/result.h"

#include <signal.h>

/* The marks by which a file of rankscope's is known again: it begins with one (HTML has it in its
 * first bytes). CSV has no room for a mark and is known by its columns. */
#define RS_MARK_JSON "{\"rankscope\":\""
#define RS_MARK_HTML "<meta name=\"generator\" content=\"rankscope\">"
#define RS_MARK_SAFETENSORS "{\"__metadata__\":{\"format\":\"pt\",\"rankscope\":\""

/* Writes *left bytes to a descriptor: 0 or errno; *left is what it did not take. EINTR: *cancel
 * (may be NULL) was set while a pipe or terminal took nothing. */
int rs_output_descriptor_write(int fd, const char *bytes, size_t *left,
                               const volatile sig_atomic_t *cancel);

/* ---- several outputs that appear together ---- */

/* One folder for each kind of file that is written by the folder, and those of a model. */
enum { RS_MOST_FOLDERS = 16 };

/* Outputs that wait for each other. Zero-initialise. */
typedef struct rs_outputs {
    struct rs_output *first, *last;
    size_t n;
    const volatile sig_atomic_t *cancel; /* may be NULL */
    bool kept;                           /* rs_outputs_keep was called */
    bool beside; /* the command writes files of its own, and says itself what became of them */
    struct rs_made_folder {
        int slot; /* output_live.h; negative: none */
        char *path;
    } folders[RS_MOST_FOLDERS]; /* that were made for them, one within another in this order */
    size_t n_folders;
} rs_outputs;

/* Makes a folder unless it is there; it is removed again with the outputs. */
rs_status rs_outputs_make_folder(rs_outputs *outputs, const char *folder, rs_error *err);
/* Puts all files in place, then writes the pipes. On failure nothing stays. */
rs_status rs_outputs_place(rs_outputs *outputs, rs_error *err);
/* Ends the set: what was placed stays. */
void rs_outputs_keep(rs_outputs *outputs);
/* Ends the set: takes back what was placed and removes what was not. Writes into `what` what could
 * not be taken back: names, or "nothing was written" ("" where that is not known: `beside`). */
void rs_outputs_undo(rs_outputs *outputs, char *what, size_t size);

/* ---- in pieces ---- */

typedef struct rs_output rs_output;

/* Prepares a file PATH of `size` zeros. Errors: RS_E_WRITE (PATH is a folder, a device or a pipe;
 * no permission; no space), RS_E_OVERWRITES_INPUT. files may be NULL. */
rs_status rs_output_open(rs_output **out, const char *path, uint64_t size,
                         const rs_input_files *files, rs_error *err);
/* Writes bytes [offset, offset + length) of the file, which must lie inside it. */
rs_status rs_output_put(rs_output *output, uint64_t offset, const void *bytes, size_t length,
                        rs_error *err);
/* Flushes the file and puts it in place, with the other outputs of `files` where it has such. The
 * output is closed in any case. */
rs_status rs_output_commit(rs_output *output, rs_error *err);
/* Closes the output and removes what was written; NULL is fine. */
void rs_output_discard(rs_output *output);

#endif
