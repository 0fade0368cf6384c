/* What a reaper removes, in Ryuk's order: containers, networks, volumes, images. Runs in the
 * supervisor's loop thread; called by reaper.c once its clients are gone.
 *
 * A member's reaper acts as that member, and that of the owner no differently: it removes what the
 * same user has made. The client policy says whether a member may remove its images. */
#include <errno.h>
#include <stdlib.h>

#include "api/docker/reaper-internal.h"
#include "api/native/native.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "images/images.h"
#include "policy/client.h"
#include "ports/networks.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/spec.h"
#include "volume/volumes.h"

static void reaper_step_done(struct reaper *rp);

static bool reaper_wants(const struct reaper *rp, char *const *labels)
{
    for (size_t i = 0; i < rp->filter_count; i++)
        if (reaper_filter_match(rp->filters[i], labels))
            return true;
    return false;
}

/* limited: even the owner's reaper does not touch what others have made. */
static struct caller reaper_caller(const struct reaper *rp)
{
    return (struct caller){.uid = (uid_t)sandbox_made_by(rp->s), .limited = true, .fd = -1};
}

static void reaper_removed(struct reaper *rp, int r, unsigned *count, const char *what,
                           const struct err *err)
{
    if (r < 0)
        log_warn("docker", "reaper %s: a %s stays: %s", sandbox_name(rp->s), what,
                 err != NULL ? err->msg : "");
    else
        ++*count;
    reaper_step_done(rp);
}

/* ---- containers ---- */

static void on_reaped_container(void *data, int r, const struct err *err)
{
    struct reaper *rp = data;

    reaper_removed(rp, r, &rp->containers, "container", err);
}

static void reap_containers(struct reaper *rp)
{
    struct err err = ERR_NONE;

    for (struct sandbox *s = sandbox_first(sandbox_supervisor(rp->s)), *next; s != NULL; s = next) {
        const struct spec *spec = sandbox_spec(s);

        next = sandbox_next(s);
        if (s == rp->s || spec == NULL || sandbox_made_by(s) != sandbox_made_by(rp->s) ||
            !reaper_wants(rp, spec->labels))
            continue;
        rp->pending++;
        if (sandbox_remove(s, true, on_reaped_container, rp, &err) < 0)
            reaper_removed(rp, err.code, &rp->containers, "container", &err);
    }
}

/* ---- networks ---- */

static void reap_networks(struct reaper *rp)
{
    const struct caller c = reaper_caller(rp);
    struct err err = ERR_NONE;

    for (struct network_entry *n = network_first(sandbox_supervisor(rp->s)), *next; n != NULL;
         n = next) {
        next = network_next(n);
        if (!network_may_use(n, &c) || !reaper_wants(rp, network_labels(n)))
            continue;
        rp->pending++;
        reaper_removed(rp, network_remove(n, &err), &rp->networks, "network", &err);
    }
}

/* ---- volumes ---- */

static void on_reaped_volume(void *data, int r, struct volume_entry *v, const struct err *err)
{
    struct reaper *rp = data;

    (void)v;
    reaper_removed(rp, r, &rp->volumes, "volume", err);
}

static void reap_volumes(struct reaper *rp)
{
    const struct caller c = reaper_caller(rp);
    struct err err = ERR_NONE;

    for (struct volume_entry *v = volume_first(sandbox_supervisor(rp->s)), *next; v != NULL;
         v = next) {
        next = volume_next(v);
        if (!volume_is_ready(v) || !volume_may_use(v, &c) || !reaper_wants(rp, volume_labels(v)))
            continue;
        rp->pending++;
        if (volume_remove(v, on_reaped_volume, rp, &err) < 0)
            reaper_removed(rp, err.code, &rp->volumes, "volume", &err);
    }
}

/* ---- images ---- */

static bool reaper_is_owners(const struct reaper *rp)
{
    int64_t uid = sandbox_made_by(rp->s);

    return uid == 0 || uid == (int64_t)rp->all->native->config.owner;
}

static bool reaper_may_remove_images(const struct reaper *rp)
{
    const struct native_config *config = &rp->all->native->config;

    return reaper_is_owners(rp) || (config->clients != NULL && config->clients->remove_images);
}

/* Those of the daemon have one owner, and are not told apart by uid. */
static struct image_view reaper_image_view(const struct reaper *rp)
{
    return reaper_is_owners(rp) ? IMAGE_VIEW_ALL
                                : (struct image_view){.uid = sandbox_made_by(rp->s)};
}

static void on_reaped_image(void *data, int r, const struct images_removed *removed,
                            const struct err *err)
{
    struct reaper *rp = data;

    (void)removed;
    reaper_removed(rp, r, &rp->images, "image", err);
}

static void on_reaper_images(void *data, int r, struct image **list, size_t count,
                             const struct err *err)
{
    struct reaper *rp = data;
    struct images *images = supervisor_images(sandbox_supervisor(rp->s));
    const struct image_view view = reaper_image_view(rp);
    struct err own = ERR_NONE;

    if (r < 0) {
        log_warn("docker", "reaper %s: its images stay: %s", sandbox_name(rp->s), err->msg);
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (list[i]->config == NULL || !reaper_wants(rp, list[i]->config->labels))
            continue;
        rp->pending++;
        if (images_remove(images, &view, list[i]->id, true, on_reaped_image, rp, &own) < 0)
            reaper_removed(rp, own.code, &rp->images, "image", &own);
    }
    if (r == 0)
        image_list_free(list, count);
    reaper_step_done(rp);
}

static void reap_images(struct reaper *rp)
{
    const struct image_view view = reaper_image_view(rp);
    struct err err = ERR_NONE;

    if (!reaper_may_remove_images(rp))
        return;
    rp->pending++;
    if (images_list(supervisor_images(sandbox_supervisor(rp->s)), &view, on_reaper_images, rp,
                    &err) < 0)
        on_reaper_images(rp, err.code, NULL, 0, &err);
}

/* ---- the steps ---- */

static void on_reaper_stopped(void *data, int r, const struct err *err)
{
    struct reaper *rp = data;

    if (r < 0)
        log_warn("docker", "reaper %s does not stop: %s", sandbox_name(rp->s),
                 err != NULL ? err->msg : "");
    reaper_unref(rp);
}

static void reap_self(struct reaper *rp)
{
    struct err err = ERR_NONE;

    log_info("docker", "reaper %s removed %u containers, %u networks, %u volumes, %u images",
             sandbox_name(rp->s), rp->containers, rp->networks, rp->volumes, rp->images);
    rp->refs++;
    if (sandbox_stop(rp->s, LIMIT_UNSET, on_reaper_stopped, rp, &err) < 0)
        on_reaper_stopped(rp, err.code, &err);
}

typedef void reap_fn(struct reaper *rp);
static reap_fn *const steps[] = {reap_containers, reap_networks, reap_volumes, reap_images};

/* Begins the next step when nothing of the present one is pending. Steps do not nest: a step's own
 * count, one, is dropped here alone. */
static void reaper_step_done(struct reaper *rp)
{
    while (--rp->pending == 0) {
        if (rp->phase == REAPER_OVER) {
            reaper_unref(rp);
            return;
        }
        if (rp->step == sizeof(steps) / sizeof(steps[0])) {
            reap_self(rp);
            reaper_unref(rp);
            return;
        }
        rp->pending = 1;
        steps[rp->step++](rp);
    }
}

void reaper_reap(struct reaper *rp)
{
    rp->phase = REAPER_REAPS;
    rp->refs++;
    rp->step = 0;
    rp->pending = 1;
    reaper_step_done(rp);
}
