#pragma once

/*
 * The client policy: what clients other than the daemon's owner may request (policies/README.md,
 * "Clients"). Access to the socket must not amount to root, so a request is refused if it would
 * give its creator more of the host than this file allows. Pure: text in, validated struct out;
 * spec/client-check.h compares a spec with it.
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

/* What one member, or all members of the group together, may have. LIMIT_UNSET: not bounded. */
struct member_bounds {
    int64_t sandboxes, disk_bytes, image_bytes, ports, volumes, networks;
};

struct client_policy {
    char **policies;           /* owned, NULL-terminated: names */
    char **bind_prefixes;      /* owned; absolute host directories, including everything below */
    char **read_only_prefixes; /* owned; likewise, for read-only volumes */
    char **rootfs_prefixes;    /* owned */
    bool host_rootfs;          /* the root file system `host` */
    bool networks[NET_MODE_MAX];
    struct publish_rules publish;  /* host ports; no rule = no port */
    struct net_access most_access; /* upper bound of allowed networks and host ports */
    bool named_volumes;            /* may use the named volumes they have created */
    bool share_network;            /* may join networks of other sandboxes, and named networks */
    struct limits most; /* upper bounds of limits, also where none is asked; LIMIT_UNSET = none */
    struct member_bounds per_member, all_members;
    bool ulimits;       /* may set them */
    bool restart;       /* may request a restart policy other than "no" */
    bool load_images;   /* may load images into the store and name them */
    bool remove_images; /* may remove images and their names */
};

/* A struct member_bounds with every member LIMIT_UNSET. */
struct member_bounds member_bounds_unset(void);

/* As policy_parse. */
int client_policy_parse(const char *text, size_t len, const char *where, struct client_policy **ret,
                        struct err *err);
void client_policy_free(struct client_policy *p);
DEFINE_AUTO(struct client_policy, client_policy_free);

/* The shipped client policy, embedded in the binary. */
const char *client_policy_builtin(size_t *ret_len);
