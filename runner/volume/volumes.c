/* The table of named volumes, and the requests to the launcher for them. */
#include "volume/volumes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "json/decode.h"
#include "launch/request.h"
#include "launch/volume.h"
#include "policy/client.h"
#include "policy/policy.h"
#include "sandbox/events.h"
#include "sandbox/launcher-client.h"
#include "sandbox/member-usage.h"
#include "sandbox/pidfd-wait.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "volume/volume-use.h"
#include "volume/volumes-internal.h"

enum {
    LIST_MAX = 16 << 20, /* bytes of all names together */
    MAKE_SPARE_MS =
        1000, /* spare time for the exit of a creating process that has reached its time limit */
};

_Static_assert((int)VOLUME_NAME_MAX == (int)LAUNCH_VOLUME_NAME_MAX, "one kind of names");

/* A request that waits for a volume to be created, written or removed. */
struct volume_request {
    struct volume_entry *entry;
    bool is_new; /* an existing volume is an error */
    volume_cb cb;
    void *data;
    struct volume_request *next;
};

/* ---- table ---- */

int volumes_new(struct supervisor *sup, struct err *err)
{
    struct volumes *v = calloc(1, sizeof(*v));

    if (v == NULL)
        return err_errno(err, -ENOMEM, "volumes");
    v->sup = sup;
    v->last = &v->first;
    sup->volumes = v;
    return 0;
}

static void entry_free(struct volume_entry *e)
{
    pidfd_wait_close(e->making);
    if (e->report >= 0)
        (void)close(e->report);
    volume_record_done(&e->record);
    free(e);
}

void volumes_free(struct volumes *v)
{
    if (v == NULL)
        return;
    volumes_prepare_close(v);
    volume_fills_close(v);
    while (v->first != NULL) {
        struct volume_entry *next = v->first->next;

        entry_free(v->first);
        v->first = next;
    }
    free(v);
}

static struct volume_entry *entry_add(struct volumes *v, const char *name)
{
    struct volume_entry *e = calloc(1, sizeof(*e));

    if (e == NULL)
        return NULL;
    e->volumes = v;
    e->report = FD_NONE;
    (void)snprintf(e->name, sizeof(e->name), "%s", name);
    *v->last = e;
    v->last = &e->next;
    v->count++;
    return e;
}

static void entry_drop(struct volume_entry *e)
{
    struct volumes *v = e->volumes;
    struct volume_entry **at = &v->first;

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (v->last == &e->next)
        v->last = at;
    v->count--;
    entry_free(e);
}

struct volume_entry *volume_find(struct supervisor *sup, const char *name)
{
    struct volume_entry *e = sup->volumes->first;

    while (e != NULL && strcmp(e->name, name) != 0)
        e = e->next;
    return e;
}

struct volume_entry *volume_first(struct supervisor *sup)
{
    return sup->volumes->first;
}

struct volume_entry *volume_next(struct volume_entry *v)
{
    return v->next;
}

const char *volume_name(const struct volume_entry *v)
{
    return v->name;
}

uint64_t volume_bytes(const struct volume_entry *v)
{
    return v->record.bytes;
}

const char *volume_options(const struct volume_entry *v)
{
    return v->record.options;
}

bool volume_is_made_by(const struct volume_entry *v, uid_t uid)
{
    return v->record.creator == (int64_t)uid;
}

int64_t volume_created_ms(const struct volume_entry *v)
{
    return v->record.created_ms;
}

char *const *volume_labels(const struct volume_entry *v)
{
    static char *const none[] = {NULL};

    return v->record.labels != NULL ? v->record.labels : none;
}

bool volume_is_anonymous(const struct volume_entry *v)
{
    return v->record.owner[0] != '\0';
}

bool volume_is_ready(const struct volume_entry *v)
{
    return v->state == VOLUME_READY;
}

static bool is_named_by(const struct spec *spec, const char *name)
{
    for (size_t i = 0; spec != NULL && i < spec->volume_count; i++)
        if (spec->volumes[i].named && spec->volumes[i].source != NULL &&
            strcmp(spec->volumes[i].source, name) == 0)
            return true;
    return false;
}

unsigned volume_users(const struct volume_entry *v, struct sandbox **ret_first)
{
    struct sandbox *found = NULL;
    unsigned n = 0;

    for (struct sandbox *s = sandbox_first(v->volumes->sup); s != NULL; s = sandbox_next(s))
        if (is_named_by(sandbox_spec(s), v->name) && n++ == 0)
            found = s;
    if (ret_first != NULL)
        *ret_first = found;
    return n;
}

bool volume_has_label(const struct volume_entry *v, const char *wanted)
{
    size_t key = strcspn(wanted, "=");

    for (char *const *l = volume_labels(v); *l != NULL; l++)
        if (strncmp(*l, wanted, key) == 0 && (*l)[key] == '=')
            return wanted[key] == '\0' || strcmp(*l + key, wanted + key) == 0;
    return false;
}

bool volume_may_use(const struct volume_entry *v, const struct caller *who)
{
    return right_to(who, v->record.creator, NULL) >= RIGHT_USE;
}

struct volume_entry *volume_find_for(struct supervisor *sup, const struct caller *who,
                                     const char *name)
{
    struct volume_entry *v = volume_find(sup, name);

    return v != NULL && volume_may_use(v, who) ? v : NULL;
}

/* ---- requests to the launcher ---- */

/* due: needed for the supervisor's own bookkeeping, not for a client (launcher_client_send_due). */
static int volume_request_send(struct supervisor *sup, enum launch_verb verb, const char *name,
                               bool due, launch_cb cb, void *data, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    int r;

    launch_begin(&b, verb);
    if (name != NULL)
        launch_put_string(&b, TAG_VOLUME_NAME, name);
    r = launch_end(&b);
    if (r < 0)
        return err_errno(err, r, "volume");
    return due ? launcher_client_send_due(sup->launcher, &b, cb, data, err)
               : launcher_client_send(sup->launcher, &b, cb, data, err);
}

/*
 * Reads the record from a memfd. With an unreadable record the creator is unknown, so only clients
 * without limits may use the volume.
 */
static void entry_read_record(struct volume_entry *e, int fd)
{
    auto_free char *text = NULL;
    struct volume_record record;
    struct err err = ERR_NONE;
    size_t len = 0;
    int r = fd < 0 || lseek(fd, 0, SEEK_SET) < 0
                ? err_set(&err, -EIO, "no record")
                : file_read_fd(fd, LAUNCH_META_MAX, &text, &len, &err);

    if (r == 0)
        r = volume_record_decode(text, len, &record, &err);
    if (r < 0) {
        log_warn("volumes", "name=%s its record: %s, ignoring", e->name, err.msg);
        record = (struct volume_record){.creator = -1};
    }
    volume_record_done(&e->record);
    e->record = record;
}

static void request_complete(struct volume_request *q, int r, const struct err *err)
{
    if (q->cb != NULL)
        q->cb(q->data, r, r < 0 ? NULL : q->entry, err);
    free(q);
}

/*
 * Completes all requests of an entry. The first one caused the creation; later ones only waited for
 * it.
 */
static void entry_complete_requests(struct volume_entry *e, int r, bool existed,
                                    const struct err *err)
{
    struct volume_request *q = e->waiting;
    struct err taken = ERR_NONE;

    e->waiting = NULL;
    (void)err_set(&taken, -EEXIST, "volume '%s': the name is taken", e->name);
    while (q != NULL) {
        struct volume_request *next = q->next;
        bool refused = r == 0 && existed && q->is_new;

        request_complete(q, refused ? taken.code : r, refused ? &taken : err);
        existed = true;
        q = next;
    }
}

/* ---- creating ---- */

static int entry_add_request(struct volume_entry *e, bool is_new, volume_cb cb, void *data,
                             struct err *err)
{
    struct volume_request **at = &e->waiting, *q = calloc(1, sizeof(*q));

    if (q == NULL)
        return err_errno(err, -ENOMEM, "volume");
    *q = (struct volume_request){.entry = e, .is_new = is_new, .cb = cb, .data = data};
    while (*at != NULL)
        at = &(*at)->next;
    *at = q;
    return 0;
}

bool volumes_unwant(struct supervisor *sup, const char *name, const void *data)
{
    const struct volume_entry *e = volume_find(sup, name);

    for (struct volume_request *q = e != NULL ? e->waiting : NULL; q != NULL; q = q->next)
        if (q->data == data && q->cb != NULL) {
            q->cb = NULL;
            return true;
        }
    return false;
}

void volumes_end_waits(struct volumes *v)
{
    struct err err = ERR_NONE;

    (void)err_set(&err, -ECANCELED, "the daemon stops");
    volumes_prepare_end(v, &err);
    for (struct volume_entry *e = v->first; e != NULL; e = e->next)
        if (e->state == VOLUME_MAKING)
            entry_complete_requests(e, err.code, false, &err);
}

static void entry_fail_making(struct volume_entry *e, int r, const struct err *err)
{
    entry_complete_requests(e, r, false, err);
    entry_drop(e);
}

static void on_record_read(void *data, int r, const struct launch_reply *reply, int fds[2],
                           const struct err *err)
{
    struct volume_entry *e = data;

    (void)reply;
    if (r < 0) {
        entry_fail_making(e, r, err);
        return;
    }
    entry_read_record(e, fds[0]);
    e->state = VOLUME_READY;
    entry_complete_requests(e, 0, true, NULL);
}

static void entry_made(struct volume_entry *e, int r, const struct err *err)
{
    struct err own = ERR_NONE;

    if (r == -EEXIST) { /* created by a concurrent `rind run` */
        r = volume_request_send(e->volumes->sup, LAUNCH_VOLUME_READ, e->name, true, on_record_read,
                                e, &own);
        err = &own;
        if (r == 0)
            return;
    }
    if (r < 0) {
        entry_fail_making(e, r, err);
        return;
    }
    log_info("volumes", "name=%s made", e->name);
    e->state = VOLUME_READY;
    events_emit(e->volumes->sup->events, "volume_create", "", e->name, e->record.creator, NULL);
    entry_complete_requests(e, 0, false, NULL);
}

/* The creating process ended without a result; the volume may exist nevertheless. */
struct cut_off {
    struct volume_entry *entry;
    struct err why;
};

static void on_cut_off_read(void *data, int r, const struct launch_reply *reply, int fds[2],
                            const struct err *err)
{
    auto_free struct cut_off *c = data;
    struct volume_entry *e = c->entry;

    if (r == -ENOENT)
        on_record_read(e, c->why.code, reply, fds, &c->why);
    else
        on_record_read(e, r, reply, fds, err);
}

static void entry_read_again(struct volume_entry *e, const struct err *why)
{
    struct cut_off *c = malloc(sizeof(*c));
    struct err err = ERR_NONE;
    int r = c == NULL ? err_errno(&err, -ENOMEM, "volume '%s'", e->name) : 0;

    if (r == 0) {
        *c = (struct cut_off){.entry = e, .why = *why};
        r = volume_request_send(e->volumes->sup, LAUNCH_VOLUME_READ, e->name, true, on_cut_off_read,
                                c, &err);
    }
    if (r == 0)
        return;
    free(c);
    entry_fail_making(e, r, &err);
}

static void on_maker_ended(void *data, bool late)
{
    struct volume_entry *e = data;
    const unsigned limit_ms = e->volumes->sup->limits.volume_make_ms;
    const struct volume_report last = volume_report_read(e->report);
    struct err err = ERR_NONE;
    int r = volume_report_result(&last, &err);

    e->making = NULL;
    (void)close(take_fd(&e->report));
    /* The process has exited, or hangs in the kernel for good. */
    if (last.code == VOLUME_STEP && (late || clock_mono_ms() - e->asked_ms >= limit_ms))
        (void)err_set(&err, -ETIMEDOUT,
                      "limit volumeMakeTimeoutMs: volume '%s': %.200s: not done within %u ms",
                      e->name, last.message, limit_ms);
    else if (last.code == VOLUME_STEP)
        (void)err_wrap(&err, r, "volume '%s'", e->name);
    if (last.code == VOLUME_STEP)
        entry_read_again(e, &err);
    else
        entry_made(e, r, &err);
}

static void on_launcher_made(void *data, int r, const struct launch_reply *reply, int fds[2],
                             const struct err *err)
{
    struct volume_entry *e = data;
    struct err own = ERR_NONE;

    (void)reply;
    if (r == 0 && fds[0] >= 0) {
        /* The process exits by itself within that time, unless it hangs in the kernel. */
        r = pidfd_wait_start(e->volumes->sup->loop, fds[0],
                             e->volumes->sup->limits.volume_make_ms + MAKE_SPARE_MS, on_maker_ended,
                             e, &e->making);
        if (r == 0) {
            e->report = take_fd(&fds[1]);
            return;
        }
        (void)err_errno(&own, r, "volume '%s'", e->name);
        err = &own;
    }
    entry_made(e, r, err);
}

/* An anonymous volume need not be durable: it is removed with its sandbox. */
static int entry_request_making(struct volume_entry *e, const struct buf *meta, int client_fd,
                                struct err *err)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    int r;

    launch_begin(&b, LAUNCH_VOLUME_MAKE);
    launch_put_string(&b, TAG_VOLUME_NAME, e->name);
    launch_put(&b, TAG_META, 0, meta->data, meta->len);
    if (!volume_is_anonymous(e))
        launch_put_number(&b, TAG_FLAGS, LAUNCH_KEEP);
    if (e->record.bytes != 0)
        launch_put_number(&b, TAG_DISK, e->record.bytes);
    r = launch_end(&b);
    if (r < 0)
        return err_errno(err, r, "volume");
    return launcher_client_send_for(e->volumes->sup->launcher, &b, client_fd, on_launcher_made, e,
                                    err);
}

static int check_room(const struct volumes *v, const struct caller *creator, struct err *err)
{
    const struct supervisor_limits *limits = &v->sup->limits;
    unsigned own = 0;

    if (v->count >= limits->volumes)
        return err_set(err, -EAGAIN, "limit maxVolumes: there are %u volumes already", v->count);
    for (const struct volume_entry *e = v->first; e != NULL; e = e->next)
        own += e->record.creator == (int64_t)creator->uid;
    if (creator->limited && own >= limits->volumes_per_user)
        return err_set(err, -EUSERS, "limit maxVolumesPerUser: you have %u volumes already", own);
    return 0;
}

void volumes_usage(const struct supervisor *sup, const struct member_scope *scope,
                   struct member_usage *add)
{
    for (const struct volume_entry *e = sup->volumes->first; e != NULL; e = e->next) {
        if (!member_counts(sup, scope, e->record.creator))
            continue;
        add->volumes++;
        add->disk_bytes += e->record.bytes;
    }
}

static bool disks_are_bounded(const struct client_policy *c)
{
    return c->per_member.disk_bytes != LIMIT_UNSET || c->all_members.disk_bytes != LIMIT_UNSET;
}

/* The size of a member's volume that is made without one. 0 = no limit. */
static uint64_t member_volume_size(const struct volumes *v)
{
    const struct client_policy *c = v->sup->clients;
    uint64_t bytes = v->sup->limits.volume_bytes;

    if (c != NULL && c->most.disk_bytes != LIMIT_UNSET &&
        (bytes == 0 || bytes > (uint64_t)c->most.disk_bytes))
        bytes = (uint64_t)c->most.disk_bytes;
    return bytes;
}

static int member_check_volume(const struct volumes *v, const struct caller *creator,
                               uint64_t bytes, struct err *err)
{
    const struct client_policy *c = v->sup->clients;

    if (!creator->limited || c == NULL)
        return 0;
    if (c->most.disk_bytes != LIMIT_UNSET && bytes > (uint64_t)c->most.disk_bytes)
        return err_set(err, -EPERM, "size: the client policy allows at most %" PRId64 " bytes",
                       c->most.disk_bytes);
    if (bytes == 0 && disks_are_bounded(c))
        return err_set(err, -EPERM,
                       "size: the client policy bounds the volumes of its members together, so "
                       "this one needs a size");
    return member_check(v->sup, creator, &(struct member_usage){.volumes = 1, .disk_bytes = bytes},
                        err);
}

/* The size of the request, or of the configuration; 0 = no limit. */
static int check_size(const struct volumes *v, const struct volume_params *params,
                      const struct caller *creator, uint64_t *ret, struct err *err)
{
    const uint64_t usual = v->sup->limits.volume_bytes;
    const uint64_t bytes = params->bytes != 0 ? params->bytes
                           : creator->limited ? member_volume_size(v)
                                              : usual;

    if (bytes != 0 && (bytes < (uint64_t)LIMIT_DISK_MIN || bytes > (uint64_t)LIMIT_DISK_MAX))
        return err_set(err, -ERANGE, "%s: must be between %" PRId64 " and %" PRId64 " bytes",
                       params->bytes != 0 ? "size" : "limit volumeBytes", LIMIT_DISK_MIN,
                       LIMIT_DISK_MAX);
    if (creator->limited && usual != 0 && bytes > usual)
        return err_set(err, -EPERM, "size: more than the %" PRIu64 " bytes of limit volumeBytes",
                       usual);
    *ret = bytes;
    return member_check_volume(v, creator, bytes, err);
}

static int volume_make(struct supervisor *sup, const struct volume_params *params,
                       const char *owner, const struct caller *creator, bool is_new, volume_cb cb,
                       void *data, struct err *err)
{
    auto_buf struct buf meta = BUF_INIT(LAUNCH_META_MAX + 1);
    struct volume_entry *e;
    uint64_t bytes = 0;
    int r = check_room(sup->volumes, creator, err);

    if (r == 0)
        r = check_size(sup->volumes, params, creator, &bytes, err);
    if (r < 0)
        return r;
    e = entry_add(sup->volumes, params->name);
    if (e == NULL)
        return err_errno(err, -ENOMEM, "volume");
    e->record.created_ms = clock_wall_ms();
    e->record.creator = creator->uid;
    e->record.bytes = bytes;
    e->asked_ms = clock_mono_ms();
    (void)snprintf(e->record.owner, sizeof(e->record.owner), "%s", owner != NULL ? owner : "");
    r = volume_record_labels(&e->record, params->labels, err);
    if (r == 0 && params->options != NULL && (e->record.options = strdup(params->options)) == NULL)
        r = err_errno(err, -ENOMEM, "volume");
    if (r == 0)
        r = volume_record_encode(&e->record, &meta, err);
    if (r == 0)
        r = entry_add_request(e, is_new, cb, data, err);
    if (r == 0)
        r = entry_request_making(e, &meta, creator->fd, err);
    if (r < 0) {
        free(e->waiting);
        entry_drop(e);
    }
    return r;
}

int volume_create(struct supervisor *sup, const struct volume_params *params,
                  const struct caller *creator, volume_cb cb, void *data, struct err *err)
{
    struct volume_params named = *params;
    char random[65];

    if (named.name == NULL) {
        if (volume_random_name(random) < 0)
            return err_set(err, -EIO, "volume: no random numbers");
        named.name = random;
    }
    if (!launch_volume_name_ok(named.name))
        return err_set(err, -EINVAL,
                       "name \"%.64s\": must be 1 to %d letters, digits, _ . - and begin with a "
                       "letter or digit",
                       named.name, VOLUME_NAME_MAX);
    if (volume_find(sup, named.name) != NULL)
        return err_set(err, -EEXIST, "volume '%s': the name is taken", named.name);
    return volume_make(sup, &named, NULL, creator, true, cb, data, err);
}

static void on_order_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                           const struct err *err)
{
    struct volume_request *q = data;

    (void)reply;
    (void)fds;
    (void)r; /* the reply only serves to keep the launcher's order */
    (void)err;
    q->entry = NULL;
    request_complete(q, 0, NULL);
}

int volumes_want(struct supervisor *sup, const char *name, const char *owner,
                 const struct caller *creator, volume_cb cb, void *data, struct err *err)
{
    struct volume_entry *e = volume_find(sup, name);
    struct volume_request *q;
    int r;

    if (e == NULL)
        return volume_make(sup, &(struct volume_params){.name = name}, owner, creator, false, cb,
                           data, err);
    if (!volume_may_use(e, creator))
        return err_set(err, -EEXIST, "volume '%s': the name is taken", name);
    if (e->state == VOLUME_REMOVING)
        return err_set(err, -EBUSY, "volume '%s' is being removed", name);
    if (e->state == VOLUME_MAKING)
        return entry_add_request(e, false, cb, data, err);
    /*
     * The volume exists. The reply comes from the loop, in order with the launcher's other replies.
     */
    q = calloc(1, sizeof(*q));
    if (q == NULL)
        return err_errno(err, -ENOMEM, "volume");
    *q = (struct volume_request){.entry = e, .cb = cb, .data = data};
    r = volume_request_send(sup, LAUNCH_VOLUME_READ, name, false, on_order_reply, q, err);
    if (r < 0)
        free(q);
    return r;
}

/* ---- removing ---- */

static void on_launcher_removed(void *data, int r, const struct launch_reply *reply, int fds[2],
                                const struct err *err)
{
    struct volume_request *q = data;
    struct volume_entry *e = q->entry;

    (void)reply;
    (void)fds;
    q->entry = NULL;
    if (r == 0 || r == -ENOENT) {
        log_info("volumes", "name=%s removed", e->name);
        events_emit(e->volumes->sup->events, "volume_remove", "", e->name, e->record.creator, NULL);
        entry_drop(e);
        r = 0;
    } else {
        e->state = VOLUME_READY;
    }
    request_complete(q, r, err);
}

static int begin_removal(struct volume_entry *v, bool due, volume_cb cb, void *data,
                         struct err *err)
{
    struct volume_request *q = calloc(1, sizeof(*q));
    int r;

    if (q == NULL)
        return err_errno(err, -ENOMEM, "volume");
    *q = (struct volume_request){.entry = v, .cb = cb, .data = data};
    r = volume_request_send(v->volumes->sup, LAUNCH_VOLUME_REMOVE, v->name, due,
                            on_launcher_removed, q, err);
    if (r < 0)
        free(q);
    else
        v->state = VOLUME_REMOVING;
    return r;
}

int volume_remove(struct volume_entry *v, volume_cb cb, void *data, struct err *err)
{
    struct sandbox *s = NULL;
    unsigned users = volume_users(v, &s);

    if (v->state != VOLUME_READY)
        return err_set(err, -EBUSY, "volume '%s' is being %s", v->name,
                       v->state == VOLUME_MAKING ? "made" : "removed");
    if (users > 0)
        return err_set(err, -EBUSY, "volume '%s' is in use by sandbox %s%s", v->name,
                       s->made.by == v->record.creator ? sandbox_name(s) : "of another user",
                       users > 1 ? " and others" : "");
    return begin_removal(v, false, cb, data, err);
}

void volumes_sandbox_gone(struct sandbox *s)
{
    for (struct volume_entry *e = s->sup->volumes->first; e != NULL; e = e->next) {
        struct err err = ERR_NONE;

        if (e->state == VOLUME_READY && strcmp(e->record.owner, s->id) == 0 &&
            volume_users(e, NULL) == 0 && begin_removal(e, true, NULL, NULL, &err) < 0)
            log_warn("volumes", "name=%s remove: %s, ignoring", e->name, err.msg);
    }
}

/* ---- pruning ---- */

struct volumes_prune {
    struct supervisor *sup;
    char **names; /* owned */
    size_t count, at, removed;
    volume_prune_cb cb;
    void *data;
};

static void prune_free(struct volumes_prune *p)
{
    json_strings_free(p->names);
    free(p);
}

static bool prune_next(struct volumes_prune *p);

static void prune_done(struct volumes_prune *p)
{
    for (size_t i = p->removed; i < p->count; i++)
        free(take(p->names[i]));
    p->cb(p->data, 0, p->names, NULL);
    prune_free(p);
}

static void on_prune_removed(void *data, int r, struct volume_entry *v, const struct err *err)
{
    struct volumes_prune *p = data;

    (void)v;
    if (r < 0) {
        log_warn("volumes", "name=%s prune: %s, ignoring", p->names[p->at],
                 err != NULL ? err->msg : "");
    } else { /* removed names are moved to the front */
        char *name = p->names[p->at];

        p->names[p->at] = p->names[p->removed];
        p->names[p->removed++] = name;
    }
    p->at++;
    if (!prune_next(p))
        prune_done(p);
}

/* True if on_prune_removed follows. */
static bool prune_next(struct volumes_prune *p)
{
    for (; p->at < p->count; p->at++) {
        struct volume_entry *v = volume_find(p->sup, p->names[p->at]);

        if (v != NULL && volume_remove(v, on_prune_removed, p, NULL) == 0)
            return true;
    }
    return false;
}

static bool is_prunable(struct volume_entry *e, const struct caller *who, bool all,
                        char *const *labels)
{
    bool fits = e->state == VOLUME_READY && right_is_own(who, e->record.creator) &&
                (all || volume_is_anonymous(e) || volume_has_label(e, VOLUME_LABEL_ANONYMOUS)) &&
                volume_options(e) == NULL && volume_users(e, NULL) == 0;

    for (; fits && labels != NULL && *labels != NULL; labels++)
        fits = volume_has_label(e, *labels);
    return fits;
}

int volume_prune(struct supervisor *sup, const struct caller *who, bool all, char *const *labels,
                 volume_prune_cb cb, void *data, struct err *err)
{
    struct volumes_prune *p = calloc(1, sizeof(*p));

    if (p != NULL)
        p->names = calloc(sup->volumes->count + 1, sizeof(*p->names));
    if (p == NULL || p->names == NULL) {
        free(p);
        return err_errno(err, -ENOMEM, "prune");
    }
    p->sup = sup;
    p->cb = cb;
    p->data = data;
    for (struct volume_entry *e = sup->volumes->first; e != NULL; e = e->next)
        if (is_prunable(e, who, all, labels) && (p->names[p->count] = strdup(e->name)) != NULL)
            p->count++;
    if (prune_next(p))
        return 0;
    prune_free(p);
    return 1;
}

/* ---- loading the table at start ---- */

/* Reads the records one at a time, to leave room in the launcher's queue. */
struct volumes_loading {
    struct supervisor *sup;
    char *names; /* owned; each NUL-terminated */
    size_t len, at;
    struct volume_entry *entry;
};

static void load_next(struct volumes_loading *l);

static void load_end(struct volumes_loading *l)
{
    free(l->names);
    free(l);
}

static void on_load_record(void *data, int r, const struct launch_reply *reply, int fds[2],
                           const struct err *err)
{
    struct volumes_loading *l = data;

    (void)reply;
    (void)err;
    if (r == -ECANCELED || r == -EPIPE) {
        load_end(l);
        return;
    }
    entry_read_record(l->entry, r < 0 ? -1 : fds[0]);
    l->entry->state = VOLUME_READY;
    load_next(l);
}

static void load_next(struct volumes_loading *l)
{
    while (l->at < l->len) {
        const char *name = l->names + l->at;

        l->at += strlen(name) + 1;
        l->entry = launch_volume_name_ok(name) && volume_find(l->sup, name) == NULL
                       ? entry_add(l->sup->volumes, name)
                       : NULL;
        if (l->entry == NULL)
            continue;
        l->entry->record.creator = -1;
        if (volume_request_send(l->sup, LAUNCH_VOLUME_READ, name, true, on_load_record, l, NULL) ==
            0)
            return;
        l->entry->state = VOLUME_READY; /* without its record */
    }
    supervisor_taken_up(l->sup);
    load_end(l);
}

static void on_volume_list(void *data, int r, const struct launch_reply *reply, int fds[2],
                           const struct err *err)
{
    struct volumes_loading *l = data;

    (void)reply;
    if (r == -ECANCELED || r == -EPIPE) {
        load_end(l);
        return;
    }
    if (r < 0 || fds[0] < 0 || lseek(fds[0], 0, SEEK_SET) < 0 ||
        file_read_fd(fds[0], LIST_MAX, &l->names, &l->len, NULL) < 0)
        log_warn("volumes", "list of the launcher's: %s", err != NULL ? err->msg : "unreadable");
    load_next(l);
}

int volumes_load(struct supervisor *sup, struct err *err)
{
    struct volumes_loading *l = calloc(1, sizeof(*l));
    int r;

    if (l == NULL)
        return err_errno(err, -ENOMEM, "volumes");
    l->sup = sup;
    r = volume_request_send(sup, LAUNCH_VOLUME_LIST, NULL, true, on_volume_list, l, err);
    if (r < 0)
        load_end(l);
    else
        sup->reattaching++;
    return r;
}

void volumes_remove_orphans(struct supervisor *sup)
{
    for (struct volume_entry *e = sup->volumes->first; e != NULL; e = e->next) {
        struct err err = ERR_NONE;

        if (volume_is_anonymous(e) && e->state == VOLUME_READY &&
            sandbox_by_id(sup, e->record.owner) == NULL && volume_users(e, NULL) == 0 &&
            begin_removal(e, true, NULL, NULL, &err) < 0)
            log_warn("volumes", "name=%s remove: %s, ignoring", e->name, err.msg);
    }
}
