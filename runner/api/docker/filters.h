#pragma once

/* Docker's filters: {"label":["a=b"],"status":["running"]}, or in older clients
 * {"label":{"a=b":true}}. Several values of one name are alternatives; several labels must all
 * match. */

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

struct err;
struct filters;

enum { FILTERS_MAX = 64 /* values in total */ };

/* text NULL: no filters. known: NULL-terminated names; another name is -EINVAL, or -EOPNOTSUPP
 * if Docker has it. The caller frees *ret. */
int filters_parse(const char *text, const char *const *known, struct filters **ret,
                  struct err *err);
void filters_free(struct filters *f);
DEFINE_AUTO(struct filters, filters_free);
/* Returns the i'th value of a name, NULL after the last. */
const char *filters_get(const struct filters *f, const char *name, size_t i);
/* True if the name has no filter, or one equal to value. */
bool filters_match(const struct filters *f, const char *name, const char *value);
/* As filters_match, but a filter may be a prefix of value, or any part of it. */
bool filters_match_prefix(const struct filters *f, const char *name, const char *value);
bool filters_match_part(const struct filters *f, const char *name, const char *value);
/* True if these "K=V" strings contain every "label" of the filters, and none of "label!". */
bool filters_match_labels(const struct filters *f, char *const *labels);
