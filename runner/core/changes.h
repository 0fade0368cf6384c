#pragma once

/*
 * What a sandbox has changed of the files that it was started on, while it runs or does not: a
 * worker reads its writable layer and what is below. Volumes and other mounts are not looked into.
 */

#include <stdbool.h>

struct err;
struct sandbox;

enum change_kind { CHANGE_INVALID = 0, CHANGE_CHANGED, CHANGE_ADDED, CHANGE_DELETED, CHANGE_MAX };

/* Called from the loop, never from within a call of this module. */
struct changes_events {
    /* path: absolute, of any bytes. True: no more until changes_resume. */
    bool (*on_change)(void *data, enum change_kind kind, const char *path);
    /* Exactly once, unless cancelled; the listing is gone afterwards. */
    void (*on_done)(void *data, int r, const struct err *err);
};

struct changes;
/* -EBUSY: it is being made, started, stopped or removed; -EOPNOTSUPP: its root is a directory of
 * the host's; -EAGAIN: limit maxImageLoads. */
int changes_start(struct sandbox *s, const struct changes_events *events, void *data,
                  struct changes **ret, struct err *err);
void changes_resume(struct changes *c);
void changes_cancel(struct changes *c);
