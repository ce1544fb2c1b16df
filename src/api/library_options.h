/* library_options.h: what the settings of rankscope.h mean to the rooms that do the work. */
#ifndef RS_API_LIBRARY_OPTIONS_H
#define RS_API_LIBRARY_OPTIONS_H

#include "certify/certify.h"
#include "paths/paths.h"
#include "probe/probe.h"
#include "scan/scan.h"

/* Fills a result about the subject, a path or a session; what the arena holds lives until it is
 * filled. */
typedef rs_status rs_answer_fill(rs_result *result, const void *subject, const void *settings,
                                 rs_arena *arena, rs_error *err);
/* Makes a result, has it filled while BLAS is held to one thread, seals it and hands it out; the
 * body of every public function that computes. RS_E_USAGE when settings are NULL. */
rs_status rs_answer(rs_result **out, const char *name, rs_answer_fill *fill, const void *subject,
                    const void *settings, rs_error *err);

/* Each checks settings and translates them; text is borrowed, what the arena holds must outlive the
 * options. RS_E_BAD_OPTION names the field. */
rs_status rs_options_of_scan(rs_scan_options *options, const rs_scan_settings *settings,
                             rs_error *err);
rs_status rs_options_of_probe(rs_probe_options *options, const rs_probe_settings *settings,
                              rs_error *err);
rs_status rs_options_of_certify(rs_certify_options *options, const rs_certify_settings *settings,
                                rs_arena *arena, rs_error *err);
rs_status rs_options_of_paths(rs_paths_options *options, const rs_paths_settings *settings,
                              rs_arena *arena, rs_error *err);

#endif
