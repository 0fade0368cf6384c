#include "sandbox/orphans.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "launch/request.h"
#include "sandbox/events.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

enum { RETRY_MS = 50, RETRIES_MAX = 200, RETRY_LATE_MS = 2000 };

struct orphan {
    struct supervisor *sup; /* borrowed */
    struct orphan *next, **link;
    char id[LAUNCH_ID_MAX + 1];
    char *name; /* owned, or NULL */
    unsigned tries;
    uv_timer_t retry;
};

static void on_reply_ignored(void *data, int r, const struct launch_reply *reply, int fds[2],
                             const struct err *err)
{
    (void)data;
    (void)r;
    (void)reply;
    (void)fds;
    (void)err;
}

static int orphan_send(struct supervisor *sup, const char *id, enum launch_verb verb, launch_cb cb,
                       void *data)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, verb);
    launch_put_string(&b, TAG_ID, id);
    r = launch_end(&b);
    return r < 0 ? r : launcher_client_send_due(sup->launcher, &b, cb, data, NULL);
}

/*
 * Kills an init that no supervisor has reattached to; the launcher's replies are ignored. The
 * launcher kills only inits that it knows, so it has to reattach first.
 */
static void orphan_kill_init(struct supervisor *sup, const char *id)
{
    (void)orphan_send(sup, id, LAUNCH_REATTACH, on_reply_ignored, NULL);
    (void)orphan_send(sup, id, LAUNCH_KILL, on_reply_ignored, NULL);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct orphan *l = h->data;

    free(l->name);
    free(l);
}

static void orphan_done(struct orphan *l)
{
    list_remove(l);
    uv_close((uv_handle_t *)&l->retry, on_timer_closed);
}

static void on_leftover_retry(uv_timer_t *h);

static void orphan_try_later(struct orphan *l, const char *why)
{
    /* A process that sleeps in the kernel ends when what it waits for has come. */
    if (l->tries++ == RETRIES_MAX)
        log_error("supervisor", "id=%s what is left of it cannot be removed yet: %s", l->id, why);
    (void)uv_timer_start(&l->retry, on_leftover_retry,
                         l->tries <= RETRIES_MAX ? RETRY_MS : RETRY_LATE_MS, 0);
}

static void on_release_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                             const struct err *err)
{
    struct orphan *l = data;

    (void)reply;
    (void)fds;
    if (r == -ECANCELED || r == -EPIPE)
        return; /* the supervisor is stopping: orphans_close frees l */
    if (r < 0 && r != -ENOENT) {
        orphan_try_later(l, err->msg);
        return;
    }
    (void)store_remove(l->sup->store, l->id, NULL); /* the next start sweeps remaining files */
    if (l->name != NULL)
        events_emit(l->sup->events, "destroy", l->id, l->name, STORE_NO_CREATOR, NULL);
    log_info("supervisor", "id=%s half made or half removed: swept", l->id);
    orphan_done(l);
}

static void on_leftover_retry(uv_timer_t *h)
{
    struct orphan *l = h->data;
    int r;

    /* Which sandboxes have joined its network is known only after every reattach. */
    if (l->sup->reattaching > 0 && l->sup->sharing != NULL) {
        (void)uv_timer_start(&l->retry, on_leftover_retry, RETRY_MS, 0);
        return;
    }
    orphan_kill_init(l->sup, l->id);
    /* Sandboxes in its network must end first. A sandbox whose creation was cut off has none. */
    if (sandbox_end_dependents_of(l->sup, l->id)) {
        orphan_try_later(l, "others are in its network");
        return;
    }
    r = orphan_send(l->sup, l->id, LAUNCH_RELEASE, on_release_reply, l);
    if (r < 0)
        orphan_try_later(l, strerror(-r));
}

static bool orphan_is_known(const struct supervisor *sup, const char *id)
{
    for (const struct orphan *l = sup->orphans; l != NULL; l = l->next)
        if (strcmp(l->id, id) == 0)
            return true;
    return false;
}

void orphans_add(struct supervisor *sup, const char *id, const char *name)
{
    struct orphan *l;

    if (orphan_is_known(sup, id))
        return;
    l = calloc(1, sizeof(*l));
    if (l == NULL)
        return; /* the next supervisor finds the orphan again */
    l->sup = sup;
    l->name = name != NULL ? strdup(name) : NULL;
    (void)snprintf(l->id, sizeof(l->id), "%s", id);
    (void)uv_timer_init(sup->loop, &l->retry);
    l->retry.data = l;
    list_add(&sup->orphans, l);
    /* From the loop, after all of the disk has been read. */
    (void)uv_timer_start(&l->retry, on_leftover_retry, 0, 0);
}

void orphans_close(struct supervisor *sup)
{
    while (sup->orphans != NULL)
        orphan_done(sup->orphans);
}
