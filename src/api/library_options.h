/* library_options.h: what the settings of rankscope.h mean to the rooms that do the work. */
#ifndef RS_API_LIBRARY_OPTIONS_H
#define RS_API_LIBRARY_OPTIONS_H

#include "certify/certify.h"
#include "paths/paths.h"
#include "probe/probe.h"
#include "scan/scan.h"

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
