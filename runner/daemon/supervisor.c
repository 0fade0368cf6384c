#include "daemon/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "daemon/parts.h"
#include "egress/egress.h"
#include "exec/console.h"
#include "images/images.h"
#include "ports/gateway.h"
#include "ports/networks.h"
#include "sandbox/channel.h"
#include "sandbox/conn-limit.h"
#include "sandbox/disk-watch.h"
#include "sandbox/events.h"
#include "sandbox/launcher-client.h"
#include "sandbox/log-watch.h"
#include "sandbox/net-failsafe.h"
#include "sandbox/orphans.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"
#include "volume/volumes.h"
#include "workerd/loopback-forward.h"

/* ---- images ---- */

static void supervisor_each_used(void *data, struct images *im)
{
    struct supervisor *s = data;

    for (struct sandbox *sb = s->sandboxes; sb != NULL; sb = sandbox_next(sb))
        images_used(im, sb->spec);
}

static void on_image_event(void *data, const char *type, const char *id, const char *name,
                           int64_t owner)
{
    struct supervisor *s = data;
    char detail[160];

    if (id[0] != '\0')
        (void)snprintf(detail, sizeof(detail), "{\"image\":\"%s\"}", id);
    events_emit(s->events, type, "", name, owner, id[0] != '\0' ? detail : NULL);
}

static int supervisor_open_images(struct supervisor *s, struct err *err)
{
    const struct images_config config = {.loop = s->loop,
                                         .launcher = s->launcher,
                                         .dir_fd = s->dir_fd,
                                         .limits = &s->limits,
                                         .clients = s->clients,
                                         .each_used = supervisor_each_used,
                                         .on_event = on_image_event,
                                         .data = s};

    return images_new(&config, &s->images, err);
}

static void on_launcher_gone(void *data)
{
    struct supervisor *s = data;

    s->on_gone(s->data);
}

static uint64_t volume_bytes_of(struct supervisor *sup, const char *name)
{
    const struct volume_entry *v = name != NULL ? volume_find(sup, name) : NULL;

    return v != NULL ? volume_bytes(v) : 0;
}

static void on_taken_up(struct supervisor *sup)
{
    struct err err = ERR_NONE;

    volumes_remove_orphans(sup);
    if (disk_watch_new(sup, &sup->disk_watch, &err) < 0)
        log_error("disk", "%s: the reserve is kept at starts alone", err.msg);
    if (sup->on_ready != NULL)
        sup->on_ready(sup->data);
}

int supervisor_new(const struct supervisor_config *config, struct supervisor **ret, struct err *err)
{
    struct supervisor *s = calloc(1, sizeof(*s));
    int r;

    if (s == NULL)
        return err_errno(err, -ENOMEM, "supervisor");
    *s = (struct supervisor){.loop = config->loop,
                             .parts = sandbox_parts,
                             .screen = &loopback_forward_screen,
                             .on_taken_up = on_taken_up,
                             .volume_bytes_of = volume_bytes_of,
                             .policies = config->policies,
                             .clients = config->clients,
                             .limits = config->limits,
                             .owner = config->owner,
                             .front = config->front,
                             .dir_fd = config->dir_fd,
                             .shim_fd = config->shim_fd,
                             .stage = {FD_NONE, FD_NONE},
                             .tree = config->tree,
                             .on_ready = config->on_ready,
                             .on_gone = config->on_gone,
                             .data = config->data};
    s->sandboxes_end = &s->sandboxes;
    s->events = events_new();
    s->log_watch = log_watch_new(s->loop);
    if (s->events == NULL || s->log_watch == NULL) {
        events_free(s->events);
        log_watch_close(s->log_watch);
        free(s);
        return err_errno(err, -ENOMEM, "supervisor");
    }
    r = store_open(s->dir_fd, s->loop, &s->store, err);
    if (r == 0 && pipe2(s->stage, O_CLOEXEC | O_NONBLOCK) < 0)
        r = err_errno(err, -errno, "supervisor: a pipe");
    if (r == 0) {
        r = launcher_client_new(s->loop, config->launcher, s->limits.launcher_queue,
                                on_launcher_gone, s, &s->launcher);
        if (r < 0)
            (void)err_errno(err, r, "launcher");
    }
    if (r == 0)
        r = supervisor_open_images(s, err);
    if (r == 0)
        r = gateway_new(s, config->proxy, &s->gateway, err);
    if (r == 0)
        r = volumes_new(s, err);
    if (r == 0)
        r = networks_open(s, err);
    if (r == 0)
        r = supervisor_reattach(s, err);
    if (r == 0)
        r = volumes_load(s, err);
    *ret = s; /* half made on failure: closed and freed like a whole one */
    return r;
}

static void on_sandbox_ended(void *data, int r, const struct err *err)
{
    struct supervisor *s = data;

    (void)r;
    (void)err; /* a sandbox that cannot be stopped is taken up by the next supervisor */
    if (--s->to_end == 0 && !s->stopping)
        s->on_ended(s->ended_data);
}

/* Whether on_sandbox_ended follows. */
static bool supervisor_end_sandbox(struct supervisor *s, struct sandbox *sb)
{
    bool asked = sb->restart.user_stopped;
    int r;

    if (sb->state == SANDBOX_CREATING)
        return sandbox_remove(sb, true, on_sandbox_ended, s, NULL) == 0;
    if (sb->state == SANDBOX_STOPPED) { /* its init is for files; a restart that is due is not */
        sandbox_no_restart(sb);
        if (sb->channel == NULL || waiters_add(&sb->waiters.stopped, on_sandbox_ended, s, NULL) < 0)
            return false;
        sandbox_end_init(sb);
        return true;
    }
    r = sandbox_stop(sb, LIMIT_UNSET, on_sandbox_ended, s, NULL);
    if (r == 0 && !asked) {
        sb->restart.user_stopped = false;
        sandbox_save_state(sb);
    }
    return r == 0;
}

bool supervisor_end_sandboxes(struct supervisor *s, void (*on_ended)(void *data), void *data)
{
    if (s->stopping || s->reattaching > 0)
        return false;
    s->ending = true;
    s->on_ended = on_ended;
    s->ended_data = data;
    for (struct sandbox *sb = s->sandboxes, *next; sb != NULL; sb = next) {
        next = sb->all.next;
        s->to_end += supervisor_end_sandbox(s, sb);
    }
    return s->to_end > 0;
}

void supervisor_end_waits(struct supervisor *s)
{
    if (!s->stopping)
        volumes_end_waits(s->volumes);
}

void supervisor_close(struct supervisor *s)
{
    if (s == NULL || s->stopping)
        return;
    s->stopping = true;
    for (struct sandbox *sb = s->sandboxes; sb != NULL; sb = sandbox_next(sb))
        sandbox_parts_tell(sb, PART_LET_GO);
    egress_service_free(s->egress);
    s->egress = NULL;
    gateway_close(s->gateway); /* first: it waits for the launcher's answers */
    s->gateway = NULL;
    launcher_client_close(s->launcher);
    images_close(s->images);
    s->images = NULL;
    orphans_close(s);
    volumes_free(take(s->volumes));
    networks_close(take(s->networks));
    for (struct sandbox *sb = s->sandboxes, *next; sb != NULL; sb = next) {
        next = sb->all.next;
        sandbox_ref(sb);
        console_close(sb);
        exec_forget_all(sb);
        channel_close(sb->channel);
        sb->channel = NULL;
        sandbox_forget(sb);
        sandbox_unref(sb);
    }
    store_close(s->store);
    s->store = NULL;
    log_watch_close(s->log_watch);
    s->log_watch = NULL;
    conn_limit_close(take(s->over));
    net_failsafe_close(take(s->closed));
    disk_watch_close(take(s->disk_watch));
}

void supervisor_free(struct supervisor *s)
{
    if (s == NULL)
        return;
    policies_free(s->policies);
    events_free(s->events);
    (void)close(s->dir_fd);
    if (s->shim_fd >= 0)
        (void)close(s->shim_fd);
    for (int i = 0; i < 2; i++)
        if (s->stage[i] >= 0)
            (void)close(s->stage[i]);
    free(s);
}
