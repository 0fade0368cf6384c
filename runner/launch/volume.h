#pragma once

/*
 * Named volumes as the launcher keeps them:
 *
 *     <state>/volumes/<name>/   keep meta lock [filled] [data/ | disk] [data.new/ | disk.new]
 *     <state>/volumes/.*        volumes that are being made or removed
 *
 * Files in data/ have the ids of IDRANGE_LAYERS; each sandbox sees them through a mount id-mapped
 * to its own range. `keep` names the creator, as a sandbox's does (creator.h), so that a
 * compromised supervisor cannot show a client's volume to another client. `meta` is the
 * supervisor's own record, not parsed here. `lock` is held shared by the init of each sandbox that
 * has the volume mounted, and exclusively while it is filled or removed.
 *
 * A volume with a size limit has its files in `disk` instead, a file system image (disk.c) that all
 * its mounts share.
 *
 * data/ is made when the volume is first mounted or has been filled; if it exists, it is complete.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct launch_request;
struct launcher;

enum {
    LAUNCH_VOLUME_NAME_MAX = 128,
    LAUNCH_META_MAX = 128 << 10, /* bytes of a volume's record */
    LAUNCH_FILLS_MAX = 16,       /* volumes filled at a time */
    LAUNCH_MAKERS_MAX = 128,     /* volumes made at a time by children */
};

/* Returns true for a valid name: [A-Za-z0-9][A-Za-z0-9_.-]*, at most LAUNCH_VOLUME_NAME_MAX bytes.
 */
bool launch_volume_name_ok(const char *name);

/*
 * Makes q->volume_name with q->meta as its record, for the client q->client_fd; on disk before it
 * is reported, with LAUNCH_KEEP. Returns 0 when it is made; -EEXIST. Returns 1 when a child makes
 * it, because that waits for a disk: ret[0] is its pidfd, ret[1] the read end of a pipe for its
 * struct volume_report; the caller owns both. A launcher without other clients makes it itself.
 * -EAGAIN: the configured number of children is reached.
 */
int launcher_volume_make(struct launcher *l, const struct launch_request *q, int ret[2],
                         struct err *err);
/* Replaces the record. -ENOENT. */
int launcher_volume_write(struct launcher *l, const struct launch_request *q, struct err *err);
/* Returns a sealed memfd with the record. -ENOENT. */
int launcher_volume_read(struct launcher *l, const char *name, struct err *err);
/* -ENOENT; -EBUSY while a running sandbox has it mounted. */
int launcher_volume_remove(struct launcher *l, const char *name, struct err *err);
/* Returns a sealed memfd with all names, each NUL-terminated. */
int launcher_volume_list(struct launcher *l, struct err *err);

/*
 * Fills q's only named volume from what q's layers have at its target, or from q->sandbox, whose
 * layers they are, or from all of the volume q->volume_name. A confined child does it; the call
 * does not wait. Returns 0 if there is nothing to do: it has been filled or used before, or is
 * mounted. Returns 1: ret[0] is the child's pidfd, ret[1] the read end of a pipe for its struct
 * volume_report; the caller owns both. The volume is filled for requests after the child's exit.
 * -EBUSY: it is being filled or removed. -EAGAIN: LAUNCH_FILLS_MAX.
 */
int launcher_volume_fill(struct launcher *l, const struct launch_request *q, int ret[2],
                         struct err *err);
enum { VOLUME_STEP = 1 };
struct volume_report {
    int code; /* 0, or a negative errno; VOLUME_STEP: message names the step that begins now */
    char message[480]; /* NUL-terminated; no control bytes */
};
/* Reads the last report of the child, after it has exited or is given up; does not block.
 * VOLUME_STEP: it was killed in that step. */
struct volume_report volume_report_read(int pipe_fd);
/* Converts a report to a result: -ECHILD if the child was killed. */
int volume_report_result(const struct volume_report *report, struct err *err);
int volume_result(int pipe_fd, struct err *err);
