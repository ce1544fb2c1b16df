/* frame.c: the post-processors of tokenizer.json, as the ids that one sequence gets before and
 * after it. */
#include "base/memory.h"
#include "text/steps.h"

#include <string.h>

rs_status rs_ids_add(rs_ids *ids, int32_t id, rs_error *err)
{
    if (!RS_GROW(ids->items, ids->n, ids->capacity))
        return rs_fail_memory(err, "special tokens", ids->n);
    ids->items[ids->n++] = id;
    return RS_OK;
}

void rs_frame_free(rs_frame *frame)
{
    rs_free(frame->before.items);
    rs_free(frame->after.items);
    *frame = (rs_frame){0};
}

static rs_status add_checked(rs_ids *ids, const rs_spec *spec, uint32_t value, rs_error *err)
{
    int64_t id;
    if (!rs_json_integer(spec->json, value, &id) || id < 0 || id > INT32_MAX)
        return rs_spec_fail(spec, "", err, "must hold an id, a whole number from 0 on");
    return rs_ids_add(ids, (int32_t)id, err);
}

/* A later processor works on what the earlier one made: its tokens stand further outside. */
static rs_status wrap(rs_frame *frame, const rs_frame *outer, rs_error *err)
{
    rs_ids before = {0};
    rs_status status = RS_OK;
    for (size_t i = 0; i < outer->before.n && status == RS_OK; i++)
        status = rs_ids_add(&before, outer->before.items[i], err);
    for (size_t i = 0; i < frame->before.n && status == RS_OK; i++)
        status = rs_ids_add(&before, frame->before.items[i], err);
    for (size_t i = 0; i < outer->after.n && status == RS_OK; i++)
        status = rs_ids_add(&frame->after, outer->after.items[i], err);
    rs_free(frame->before.items);
    frame->before = before;
    return status;
}

/* ---- TemplateProcessing ---- */

/* The ids of one special token of the template, by the table "special_tokens". */
static rs_status add_special(rs_ids *ids, const rs_spec *table, const rs_spec *piece, rs_error *err)
{
    const rs_json_index *json = piece->json;
    uint32_t id = rs_json_member(json, piece->value, "id");
    if (id == RS_JSON_ABSENT || json->nodes[id].kind != RS_JSON_STRING)
        return rs_spec_fail(piece, "id", err, "must be a string");
    const rs_json_node *name = &json->nodes[id], *object = &json->nodes[table->value];
    uint32_t at = table->value + 1;
    while (at < object->next && (json->nodes[at].length != name->length ||
                                 memcmp(json->nodes[at].text, name->text, name->length) != 0))
        at = rs_json_next(json, at + 1);
    rs_spec entry = *table, list;
    entry.value = at + 1;
    if (at >= object->next || !rs_spec_member(&list, &entry, "ids") ||
        json->nodes[list.value].kind != RS_JSON_ARRAY)
        return rs_spec_fail(piece, "id", err, "'%.*s' has no ids in special_tokens",
                            name->length < 60 ? (int)name->length : 60, name->text);
    uint32_t end = rs_json_next(json, list.value);
    for (uint32_t value = list.value + 1; value < end; value = rs_json_next(json, value))
        RS_TRY(add_checked(ids, &list, value, err));
    return RS_OK;
}

static rs_status read_template(rs_frame *frame, const rs_spec *spec, rs_error *err)
{
    rs_spec single, table;
    const rs_json_index *json = spec->json;
    if (!rs_spec_member(&single, spec, "single") || json->nodes[single.value].kind != RS_JSON_ARRAY)
        return rs_spec_fail(spec, "single", err, "must be a list");
    if (!rs_spec_member(&table, spec, "special_tokens") ||
        json->nodes[table.value].kind != RS_JSON_OBJECT)
        return rs_spec_fail(spec, "special_tokens", err, "must be an object");
    size_t sequences = 0;
    uint32_t end = rs_json_next(json, single.value), at = single.value + 1;
    for (size_t i = 0; at < end; i++, at = rs_json_next(json, at)) {
        rs_spec element, piece;
        rs_spec_element(&element, &single, at, i);
        if (rs_spec_member(&piece, &element, "SpecialToken"))
            RS_TRY(add_special(sequences ? &frame->after : &frame->before, &table, &piece, err));
        else if (rs_spec_member(&piece, &element, "Sequence"))
            sequences++;
        else
            return rs_spec_fail(&element, "", err, "must hold SpecialToken or Sequence");
    }
    return sequences == 1 ? RS_OK
                          : rs_spec_fail(&single, "", err,
                                         "must hold the sequence once, not %zu "
                                         "times",
                                         sequences);
}

/* ---- BertProcessing, RobertaProcessing: "cls": ["[CLS]", 101], "sep": ["[SEP]", 102] ---- */

static rs_status add_pair(rs_ids *ids, const rs_spec *spec, const char *key, rs_error *err)
{
    rs_spec pair;
    if (!rs_spec_member(&pair, spec, key)) return rs_spec_fail(spec, key, err, "is missing");
    const rs_json_node *array = &spec->json->nodes[pair.value];
    if (array->kind != RS_JSON_ARRAY || array->length != 2 || array[1].kind != RS_JSON_STRING)
        return rs_spec_fail(&pair, "", err, "must be a token and its id");
    return add_checked(ids, &pair, pair.value + 2, err);
}

static rs_status read_cls_sep(rs_frame *frame, const rs_spec *spec, rs_error *err)
{
    RS_TRY(add_pair(&frame->before, spec, "cls", err));
    return add_pair(&frame->after, spec, "sep", err);
}

static rs_status read_nothing(rs_frame *frame, const rs_spec *spec, rs_error *err)
{
    (void)frame;
    (void)spec;
    (void)err;
    return RS_OK;
}

static const struct {
    const char *type;
    rs_status (*read)(rs_frame *frame, const rs_spec *spec, rs_error *err);
} kinds[] = {
    {"TemplateProcessing", read_template},
    {"BertProcessing", read_cls_sep},
    {"RobertaProcessing", read_cls_sep},
    {"ByteLevel", read_nothing}, /* changes offsets only */
};

static rs_status read_one(void *user, const rs_spec *spec, const char *type, rs_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].type) != 0) continue;
        rs_frame outer = {0};
        rs_status status = kinds[i].read(&outer, spec, err);
        if (status == RS_OK) status = wrap(user, &outer, err);
        rs_frame_free(&outer);
        return status;
    }
    return rs_spec_unknown(spec, "post_processor", type, err);
}

rs_status rs_frame_read(rs_frame *frame, const rs_spec *spec, rs_error *err)
{
    return rs_spec_flatten(spec, "processors", read_one, frame, err);
}
