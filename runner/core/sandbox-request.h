#pragma once

struct buf;
struct err;
struct ready_policy;
struct spec;

/* Whose network a sandbox shares, and with it the host name. */
struct network_join {
    const char *id, *hostname;
};

/*
 * The launcher's request for a new sandbox, from what was asked and what the policy says. layers:
 * names under layers/, top first, NULL-terminated. The spec's limits replace the policy's. *b is
 * begun and ended here. join: the
 * sandbox whose network it shares, or NULL.
 */
int sandbox_request(struct buf *b, const char *id, const struct spec *spec,
                    const struct ready_policy *policy, const char *const *layers, int root_fd,
                    const struct network_join *join, unsigned long flags, struct err *err);
