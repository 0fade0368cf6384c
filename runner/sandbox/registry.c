/*
 * The sandbox registry: creates, finds and forgets sandboxes. It also computes the environment of
 * each process from the spec.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "sandbox/exec.h"
#include "sandbox/member-usage.h"
#include "sandbox/orphans.h"
#include "sandbox/pidfd-wait.h"
#include "sandbox/policies.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

/* ---- lists and indices ---- */

static uint64_t hash_text(const char *text, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return h;
}

static struct sandbox **index_bucket(struct sandbox **index, const char *key)
{
    return &index[hash_text(key, strlen(key)) & (SANDBOX_BUCKETS - 1)];
}

/* Returns the link at offset `off` of a sandbox. */
static struct sandbox_link *sandbox_link_of(struct sandbox *s, size_t off)
{
    return (struct sandbox_link *)(void *)((char *)s + off);
}

static void link_in(struct sandbox **at, struct sandbox *s, size_t off)
{
    struct sandbox_link *l = sandbox_link_of(s, off);

    *l = (struct sandbox_link){.next = *at, .at = at};
    if (*at != NULL)
        sandbox_link_of(*at, off)->at = &l->next;
    *at = s;
}

static void link_out(struct sandbox *s, size_t off)
{
    const struct sandbox_link *l = sandbox_link_of(s, off);

    *l->at = l->next;
    if (l->next != NULL)
        sandbox_link_of(l->next, off)->at = l->at;
}

static void table_add(struct supervisor *sup, struct sandbox *s)
{
    link_in(sup->sandboxes_end, s, offsetof(struct sandbox, all));
    sup->sandboxes_end = &s->all.next;
    link_in(index_bucket(sup->by_id, s->id), s, offsetof(struct sandbox, by_id));
    link_in(index_bucket(sup->by_name, sandbox_name(s)), s, offsetof(struct sandbox, by_name));
    if (s->spec != NULL && s->spec->net_container != NULL)
        link_in(&sup->sharing, s, offsetof(struct sandbox, sharing));
    sup->count++;
}

static void table_drop(struct sandbox *s)
{
    if (s->sup->sandboxes_end == &s->all.next)
        s->sup->sandboxes_end = s->all.at;
    link_out(s, offsetof(struct sandbox, all));
    link_out(s, offsetof(struct sandbox, by_id));
    link_out(s, offsetof(struct sandbox, by_name));
    if (s->sharing.at != NULL)
        link_out(s, offsetof(struct sandbox, sharing));
    s->sup->count--;
}

/* spec must have its name and net_container: both are keys of the indices. */
struct sandbox *sandbox_alloc(struct supervisor *sup, const char *id, struct spec *spec)
{
    struct sandbox *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    *s = (struct sandbox){
        .sup = sup,
        .spec = spec,
        .refs = 1,
        .state = SANDBOX_CREATING,
        .start = {.client_fd = FD_NONE, .fds = {FD_NONE, FD_NONE}, .waiting_fd = FD_NONE}};
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    (void)uv_timer_init(sup->loop, &s->timer);
    (void)uv_timer_init(sup->loop, &s->idle);
    (void)uv_timer_init(sup->loop, &s->restart.timer);
    s->timer.data = s->idle.data = s->restart.timer.data = s;
    s->handles = 3;
    table_add(sup, s);
    return s;
}

void sandbox_forget(struct sandbox *s)
{
    if (s->state == SANDBOX_GONE)
        return;
    table_drop(s);
    (void)sandbox_set_state(s, EV_FORGOTTEN);
    if (s->end.pidfd_wait != NULL) {
        pidfd_wait_close(take(s->end.pidfd_wait));
        sandbox_unref(s);
    }
    sandbox_parts_tell(s, PART_FORGOTTEN); /* parts hold execs, and execs hold the sandbox */
    exec_unref(take(s->run.main));
    sandbox_unref(s);
}

static int sandbox_make_id(struct supervisor *sup, char id[SANDBOX_ID_LEN + 1])
{
    unsigned char bytes[SANDBOX_ID_BYTES];

    do {
        if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
            return -EIO;
        for (size_t i = 0; i < sizeof(bytes); i++)
            (void)snprintf(id + i * 2, 3, "%02x", bytes[i]);
    } while (sandbox_by_id(sup, id) != NULL || sandbox_by_name(sup, id) != NULL);
    return 0;
}

/* ---- create ---- */

/* A creation in progress. On failure the sandbox is removed before cb is called. */
struct creation {
    struct sandbox *s;
    sandbox_cb cb;
    void *data;
    int r;
    struct err err;
};

static void creation_done(struct creation *c, int r, const struct err *err)
{
    if (c->cb != NULL)
        c->cb(c->data, r, err);
    sandbox_unref(c->s);
    free(c);
}

static void on_undone(void *data, int r, const struct err *err)
{
    struct creation *c = data;

    (void)err; /* the client gets the first failure */
    /* If the removal fails, the id becomes an orphan, and the client sees no sandbox. */
    if (r < 0 && r != -ECANCELED && r != -EPIPE && c->s->state != SANDBOX_GONE) {
        orphans_add(c->s->sup, c->s->id, NULL);
        sandbox_forget(c->s);
    }
    creation_done(c, c->r, &c->err);
}

static void on_created(void *data, int r, const struct err *err)
{
    struct creation *c = data;

    if (r == 0) {
        creation_done(c, 0, NULL);
        return;
    }
    c->r = r;
    if (err != NULL)
        c->err = *err;
    if (c->s->state == SANDBOX_GONE || sandbox_remove(c->s, true, on_undone, c, NULL) < 0)
        creation_done(c, c->r, &c->err);
}

static unsigned sandbox_count_of(const struct supervisor *sup, uid_t uid)
{
    unsigned n = 0;

    for (const struct sandbox *s = sup->sandboxes; s != NULL; s = s->all.next)
        n += s->made.by == (int64_t)uid;
    return n;
}

static int creation_check(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                          bool start, struct err *err)
{
    int r;

    if (sup->count >= sup->limits.sandboxes)
        return err_set(err, -EAGAIN, "limit maxSandboxes: there are %u sandboxes already",
                       sup->count);
    if (creator->limited && sandbox_count_of(sup, creator->uid) >= sup->limits.sandboxes_per_user)
        return err_set(err, -EUSERS, "limit maxSandboxesPerUser: you have %u sandboxes already",
                       sup->limits.sandboxes_per_user);
    r = member_check_spec(sup, creator, spec, err);
    if (r < 0)
        return r;
    if (spec->name != NULL && sandbox_name_taken(sup, creator, spec->name, NULL))
        return err_set(err, -EEXIST, "name: '%s' is taken", spec->name);
    if (policies_find(sup->policies, spec->policy) == NULL)
        return err_set(err, -EINVAL, "policy: no policy '%s' is configured", spec->policy);
    if (spec->image != NULL && spec->image_id == NULL)
        return err_set(err, -EINVAL, "image: it has not been looked up");
    if (start && spec->argv[0] == NULL)
        return err_set(err, -EINVAL, "command: there is none to start");
    return spec_check_removal(spec, err);
}

/*
 * Finds the sandbox whose network is to be shared, which needs the right to use it. Replaces its
 * name by its id where another user could have that name later: the creator's rights are to that
 * very sandbox, and so is what the client policy has allowed.
 */
static int spec_fix_network(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                            struct err *err)
{
    struct sandbox *other = NULL;
    char *id;
    int r;

    if (spec->net_container == NULL)
        return 0;
    r = sandbox_find_for(sup, creator, spec->net_container, &other, err);
    if (r == -ENOENT)
        return err_set(err, r, "network: no sandbox '%s' to share the network of",
                       spec->net_container);
    if (r == 0)
        r = sandbox_check_right(other, creator, RIGHT_USE, err);
    if (r < 0)
        return err_wrap(err, r, "network");
    if (!creator->limited && other->made.by == (int64_t)creator->uid)
        return 0;
    id = strdup(other->id);
    if (id == NULL)
        return err_errno(err, -ENOMEM, "create");
    free(spec->net_container);
    spec->net_container = id;
    return 0;
}

/* A sandbox without a name has its id. The host name of a container of Docker's API is the short id
 * that its users know. */
static int spec_fill_names(struct spec *spec, const char *id)
{
    if (spec->name == NULL && (spec->name = strdup(id)) == NULL)
        return -ENOMEM;
    if (spec->hostname != NULL || spec->net_container != NULL || !spec_is_docker(spec))
        return 0;
    spec->hostname = strndup(id, SANDBOX_SHORT_ID);
    return spec->hostname != NULL ? 0 : -ENOMEM;
}

int sandbox_create(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                   bool start, sandbox_cb cb, void *data, struct sandbox **ret, struct err *err)
{
    char id[SANDBOX_ID_LEN + 1];
    struct creation *c;
    struct sandbox *s;
    int r;

    r = creation_check(sup, spec, creator, start, err);
    if (r == 0)
        r = spec_fix_network(sup, spec, creator, err);
    if (r == 0)
        r = sandbox_parts_check_spec(sup, spec, creator, err);
    if (r == 0)
        r = sandbox_parts_complete_spec(sup, spec, err);
    if (r == 0)
        r = sandbox_make_id(sup, id);
    if (r < 0)
        return r;
    if (spec_fill_names(spec, id) < 0)
        return err_errno(err, -ENOMEM, "create");
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_errno(err, -ENOMEM, "create");
    r = store_save_spec(sup->store, id, spec, err);
    s = r < 0 ? NULL : sandbox_alloc(sup, id, spec);
    if (s == NULL) {
        free(c);
        (void)store_remove(sup->store, id, NULL);
        return r < 0 ? r : err_errno(err, -ENOMEM, "create");
    }
    s->made.ms = clock_wall_ms();
    s->made.by = creator->uid;
    s->made.limited = creator->limited;
    *c = (struct creation){.s = s, .cb = cb, .data = data};
    sandbox_ref(s);
    s->start.client_fd = creator->fd; /* the launcher's request is sent inside this call */
    r = start ? sandbox_start(s, on_created, c, err) : sandbox_with_init_new(s, on_created, c, err);
    s->start.client_fd = FD_NONE;
    if (r < 0) {
        s->spec = NULL; /* the caller keeps the spec */
        (void)store_remove(sup->store, id, NULL);
        sandbox_forget(s);
        sandbox_unref(s);
        free(c);
        return r;
    }
    *ret = s;
    return 0;
}

/* ---- another name ---- */

int sandbox_rename(struct sandbox *s, const char *name, struct err *err)
{
    auto_free char *before = NULL;
    /* The name is its maker's, whichever client changes it. */
    const struct caller maker = sandbox_maker(s);
    int r;

    if (s->state == SANDBOX_GONE || s->spec == NULL)
        return err_set(err, -EBUSY, "sandbox %s is %s", sandbox_name(s),
                       sandbox_state_name(s->state));
    if (strcmp(sandbox_name(s), name) != 0 && sandbox_name_taken(s->sup, &maker, name, s))
        return err_set(err, -EEXIST, "name: '%s' is taken", name);
    before = take(s->spec->name);
    r = spec_set_name(s->spec, name, err);
    if (r == 0)
        r = store_save_spec(s->sup->store, s->id, s->spec, err);
    if (r < 0) {
        free(s->spec->name);
        s->spec->name = take(before);
        return r;
    }
    link_out(s, offsetof(struct sandbox, by_name));
    link_in(index_bucket(s->sup->by_name, sandbox_name(s)), s, offsetof(struct sandbox, by_name));
    sandbox_emit(s, "rename", NULL);
    return 0;
}

/* ---- finding ---- */

struct sandbox *sandbox_by_id(struct supervisor *sup, const char *id)
{
    for (struct sandbox *s = *index_bucket(sup->by_id, id); s != NULL; s = s->by_id.next)
        if (strcmp(s->id, id) == 0)
            return s;
    return NULL;
}

struct sandbox *sandbox_by_name(struct supervisor *sup, const char *name)
{
    for (struct sandbox *s = *index_bucket(sup->by_name, name); s != NULL; s = s->by_name.next)
        if (strcmp(sandbox_name(s), name) == 0)
            return s;
    return NULL;
}

struct sandbox *sandbox_next_of_name(struct sandbox *s, const char *name)
{
    for (s = s->by_name.next; s != NULL; s = s->by_name.next)
        if (strcmp(sandbox_name(s), name) == 0)
            return s;
    return NULL;
}

struct sandbox *sandbox_first(struct supervisor *sup)
{
    return sup->sandboxes;
}

struct sandbox *sandbox_next(struct sandbox *s)
{
    return s->all.next;
}

/* ---- for each process ---- */

uint64_t sandbox_next_exec_id(struct sandbox *s)
{
    uint64_t now = (uint64_t)clock_wall_us();

    /*
     * The time in microseconds, so that a later supervisor does not use an id again. Two requests
     * in one microsecond get consecutive ids.
     */
    s->execs.last_id = now > s->execs.last_id ? now : s->execs.last_id + 1;
    return s->execs.last_id;
}

static size_t env_list_len(char *const *list)
{
    size_t n = 0;

    while (list != NULL && list[n] != NULL)
        n++;
    return n;
}

/*
 * A hash set of variable names. A client's environment may have as many entries as fit into a
 * request, so a linear search is too slow.
 */
struct table_names {
    const char **slots; /* owned; entries */
    size_t mask;
};

static bool env_names_add(struct table_names *n, const char *entry)
{
    size_t len = strcspn(entry, "=");

    for (size_t at = hash_text(entry, len) & n->mask;; at = (at + 1) & n->mask) {
        if (n->slots[at] == NULL) {
            n->slots[at] = entry;
            return true;
        }
        if (strncmp(n->slots[at], entry, len) == 0 && strchr("=", n->slots[at][len]) != NULL)
            return false;
    }
}

/* Copies the last entry of each name; the order is kept. A name alone only takes earlier ones away.
 */
static char **env_merge(const char **all, size_t count)
{
    char **list = calloc(count + 1, sizeof(*list));
    struct table_names names = {.mask = 15};
    size_t out = count;

    while (names.mask < count * 2)
        names.mask = names.mask * 2 + 1;
    names.slots = calloc(names.mask + 1, sizeof(*names.slots));
    for (size_t i = count; list != NULL && names.slots != NULL && i-- > 0;)
        if (env_names_add(&names, all[i]) && strchr(all[i], '=') != NULL &&
            (list[--out] = strdup(all[i])) == NULL)
            break;
    if (list == NULL || names.slots == NULL || (out < count && list[out] == NULL)) {
        for (size_t i = 0; list != NULL && i < count; i++)
            free(list[i]);
        free(list);
        list = NULL;
    } else {
        (void)memmove(list, list + out, (count - out + 1) * sizeof(*list));
    }
    free(names.slots);
    return list;
}

char **sandbox_env(const struct sandbox *s, char *const *extra, bool tty)
{
    char hostname[SPEC_HOSTNAME_MAX + 16];
    size_t count = 0;
    const size_t max =
        env_list_len(s->spec->env) + env_list_len(extra) + 3 + sandbox_parts_env(s, NULL);
    const char **all = calloc(max, sizeof(*all));
    char **list;

    if (all == NULL)
        return NULL;
    (void)snprintf(hostname, sizeof(hostname), "HOSTNAME=%s", sandbox_hostname(s));
    all[count++] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    all[count++] = hostname;
    if (tty)
        all[count++] = "TERM=xterm";
    count += sandbox_parts_env(s, all + count);
    for (char *const *p = s->spec->env; p != NULL && *p != NULL; p++)
        all[count++] = *p;
    for (; extra != NULL && *extra != NULL; extra++)
        all[count++] = *extra;
    list = env_merge(all, count);
    free(all);
    return list;
}
