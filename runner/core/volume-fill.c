/* Has the launcher fill a volume, and waits for the process that does it. Where somebody else is
 * filling the same one, it is asked again. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/death.h"
#include "core/launcher-client.h"
#include "core/supervisor_internal.h"
#include "core/volumes_internal.h"
#include "launch/volume.h"

enum {
    FILL_LIMIT_MS = 3600 * 1000, /* what takes longer is given up */
    RETRY_MS = 50,               /* another sandbox's start fills the same */
    RETRIES_MAX = FILL_LIMIT_MS / RETRY_MS,
};

struct volume_filling {
    struct supervisor *sup;
    struct buf request; /* owned */
    int client;         /* owned; or FD_NONE */
    int report;         /* owned; of who fills it, or FD_NONE */
    struct death *death;
    uv_timer_t retry;
    unsigned tries;
    bool asking, dropped;
    void (*cb)(void *data, int r, const struct err *err);
    void *data;
    struct volume_filling *next;
};

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static void let_go(struct volume_filling *f)
{
    death_close(take(f->death));
    if (f->report >= 0)
        (void)close(take_fd(&f->report)); /* who fills it sees that nobody waits */
    if (f->client >= 0)
        (void)close(take_fd(&f->client));
    buf_done(&f->request);
    uv_close((uv_handle_t *)&f->retry, on_closed);
}

static void unlink_from(struct volumes *v, struct volume_filling *f)
{
    struct volume_filling **at = &v->fillings;

    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
}

static void finish(struct volume_filling *f, int r, const struct err *err)
{
    void (*cb)(void *, int, const struct err *) = f->cb;
    void *data = f->data;

    unlink_from(f->sup->volumes, f);
    let_go(f);
    cb(data, r, err);
}

void volume_fill_drop(struct volume_filling *f)
{
    if (f == NULL)
        return;
    f->dropped = true;
    if (f->asking)
        return; /* the launcher's answer ends it */
    unlink_from(f->sup->volumes, f);
    let_go(f);
}

void volume_fills_close(struct volumes *v)
{
    while (v->fillings != NULL) {
        struct volume_filling *f = v->fillings;

        v->fillings = f->next;
        let_go(f);
    }
}

static void on_ended(void *data, bool late)
{
    struct volume_filling *f = data;
    struct err err = ERR_NONE;
    int r;

    f->death = NULL;
    r = late ? err_set(&err, -ETIMEDOUT, "fill the volume: it takes longer than an hour")
             : volume_result(f->report, &err);
    finish(f, r, &err);
}

static int ask(struct volume_filling *f, struct err *err);

static void on_retry(uv_timer_t *h)
{
    struct volume_filling *f = h->data;
    struct err err = ERR_NONE;

    if (ask(f, &err) < 0)
        finish(f, err.code, &err);
}

static void on_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                     const struct err *err)
{
    struct volume_filling *f = data;
    struct err own = ERR_NONE;

    (void)reply;
    if (r == -ECANCELED || r == -EPIPE)
        return; /* the supervisor stops, and lets go of it */
    f->asking = false;
    if (f->dropped) {
        volume_fill_drop(f);
        return;
    }
    if ((r == -EBUSY || r == -EAGAIN) && f->tries++ < RETRIES_MAX) {
        (void)uv_timer_start(&f->retry, on_retry, RETRY_MS, 0);
        return;
    }
    if (r == 0 && fds[0] >= 0) {
        r = death_watch(f->sup->loop, fds[0], FILL_LIMIT_MS, on_ended, f, &f->death);
        if (r == 0) {
            f->report = take_fd(&fds[1]);
            return;
        }
        (void)err_errno(&own, r, "fill a volume");
        err = &own;
    }
    finish(f, r, err); /* or there was nothing to do */
}

static int ask(struct volume_filling *f, struct err *err)
{
    int r = launcher_client_send_for(f->sup->launcher, &f->request, f->client, on_reply, f, err);

    f->asking = r == 0;
    return r;
}

int volume_fill(struct supervisor *sup, struct buf *request, int client,
                void (*cb)(void *data, int r, const struct err *err), void *data,
                struct volume_filling **ret, struct err *err)
{
    struct volume_filling *f = calloc(1, sizeof(*f));
    int r;

    if (f == NULL)
        return err_errno(err, -ENOMEM, "fill a volume");
    *f = (struct volume_filling){
        .sup = sup, .client = FD_NONE, .report = FD_NONE, .cb = cb, .data = data};
    f->request = *request;
    *request = (struct buf)BUF_INIT(0);
    if (client >= 0)
        f->client = fcntl(client, F_DUPFD_CLOEXEC, 3); /* none: the launcher refuses */
    (void)uv_timer_init(sup->loop, &f->retry);
    f->retry.data = f;
    r = ask(f, err);
    if (r < 0) {
        let_go(f);
        return r;
    }
    f->next = sup->volumes->fillings;
    sup->volumes->fillings = f;
    if (ret != NULL)
        *ret = f;
    return 0;
}
