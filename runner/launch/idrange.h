#pragma once

/*
 * Host id ranges, 65536 ids each, from a pool that avoids /etc/subuid and systemd-nspawn's ranges.
 * A range belongs to who holds the flock on its file in the host-wide registry directory (one for
 * all state directories, so that two rinds on a host never share ids). The lock is on an open file
 * description that init inherits: the range stays taken while the sandbox lives, whoever dies
 * first. The file's content ("<state directory>\n<id>\n") keeps the range reserved while a stopped
 * sandbox's files still carry its ids, also over a reboot; without content a free lock is a free
 * range.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum {
    IDRANGE_SIZE = 65536,
    IDRANGE_FIRST = 1879048192, /* 0x70000000: past systemd-nspawn's 524288..1879048191 */
    IDRANGE_COUNT = 4092,       /* up to 2147221503, below the 2^31 that some tools stumble over */
    IDRANGE_GUARDED = 1023,     /* of these, the last, are for sandboxes with a guard */
    /* Two more ranges that are never handed out: the ids that files of unpacked images and of
     * volumes carry on disk, and the supervisor's own id. */
    IDRANGE_LAYERS = IDRANGE_FIRST + IDRANGE_COUNT * IDRANGE_SIZE,
    IDRANGE_SUPERVISOR = IDRANGE_LAYERS + IDRANGE_SIZE,
    IDRANGE_OWNER_MAX = 4000,   /* bytes of a reservation: one write, one page */
    IDRANGE_SUBIDS_MAX = 65536, /* lines of /etc/subuid and /etc/subgid together */
};

struct idrange {
    uid_t base;  /* first host id */
    int lock_fd; /* owned; O_RDONLY|O_CLOEXEC, holds the flock */
};
#define IDRANGE_NONE                                                                               \
    {                                                                                              \
        .base = 0, .lock_fd = -1                                                                   \
    }

/*
 * Takes a free range. registry_fd: the registry directory (0700). avoid: sorted, non-overlapping
 * [first,last] host ranges (from /etc/subuid and /etc/subgid) that are never handed out. -ENOSPC
 * when none is free.
 *
 * guarded: for a sandbox that may write to a directory of the host's as the owner of its files,
 * where a guard keeps it from making set-id files (shim/init/guard.h). Such a directory's mount can
 * outlive the sandbox, in a descriptor that a process of the host keeps, and in it the ids of its
 * range are the owner's. So these ranges are never those of a sandbox that has no guard.
 */
struct idrange_avoid {
    uint32_t first, last;
};
int idrange_take(int registry_fd, const struct idrange_avoid *avoid, size_t avoid_count,
                 struct idrange *ret, struct err *err);
int idrange_take_guarded(int registry_fd, const struct idrange_avoid *avoid, size_t avoid_count,
                         struct idrange *ret, struct err *err);
/* Takes one certain range again (a stopped sandbox's own): -EBUSY when somebody holds it (with an
 * owner only after 0.2 s, because every rind's sweep locks each range for a moment), -EPERM when
 * its content names another owner, -EINVAL when no range starts at base. No content is no
 * objection; owner NULL takes a range without content only. */
int idrange_retake(int registry_fd, uid_t base, const char *owner, struct idrange *ret,
                   struct err *err);
/* The range whose content names this owner, whoever holds it; reads every range's. -ENOENT */
int idrange_find(int registry_fd, const char *owner, uid_t *ret_base, struct err *err);
/* Writes or clears the reservation; owner is "<state directory>\n<id>\n" or NULL. Durable before it
 * returns: two fsyncs, so a sandbox that is never stopped and kept (--rm) should do without. */
int idrange_reserve(int registry_fd, const struct idrange *r, const char *owner, struct err *err);
/* The same for one that runs, so that nobody takes its range between the death of who holds it and
 * the start of who takes it up: without a sync, which a power failure would need. */
int idrange_claim(int registry_fd, const struct idrange *r, const char *owner, struct err *err);
/* Clears the reservation and closes our copy of the lock: the range is free again once nobody else
 * holds the description. The file is unlinked when that is so at once; else it stays, empty, and is
 * used again. */
void idrange_release(int registry_fd, struct idrange *r);
/* The same of a range that, as the caller knows, nobody runs with any more: waits up to 0.2 s for
 * the copies of the description that others are about to close, so that no file stays. */
void idrange_give_back(int registry_fd, struct idrange *r);
/*
 * For the start after a crash: forgets reservations of `state_dir` that nobody holds and for whose
 * id keep() says no, and unlinks files that nobody holds or keeps. Other state directories'
 * reservations, and what no rind wrote, stay. Returns how many reservations were forgotten.
 */
int idrange_sweep(int registry_fd, const char *state_dir, bool (*keep)(void *arg, const char *id),
                  void *arg, struct err *err);
/* Closes our copy of the lock only. */
void idrange_done(struct idrange *r);
/* Ranges of /etc/subuid and /etc/subgid text ("name:start:count" lines), merged and sorted. Pure.
 * Empty lines and `#` comments are skipped, anything else is -EINVAL: a range that is not
 * understood could be one of ours. -E2BIG past IDRANGE_SUBIDS_MAX lines. Caller frees. */
/* One such line without its newline: 1 = a range, 0 = none (empty, a comment, a count of 0). */
int idrange_parse_subid(const char *line, size_t len, struct idrange_avoid *ret);
int idrange_parse_subids(const char *text, size_t len, struct idrange_avoid **ret,
                         size_t *ret_count);
