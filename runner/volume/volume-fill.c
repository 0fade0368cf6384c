/*
 * Has the launcher fill a volume, and waits for the process that does so. Retries while another
 * request fills the volume. Runs in the supervisor's event loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "launch/volume.h"
#include "sandbox/launcher-client.h"
#include "sandbox/pidfd-wait.h"
#include "sandbox/shared.h"
#include "volume/volumes-internal.h"

enum {
    FILL_LIMIT_MS = 3600 * 1000, /* time limit of a fill */
    RETRY_MS = 50,               /* delay while another sandbox's start fills the volume */
    RETRIES_MAX = FILL_LIMIT_MS / RETRY_MS,
};

struct volume_filling {
    struct supervisor *sup;
    struct buf request; /* owned */
    int client;         /* owned, or FD_NONE */
    int report;         /* owned; pipe from the filling process, or FD_NONE */
    struct pidfd_wait *pidfd_wait;
    uv_timer_t retry;
    unsigned tries;
    bool asking, dropped;
    void (*cb)(void *data, int r, const struct err *err);
    void *data;
    struct volume_filling *next;
};

static void on_timer_closed(uv_handle_t *h)
{
    free(h->data);
}

static void filling_free(struct volume_filling *f)
{
    pidfd_wait_close(take(f->pidfd_wait));
    if (f->report >= 0)
        (void)close(
            take_fd(&f->report)); /* EOF tells the filling process that its result is not wanted */
    if (f->client >= 0)
        (void)close(take_fd(&f->client));
    buf_done(&f->request);
    uv_close((uv_handle_t *)&f->retry, on_timer_closed);
}

static void filling_unlink(struct volumes *v, struct volume_filling *f)
{
    struct volume_filling **at = &v->fillings;

    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
}

static void filling_finish(struct volume_filling *f, int r, const struct err *err)
{
    void (*cb)(void *, int, const struct err *) = f->cb;
    void *data = f->data;

    filling_unlink(f->sup->volumes, f);
    filling_free(f);
    cb(data, r, err);
}

void volume_fill_drop(struct volume_filling *f)
{
    if (f == NULL)
        return;
    f->dropped = true;
    if (f->asking)
        return; /* the launcher's reply ends it */
    filling_unlink(f->sup->volumes, f);
    filling_free(f);
}

void volume_fills_close(struct volumes *v)
{
    while (v->fillings != NULL) {
        struct volume_filling *f = v->fillings;

        v->fillings = f->next;
        filling_free(f);
    }
}

static void on_filler_ended(void *data, bool late)
{
    struct volume_filling *f = data;
    struct err err = ERR_NONE;
    int r;

    f->pidfd_wait = NULL;
    r = late ? err_set(&err, -ETIMEDOUT, "fill the volume: it takes longer than an hour")
             : volume_result(f->report, &err);
    filling_finish(f, r, &err);
}

static int filling_request(struct volume_filling *f, struct err *err);

static void on_retry_due(uv_timer_t *h)
{
    struct volume_filling *f = h->data;
    struct err err = ERR_NONE;

    if (filling_request(f, &err) < 0)
        filling_finish(f, err.code, &err);
}

static void on_launcher_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                              const struct err *err)
{
    struct volume_filling *f = data;
    struct err own = ERR_NONE;

    (void)reply;
    if (r == -ECANCELED || r == -EPIPE)
        return; /* the supervisor stops, and volume_fills_close frees it */
    f->asking = false;
    if (f->dropped) {
        volume_fill_drop(f);
        return;
    }
    if ((r == -EBUSY || r == -EAGAIN) && f->tries++ < RETRIES_MAX) {
        (void)uv_timer_start(&f->retry, on_retry_due, RETRY_MS, 0);
        return;
    }
    if (r == 0 && fds[0] >= 0) {
        r = pidfd_wait_start(f->sup->loop, fds[0], FILL_LIMIT_MS, on_filler_ended, f,
                             &f->pidfd_wait);
        if (r == 0) {
            f->report = take_fd(&fds[1]);
            return;
        }
        (void)err_errno(&own, r, "fill a volume");
        err = &own;
    }
    filling_finish(f, r, err); /* also if there was nothing to do */
}

static int filling_request(struct volume_filling *f, struct err *err)
{
    int r = launcher_client_send_for(f->sup->launcher, &f->request, f->client, on_launcher_reply, f,
                                     err);

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
        f->client =
            fcntl(client, F_DUPFD_CLOEXEC, 3); /* on failure FD_NONE, and the launcher refuses */
    (void)uv_timer_init(sup->loop, &f->retry);
    f->retry.data = f;
    r = filling_request(f, err);
    if (r < 0) {
        filling_free(f);
        return r;
    }
    f->next = sup->volumes->fillings;
    sup->volumes->fillings = f;
    if (ret != NULL)
        *ret = f;
    return 0;
}
