#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct policy;
struct ready_policy;
struct spec;

/* Where the egress CA is put in a sandbox that asks for it (ca-bundle.h), and room for it. */
#define CA_BUNDLE_DIR "/etc/rind"
enum { CA_BUNDLE_BYTES = 16 << 20 };

/* The sandbox whose network is shared, and its host name; owner: the id that the network was made
 * for. */
struct network_join {
    const char *id, *owner, *hostname;
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

/* Whether processes inside administer its network: rules in its net namespace would not hold. */
bool sandbox_administers_network(const struct spec *spec, const struct policy *policy);

/* The launcher's request to fill the spec's volume `at`, which is a named one, from the root file
 * system that the sandbox will have. Otherwise as above. */
int sandbox_fill_request(struct buf *b, const struct spec *spec, const char *const *layers,
                         size_t at, int root_fd, struct err *err);
/* As sandbox_fill_request, from the directory `dir` of the sandbox `id` that has this spec. */
int sandbox_copy_request(struct buf *b, const char *id, const struct spec *spec,
                         const char *const *layers, const char *volume, const char *dir,
                         struct err *err);
