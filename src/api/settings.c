/* settings.c: settings of any size, and what several commands have in theirs. */
#include "api/check.h"
#include "api/command.h"

#include <string.h>

/* Every command's settings begin alike, so that `common` reads them. */
#define BEGINS_ALIKE(type)                                                                         \
    _Static_assert(offsetof(type, size) == offsetof(rs_any_settings, common.size) &&               \
                       offsetof(type, call) == offsetof(rs_any_settings, common.call),             \
                   #type " begins as the others do")
#define RUNS_ALIKE(type)                                                                           \
    BEGINS_ALIKE(type);                                                                            \
    _Static_assert(offsetof(type, run) == offsetof(rs_any_settings, common.run),                   \
                   #type " has the inputs where the others have them")
BEGINS_ALIKE(rs_scan_settings);
RUNS_ALIKE(rs_probe_settings);
RUNS_ALIKE(rs_certify_settings);
RUNS_ALIKE(rs_paths_settings);
RUNS_ALIKE(rs_compare_settings);
BEGINS_ALIKE(rs_tokenize_settings);
BEGINS_ALIKE(rs_lab_settings);
BEGINS_ALIKE(rs_doctor_settings);
BEGINS_ALIKE(rs_explain_settings);
BEGINS_ALIKE(rs_session_settings);
RUNS_ALIKE(rs_gradients_settings);

static void set_defaults(rs_any_settings *settings, const rs_command *command)
{
    memset(settings, 0, sizeof *settings);
    if (command->defaults) command->defaults(settings);
}

void rs_settings_init(void *settings, size_t size, const rs_command *command)
{
    rs_any_settings all;
    if (!settings || size < sizeof all.common.size) return;
    set_defaults(&all, command);
    all.common.size = size;
    memset(settings, 0, size); /* all that the caller has, be it more than this library knows */
    memcpy(settings, &all, size < command->size ? size : command->size);
}

rs_status rs_settings_take(rs_any_settings *out, const rs_command *command, const void *given,
                           rs_error *err)
{
    size_t size;
    RS_TRY(rs_check_pointer(given, "settings", err));
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > command->size)
        return rs_fail(err, RS_E_USAGE, "size",
                       "rs_*_settings_init sets it; a library older than its header refuses what "
                       "it does not know",
                       "%zu is no size of rs_%s_settings", size, command->name);
    set_defaults(out, command);
    memcpy(out, given, size);
    return command->runs ? rs_check_run(&out->common.run, err) : RS_OK;
}

rs_input_source rs_source_of(const rs_run_settings *run)
{
    return (rs_input_source){.texts = run->text ? &run->text : run->texts,
                             .n_texts = run->text ? 1 : run->n_texts,
                             .tokens = run->tokens,
                             .ids = run->ids,
                             .n_ids = run->ids_samples,
                             .id_length = run->ids_length,
                             .images = run->images,
                             .states = run->states,
                             .embeddings = run->states_as == RS_STATES_AS_EMBEDDINGS,
                             .random = run->random,
                             .encoder_states = run->encoder_states,
                             .seq_len = run->seq_len,
                             .samples = run->samples};
}

rs_status rs_edit_of(rs_edit *edit, bool *edited, const rs_run_settings *run, const char *variant,
                     rs_arena *arena, rs_error *err)
{
    rs_variant *variants;
    size_t n;
    for (size_t i = 0; i < run->n_edits; i++)
        RS_TRY(rs_edit_option(edit, run->edits[i].name, run->edits[i].value, err));
    if (edited) *edited = run->n_edits > 0 || variant;
    if (!variant) return RS_OK;
    RS_TRY(rs_variants_parse(&variants, &n, variant, edit, arena, err));
    if (n != 1)
        return rs_fail(err, RS_E_BAD_OPTION, "variant", "run the others one by one",
                       "\"%.80s\" is not one variant", variant);
    *edit = variants[0].edit;
    return RS_OK;
}
