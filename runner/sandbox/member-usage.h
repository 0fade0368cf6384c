#pragma once

/*
 * What members of the group rind have, one or all of them, and the bounds that the client policy
 * sets (perMember, allMembers). Nothing is counted ahead: each question walks the tables of
 * sandboxes, volumes and networks, which are those that the disk has. So a count cannot go wrong by
 * a crash, a rename or a removal that is cut off: an object counts from the request that makes it
 * until its files are gone.
 *
 * Runs on the supervisor's loop. Bytes of images are counted where their index is locked
 * (image/index.c).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct caller;
struct err;
struct sandbox;
struct spec;
struct supervisor;

struct member_usage {
    uint64_t sandboxes, ports, volumes, networks;
    uint64_t disk_bytes; /* limits of sandboxes' disks, and sizes of volumes */
};

/* Adds what this member has; with all, what all members have. For `usage` of a part's row, too. */
struct member_scope {
    bool all;
    uid_t uid;
};
/* True if what this uid has made counts: it is a member's, and in scope. */
bool member_counts(const struct supervisor *sup, const struct member_scope *scope, int64_t maker);
void member_usage(const struct supervisor *sup, const struct member_scope *scope,
                  struct member_usage *ret);

/*
 * Checks that the caller may have `more` beside what it has. 0 for the owner of the daemon.
 * -EUSERS: a count is reached; -EDQUOT: bytes are; the text has what is there and what is allowed.
 */
int member_check(const struct supervisor *sup, const struct caller *who,
                 const struct member_usage *more, struct err *err);
/*
 * The same for a sandbox of this spec, which gets the size of its disk: what is asked, or the
 * policy's, or the client policy's. -EPERM: it would have none where the sum is bounded.
 */
int member_check_spec(const struct supervisor *sup, const struct caller *who, struct spec *spec,
                      struct err *err);
