/* edit_parts.h: what the files of edit_*.c that apply interventions share. */
#ifndef RS_NETWORK_EDIT_PARTS_H
#define RS_NETWORK_EDIT_PARTS_H

#include "network/edit.h"

/* An edit on its way into a network. */
typedef struct rs_edition {
    rs_network *network;
    const rs_edit *edit;
    rs_error *err;
} rs_edition;

rs_status rs_edition_refuse(const rs_edition *e, const char *option, const char *hint,
                            const char *what);
/* Tells a user something about the edited network. */
rs_status rs_edition_note(const rs_edition *e, const char *code, const char *message);

/* edit_ablate.c: lists of heads, as they are spelled and as they are left out. */
rs_status rs_ablation_check(const char *text, const char *where, rs_error *err);
rs_status rs_edit_ablate(const rs_edition *e);

/* edit_mixers.c: gates and norms inside of mixers, and where the norms of blocks stand. */
rs_status rs_edit_mixers(const rs_edition *e);
rs_status rs_edit_placement(const rs_edition *e);

#endif
