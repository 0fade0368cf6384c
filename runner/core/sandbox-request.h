#pragma once

struct buf;
struct err;
struct ready_policy;
struct spec;

/*
 * The launcher's request for a new sandbox, from what was asked and what the policy says. layers:
 * names under layers/, top first, NULL-terminated. The spec's limits replace the policy's. *b is
 * begun and ended here.
 */
int sandbox_request(struct buf *b, const char *id, const struct spec *spec,
                    const struct ready_policy *policy, const char *const *layers, int root_fd,
                    unsigned long flags, struct err *err);
