#include "core/leftovers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "core/events.h"
#include "core/launcher-client.h"
#include "core/sandbox_internal.h"
#include "core/store.h"
#include "core/supervisor_internal.h"
#include "launch/request.h"

enum { RETRY_MS = 50, RETRIES_MAX = 200 };

struct leftover {
    struct supervisor *sup; /* borrowed */
    struct leftover *next;
    char id[LAUNCH_ID_MAX + 1];
    char *name; /* owned; or NULL */
    unsigned tries;
    uv_timer_t retry;
};

static void on_ignored(void *data, int r, const struct launch_reply *reply, int fds[2],
                       const struct err *err)
{
    (void)data;
    (void)r;
    (void)reply;
    (void)fds;
    (void)err;
}

static int request(struct supervisor *sup, const char *id, enum launch_verb verb, launch_cb cb,
                   void *data)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, verb);
    launch_put_string(&b, TAG_ID, id);
    r = launch_end(&b);
    return r < 0 ? r : launcher_client_send_due(sup->launcher, &b, cb, data, NULL);
}

/* Of an init that nobody has taken up; what is answered does not matter. It has to be taken up
 * first: the launcher kills what it knows. */
static void end_init(struct supervisor *sup, const char *id)
{
    (void)request(sup, id, LAUNCH_ADOPT, on_ignored, NULL);
    (void)request(sup, id, LAUNCH_KILL, on_ignored, NULL);
}

static void on_closed(uv_handle_t *h)
{
    struct leftover *l = h->data;

    free(l->name);
    free(l);
}

static void done(struct leftover *l)
{
    struct leftover **at = &l->sup->leftovers;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    uv_close((uv_handle_t *)&l->retry, on_closed);
}

static void on_retry(uv_timer_t *h);

static void try_later(struct leftover *l, const char *why)
{
    if (l->tries++ < RETRIES_MAX) {
        (void)uv_timer_start(&l->retry, on_retry, RETRY_MS, 0);
        return;
    }
    log_error("supervisor", "id=%s what is left of it cannot be removed: %s", l->id, why);
    done(l);
}

static void on_released(void *data, int r, const struct launch_reply *reply, int fds[2],
                        const struct err *err)
{
    struct leftover *l = data;

    (void)reply;
    (void)fds;
    if (r == -ECANCELED || r == -EPIPE)
        return; /* the supervisor stops, and closes it */
    if (r < 0 && r != -ENOENT) {
        try_later(l, err->msg);
        return;
    }
    (void)store_remove(l->sup->store, l->id, NULL); /* what stays is swept at the next start */
    if (l->name != NULL)
        events_emit(l->sup->events, "destroy", l->id, l->name, STORE_NO_CREATOR, NULL);
    log_info("supervisor", "id=%s half made or half removed: swept", l->id);
    done(l);
}

static void on_retry(uv_timer_t *h)
{
    struct leftover *l = h->data;
    int r;

    /* Who is in its network is known when everything has been taken up. */
    if (l->sup->adopting > 0 && l->sup->sharing != NULL) {
        (void)uv_timer_start(&l->retry, on_retry, RETRY_MS, 0);
        return;
    }
    end_init(l->sup, l->id);
    /* Its removal was to end them first, or nobody could have joined it yet. */
    if (sandbox_end_dependents_of(l->sup, l->id)) {
        try_later(l, "others are in its network");
        return;
    }
    r = request(l->sup, l->id, LAUNCH_RELEASE, on_released, l);
    if (r < 0)
        try_later(l, strerror(-r));
}

static bool is_known(const struct supervisor *sup, const char *id)
{
    for (const struct leftover *l = sup->leftovers; l != NULL; l = l->next)
        if (strcmp(l->id, id) == 0)
            return true;
    return false;
}

void leftovers_add(struct supervisor *sup, const char *id, const char *name)
{
    struct leftover *l;

    if (is_known(sup, id))
        return;
    l = calloc(1, sizeof(*l));
    if (l == NULL)
        return; /* the next supervisor's */
    l->sup = sup;
    l->name = name != NULL ? strdup(name) : NULL;
    (void)snprintf(l->id, sizeof(l->id), "%s", id);
    (void)uv_timer_init(sup->loop, &l->retry);
    l->retry.data = l;
    l->next = sup->leftovers;
    sup->leftovers = l;
    (void)uv_timer_start(&l->retry, on_retry, 0, 0); /* when all that is on disk has been read */
}

void leftovers_close(struct supervisor *sup)
{
    while (sup->leftovers != NULL)
        done(sup->leftovers);
}
