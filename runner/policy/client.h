#pragma once

/*
 * What clients may ask that are not the owner of the daemon (policies/README.md, "Clients"). Access
 * to the socket is not root: a sandbox is refused when it would give its maker more of the host
 * than this file says. Pure: text in, validated struct out; spec/client-check.h compares a spec
 * with it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "policy/policy.h"
#include "policy/publish.h"

struct err;

enum {
    CLIENT_POLICY_TEXT_MAX = 256 << 10, /* bytes of the file */
    CLIENT_POLICY_LIST_MAX = 64,        /* entries of one list */
};

struct client_policy {
    char **policies;           /* owned, NULL-terminated: names */
    char **bind_prefixes;      /* owned; absolute host directories: themselves and what is below */
    char **read_only_prefixes; /* owned; the same, for volumes that are read-only */
    char **rootfs_prefixes;    /* owned */
    bool host_rootfs;          /* the root file system `host` */
    bool networks[NET_MODE_MAX];
    struct publish_rules publish;  /* of the host's ports; none = nothing */
    struct net_access most_access; /* what may be allowed, and which ports of the host: at most */
    bool named_volumes;            /* those that they have made */
    bool share_network;            /* networks of other sandboxes, and named ones */
    struct limits most;            /* what may be asked at most; LIMIT_UNSET = any */
    bool ulimits;                  /* may set them */
    bool restart;                  /* may ask for another restart policy than "no" */
    bool load_images;              /* may put images into the store, and name them */
    bool remove_images;            /* may remove them, and take names away */
};

/* As policy_parse. */
int client_policy_parse(const char *text, size_t len, const char *where, struct client_policy **ret,
                        struct err *err);
void client_policy_free(struct client_policy *p);
DEFINE_AUTO(struct client_policy, client_policy_free);

/* The shipped one, carried in the binary. */
const char *client_policy_builtin(size_t *ret_len);
