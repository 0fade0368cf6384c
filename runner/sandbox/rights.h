#pragma once

/*
 * Rights of a caller to an object, and the lookups that ask for them (docs/threat-model.md has the
 * table). Every object has an owner: the uid that the kernel has named for the client that made it.
 * An object whose owner is not recorded belongs to the owner of the daemon. An object to which the
 * caller has no right does not exist for it: lookups answer as for a name that is free.
 *
 * Pure but for the registry that is searched; runs on the supervisor's loop.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/caller.h"

struct err;
struct sandbox;
struct share_list;
struct supervisor;

/* In increasing order: each right includes those before it. */
enum right {
    RIGHT_NONE, /* the object is not there for the caller */
    RIGHT_SEE,  /* what a share with :ro gives: list, inspect without secrets, logs, stats, wait */
    RIGHT_USE,  /* what a share gives: execs, files, signals, start and stop, ports, snapshots */
    RIGHT_OWN,  /* rename, change, share, egress rules, remove: the maker, root, the daemon's owner
                 */
    RIGHT_MAX
};

/* Returns the right to an object of this owner (negative: not recorded) with these shares. */
enum right right_to(const struct caller *c, int64_t owner, const struct share_list *shares);
/*
 * True if the object is one of the caller's own, which its prunes and names are about. Root and the
 * owner of the daemon are one in this.
 */
bool right_is_own(const struct caller *c, int64_t owner);

enum right sandbox_right(const struct sandbox *s, const struct caller *c);
/*
 * -EPERM if the caller sees the sandbox, but its share does not include the right. For a sandbox
 * that the caller does not see the lookups below have failed before.
 */
int sandbox_check_right(const struct sandbox *s, const struct caller *c, enum right need,
                        struct err *err);

/*
 * Finds a sandbox that the caller sees: by id, by name, or by a unique prefix of an id of at least
 * four characters. The caller's own sandboxes come first. c == NULL sees all. Borrowed. -ENOENT;
 * -ENOTUNIQ: several match.
 */
int sandbox_find_for(struct supervisor *sup, const struct caller *c, const char *text,
                     struct sandbox **ret, struct err *err);
/*
 * True if a sandbox of the caller's own has this name, id, or beginning of an id. Names are unique
 * among the sandboxes of one owner, not among all: so no answer depends on what others have. but:
 * a sandbox that does not count, or NULL.
 */
bool sandbox_name_taken(struct supervisor *sup, const struct caller *c, const char *name,
                        const struct sandbox *but);
/*
 * True if s, which names the network of `other`, may still join it at a start. No client proves the
 * groups of its maker then, so a share with any group is enough; the creation has asked for more.
 */
bool sandbox_may_join(const struct sandbox *s, const struct sandbox *other);
/* The owner of a sandbox as a caller that has no client: for names, which are the owner's. */
struct caller sandbox_maker(const struct sandbox *s);
/*
 * Finds the sandbox that the spec of s names: by id, or by name among those of the same owner, as
 * others could have the name. NULL: none.
 */
struct sandbox *sandbox_find_beside(const struct sandbox *s, const char *text);
