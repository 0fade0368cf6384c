#pragma once

/* A health check as JSON: part of spec/json.h. */

#include <jansson.h>

struct err;
struct health_check;
struct jpath;

/* {"test":["CMD",…] | ["CMD-SHELL",TEXT] | ["NONE"], "intervalMs", "timeoutMs", "startPeriodMs",
 * "startIntervalMs", "retries"}. */
int spec_health_from_json(json_t *value, struct health_check *ret, const struct jpath *path,
                          struct err *err);
/* The same of one that has none or test; a new reference, NULL on OOM and for what is not UTF-8. */
json_t *spec_health_to_json(const struct health_check *h);

/* The test alone, as images have it, too: it becomes h's. -EINVAL without a message. */
int spec_health_set_test(struct health_check *h, char *const *test);
