#pragma once

/*
 * Lists the files that a sandbox, running or stopped, has changed against the root file system that
 * it was started on. A worker process compares the sandbox's writable layer with the layers below
 * it. Volumes and other mounts are not included. Runs in the supervisor's event loop.
 */

#include <stdbool.h>

struct err;
struct sandbox;

enum change_kind { CHANGE_INVALID = 0, CHANGE_CHANGED, CHANGE_ADDED, CHANGE_DELETED, CHANGE_MAX };

/* Callbacks run from the event loop, never inside a call of this module. */
struct changes_events {
    /* path: absolute, any bytes. Returns true to pause until changes_resume. */
    bool (*on_change)(void *data, enum change_kind kind, const char *path);
    /* Called exactly once, unless the listing was cancelled; frees the listing afterwards. */
    void (*on_done)(void *data, int r, const struct err *err);
};

struct changes;
/*
 * Starts a listing; does not block. -EBUSY: the sandbox is being created, started, stopped or
 * removed; -EOPNOTSUPP: its root is a directory of the host; -EAGAIN: limit maxImageLoads.
 */
int changes_start(struct sandbox *s, const struct changes_events *events, void *data,
                  struct changes **ret, struct err *err);
void changes_resume(struct changes *c);
void changes_cancel(struct changes *c);
