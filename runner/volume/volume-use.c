/*
 * Prepares the named volumes of a new sandbox, one after the other, before it is started. Creates
 * missing volumes, and fills new ones from the image. Replies of the launcher and the exit of
 * filling processes lead from one step to the next. Runs in the supervisor's event loop.
 */
#include "volume/volume-use.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/layer.h"
#include "launch/request.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/sandbox-request.h"
#include "sandbox/shared.h"
#include "spec/spec.h"
#include "volume/volumes-internal.h"

struct preparation {
    struct sandbox *s; /* a reference */
    struct caller creator;
    size_t at; /* index into the spec's volumes */
    struct volume_filling *filling;
    uv_timer_t begin;
    struct preparation *next;
};

static void preparation_begin_volume(struct preparation *p);

/* ---- names and rights ---- */

int volumes_name_anonymous(struct spec *spec, struct err *err)
{
    for (size_t i = 0; i < spec->volume_count; i++) {
        struct volume *v = &spec->volumes[i];
        char name[65];

        if (!v->named || v->source != NULL)
            continue;
        if (volume_random_name(name) < 0)
            return err_set(err, -EIO, "volume: no random numbers");
        v->source = strdup(name);
        v->anonymous = true;
        if (v->source == NULL)
            return err_errno(err, -ENOMEM, "volume");
    }
    return 0;
}

int volumes_check_spec(struct supervisor *sup, const struct spec *spec,
                       const struct caller *creator, struct err *err)
{
    for (size_t i = 0; i < spec->volume_count; i++) {
        const struct volume *v = &spec->volumes[i];
        const struct volume_entry *e =
            v->named && v->source != NULL ? volume_find(sup, v->source) : NULL;

        const struct volume_entry *from =
            v->from != NULL ? volume_find_for(sup, creator, v->from) : NULL;

        if (v->from != NULL && from == NULL)
            return err_set(err, -ENOENT, "volumes[%zu].from: there is no volume '%s'", i, v->from);
        if ((e != NULL && volume_options(e) != NULL) ||
            (from != NULL && volume_options(from) != NULL))
            return err_set(err, -EOPNOTSUPP,
                           "volumes[%zu].source: volume '%s' stands for a mount of Docker's API, "
                           "and is used by containers of that API",
                           i, e != NULL && volume_options(e) != NULL ? v->source : v->from);
        /* Names of volumes are the daemon's, not each user's: that one is taken cannot be hidden.
         */
        if (e != NULL && !volume_may_use(e, creator))
            return err_set(err, -EEXIST, "volumes[%zu].source: volume '%s': the name is taken", i,
                           v->source);
    }
    return 0;
}

/* ---- ending a preparation ---- */

static void on_timer_closed(uv_handle_t *h)
{
    free(h->data);
}

static void preparation_unlink(struct volumes *v, struct preparation *p)
{
    struct preparation **at = &v->preparations;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

static void preparation_let_go(struct preparation *p)
{
    volume_fill_drop(take(p->filling));
    uv_close((uv_handle_t *)&p->begin, on_timer_closed);
}

static void preparation_finish(struct preparation *p, int r, const struct err *err)
{
    struct sandbox *s = p->s;

    preparation_unlink(s->sup->volumes, p);
    preparation_let_go(p);
    sandbox_part_done(s, r, err);
    sandbox_unref(s);
}

void volumes_prepare_close(struct volumes *v)
{
    while (v->preparations != NULL) {
        struct preparation *p = v->preparations;

        v->preparations = p->next;
        sandbox_unref(p->s);
        preparation_let_go(p);
    }
}

/* ---- one volume ---- */

static void preparation_next(struct preparation *p)
{
    p->at++;
    preparation_begin_volume(p);
}

/* Ends the preparation if the sandbox is being removed or the supervisor stops. */
static bool preparation_is_over(struct preparation *p)
{
    if (p->s->state == SANDBOX_CREATING && !p->s->sup->stopping)
        return false;
    preparation_finish(p, -ECANCELED, NULL);
    return true;
}

static void on_volume_filled(void *data, int r, const struct err *err)
{
    struct preparation *p = data;
    struct err own = ERR_NONE;

    p->filling = NULL;
    if (preparation_is_over(p))
        return;
    if (r < 0) {
        own = *err;
        (void)err_wrap(&own, r, "volume '%s'", p->s->spec->volumes[p->at].source);
        preparation_finish(p, r, &own);
        return;
    }
    preparation_next(p);
}

static int preparation_fill(struct preparation *p, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct sandbox *s = p->s;
    const char *layers[3] = {NULL};
    size_t n = 0;
    int r;

    if (s->spec->rootfs == NULL && s->spec->image_id == NULL)
        layers[n++] = image_builtin_name(BUILTIN_ROOT);
    layers[n] = image_builtin_name(BUILTIN_BASE);
    r = sandbox_fill_request(&b, s->spec, layers, p->at, FD_NONE, err);
    return r < 0 ? r
                 : volume_fill(s->sup, &b, p->creator.fd, on_volume_filled, p, &p->filling, err);
}

static void on_volume_wanted(void *data, int r, struct volume_entry *v, const struct err *err)
{
    struct preparation *p = data;
    struct err own = ERR_NONE;

    (void)v;
    if (r == -ECANCELED || r == -EPIPE)
        return;
    if (preparation_is_over(p))
        return;
    if (r == 0 && p->s->spec->volumes[p->at].no_copy) {
        preparation_next(p);
        return;
    }
    if (r == 0) {
        r = preparation_fill(p, &own);
        err = &own;
    }
    if (r < 0)
        preparation_finish(p, r, err);
}

static void preparation_begin_volume(struct preparation *p)
{
    const struct spec *spec = p->s->spec;
    struct err err = ERR_NONE;

    while (p->at < spec->volume_count && !spec->volumes[p->at].named)
        p->at++;
    if (p->at == spec->volume_count) {
        preparation_finish(p, 0, NULL);
        return;
    }
    if (volumes_want(p->s->sup, spec->volumes[p->at].source,
                     spec->volumes[p->at].anonymous ? p->s->id : NULL, &p->creator,
                     on_volume_wanted, p, &err) < 0)
        preparation_finish(p, err.code, &err);
}

static bool spec_has_named_volume(const struct spec *spec)
{
    for (size_t i = 0; i < spec->volume_count; i++)
        if (spec->volumes[i].named)
            return true;
    return false;
}

static void on_preparation_begin(uv_timer_t *h)
{
    struct preparation *p = h->data;

    if (preparation_is_over(p))
        return;
    p->creator = (struct caller){
        .uid = (uid_t)p->s->made.by, .limited = p->s->made.limited, .fd = p->s->start.waiting_fd};
    preparation_begin_volume(p);
}

/*
 * Cancels a wait for the creation of a volume. True: there was one, and its callback is not called.
 */
static bool preparation_unwant(const struct preparation *p)
{
    const struct volume *v = &p->s->spec->volumes[p->at];

    return p->at < p->s->spec->volume_count && v->named && v->source != NULL &&
           volumes_unwant(p->s->sup, v->source, p);
}

void volumes_prepare_end(struct volumes *v, const struct err *why)
{
    for (struct preparation *p = v->preparations, *next; p != NULL; p = next) {
        next = p->next;
        if (p->filling != NULL || preparation_unwant(p))
            preparation_finish(p, why->code, why);
    }
}

void volumes_prepare_cancel(struct sandbox *s)
{
    struct preparation *p = s->sup->volumes->preparations;

    while (p != NULL && p->s != s)
        p = p->next;
    if (p != NULL && preparation_unwant(p))
        preparation_finish(p, -ECANCELED, NULL);
}

int volumes_prepare(struct sandbox *s, struct err *err)
{
    struct preparation *p;

    if (!spec_has_named_volume(s->spec))
        return 1;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "volumes");
    p->s = s;
    (void)uv_timer_init(s->sup->loop, &p->begin);
    p->begin.data = p;
    sandbox_ref(s);
    p->next = s->sup->volumes->preparations;
    s->sup->volumes->preparations = p;
    /* From the loop: sandbox_part_done must not be called inside this call. */
    (void)uv_timer_start(&p->begin, on_preparation_begin, 0, 0);
    return 0;
}
