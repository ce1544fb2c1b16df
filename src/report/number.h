/* number.h: a double as the shortest decimal text that reads back as the same double. */
#ifndef RS_REPORT_NUMBER_H
#define RS_REPORT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_NUMBER_SIZE 32

/* Writes at most 17 significant digits, the fewest that identify the value (of those, the nearest
 * to it), as a JSON number ("0.1", "-3", "6.02e23"), and a NUL. The value must be finite. Returns
 * the length. Independent of the locale. */
size_t rs_number_format(char out[RS_NUMBER_SIZE], double value);
/* The same of at most `most` digits (1 to 17), from which the number no longer comes back. */
size_t rs_number_rounded(char out[RS_NUMBER_SIZE], double value, int most);
size_t rs_integer_format(char out[RS_NUMBER_SIZE], int64_t value);

/* Writes a number for people: `digits` significant digits (1 to 17) as printf's %g does, with a '.'
 * in every locale. */
size_t rs_number_brief(char out[RS_NUMBER_SIZE], double value, int digits);
/* The same, rounded up (or down) and not to the nearest: for a bound, whose digits must not claim
 * more than is proved. Equal where the value's double is the one nearest to those digits. */
size_t rs_number_outward(char out[RS_NUMBER_SIZE], double value, int digits, bool up);

#endif
