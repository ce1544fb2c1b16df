/* predict_parts.h: what the files of the command share. */
#ifndef RS_PREDICT_PREDICT_PARTS_H
#define RS_PREDICT_PREDICT_PARTS_H

#include "predict/forecast.h"
#include "predict/forecast_trials.h"
#include "predict/predict.h"

/* An architecture, and what is known of it. */
typedef struct rs_predict_run {
    const rs_predict_options *options;
    const rs_design *design;
    rs_theory_row *theory; /* [n_layers + 1] */
    rs_forecast forecast;  /* by theory */
    /* of networks that were drawn; trials NULL: none were, for the reason in choice.why */
    rs_trials_choice choice;
    rs_design twin; /* what was drawn in its place; .network NULL: nothing */
    rs_forecast twin_theory;
    rs_trials *trials;
    rs_forecast measured;
    rs_forecast_settings settings;
    /* by what every layer's temperature is multiplied where the mean over layers of log10(gQ/gV) is
     * nearest to 0, and that mean; NaN: not known */
    double temper, balance;
    const struct rs_remedies *remedies; /* NULL: not run yet */
    const struct rs_shapes *shapes;     /* of as many parameters; NULL: nobody asks */
    /* what is asked about changes: an architecture file that says the same as a published configuration,
     * with its own forecast and without trials; NULL: this one itself */
    struct rs_predict_run *like;
    const rs_context *context;
    rs_theory_kept **kept; /* [context->threads]: of each thread; the first is the settings' */
} rs_predict_run;

/* predict_tables.c */
rs_status rs_predict_tables(rs_result *result, const rs_predict_run *run, rs_error *err);

/* predict_trust.c: theory beside trials. */
typedef struct rs_predict_gap {
    const char *quantity; /* NULL: nothing could be compared */
    int32_t layer;
    double errors; /* how far they are apart, in standard errors of a normal law that are as rare */
    double chance; /* how far the widest of so many would be where theory is right */
    double theory, measured; /* ρ, or decades */
    const char *assumption;  /* that fails first there */
} rs_predict_gap;
/* The theory of what was drawn: the twin's where there is one. */
const rs_forecast *rs_predict_drawn_theory(const rs_predict_run *run);
/* The largest gap of all rows. */
rs_predict_gap rs_predict_widest_gap(const rs_predict_run *run);
/* Says in a row's note what theory misses by more than it promises (docs/predict.md): the row's note,
 * or a text in the arena; NULL: nothing. RS_E_NO_MEMORY. */
rs_status rs_predict_note(const char **note, const rs_predict_run *run, int32_t layer,
                          rs_arena *arena, rs_error *err);

/* predict_answers.c: 10^decades as people read it, "0.02", "10^12.3". */
const char *rs_predict_power(char out[32], double decades);
/* Theory has no verdict, and networks that were drawn have one. */
bool rs_predict_by_trials(const rs_predict_run *run);

/* predict_answers.c: the eight answers of the first screen. */
typedef struct rs_predict_answer {
    int64_t number;
    const char *question, *asks;
    char answer[200];
    double value;
} rs_predict_answer;
enum { RS_PREDICT_ANSWERS = 8 };
rs_status rs_predict_answer_all(rs_predict_answer answers[RS_PREDICT_ANSWERS],
                                const rs_predict_run *run, rs_error *err);

/* predict_depth.c: how far an architecture keeps its verdict. */
typedef struct rs_predict_reach {
    int64_t deepest; /* layers with the same verdict; 0: not known */
    int64_t tried;   /* deepest that was tried */
    bool ends;       /* one more layer has another verdict */
    rs_predict_verdict then;
    const char *why; /* deepest is 0: the reason */
} rs_predict_reach;
rs_status rs_predict_reach_of(rs_predict_reach *out, const rs_predict_run *run, rs_error *err);

/* Operations that theory may take (rs_theory_need): of the architecture; of all runs that one question
 * about changes of it asks for, which otherwise is left out with a word. */
#define RS_PREDICT_MOST_THEORY 1e13
#define RS_PREDICT_MOST_CHANGES 3e11
/* predict_change.c: whether so many runs of such an architecture are left out. */
bool rs_predict_too_many(const rs_predict_run *run, double runs);

/* predict_change.c: the same architecture with other words, by theory. */
typedef struct rs_predict_field {
    const char *name; /* of ARCH.json; "input.rho": of an object in it */
    double value;
} rs_predict_field;
/* The file with these fields; the caller's. NULL: RS_E_NO_MEMORY, in err. */
json_t *rs_predict_edit(const rs_predict_run *run, const rs_predict_field *fields, size_t n,
                        rs_error *err);
/* What no machine finishes, or has the memory for, is refused before it begins. */
rs_status rs_predict_check_need(const rs_design *design, const rs_context *context, rs_error *err);
/* Asks theory of another file, which it takes over. *made false: it makes no architecture, for the
 * reason in *why, which is no failure; then design and out are empty. */
rs_status rs_predict_try(rs_design *design, rs_forecast *out, bool *made, rs_error *why,
                         const rs_predict_run *run, json_t *json, rs_error *err);
/* One of several files, with what rs_predict_try says of it. */
typedef struct rs_predict_variant {
    json_t *json; /* taken over; NULL: nothing is asked */
    rs_design design;
    rs_forecast forecast;
    bool made;
    rs_error why;
    rs_status status; /* of the asking itself */
} rs_predict_variant;
/* Asks of all of them at once, on the context's threads. Whatever it returns, each is to be closed. */
rs_status rs_predict_try_all(rs_predict_variant *variants, size_t n, const rs_predict_run *run,
                             rs_error *err);
void rs_predict_variant_close(rs_predict_variant *variant);
/* Both, for a forecast alone; *made false of what is no architecture file, too. */
rs_status rs_predict_changed(rs_forecast *out, bool *made, const rs_predict_run *run,
                             const rs_predict_field *fields, size_t n, rs_error *err);
/* The run of what can be changed, if anything can. */
static inline const rs_predict_run *rs_predict_changing(const rs_predict_run *run)
{
    return run->like ? run->like : run;
}
/* It is an architecture file, whose words can be others. */
static inline bool rs_predict_can_change(const rs_predict_run *run)
{
    return run->design->arch && !run->design->checkpoint;
}
/* Why it cannot be changed. */
const char *rs_predict_fixed_because(const rs_predict_run *run);
/* Whether all layers have one temperature, and which; *out of the first layer where not. */
bool rs_predict_one_temperature(double *out, const rs_predict_run *run);
/* Writes every layer's temperature times a factor into an architecture file: a number where they are
 * one, else a list. RS_E_NO_MEMORY. */
rs_status rs_predict_temper(json_t *json, const rs_predict_run *run, double factor, rs_error *err);
/* Sets the run's temper and balance; where so many runs are left out, it is the balance as it is. */
enum { RS_PREDICT_BALANCE_STEPS = 6 };
rs_status rs_predict_balance(rs_predict_run *run, rs_error *err);

/* predict_findings.c: whether so few effective keys are condensed attention: E ΣA² is more than the
 * threshold's part of the way from 1/n to 1. */
bool rs_predict_condensed(double keys, const rs_predict_run *run);
rs_status rs_predict_findings(rs_result *result, const rs_predict_run *run, rs_error *err);
/* Decades by which the first block multiplies ‖X‖². */
double rs_predict_embedding_ratio(const rs_predict_run *run);

#endif
