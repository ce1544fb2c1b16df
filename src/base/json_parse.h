/*
 * json_parse.h: jansson's parser, made to survive a lack of memory (memory_json.c).
 *
 * jansson 2.14 does not look whether the text of the token that it reads could grow: a character is
 * lost, and it aborts or reads past the end. So while a text is parsed here no request that such a
 * token makes ever fails: one that is refused is counted (rs_memory_failures) and met from what was
 * set aside before, and the text ends there.
 */
#ifndef RS_BASE_JSON_PARSE_H
#define RS_BASE_JSON_PARSE_H

#include <jansson.h>
#include <stddef.h>

/* As json_loadb; NULL, too, where rs_memory_failures has grown. */
json_t *rs_json_parse(const char *text, size_t length, size_t flags, json_error_t *error);

#endif
