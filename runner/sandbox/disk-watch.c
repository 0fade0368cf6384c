#include "sandbox/disk-watch.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <uv.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/launcher.h"
#include "sandbox/freeze-ref.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "spec/spec.h"

enum {
    RATE_MB_PER_S = 4000, /* faster than disks of today write */
    WAIT_MIN_MS = 200,
    WAIT_MAX_MS = 10000,
    EACH_MS = 1,
    ALLOWANCE_SHARE = 1024, /* part of the reserve */
    ALLOWANCE_MIN = 64 << 10,
    ALLOWANCE_MAX = 1 << 20,
    OVER_SHARE = 8, /* so much of the reserve on top of it ends a low: no flutter at the mark */
    RESERVE_SHARE = 20,
};
#define RESERVE_MOST (UINT64_C(1) << 30) /* as the launcher's (launch/disk.c) */

struct disk_watch {
    struct supervisor *sup; /* borrowed */
    uv_timer_t timer;
    bool low;
    uint64_t free_bytes, reserve; /* of the last look */
};

unsigned disk_watch_wait_ms(uint64_t free_bytes, uint64_t reserve)
{
    const uint64_t above = free_bytes > reserve ? free_bytes - reserve : 0;
    const uint64_t ms = above / 1000 / RATE_MB_PER_S;

    return ms < WAIT_MIN_MS ? WAIT_MIN_MS : ms > WAIT_MAX_MS ? WAIT_MAX_MS : (unsigned)ms;
}

uint64_t disk_watch_allowance(uint64_t reserve)
{
    const uint64_t share = reserve / ALLOWANCE_SHARE;

    return share < ALLOWANCE_MIN ? ALLOWANCE_MIN : share > ALLOWANCE_MAX ? ALLOWANCE_MAX : share;
}

bool disk_watch_is_over(uint64_t free_bytes, uint64_t reserve)
{
    return free_bytes >= reserve && free_bytes - reserve >= reserve / OVER_SHARE;
}

bool disk_is_low(const struct supervisor *sup)
{
    return sup->disk_watch != NULL && sup->disk_watch->low;
}

/* ---- one sandbox ---- */

/* True if sizes bound all that it can write to disks. */
static bool sandbox_is_bounded(const struct sandbox *s)
{
    if (sandbox_limits(s).disk_bytes == LIMIT_UNSET && !s->spec->read_only)
        return false;
    for (size_t i = 0; i < s->spec->volume_count; i++) {
        const struct volume *v = &s->spec->volumes[i];

        if (!v->read_only && (!v->named || s->sup->volume_bytes_of == NULL ||
                              s->sup->volume_bytes_of(s->sup, v->source) == 0))
            return false;
    }
    return true;
}

static void hold_emit(struct sandbox *s, const char *type)
{
    const struct disk_watch *w = s->sup->disk_watch;
    json_t *detail = json_pack("{s:I, s:I}", "freeBytes", (json_int_t)w->free_bytes, "reserveBytes",
                               (json_int_t)w->reserve);
    auto_free char *text = detail != NULL ? json_dumps(detail, JSON_COMPACT) : NULL;

    json_decref(detail);
    sandbox_emit(s, type, text);
}

static void on_held(void *data, int r, const struct err *err)
{
    struct sandbox *s = data;
    struct sandbox_disk_hold *h = &s->disk_hold;

    h->asking = false;
    if (r < 0) {
        log_warn("disk", "id=%s writes while the disk is nearly full, and cannot be frozen: %s",
                 s->id, err != NULL ? err->msg : "");
    } else {
        struct freeze_ref ref = {.s = s};

        freeze_ref_frozen(&ref);
        h->counted = ref.counted;
        h->held = true;
        log_warn("disk", "id=%s name=%s is frozen: it writes, and the disk is nearly full", s->id,
                 sandbox_name(s));
        if (s->sup->disk_watch != NULL)
            hold_emit(s, "disk_hold");
    }
    sandbox_unref(s);
}

static void sandbox_hold(struct sandbox *s)
{
    struct sandbox_disk_hold *h = &s->disk_hold;
    struct freeze_ref ref;
    int r;

    sandbox_ref(s);
    h->asking = true;
    r = freeze_ref_get(&ref, s, on_held, s, NULL);
    if (r == 0)
        return;
    h->asking = false;
    h->counted = r == 1 && ref.counted; /* frozen for other readers already */
    h->held = h->counted;
    sandbox_unref(s);
}

static void on_let_go(void *data, int r, const struct err *err)
{
    struct sandbox *s = data;
    struct sandbox_disk_hold *h = &s->disk_hold;

    (void)err;
    h->asking = false;
    freeze_ref_thawed(&(struct freeze_ref){.s = s}, r);
    if (s->sup->disk_watch != NULL && s->state != SANDBOX_GONE)
        hold_emit(s, "disk_go_on");
    sandbox_unref(s);
}

/* The sandbox may have been resumed, stopped or removed meanwhile. */
static void sandbox_unhold(struct sandbox *s)
{
    struct sandbox_disk_hold *h = &s->disk_hold;
    struct freeze_ref ref = {.s = s, .counted = h->counted};

    if (!h->held || h->asking)
        return;
    *h = (struct sandbox_disk_hold){.asking = true};
    sandbox_ref(s);
    if (freeze_ref_put(&ref, on_let_go, s))
        return;
    h->asking = false;
    sandbox_unref(s);
}

/* ---- looking ---- */

static void sandbox_judge(struct sandbox *s, uint64_t written)
{
    const struct disk_watch *w = s->sup->disk_watch;
    struct sandbox_disk_hold *h = &s->disk_hold;

    if (!h->sampled || (written < h->base && written != UINT64_MAX)) { /* or it is another run */
        h->sampled = true;
        h->base = written == UINT64_MAX ? 0 : written;
        return;
    }
    if (!w->low || written - h->base < disk_watch_allowance(w->reserve))
        return;
    if (sandbox_is_bounded(s) && w->free_bytes >= w->reserve / 2)
        return;
    if (s->state == SANDBOX_RUNNING) {
        sandbox_hold(s);
    } else if (s->state == SANDBOX_STOPPING && s->channel != NULL) {
        log_warn("disk", "id=%s writes while it is being stopped: ended", s->id);
        sandbox_end_init(s);
    }
}

static void on_written(void *data, int r, const struct launch_reply *reply, int fds[2],
                       const struct err *err)
{
    struct sandbox *s = data;

    (void)fds;
    (void)err; /* it may have ended */
    s->disk_hold.asking = false;
    if (r == 0 && s->sup->disk_watch != NULL && s->spec != NULL && s->state != SANDBOX_GONE)
        sandbox_judge(s, reply->disk.used);
    sandbox_unref(s);
}

static void sandbox_look(struct sandbox *s)
{
    struct sandbox_disk_hold *h = &s->disk_hold;

    if (h->asking || s->spec == NULL || s->channel == NULL)
        return;
    /* A client has resumed it, or stops it. */
    if (h->held && s->state != SANDBOX_PAUSED)
        sandbox_unhold(s);
    if (h->held || h->asking || (s->state != SANDBOX_RUNNING && s->state != SANDBOX_STOPPING))
        return;
    if (sandbox_send_verb(s, LAUNCH_WRITTEN, on_written, NULL) == 0)
        h->asking = true;
}

static uint64_t reserve_of(const struct supervisor *sup, const struct statvfs *st)
{
    const uint64_t share = (uint64_t)st->f_blocks * st->f_frsize / RESERVE_SHARE;

    if (sup->limits.disk_reserve != 0)
        return sup->limits.disk_reserve;
    return share < RESERVE_MOST ? share : RESERVE_MOST;
}

static void watch_set_low(struct disk_watch *w, bool low)
{
    if (w->low == low)
        return;
    w->low = low;
    if (low)
        log_warn("disk",
                 "%" PRIu64 " bytes are free where sandboxes are kept, less than the reserve of "
                 "%" PRIu64 ": sandboxes that write are frozen",
                 w->free_bytes, w->reserve);
    else
        log_info("disk", "%" PRIu64 " bytes are free again: frozen sandboxes go on", w->free_bytes);
}

static void on_look(uv_timer_t *timer)
{
    struct disk_watch *w = timer->data;
    unsigned wait_ms;
    struct statvfs st;

    if (fstatvfs(w->sup->dir_fd, &st) < 0) {
        (void)uv_timer_start(timer, on_look, WAIT_MAX_MS, 0);
        return;
    }
    w->reserve = reserve_of(w->sup, &st);
    w->free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
    watch_set_low(w, w->low ? !disk_watch_is_over(w->free_bytes, w->reserve)
                            : w->free_bytes < w->reserve);
    for (struct sandbox *s = w->sup->sandboxes, *next; s != NULL; s = next) {
        next = s->all.next;
        if (w->low) {
            sandbox_look(s);
        } else {
            sandbox_unhold(s);
            s->disk_hold.sampled = false;
        }
    }
    wait_ms = disk_watch_wait_ms(w->free_bytes, w->reserve);
    if (w->low)
        wait_ms += w->sup->count * EACH_MS; /* so many requests to the launcher at each look */
    (void)uv_timer_start(timer, on_look, wait_ms, 0);
}

int disk_watch_new(struct supervisor *sup, struct disk_watch **ret, struct err *err)
{
    struct disk_watch *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return err_errno(err, -ENOMEM, "disk watch");
    w->sup = sup;
    (void)uv_timer_init(sup->loop, &w->timer); /* cannot fail */
    w->timer.data = w;
    *ret = w;
    return uv_timer_start(&w->timer, on_look, WAIT_MIN_MS, 0);
}

static void on_timer_closed(uv_handle_t *h)
{
    free(h->data);
}

void disk_watch_close(struct disk_watch *w)
{
    if (w != NULL)
        uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}
