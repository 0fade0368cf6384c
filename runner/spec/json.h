#pragma once

/*
 * A spec as JSON: what clients send to make a sandbox, what inspect shows, and spec.json. The keys
 * are a table; each value goes through the parser that the command line uses, so that both refuse
 * the same with the same words:
 *
 *     {"limits":{"memory":"1m"}}  ->  -ERANGE, "limits.memory: memory \"1m\": no process starts …"
 */

#include <jansson.h>

struct err;
struct spec;

/*
 * Decodes a whole object; what is absent or null has spec_new's value. A command may be missing.
 * Host paths must be absolute: there is no working directory that a client could mean. -EINVAL,
 * -ERANGE, -E2BIG, -ENAMETOOLONG, -ENOMEM.
 */
int spec_from_json(json_t *root, struct spec **ret, struct err *err);

/*
 * A spec as s with what a client changes of a sandbox that exists: labels (one by one; null takes
 * one away), restart, stopSignal, stopTimeoutMs, inactivityTimeoutMs, autoRemove; null is their
 * default. Everything else is refused. Codes as of spec_from_json.
 */
int spec_patch(const struct spec *s, json_t *patch, struct spec **ret, struct err *err);
/* Moves what spec_patch has changed into s, whose strings others may be looking at. */
void spec_take_patched(struct spec *s, struct spec *from);

/* What spec_from_json makes the same spec of; a new reference. -EILSEQ: a string that is not UTF-8;
 * -ENOMEM. */
int spec_to_json(const struct spec *s, json_t **ret, struct err *err);
