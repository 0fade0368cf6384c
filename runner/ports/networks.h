#pragma once

/*
 * Named networks created by clients. Such a network exists even while no sandbox uses it, and has
 * labels and a creator. A name that no client has created exists only while sandboxes name it; its
 * members have the same rights (docs/network.md).
 *
 * Runs in the supervisor's event loop. Borrowed entries are valid until one is removed.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "policy/policy.h"
#include "sandbox/caller.h"

struct err;
struct member_scope;
struct member_usage;
struct network_entry;
struct networks;
struct sandbox;
struct spec;
struct store;
struct supervisor;

/* Loads the stored networks. */
int networks_open(struct supervisor *sup, struct err *err);
void networks_close(struct networks *n);

struct network_params {
    const char *name;
    char *const *labels; /* "K=V", NULL-terminated; or NULL */
    bool internal;       /* members have no internet access besides it */
    /* "172.28.0.0/16"; or NULL: members have the addresses that rind gives */
    const char *subnet;
    const char *gateway, *range; /* NULL: the first address; all of the subnet */
    json_t *kept;                /* {name: address} that no member gets; borrowed, or NULL */
};

/*
 * -EINVAL: invalid name or label; -EEXIST: the name is in use, by a network or in a sandbox's spec;
 * -EAGAIN, -EUSERS: a limit; -EPERM: the subnet overlaps rind's own, or has no addresses of hosts.
 */
int network_create(struct supervisor *sup, const struct network_params *params,
                   const struct caller *who, struct network_entry **ret, struct err *err);
/* -EBUSY: a running sandbox uses it. */
int network_remove(struct network_entry *n, struct err *err);

/* Lookup and iteration; NULL = none. The entry is borrowed. */
struct network_entry *network_find(struct supervisor *sup, const char *name);
/* As network_find, for a client: NULL also for a network that it may not see. */
struct network_entry *network_find_for(struct supervisor *sup, const struct caller *who,
                                       const char *name);
/* For the part's row: adds the members' networks. */
void networks_usage(const struct supervisor *sup, const struct member_scope *scope,
                    struct member_usage *add);
struct network_entry *network_first(struct supervisor *sup);
struct network_entry *network_next(struct network_entry *n);

/* Properties of a network; strings are borrowed. */
const char *network_name(const struct network_entry *n);
int64_t network_created_ms(const struct network_entry *n);
bool network_is_internal(const struct network_entry *n);
/* "K=V", NULL-terminated; borrowed. */
char *const *network_labels(const struct network_entry *n);
/* True if it is one of the caller's own: for what is done to all of those (prune). */
bool network_is_own(const struct network_entry *n, const struct caller *who);
/* Its subnet; prefix 0: none. Borrowed. */
const struct net_lan_ask *network_subnet(const struct network_entry *n);
/* Its auxiliary addresses, {name: address}; NULL: none. Borrowed. */
const json_t *network_kept(const struct network_entry *n);
bool network_may_use(const struct network_entry *n, const struct caller *who);

/*
 * Counts sandboxes with this network in their spec, stopped ones included; *ret_live: running ones.
 */
unsigned network_users(struct supervisor *sup, const char *name, unsigned *ret_live);

/*
 * Checks that a spec may use the networks it names. -EEXIST: another user has a name; -EINVAL:
 * the spec wants internet access, and all of them are internal. An unset internet setting becomes
 * "none" there.
 */
int networks_check_spec(struct supervisor *sup, struct spec *spec, const struct caller *who,
                        struct err *err);

/* ---- addresses in networks with a subnet (network-addresses.c) ---- */

/* Writes the subnets of its networks into a spec, for the launcher. -EINVAL: it asks for an
 * address that its network has not, or two of its networks overlap. */
int networks_find_subnets(struct supervisor *sup, struct spec *spec, struct err *err);
/* Takes them out again: then a request to the launcher asks for no address. */
void networks_drop_subnets(struct spec *spec);
/* Either of these, as the sandbox's state has it. */
int networks_ask_subnets(struct sandbox *s, struct err *err);
/* Parts of a start: a new sandbox that has addresses from its creation; one whose main process is
 * to be started, and which may have none yet; the end of a run. */
int networks_start(struct sandbox *s, struct err *err);
int networks_take_addresses(struct sandbox *s, struct err *err);
void networks_close_addresses(struct sandbox *s);
/* True for a container of Docker's API. */
bool network_spec_is_dockers(const struct spec *spec);
/* The address of a running sandbox in a network with a subnet; NULL: none. Borrowed. */
const struct net_lan *networks_lan(const struct sandbox *s, const char *name);
/* The address by which `reader` knows the running member p: in the first network of both that has
 * a subnet, or the one that rind has given. */
struct net_addr networks_address(const struct sandbox *p, const struct sandbox *reader);

/* A change of the named networks of a sandbox that exists. */
struct network_change_params {
    const char *add;            /* the network to enter, or NULL */
    const char *const *aliases; /* names there, NULL-terminated; or NULL */
    const char *address;        /* asked for there, or NULL */
    const char *const *links;   /* further links of the sandbox ("NAME:ALIAS"); or NULL */
    const char *drop;           /* the network to leave, or NULL */
    enum net_mode mode;         /* NET_INVALID: stays as it is */
    const char *label;          /* "K=V" in place of the label K; NULL: labels stay */
};

/*
 * Changes the networks of a sandbox, now and for its next starts; see network-change.c. cb is
 * called once, from within or from the loop.
 *
 * -EEXIST: it is in `add`; -ENOENT: it is not in `drop`; -EBUSY: it is being started or ended, is
 * being changed, or runs and cannot follow; -EINVAL: it is in the network of another sandbox;
 * errors of networks_check_spec.
 */
typedef void network_change_cb(void *data, int r, const struct err *err);
int network_change_sandbox(struct sandbox *s, const struct network_change_params *params,
                           const struct caller *who, network_change_cb *cb, void *data,
                           struct err *err);

/* Step of a reattach: has the launcher put a running sandbox into the networks of its spec. An
 * earlier daemon may have ended between the two halves of a change, and an earlier launcher has
 * given networks other numbers. The sandbox does not wait for it. */
int networks_reopen(struct sandbox *s, struct err *err);

/* Tell of the networks of a sandbox that begins or ends to run (members of a part). */
struct exec;
void networks_main_runs(struct sandbox *s, struct exec *main, bool adopted);
void networks_main_ended(struct sandbox *s);
