#pragma once

struct bpf;
struct buf;
struct err;
struct policy;
struct spec;

/*
 * The launcher's request for a new sandbox, from what was asked and what the policy says. layers:
 * names under layers/, top first, NULL-terminated. The spec's limits replace the policy's. *b is
 * begun and ended here.
 */
int sandbox_request(struct buf *b, const char *id, const struct spec *spec,
                    const struct policy *policy, const struct bpf *filter,
                    const char *const *layers, int root_fd, unsigned long flags, struct err *err);
