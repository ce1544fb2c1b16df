/* library_check.h: checks of what callers of rankscope.h hand in. */
#ifndef RS_API_LIBRARY_CHECK_H
#define RS_API_LIBRARY_CHECK_H

#include "base/error.h"

/* Fails with RS_E_USAGE where the pointer is NULL. */
rs_status rs_check_pointer(const void *pointer, const char *name, rs_error *err);

/* Each fails with RS_E_BAD_OPTION and the field's name where a size or an enumeration is out of its
 * range. */
rs_status rs_check_scan(const rs_scan_settings *settings, rs_error *err);
rs_status rs_check_probe(const rs_probe_settings *settings, rs_error *err);
rs_status rs_check_certify(const rs_certify_settings *settings, rs_error *err);
rs_status rs_check_paths(const rs_paths_settings *settings, rs_error *err);
rs_status rs_check_form(rs_form form, rs_error *err);

#endif
