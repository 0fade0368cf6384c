#pragma once

/*
 * Specs as JSON: requests of clients, output of inspect, and spec.json. The keys are a table; each
 * value is parsed by the command line's parser, so both refuse the same input with the same words:
 *
 *     {"limits":{"memory":"1m"}}  ->  -ERANGE, "limits.memory: memory \"1m\": no process starts …"
 */

#include <jansson.h>

struct err;
struct spec;

/*
 * Decodes an object; absent and null members keep spec_new's values. The command may be missing.
 * Host paths must be absolute. -EINVAL, -ERANGE, -E2BIG, -ENAMETOOLONG, -ENOMEM.
 */
int spec_from_json(json_t *root, struct spec **ret, struct err *err);

/*
 * Returns a copy of s with the changes that an existing sandbox allows: labels (merged; null
 * removes one), restart, stopSignal, stopTimeoutMs, inactivityTimeoutMs, autoRemove; null sets the
 * default. Other keys are refused. Errors as for spec_from_json.
 */
int spec_patch(const struct spec *s, json_t *patch, struct spec **ret, struct err *err);
/* Moves the members changed by spec_patch into s; pointers to other strings of s stay valid. */
void spec_take_patched(struct spec *s, struct spec *from);

/*
 * Encodes a spec so that spec_from_json restores it; a new reference. -EILSEQ: a string is not
 * UTF-8; -ENOMEM.
 */
int spec_to_json(const struct spec *s, json_t **ret, struct err *err);
