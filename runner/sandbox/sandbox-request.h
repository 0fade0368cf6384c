#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct policy;
struct ready_policy;
struct limits;
struct spec;

/*
 * Directory of the egress CA in a sandbox that asks for it (ca-bundle.h), and the size of its
 * tmpfs.
 */
#define CA_BUNDLE_DIR "/etc/rind"
enum { CA_BUNDLE_BYTES = 16 << 20 };

/* The sandbox whose network is shared. owner: the id that the network was made for. */
struct network_join {
    const char *id, *owner, *hostname;
};

/*
 * LAUNCH_LIMITS: the limits of a changed spec over the policy's, none above `most` (NULL: no
 * bound). -EINVAL: they contradict.
 */
int sandbox_limits_request(struct buf *b, const char *id, const struct spec *spec,
                           const struct limits *policy, const struct limits *most, struct err *err);
/*
 * Appends the launcher's request for a new sandbox, from the spec and the policy. layers: names
 * under layers/, top first, NULL-terminated. The spec's limits replace the policy's. Begins and
 * ends *b. most: bounds of all limits, also of those that neither sets; or NULL. join: the sandbox
 * whose network is shared, or NULL.
 */
int sandbox_request(struct buf *b, const char *id, const struct spec *spec,
                    const struct ready_policy *policy, const struct limits *most,
                    const char *const *layers, int root_fd, const struct network_join *join,
                    unsigned long flags, struct err *err);

/*
 * As spec_net_names, with the short id where Docker's clients find the sandbox by it. -E2BIG: more
 * than the launcher takes.
 */
int sandbox_net_names(const char *id, const struct spec *spec, size_t i, char **ret,
                      struct err *err);
/* Appends the launcher's request that moves a running sandbox to the networks of its spec. policy
 * NULL: with a spec that leaves it open the internet stays as it is. */
int sandbox_networks_request(struct buf *b, const char *id, const struct spec *spec,
                             const struct policy *policy, struct err *err);

/*
 * True if processes inside may administer their network. Rules in its net namespace would have no
 * effect.
 */
bool sandbox_administers_network(const struct spec *spec, const struct policy *policy);

/*
 * Appends the launcher's request to fill the named volume `at` of the spec from the root file
 * system of the sandbox to come. Otherwise as above.
 */
int sandbox_fill_request(struct buf *b, const struct spec *spec, const char *const *layers,
                         size_t at, int root_fd, struct err *err);
/*
 * As sandbox_fill_request, but copies the directory `dir` of the sandbox `id`, which has this spec.
 */
int sandbox_copy_request(struct buf *b, const char *id, const struct spec *spec,
                         const char *const *layers, const char *volume, const char *dir,
                         struct err *err);
