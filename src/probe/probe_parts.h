/* probe_parts.h: what the files of probe*.c share beside probe.h. */
#ifndef RS_PROBE_PROBE_PARTS_H
#define RS_PROBE_PROBE_PARTS_H

#include "probe/probe.h"

/* probe_findings.c */
bool rs_probe_is_itself(const char *variant); /* whether it is "full", the model as it is */
/* The first state whose relative residual is below the threshold of token_collapse; NULL: none is,
 * or there is one token a sample. */
const rs_token_row *rs_probe_collapsed(const rs_probed *v, const rs_probe_options *options);
/* The first state at the rounding floor, else that with the least relative residual; NULL: none. */
const rs_token_row *rs_probe_lowest(const rs_probed *v);
/* How bad a collapse to that is: of a variant it is what was looked for. */
rs_severity rs_probe_how_bad(const rs_probed *v);

/* What leaves the last block: the relative residual and its logarithm; where it is rounding, the
 * most that it can be. NaN: unknown. (probe_summary.c) */
typedef struct rs_leaving {
    double value, log10;
    bool rounding;
} rs_leaving;
rs_leaving rs_probe_leaves(const rs_probed *v); /* NULL: unknown */
const rs_probed *rs_probe_find(const rs_probed *variants, size_t n, const char *name); /* or NULL */

/* probe_components.c: what the skip and the MLP each do. With the variants full, san+skip, san+mlp
 * and san: table components and a sentence, finding component_summary. */
rs_status rs_probe_components(rs_result *result, const rs_probed *variants, size_t n,
                              const rs_probe_options *options, rs_error *err);
/* Writes "the skip keeps it: without it the tokens are equal after 4 layers", or nothing where the
 * variants that tell were not run. */
void rs_probe_keeper(char *text, size_t size, const rs_probed *variants, size_t n,
                     const rs_probe_options *options);

/* probe_verdict.c: sets the verdict: whether the tokens collapse. */
rs_status rs_probe_verdict(rs_result *result, const rs_probed *variants, size_t n,
                           const rs_probe_options *options, rs_error *err);

/* probe_nonfinite.c: the first state or mixer's output that is not finite; NULL: none. */
const rs_token_row *rs_probe_first_bad(const rs_measured *measured);
/* probe_nonfinite.c: adds finding nonfinite_activation: where NaN or infinity first appears, and
 * which weight brings it. */
rs_status rs_probe_nonfinite(rs_result *result, const rs_probed *variant, rs_precision precision,
                             rs_error *err);

/* probe_heads.c: adds findings attention_sink, uniform_attention, condensed_attention of heads that
 * do what drawn weights would not, untrained_attention of the others, and unconverged. */
rs_status rs_probe_heads(rs_result *result, const rs_probed *v, const rs_probe_options *options,
                         rs_error *err);

/* probe_centre.c: adds finding lp_centre_open: samples whose LP centre is less exact than it should
 * be. */
rs_status rs_probe_centre(rs_result *result, const rs_probed *variant, rs_error *err);
/* What the collapse of a graph's tokens leaves, and whether the centre sees it. */
rs_status rs_probe_graph(rs_result *result, const rs_probed *variant, rs_centre centre,
                         rs_error *err);

/* probe_norms.c: adds finding norm_decay_only: the spread falls with the norms alone. */
rs_status rs_probe_norms(rs_result *result, const rs_probed *variant,
                         const rs_probe_options *options, rs_error *err);

/* probe_undefined.c: adds findings zero_state, undefined_columns and quadratic_left_out. */
rs_status rs_probe_undefined(rs_result *result, const rs_probed *variants, size_t n,
                             const rs_probe_options *options, rs_error *err);

/* probe_words.c: writes a number: "0.51", or "10^-391800" where no double is so small. */
enum { RS_PROBE_POWER = 32 };
const char *rs_probe_power(char text[RS_PROBE_POWER], double value, double log10);
/* Names the place of a row for people, who count layers: "before layer 0", "after layer 4", "in what
 * the mixer of layer 4 gives". */
enum { RS_PROBE_PLACE = 64 };
const char *rs_probe_place(char text[RS_PROBE_PLACE], const rs_token_row *row);
/* Adds findings size_beyond_doubles, residual_exactly_zero and residual_beyond_exponents. */
rs_status rs_probe_residual_findings(rs_result *result, const rs_probed *v, rs_error *err);

/* probe.c */
const char *rs_probe_precision_name(rs_precision precision);       /* "f32" */
size_t rs_probe_main_variant(const rs_probed *variants, size_t n); /* "full", else the first */

/* probe_generate.c: fails, before anything runs, where the model cannot continue a text or its
 * positions end too early; then writes table generate and a finding with the ids. */
rs_status rs_probe_check_generate(const rs_network *network, const rs_inputs *inputs, int64_t n_new,
                                  rs_error *err);
rs_status rs_probe_generate(rs_result *result, const rs_network *network, rs_weights *weights,
                            const rs_inputs *inputs, const rs_tokenizer *tokenizer,
                            const rs_probe_options *options, const rs_context *context,
                            rs_error *err);

#endif
