/* library_options.h: what the settings of rankscope.h mean to the rooms that do the work. */
#ifndef RS_API_LIBRARY_OPTIONS_H
#define RS_API_LIBRARY_OPTIONS_H

#include "scan/scan.h"

/* Checks the settings and translates them; text is borrowed. RS_E_BAD_OPTION names the field. */
rs_status rs_options_of_scan(rs_scan_options *options, const rs_scan_settings *settings,
                             rs_error *err);

#endif
