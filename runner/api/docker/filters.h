#pragma once

/*
 * Docker's filters: {"label":["a=b"],"status":["running"]}, or as older clients write them
 * {"label":{"a=b":true}}. What is asked twice of one name is "or", but of labels "and".
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

struct err;
struct filters;

enum { FILTERS_MAX = 64 /* values altogether */ };

/* text: NULL = none. known: NULL-terminated; another name is -EINVAL, or -EOPNOTSUPP where Docker
 * has it. *ret is to be freed. */
int filters_parse(const char *text, const char *const *known, struct filters **ret,
                  struct err *err);
void filters_free(struct filters *f);
DEFINE_AUTO(struct filters, filters_free);
/* The values of a name, in turn: from 0 on, NULL behind the last. */
const char *filters_get(const struct filters *f, const char *name, size_t i);
/* No value was asked for, or this one. */
bool filters_match(const struct filters *f, const char *name, const char *value);
/* The same, and the beginning of one will do, or any part of one. */
bool filters_match_prefix(const struct filters *f, const char *name, const char *value);
bool filters_match_part(const struct filters *f, const char *name, const char *value);
/* Every label that was asked for is among these "K=V"s. */
bool filters_match_labels(const struct filters *f, char *const *labels);
