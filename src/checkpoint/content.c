/* content.c: what a file is by its first bytes, whatever its name says. */
#include "checkpoint/open.h"

#include <string.h>

#define LFS_LINE "version https://git-lfs"

/* Files that people have in place of a model. */
static const struct foreign {
    const char *magic;
    size_t length;
    rs_status status;
    const char *what, *hint;
} foreign_files[] = {
    {LFS_LINE, sizeof LFS_LINE - 1, RS_E_LFS_POINTER,
     "is a Git LFS pointer (a few lines of text), not the data it stands for",
     "run `git lfs pull` in the repository, or download the file itself"},
    {"PK\3\4", 4, RS_E_PICKLE, "is a zip archive, as torch.save writes it (pickled Python objects)",
     "convert it to safetensors; a pickle can run code and is never opened here"},
    {"<!DOCTYPE", 9, RS_E_UNKNOWN_FORMAT, "is a web page, not a checkpoint",
     "the download went to a page about the file; download the file itself"},
    {"<!doctype", 9, RS_E_UNKNOWN_FORMAT, "is a web page, not a checkpoint",
     "the download went to a page about the file; download the file itself"},
    {"<html", 5, RS_E_UNKNOWN_FORMAT, "is a web page, not a checkpoint",
     "the download went to a page about the file; download the file itself"},
};

bool rs_is_lfs_pointer(const char *text, size_t length)
{
    return length >= sizeof LFS_LINE - 1 && memcmp(text, LFS_LINE, sizeof LFS_LINE - 1) == 0;
}

/* Protocols 2 to 5 begin with 0x80 and their number; an opcode, never 0, follows. */
static bool is_bare_pickle(const uint8_t *data, size_t size)
{
    return size >= 3 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5 && data[2] != 0;
}

rs_status rs_content_check(rs_content *content, const rs_mapping *mapping, rs_error *err)
{
    const uint8_t *data = mapping->data;
    size_t size = mapping->size;
    *content = RS_CONTENT_OTHER;
    if (size == 0)
        return rs_fail(err, RS_E_EMPTY_FILE, mapping->path,
                       "the download or the copy did not happen; fetch the file again",
                       "is empty (0 bytes)");
    /* A header length can happen to spell another format's magic: the brace decides. */
    if (size > 8 && data[8] == '{') {
        *content = RS_CONTENT_SAFETENSORS;
        return RS_OK;
    }
    if (size >= 4 && (memcmp(data, "GGUF", 4) == 0 || memcmp(data, "FUGG", 4) == 0)) {
        *content = RS_CONTENT_GGUF;
        return RS_OK;
    }
    for (size_t i = 0; i < sizeof foreign_files / sizeof *foreign_files; i++) {
        const struct foreign *row = &foreign_files[i];
        if (size >= row->length && memcmp(data, row->magic, row->length) == 0)
            return rs_fail(err, row->status, mapping->path, row->hint, "%s", row->what);
    }
    if (is_bare_pickle(data, size))
        return rs_fail(err, RS_E_PICKLE, mapping->path,
                       "convert it to safetensors; a pickle can run code and is never opened here",
                       "is a pickle of Python objects, as torch.save once wrote it");
    return RS_OK;
}
