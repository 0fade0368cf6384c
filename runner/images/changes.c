#include "images/changes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/worker-proto.h"
#include "images/images.h"
#include "images/snapshots.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox.h"
#include "sandbox/shared.h"

enum { RECORD_MAX = 2 + WORKER_PATH_MAX /* kind, slash, path */ };

struct changes {
    struct image_save *save; /* the stream of records */
    const struct changes_events *events;
    void *data;
    char record[RECORD_MAX + 1]; /* the record being read */
    size_t len;
};

static enum change_kind kind_of(char c)
{
    switch (c) {
    case 'C':
        return CHANGE_CHANGED;
    case 'A':
        return CHANGE_ADDED;
    case 'D':
        return CHANGE_DELETED;
    default:
        return CHANGE_INVALID;
    }
}

/* Appends bytes to the current record. False: the record would be longer than RECORD_MAX. */
static bool append_to_record(struct changes *c, const char *at, size_t len)
{
    if (len > RECORD_MAX - c->len)
        return false;
    (void)memcpy(c->record + c->len, at, len);
    c->len += len;
    return true;
}

/* The worker parses hostile file names, so a malformed record counts as a protocol error. */
static int changes_refuse_record(struct err *err)
{
    return err_set(err, -EPROTO, "changes: the worker has said what is not for it to say");
}

static bool on_save_bytes(void *data, const void *bytes, size_t len)
{
    struct changes *c = data;
    const char *at = bytes, *end = at + len;
    struct err err = ERR_NONE;
    bool full = false;

    while (at < end) {
        const char *nul = memchr(at, '\0', (size_t)(end - at));
        bool whole = nul != NULL;

        if (!append_to_record(c, at, (size_t)((whole ? nul : end) - at)) ||
            (whole &&
             (c->len < 2 || kind_of(c->record[0]) == CHANGE_INVALID || c->record[1] != '/'))) {
            image_save_cancel(c->save);
            c->events->on_done(c->data, changes_refuse_record(&err), &err);
            free(c);
            return false;
        }
        if (!whole)
            break;
        c->record[c->len] = '\0';
        c->len = 0;
        full = c->events->on_change(c->data, kind_of(c->record[0]), c->record + 1);
        at = nul + 1;
    }
    return full;
}

static void on_save_done(void *data, int r, const struct err *err)
{
    struct changes *c = data;
    struct err own = ERR_NONE;

    if (r == 0 && c->len > 0) {
        r = changes_refuse_record(&own);
        err = &own;
    }
    c->events->on_done(c->data, r, err);
    free(c);
}

int changes_start(struct sandbox *s, const struct changes_events *events, void *data,
                  struct changes **ret, struct err *err)
{
    static const struct image_save_events save = {.on_bytes = on_save_bytes,
                                                  .on_done = on_save_done};
    struct changes *c;
    int r = sandbox_check_readable(s, err);

    if (r < 0)
        return r;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_errno(err, -ENOMEM, "changes");
    c->events = events;
    c->data = data;
    r = images_changes_sandbox(s->sup->images, s->id, s->spec, &save, c, &c->save, err);
    if (r < 0)
        free(c);
    else
        *ret = c;
    return r;
}

void changes_resume(struct changes *c)
{
    image_save_resume(c->save);
}

void changes_cancel(struct changes *c)
{
    image_save_cancel(c->save);
    free(c);
}
