#pragma once

/*
 * Host id ranges of 65536 ids each, from a pool that avoids /etc/subuid and systemd-nspawn's
 * ranges. A range is taken by a flock on its file in the host-wide registry directory. There is one
 * registry for all state directories, so that two rinds on a host never share ids.
 *
 * Init inherits the locked open file description. So the range stays taken while the sandbox runs,
 * even if the launcher exits. The file's content ("<state directory>\n<id>\n") reserves the range
 * while files of a stopped sandbox still have its ids, also over a reboot. An unlocked, empty file
 * is a free range.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum {
    IDRANGE_SIZE = 65536,
    IDRANGE_FIRST = 1879048192, /* 0x70000000: past systemd-nspawn's 524288..1879048191 */
    IDRANGE_COUNT = 4092,       /* up to 2147221503, below 2^31, which some tools cannot handle */
    IDRANGE_GUARDED = 1023,     /* the last of these are for sandboxes with a guard */
    /* Two more ranges that are never handed out: the ids on disk of image layers and volumes, and
     * the supervisor's own id. */
    IDRANGE_LAYERS = IDRANGE_FIRST + IDRANGE_COUNT * IDRANGE_SIZE,
    IDRANGE_SUPERVISOR = IDRANGE_LAYERS + IDRANGE_SIZE,
    IDRANGE_OWNER_MAX = 4000,   /* bytes of a reservation: must fit into one write and one page */
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
 * guarded: for a sandbox that may write to a host directory as the owner of its files, where a
 * guard prevents set-id files (shim/init/guard.h). That directory's mount can outlive the sandbox
 * in an fd of a host process, and it maps ids of this range to the owner. So these ranges never go
 * to a sandbox without a guard.
 */
struct idrange_avoid {
    uint32_t first, last;
};
int idrange_take(int registry_fd, const struct idrange_avoid *avoid, size_t avoid_count,
                 struct idrange *ret, struct err *err);
int idrange_take_guarded(int registry_fd, const struct idrange_avoid *avoid, size_t avoid_count,
                         struct idrange *ret, struct err *err);
/*
 * Takes a given range again, such as a stopped sandbox's. -EBUSY when it is locked (with an owner
 * only after 0.2 s of retries, as every rind's sweep locks each range briefly). -EPERM when its
 * content names another owner. -EINVAL when no range starts at base. An empty file is accepted;
 * owner NULL accepts only an empty file.
 */
int idrange_retake(int registry_fd, uid_t base, const char *owner, struct idrange *ret,
                   struct err *err);
/* Finds the range whose content names this owner, locked or not, by reading every range's file.
 * -ENOENT. */
int idrange_find(int registry_fd, const char *owner, uid_t *ret_base, struct err *err);
/* Writes or clears the reservation; owner is "<state directory>\n<id>\n" or NULL. Does two fsyncs
 * before it returns, so skip it for a sandbox that is not kept (--rm). */
int idrange_reserve(int registry_fd, const struct idrange *r, const char *owner, struct err *err);
/* Like idrange_reserve without the fsyncs, for a running sandbox: keeps its range from being taken
 * between the launcher's death and the next launcher's reattach. A power failure ends the sandbox
 * anyway. */
int idrange_claim(int registry_fd, const struct idrange *r, const char *owner, struct err *err);
/* Clears the reservation and closes this copy of the lock. The range is free once all copies are
 * closed. If that is now, the file is unlinked; otherwise it stays, empty, and is used again. */
void idrange_release(int registry_fd, struct idrange *r);
/* Like idrange_release, when the caller knows that no process uses the range: waits up to 0.2 s
 * until other copies of the lock are closed, so that the file can be unlinked. */
void idrange_give_back(int registry_fd, struct idrange *r);
/* For the start after a crash. Clears unlocked reservations of `state_dir` for whose id keep()
 * returns false, and unlinks files that are unlocked and not reserved. Other state directories'
 * reservations and unknown files stay. Returns the number of cleared reservations. */
int idrange_sweep(int registry_fd, const char *state_dir, bool (*keep)(void *arg, const char *id),
                  void *arg, struct err *err);
/* Closes this copy of the lock only. */
void idrange_done(struct idrange *r);
/* Parses /etc/subuid and /etc/subgid ("name:start:count" lines) into merged, sorted ranges. Pure.
 * Skips empty lines and `#` comments. -EINVAL for any other line, as a range that is not understood
 * could overlap the pool. -E2BIG past IDRANGE_SUBIDS_MAX lines. The caller frees *ret. */
/* Parses one such line without its newline: 1 = a range, 0 = none (empty, a comment, a count of 0).
 */
int idrange_parse_subid(const char *line, size_t len, struct idrange_avoid *ret);
int idrange_parse_subids(const char *text, size_t len, struct idrange_avoid **ret,
                         size_t *ret_count);
