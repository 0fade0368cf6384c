#pragma once

/*
 * Named volumes as the launcher keeps them:
 *
 *     <state>/volumes/<name>/   keep meta lock [filled] [data/ | disk] [data.new/ | disk.new]
 *     <state>/volumes/.…        what is being made, or removed
 *
 * What is in data/ carries the ids of IDRANGE_LAYERS; each sandbox sees it through an id-mapped
 * mount of its own range. keep says who made it: the same rule as for a sandbox's files
 * (creator.h), so that a supervisor that was taken over shows no one's volume to another client.
 * meta is the supervisor's own record, bytes that are not looked at here. lock is held, shared, by
 * the init of each sandbox that has the volume mounted, and alone by who fills or removes it.
 *
 * One with a size has its files in disk instead, the image of a file system (disk.c), which all
 * who have the volume mounted share.
 *
 * data/ comes into being when the volume is first mounted, or when it has been filled; it is whole
 * when it is there.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct launch_request;
struct launcher;

enum {
    LAUNCH_VOLUME_NAME_MAX = 128,
    LAUNCH_META_MAX = 128 << 10, /* bytes of a volume's record */
    LAUNCH_FILLS_MAX = 16,       /* volumes that are being filled at a time */
    LAUNCH_MAKERS_MAX = 128,     /* volumes that are being made at a time, where others wait */
};

/* [A-Za-z0-9][A-Za-z0-9_.-]*, at most LAUNCH_VOLUME_NAME_MAX bytes. */
bool launch_volume_name_ok(const char *name);

/*
 * Makes q->volume_name with q->meta as its record, for q->client_fd; durable with LAUNCH_KEEP. 0:
 * it is there; -EEXIST. 1: a process of its own makes it, because that waits for a disk; ret[0] is
 * its pidfd, ret[1] the end of a pipe for its struct volume_report, both the caller's. Not where
 * nobody else waits for us. -EAGAIN: the configured number of them are at it.
 */
int launcher_volume_make(struct launcher *l, const struct launch_request *q, int ret[2],
                         struct err *err);
/* Another record. -ENOENT. */
int launcher_volume_write(struct launcher *l, const struct launch_request *q, struct err *err);
/* A sealed memfd with the record. -ENOENT. */
int launcher_volume_read(struct launcher *l, const char *name, struct err *err);
/* -ENOENT; -EBUSY while a sandbox that runs has it. */
int launcher_volume_remove(struct launcher *l, const char *name, struct err *err);
/* A sealed memfd with the names of all, each NUL-terminated. */
int launcher_volume_list(struct launcher *l, struct err *err);

/*
 * Fills the one volume of q (its only named one) with what q's layers have at its target, or
 * q->sandbox, whose layers they are; or with all of the volume q->volume_name. In a confined
 * process that is not waited for. 0: there is nothing to do (it has been filled, or used, before,
 * or somebody has it mounted). 1: ret[0] is that process's pidfd, ret[1] the end of a pipe for its
 * struct volume_report, both the caller's; what has come of it counts for every request after its
 * death. -EBUSY: somebody else is filling it. -EAGAIN: LAUNCH_FILLS_MAX.
 */
int launcher_volume_fill(struct launcher *l, const struct launch_request *q, int ret[2],
                         struct err *err);
enum { VOLUME_STEP = 1 };
struct volume_report {
    int code;          /* 0, or a negative errno; VOLUME_STEP: what it begins with now */
    char message[480]; /* NUL-terminated; no control bytes */
};
/* What the process that makes or fills one has said last, once it has ended, or is given up; never
 * waits. VOLUME_STEP: it was cut off there. */
struct volume_report volume_report_read(int pipe_fd);
/* As a result: -ECHILD, it was killed. */
int volume_report_result(const struct volume_report *report, struct err *err);
int volume_result(int pipe_fd, struct err *err);
