#pragma once

/* Health checks as JSON, a part of spec/json.h. */

#include <jansson.h>

struct err;
struct health_check;
struct jpath;

/*
 * Decodes {"test":["CMD",…] | ["CMD-SHELL",TEXT] | ["NONE"], "intervalMs", "timeoutMs",
 * "startPeriodMs", "startIntervalMs", "retries"}.
 */
int spec_health_from_json(json_t *value, struct health_check *ret, const struct jpath *path,
                          struct err *err);
/*
 * Encodes a health check that has `none` or `test`; a new reference. NULL: out of memory, or a text
 * is not UTF-8.
 */
json_t *spec_health_to_json(const struct health_check *h);

/* Sets h's test from the array form, which images use as well. -EINVAL without a message. */
int spec_health_set_test(struct health_check *h, char *const *test);
