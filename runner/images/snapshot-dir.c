/*
 * Copies a directory of a sandbox into a new volume: creates the volume, pauses the sandbox, fills
 * the volume. On failure the volume is removed again. Runs in the supervisor's event loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "image/layer.h"
#include "images/snapshots.h"
#include "launch/request.h"
#include "sandbox/freeze-ref.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-request.h"
#include "sandbox/shared.h"
#include "spec/spec.h"
#include "volume/volumes-internal.h"

#define LABEL_DIR     "rind.snapshot.dir"
#define LABEL_SANDBOX "rind.snapshot.sandbox"

struct dir_snapshot {
    struct sandbox *s; /* a reference */
    char *dir;         /* owned */
    int client;        /* owned, or FD_NONE */
    char volume[VOLUME_NAME_MAX + 1];
    volume_cb cb;
    void *data;
    struct freeze_ref freeze_ref;
    int r;
    struct err err;
};

static void dir_snapshot_finish(struct dir_snapshot *p, struct volume_entry *v)
{
    p->cb(p->data, p->r, p->r < 0 ? NULL : v, &p->err);
    if (p->client >= 0)
        (void)close(p->client);
    sandbox_unref(p->s);
    free(p->dir);
    free(p);
}

static void on_volume_removed(void *data, int r, struct volume_entry *v, const struct err *err)
{
    (void)v;
    if (r < 0)
        log_warn("snapshot", "remove what has failed: %s, ignoring", err != NULL ? err->msg : "");
    dir_snapshot_finish(data, NULL);
}

/* Removes the volume if filling it failed. */
static void after_files(struct dir_snapshot *p)
{
    struct volume_entry *v = volume_find(p->s->sup, p->volume);

    if (p->r == 0 && v == NULL)
        p->r = err_set(&p->err, -ENOENT, "volume '%s' has been removed", p->volume);
    if (p->r < 0 && v != NULL && volume_remove(v, on_volume_removed, p, NULL) == 0)
        return;
    dir_snapshot_finish(p, v);
}

static void on_sandbox_resumed(void *data, int r, const struct err *err)
{
    struct dir_snapshot *p = data;

    freeze_ref_thawed(&p->freeze_ref, r);
    if (r < 0)
        log_warn("snapshot", "id=%s resume: %s, going on", p->s->id, err != NULL ? err->msg : "");
    after_files(p);
}

static void on_volume_filled(void *data, int r, const struct err *err)
{
    struct dir_snapshot *p = data;

    p->r = r;
    if (r < 0)
        p->err = *err;
    if (!freeze_ref_put(&p->freeze_ref, on_sandbox_resumed, p))
        after_files(p);
}

static int dir_snapshot_fill(struct dir_snapshot *p, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    const struct spec *spec = p->s->spec;
    const char *layers[3] = {NULL};
    size_t n = 0;
    int r;

    if (p->s->state == SANDBOX_GONE || spec == NULL)
        return err_set(err, -ENOENT, "sandbox %s has been removed", p->s->id);
    if (spec->rootfs == NULL && spec->image_id == NULL)
        layers[n++] = image_builtin_name(BUILTIN_ROOT);
    layers[n] = image_builtin_name(BUILTIN_BASE);
    r = sandbox_copy_request(&b, p->s->id, spec, layers, p->volume, p->dir, err);
    return r < 0 ? r : volume_fill(p->s->sup, &b, p->client, on_volume_filled, p, NULL, err);
}

static void dir_snapshot_begin(struct dir_snapshot *p)
{
    struct err err = ERR_NONE;

    if (dir_snapshot_fill(p, &err) < 0)
        on_volume_filled(p, err.code, &err);
}

static void on_sandbox_paused(void *data, int r, const struct err *err)
{
    struct dir_snapshot *p = data;

    if (r < 0) {
        on_volume_filled(p, r, err);
        return;
    }
    freeze_ref_frozen(&p->freeze_ref);
    dir_snapshot_begin(p);
}

static void on_volume_made(void *data, int r, struct volume_entry *v, const struct err *err)
{
    struct dir_snapshot *p = data;
    struct err own = ERR_NONE;

    if (r < 0) {
        p->r = r;
        p->err = *err;
        dir_snapshot_finish(p, NULL);
        return;
    }
    (void)strncpy(p->volume, volume_name(v), VOLUME_NAME_MAX);
    r = freeze_ref_get(&p->freeze_ref, p->s, on_sandbox_paused, p, &own);
    if (r < 0)
        on_volume_filled(p, r, &own);
    else if (r > 0)
        dir_snapshot_begin(p);
}

/*
 * Checks that the path is absolute, without "..". Symbolic links are resolved inside the sandbox.
 */
static int check_dir(const char *dir, struct err *err)
{
    auto_ptr(spec_free) struct spec *scratch = spec_new();

    if (scratch == NULL)
        return err_errno(err, -ENOMEM, "snapshot");
    return spec_put_named_volume(scratch, NULL, dir, false, false, err);
}

int sandbox_snapshot_dir(struct sandbox *s, const char *dir, const char *name,
                         const struct caller *creator, volume_cb cb, void *data, struct err *err)
{
    char of[sizeof(LABEL_SANDBOX) + 1 + SPEC_NAME_MAX + 1], *labels[3] = {of, NULL, NULL};
    auto_free char *where = NULL;
    struct dir_snapshot *p;
    int r = check_dir(dir, err);

    if (r == 0)
        r = sandbox_check_readable(s, err);
    if (r < 0)
        return r;
    (void)snprintf(of, sizeof(of), LABEL_SANDBOX "=%s", sandbox_name(s));
    if (asprintf(&where, LABEL_DIR "=%s", dir) < 0) {
        where = NULL;
        return err_errno(err, -ENOMEM, "snapshot");
    }
    labels[1] = where;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "snapshot");
    *p = (struct dir_snapshot){
        .s = s, .dir = strdup(dir), .client = FD_NONE, .cb = cb, .data = data};
    if (creator->fd >= 0)
        p->client = fcntl(creator->fd, F_DUPFD_CLOEXEC, 3);
    r = p->dir == NULL
            ? err_errno(err, -ENOMEM, "snapshot")
            : volume_create(s->sup, &(struct volume_params){.name = name, .labels = labels},
                            creator, on_volume_made, p, err);
    if (r == 0) {
        sandbox_ref(s);
        return 0;
    }
    if (p->client >= 0)
        (void)close(p->client);
    free(p->dir);
    free(p);
    return r;
}
