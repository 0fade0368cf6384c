#include "launch/network.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "launch/idrange.h"
#include "launch/launcher.h"
#include "launch/net-ops.h"
#include "launch/sandbox.h"
#include "proto/plan.h"
#include "proto/syscalls.h"

static const char net_file[] = "net", net_new[] = "net.new";

enum { NET_MAGIC = 0x4e444e52 /* "RNDN" */, HAS_BOX = 1 };

/* resolves to the host, in sandboxes that may reach ports of the host */
#define HOST_NAME "host.rind.internal"

struct net_record {
    uint32_t magic, size;
    char owner[LAUNCH_ID_MAX + 1];
    char hostname[LAUNCH_HOSTNAME_MAX + 1];
    uint32_t has; /* HAS_BOX */
    int32_t hosts_lease, resolv_lease;
    uint32_t host_count;
    struct launch_host hosts[LAUNCH_HOSTS_MAX];
    struct net_setup setup;
    char aliases[LAUNCH_ALIASES_MAX + 1];
};

/* Returns the slot of the sandbox's own network. */
static uint32_t sandbox_slot(const struct launch_sandbox *s)
{
    return (s->ids.base - IDRANGE_FIRST) / IDRANGE_SIZE;
}

/* ---- the file ---- */

static int record_save(const struct launch_sandbox *s, struct err *err)
{
    auto_free struct net_record *rec = calloc(1, sizeof(*rec));
    auto_close int fd = FD_NONE;
    int r;

    if (rec == NULL)
        return err_errno(err, -ENOMEM, "network");
    rec->magic = NET_MAGIC;
    rec->size = sizeof(*rec);
    (void)memcpy(rec->owner, s->net_owner, sizeof(rec->owner));
    (void)memcpy(rec->hostname, s->hostname, sizeof(rec->hostname));
    (void)memcpy(rec->aliases, s->aliases, sizeof(rec->aliases));
    rec->hosts_lease = s->hosts_lease;
    rec->resolv_lease = s->resolv_lease;
    rec->host_count = s->host_count;
    if (s->host_count > 0)
        (void)memcpy(rec->hosts, s->hosts, s->host_count * sizeof(rec->hosts[0]));
    rec->has = s->net != NULL ? HAS_BOX : 0U;
    if (s->net != NULL)
        rec->setup = *s->net;
    /* The record is replaced atomically. A launcher that dies here, or a full disk, must not leave
     * a running sandbox without the record of its network. No fsync: a crash of the host ends the
     * sandbox, too. */
    fd = openat(s->dir_fd, net_new, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : write_all(fd, rec, sizeof(*rec));
    if (r == 0 && renameat(s->dir_fd, net_new, s->dir_fd, net_file) < 0)
        r = -errno;
    return r < 0 ? err_errno(err, r, "network: the sandbox's record") : 0;
}

/* Reads a record. Only the launcher writes it, so a truncated one is the result of a crash. */
static bool record_load(int dir_fd, struct net_record *ret)
{
    auto_close int fd = openat(dir_fd, net_file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret, sizeof(*ret)) : -1;

    if (n != (ssize_t)sizeof(*ret) || ret->magic != NET_MAGIC || ret->size != (uint32_t)n)
        return false;
    ret->aliases[LAUNCH_ALIASES_MAX] = '\0';
    ret->owner[LAUNCH_ID_MAX] = ret->hostname[LAUNCH_HOSTNAME_MAX] = '\0';
    return launch_id_ok(ret->owner) && ret->host_count <= LAUNCH_HOSTS_MAX;
}

static int sandbox_set_hosts(struct launch_sandbox *s, const struct launch_host *hosts,
                             size_t count)
{
    struct launch_host *own = count > 0 ? malloc(count * sizeof(*own)) : NULL;

    if (count > 0 && own == NULL)
        return -ENOMEM;
    if (count > 0)
        (void)memcpy(own, hosts, count * sizeof(*own));
    free(s->hosts);
    s->hosts = own;
    s->host_count = (uint32_t)count;
    return 0;
}

void network_load(struct launch_sandbox *s)
{
    auto_free struct net_record *rec = malloc(sizeof(*rec));

    if (rec == NULL || s->dir_fd < 0 || !record_load(s->dir_fd, rec))
        return;
    (void)memcpy(s->net_owner, rec->owner, sizeof(s->net_owner));
    (void)memcpy(s->hostname, rec->hostname, sizeof(s->hostname));
    (void)memcpy(s->aliases, rec->aliases, sizeof(s->aliases));
    s->hosts_lease = rec->hosts_lease;
    s->resolv_lease = rec->resolv_lease;
    (void)sandbox_set_hosts(s, rec->hosts,
                            /* on failure its hosts file lacks these lines when it is rewritten */
                            rec->host_count);
    if ((rec->has & HAS_BOX) == 0)
        return;
    free(s->net);
    s->net = malloc(sizeof(*s->net));
    if (s->net != NULL)
        *s->net = rec->setup;
}

/* ---- members ---- */

static bool sandbox_is_peer(const struct launch_sandbox *p, const struct launch_sandbox *s)
{
    return p != NULL && p != s && strcmp(p->net_owner, s->net_owner) == 0 && !sandbox_ended(p);
}

struct launch_sandbox *network_peer(struct launcher *l, const struct launch_sandbox *s)
{
    struct launch_sandbox *owner = launcher_find(l, s->net_owner);

    if (sandbox_is_peer(owner, s))
        return owner;
    for (struct launch_sandbox *p = l->joined; p != NULL; p = p->joined.next)
        if (sandbox_is_peer(p, s))
            return p;
    return NULL;
}

static struct launch_sandbox *live_sandbox(struct launcher *l, const char *id)
{
    struct launch_sandbox *s = launcher_find(l, id);

    return s != NULL && !sandbox_ended(s) ? s : NULL;
}

/* Gives s its own copy of the box: the owner may be dropped from the registry before s. */
static int network_share_box(struct launch_sandbox *s, const struct launch_sandbox *member,
                             int *ret_pidfd, struct err *err)
{
    *ret_pidfd = member->pidfd;
    if (member->net == NULL)
        return 0;
    s->net = malloc(sizeof(*s->net));
    if (s->net == NULL)
        return err_errno(err, -ENOMEM, "network");
    *s->net = *member->net;
    return 0;
}

int network_choose(struct launcher *l, struct launch_sandbox *s, const struct launch_request *q,
                   int *ret_pidfd, struct err *err)
{
    const struct launch_sandbox *member;
    const char *survivor;

    (void)snprintf(s->net_owner, sizeof(s->net_owner), "%s", s->id);
    if (q->net_join == NULL) {
        /* Sandboxes that joined this one have survived its restart: it gets the same network again.
         */
        member = network_peer(l, s);
        survivor = member == NULL ? network_survivor(l, s) : NULL;
        if (survivor != NULL)
            return err_set(err, -EAGAIN,
                           "network: sandbox %s, which has joined it, has not been taken up yet",
                           survivor);
        /* That network belongs to the user namespace of the previous run. */
        if (member != NULL && (q->net_flags & LAUNCH_NET_ADMIN) != 0)
            return err_set(err, -EBUSY,
                           "network: sandbox %s, which has joined it, still runs; a sandbox that "
                           "administers its network starts with a new one",
                           member->id);
        if (member != NULL && (q->net_flags & LAUNCH_NET_LINK) != 0)
            network_load(s);
    } else {
        member = live_sandbox(l, q->net_join);
        if (member == NULL)
            return err_set(err, -EBUSY,
                           "network: sandbox %s, whose network is to be joined, does not run",
                           q->net_join);
        (void)memcpy(s->net_owner, member->net_owner, sizeof(s->net_owner));
        return network_share_box(s, member, ret_pidfd, err);
    }
    if (member != NULL)
        *ret_pidfd = member->pidfd;
    return 0;
}

/* ---- survivors of the previous launcher ---- */

struct net_survivor {
    char id[LAUNCH_ID_MAX + 1];
    char owner[LAUNCH_ID_MAX + 1]; /* id of the sandbox that owns the network */
    struct net_setup *setup;       /* owned; NULL: the network has no link */
};

/* The sandbox runs, but the record of its network is unreadable, so its rules cannot be restored:
 * closes the network. */
static void network_shut_unknown(const struct launcher *l, const struct launch_sandbox *s)
{
    if (faccessat(s->dir_fd, net_file, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return; /* the sandbox has no network */
    if (l->net != NULL && l->net->shut != NULL)
        l->net->shut(l->net->data, sandbox_slot(s), "the record of its network cannot be read");
}

int network_survivor_add(struct launcher *l, struct launch_sandbox *s)
{
    struct net_survivor *more;

    network_load(s);
    if (s->net_owner[0] == '\0') {
        network_shut_unknown(l, s);
        return 0;
    }
    more = reallocarray(l->survivors, l->survivor_count + 1, sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    l->survivors = more;
    more += l->survivor_count++;
    more->setup = take(s->net);
    (void)memcpy(more->id, s->id, sizeof(more->id));
    (void)memcpy(more->owner, s->net_owner, sizeof(more->owner));
    return 0;
}

static void heir_drop(struct launcher *l, size_t i)
{
    free(l->survivors[i].setup);
    l->survivors[i] = l->survivors[--l->survivor_count];
    if (l->survivor_count == 0)
        network_survivors_free(l);
}

void network_survivor_drop(struct launcher *l, const char *id)
{
    for (size_t i = 0; i < l->survivor_count; i++)
        if (strcmp(l->survivors[i].id, id) == 0) {
            heir_drop(l, i);
            return;
        }
}

void network_survivors_free(struct launcher *l)
{
    for (size_t i = 0; i < l->survivor_count; i++)
        free(l->survivors[i].setup);
    free(l->survivors);
    l->survivors = NULL;
    l->survivor_count = 0;
}

/* A running sandbox holds its lock. If its directory cannot be opened, it is treated as running. */
static bool survivor_lives(struct launcher *l, const struct net_survivor *h)
{
    struct launch_sandbox *s = sandbox_new(h->id);
    int r = s == NULL ? -ENOMEM : sandbox_dir_open(l, s, NULL);

    sandbox_free(s);
    return r < 0 && r != -ENOENT;
}

const char *network_survivor(struct launcher *l, const struct launch_sandbox *s)
{
    for (size_t i = 0; i < l->survivor_count;) {
        const struct net_survivor *h = &l->survivors[i];

        if (strcmp(h->owner, s->net_owner) != 0 || strcmp(h->id, s->id) == 0)
            i++;
        else if (survivor_lives(l, h))
            return h->id;
        else
            heir_drop(l, i); /* the last entry has moved to index i */
    }
    return NULL;
}

/* ---- making ---- */

/* Returns the number of a named network. It depends on the state directory, so two daemons do not
 * share networks. */
static uint32_t network_group_of(const struct launcher *l, const char *name)
{
    const char *const parts[] = {l->state_dir, "\n", name};
    uint32_t h = HASH_BEGIN;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        h = hash_bytes(h, parts[i], strlen(parts[i]));
    return h != NET_GROUP_NONE ? h : 1;
}

static struct net_setup *network_box_of(const struct launcher *l, const struct launch_sandbox *s,
                                        const struct launch_request *q)
{
    struct net_setup *setup = calloc(1, sizeof(*setup));

    if (setup == NULL)
        return NULL;
    setup->slot = sandbox_slot(s);
    setup->internet = (q->net_flags & LAUNCH_NET_INTERNET) != 0;
    setup->admin = (q->net_flags & LAUNCH_NET_ADMIN) != 0;
    setup->access = q->net_access;
    setup->dns_count = (uint32_t)q->net_dns_count;
    (void)memcpy(setup->dns, q->net_dns, sizeof(setup->dns));
    if (q->net_name != NULL)
        setup->group = network_group_of(l, q->net_name);
    return setup;
}

static int network_make_link(struct launcher *l, struct launch_sandbox *s, struct err *err)
{
    auto_close int ns = FD_NONE;
    char path[64];
    int r;

    r = l->net->prepare(l->net->data, s->net, err);
    if (r == 0)
        r = record_save(s, err); /* before making the network: a sweep then knows about it */
    if (r < 0)
        return r;
    /* init is an unreaped child, so its pid has not been reused */
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)s->pid);
    ns = open(path, O_RDONLY | O_CLOEXEC);
    if (ns < 0)
        return err_errno(err, -errno, "network: the sandbox's namespace");
    r = l->net->add(l->net->data, s->net, ns, err);
    return r == 0 ? record_save(s, err) : r;
}

int network_make(struct launcher *l, struct launch_sandbox *s, const struct launch_request *q,
                 struct err *err)
{
    int r;

    (void)snprintf(s->hostname, sizeof(s->hostname), "%s", q->hostname);
    (void)snprintf(s->aliases, sizeof(s->aliases), "%s",
                   q->net_aliases != NULL ? q->net_aliases : "");
    r = sandbox_set_hosts(s, q->hosts, q->host_count);
    if (r < 0)
        return err_errno(err, r, "network");
    if (q->net_join != NULL || s->net != NULL)
        return record_save(s, err);
    if ((q->net_flags & LAUNCH_NET_LINK) == 0)
        return 0;
    if (l->net == NULL)
        return err_set(err, -EOPNOTSUPP, "network: this launcher makes none");
    s->net = network_box_of(l, s, q);
    if (s->net == NULL)
        return err_errno(err, -ENOMEM, "network");
    return network_make_link(l, s, err);
}

/* ---- leaving ---- */

/* The record is in the owner's directory, even if another member leaves last. */
static int network_forget(struct launcher *l, const char *owner, struct err *err)
{
    auto_free struct net_record *rec = malloc(sizeof(*rec));
    auto_close int dir =
        openat(l->sandboxes_fd, owner, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = 0;

    if (rec == NULL)
        return err_errno(err, -ENOMEM, "network");
    if (dir < 0 || !record_load(dir, rec))
        return 0;
    if ((rec->has & HAS_BOX) != 0 && l->net != NULL)
        r = l->net->remove(l->net->data, &rec->setup, err);
    if (r == 0)
        (void)unlinkat(dir, net_file, 0);
    return r;
}

int network_leave(struct launcher *l, struct launch_sandbox *s, struct err *err)
{
    uint32_t group = s->net != NULL ? s->net->group : NET_GROUP_NONE;
    int r = 0;

    if (s->net_owner[0] == '\0')
        return 0;
    if (strcmp(s->net_owner, s->id) != 0 && s->dir_fd >= 0)
        (void)unlinkat(s->dir_fd, net_file, 0);
    network_survivor_drop(l, s->id);
    if (network_peer(l, s) == NULL && network_survivor(l, s) == NULL)
        r = network_forget(l, s->net_owner, err);
    s->net_owner[0] = '\0';
    if (group != NET_GROUP_NONE)
        network_tell_group(l, group);
    return r;
}

struct net_place network_place(const struct launch_sandbox *s)
{
    struct net_place p = {.sandbox4 = {.family = 0}};

    if (s->net == NULL)
        return p;
    p.gateway4 = s->net->gateway4;
    p.sandbox4 = s->net->sandbox4;
    if (s->net->route6) {
        p.gateway6 = s->net->gateway6;
        p.sandbox6 = s->net->sandbox6;
    }
    return p;
}

/* ---- changes on the host ---- */

int launcher_watch(const struct launcher *l)
{
    return l->net != NULL && l->net->watch != NULL ? l->net->watch(l->net->data) : FD_NONE;
}

int network_conn_limit(const struct launcher *l, struct err *err)
{
    if (l->net == NULL || l->net->over == NULL)
        return err_set(err, -EOPNOTSUPP, "network: this launcher makes none");
    return l->net->over(l->net->data, err);
}

static void resolv_rewrite(const struct launch_sandbox *s);

static bool has_slot(const struct net_setup *const *setups, size_t count, uint32_t slot)
{
    for (size_t i = 0; i < count; i++)
        if (setups[i]->slot == slot)
            return true;
    return false;
}

static bool sandbox_lives_at(const struct launch_sandbox *s, uint32_t slot)
{
    return s->net != NULL && !sandbox_ended(s) && s->net->slot == slot;
}

/* Updates a network through one of its members; the other members get copies of the box. */
static void network_follow_one(struct launcher *l, struct launch_sandbox *first)
{
    struct err err = ERR_NONE;
    int r = l->net->follow(l->net->data, first->net, first->pidfd, &err);

    if (r == -ENOTRECOVERABLE)
        /* the launcher would make all its sockets in the sandbox's namespace from here on */
        abort();
    if (r <= 0)
        return; /* the network stays as it is */
    for (struct launch_sandbox *s = first; s != NULL; s = s->all.next) {
        if (!sandbox_lives_at(s, first->net->slot))
            continue;
        if (s != first)
            *s->net = *first->net;
        (void)record_save(s, NULL);
        resolv_rewrite(s);
    }
}

static void network_follow_all(struct launcher *l)
{
    for (struct launch_sandbox *s = l->sandboxes; s != NULL; s = s->all.next) {
        const struct launch_sandbox *p = l->sandboxes;

        if (s->net == NULL || sandbox_ended(s))
            continue;
        while (p != s && !sandbox_lives_at(p, s->net->slot))
            p = p->all.next;
        if (p == s)
            network_follow_one(l, s);
    }
}

/* Collects every live network once. The list is a fixed array: an allocation could fail, and then
 * no rules would be restored. */
static size_t network_live_boxes(const struct launcher *l,
                                 const struct net_setup *ret[IDRANGE_COUNT])
{
    size_t count = 0;

    for (const struct launch_sandbox *s = l->sandboxes; s != NULL; s = s->all.next)
        if (s->net != NULL && !sandbox_ended(s) && count < IDRANGE_COUNT &&
            !has_slot(ret, count, s->net->slot))
            ret[count++] = s->net;
    for (size_t i = 0; i < l->survivor_count; i++)
        if (l->survivors[i].setup != NULL && count < IDRANGE_COUNT &&
            !has_slot(ret, count, l->survivors[i].setup->slot))
            ret[count++] = l->survivors[i].setup;
    return count;
}

void launcher_watched(struct launcher *l)
{
    const struct net_setup *setups[IDRANGE_COUNT];
    const uint64_t one = 1;
    int r;

    if (l->net == NULL || l->net->restore == NULL)
        return;
    /* core/ reports errors */
    r = l->net->restore(l->net->data, setups, network_live_boxes(l, setups), NULL);
    if (r < 0)
        return;
    if ((r & NET_OPS_TURNED) != 0 && l->net_turned >= 0)
        /* EAGAIN: the counter is full, so the fd is readable */
        (void)!write(l->net_turned, &one, sizeof(one));
    if ((r & NET_OPS_MOVED) != 0 && l->net->follow != NULL)
        network_follow_all(l);
}

int launcher_watch_wait(const struct launcher *l)
{
    return l->net != NULL && l->net->wait != NULL ? l->net->wait(l->net->data) : -1;
}

void network_survivor_added(struct launcher *l)
{
    if (l->survivor_count > 0)
        launcher_watched(l);
}

/* ---- closed networks ---- */

static void closed_add(const struct launcher *l, struct buf *b, const char *id,
                       const struct net_setup *setup)
{
    const char *why = setup != NULL ? l->net->closed(l->net->data, setup->slot) : NULL;

    if (why == NULL)
        return;
    (void)buf_append(b, id, strlen(id) + 1);
    (void)buf_append(b, why, strlen(why) + 1);
}

int network_closed(struct launcher *l, int ret[2], struct err *err)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_CLOSED_MAX);
    auto_close int list = FD_NONE, turned = FD_NONE;

    if (l->net == NULL || l->net->closed == NULL)
        return err_set(err, -EOPNOTSUPP, "network: this launcher makes none");
    if (l->net_turned < 0)
        l->net_turned = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->net_turned < 0)
        return err_errno(err, -errno, "network: eventfd");
    for (const struct launch_sandbox *s = l->sandboxes; s != NULL; s = s->all.next)
        if (!sandbox_ended(s))
            closed_add(l, &b, s->id, s->net);
    for (size_t i = 0; i < l->survivor_count; i++)
        closed_add(l, &b, l->survivors[i].id, l->survivors[i].setup);
    list = memfd_sealed("rind-closed", b.data != NULL ? b.data : "", b.len);
    turned = list < 0 ? list : fcntl(l->net_turned, F_DUPFD_CLOEXEC, 3);
    if (list < 0 || turned < 0)
        return err_errno(err, list < 0 ? list : -errno, "network: which are closed");
    ret[0] = take_fd(&list);
    ret[1] = take_fd(&turned);
    return 0;
}

/* ---- files ---- */

static void hosts_add_line(struct buf *b, const struct net_addr *a, const char *name)
{
    char text[NET_ADDR_TEXT_MAX];

    net_addr_format(a, text);
    (void)buf_printf(b, "%s\t%s\n", text, name);
}

/* True for names that have another meaning in the file. A resolver that reads all lines would find
 * the member's address, too. */
static bool is_taken_name(const char *name, size_t len)
{
    static const char *const taken[] = {"localhost", "ip6-localhost", "ip6-loopback", HOST_NAME};
    static const char below[] = ".localhost";

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        if (strlen(taken[i]) == len && strncasecmp(name, taken[i], len) == 0)
            return true;
    return len >= strlen(below) &&
           strncasecmp(name + len - strlen(below), below, strlen(below)) == 0;
}

/* Adds a line with all names of a member. Returns false if it does not fit any more. */
static bool hosts_add_member(struct buf *b, const struct launch_sandbox *s)
{
    const char *const lists[] = {s->hostname, s->aliases};
    auto_buf struct buf names = BUF_INIT(ETC_TEXT_MAX);
    char text[NET_ADDR_TEXT_MAX];

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (const char *p = lists[i]; *p != '\0';) {
            const size_t len = strcspn(p, " ");

            if (len > 0 && !is_taken_name(p, len))
                (void)buf_printf(&names, "%c%.*s", names.len > 0 ? ' ' : '\t', (int)len, p);
            p += len + (p[len] == ' ');
        }
    net_addr_format(&s->net->sandbox4, text);
    return names.len == 0 || buf_printf(b, "%s%.*s\n", text, (int)names.len, names.data) >= 0;
}

static void hosts_add_extra(const struct launch_sandbox *s, struct buf *ret)
{
    for (uint32_t i = 0; i < s->host_count; i++) {
        const struct net_addr *a = &s->hosts[i].addr;

        if (a->family == 0 && s->net != NULL)
            a = &s->net->gateway4;
        if (a->family != 0)
            hosts_add_line(ret, a, s->hosts[i].name);
    }
}

unsigned network_hosts(const struct launcher *l, const struct launch_sandbox *s, struct buf *ret)
{
    const struct net_setup *setup = s->net;
    unsigned left_out = 0;

    (void)buf_append_str(ret, "127.0.0.1\tlocalhost\n"
                              "::1\tlocalhost ip6-localhost ip6-loopback\n");
    if (setup == NULL) {
        (void)buf_printf(ret, "127.0.1.1\t%s\n", s->hostname);
        hosts_add_extra(s, ret);
        return 0;
    }
    (void)hosts_add_member(ret, s); /* the first member always fits */
    if (setup->access.port_count > 0)
        hosts_add_line(ret, &setup->gateway4, HOST_NAME);
    hosts_add_extra(s, ret);
    for (const struct launch_sandbox *p = l->sandboxes; setup->group != NET_GROUP_NONE && p != NULL;
         p = p->all.next)
        if (strcmp(p->net_owner, p->id) == 0 && p->net != NULL && p->net->group == setup->group &&
            p->net->slot != setup->slot)
            left_out += !hosts_add_member(ret, p);
    return left_out;
}

void network_resolv(const struct launch_sandbox *s, struct buf *ret)
{
    const struct net_setup *setup = s->net;

    if (setup == NULL) {
        /* The sandbox has no route to these, so a query fails at once. With egress, which may be
         * enabled while it runs, the sandbox's own resolver answers for any of them. A loopback
         * address would not be redirected. */
        (void)buf_append_str(ret, "nameserver 1.1.1.1\nnameserver 8.8.8.8\n");
        return;
    }
    for (uint32_t i = 0; i < setup->dns_count; i++) {
        char text[NET_ADDR_TEXT_MAX];

        net_addr_format(&setup->dns[i], text);
        (void)buf_printf(ret, "nameserver %s\n", text);
    }
    (void)buf_append_str(ret, setup->search);
}

/* Writes in place, because the file is bind-mounted: a renamed file would not be seen. */
static void etc_write_text(int fd, const struct buf *text)
{
    if (text->len > 0 && pwrite(fd, text->data, text->len, 0) == (ssize_t)text->len)
        (void)!ftruncate(fd, (off_t)text->len);
}

/* Returns the number of members that the file lacks. */
static unsigned hosts_rewrite(const struct launcher *l, const struct launch_sandbox *s)
{
    auto_buf struct buf text = BUF_INIT(ETC_TEXT_MAX);
    unsigned left_out;

    if (s->hosts_fd < 0)
        return 0;
    left_out = network_hosts(l, s, &text);
    etc_write_text(s->hosts_fd, &text);
    return left_out;
}

int network_lease(struct launch_sandbox *s, int hosts, int resolv, struct err *err)
{
    s->hosts_lease = hosts;
    s->resolv_lease = resolv;
    return record_save(s, err);
}

/* A compromised init could hand out any fd. So only a tmpfs file is accepted, whose inode lock no
 * process inside can hold while it sleeps (own.c). */
static int init_get_fd(const struct launch_sandbox *s, int number)
{
    auto_close int fd = FD_NONE;
    struct statfs fs;
    struct stat st;

    if (number <= PLAN_FD)
        return FD_NONE;
    fd = sys_pidfd_getfd(s->pidfd, number);
    if (fd < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0 || !S_ISREG(st.st_mode) ||
        fs.f_type != TMPFS_MAGIC || (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
        return FD_NONE;
    return take_fd(&fd);
}

/* Opens resolv.conf anew each time: it is written too rarely to keep an fd. */
static void resolv_rewrite(const struct launch_sandbox *s)
{
    auto_buf struct buf text = BUF_INIT(ETC_TEXT_MAX);
    auto_close int fd = init_get_fd(s, s->resolv_lease);

    if (fd < 0)
        return;
    network_resolv(s, &text);
    etc_write_text(fd, &text);
}

void network_reopen_hosts(struct launcher *l, struct launch_sandbox *s)
{
    auto_close int fd = FD_NONE;

    if (s->net == NULL || s->net->group == NET_GROUP_NONE)
        return;
    fd = init_get_fd(s, s->hosts_lease);
    if (fd < 0)
        return;
    if (s->hosts_fd >= 0)
        (void)close(s->hosts_fd);
    s->hosts_fd = take_fd(&fd);
    network_tell_group(l, s->net->group);
}

void network_tell_group(struct launcher *l, uint32_t group)
{
    const struct launch_sandbox *cut = NULL;
    unsigned most = 0;
    bool told = false;

    for (struct launch_sandbox *s = l->sandboxes; s != NULL; s = s->all.next) {
        unsigned left_out;

        if (s->net == NULL || s->net->group != group)
            continue;
        left_out = hosts_rewrite(l, s);
        told |= s->hosts_cut;
        s->hosts_cut = left_out > 0;
        if (left_out > most) {
            most = left_out;
            cut = s;
        }
    }
    /* Logged once, until all members fit again. */
    if (cut != NULL && !told)
        log_warn("network",
                 "sandbox=%s the names of %u members of its network find no room in the %d KiB of "
                 "/etc/hosts, and are not there; nor in the others'",
                 cut->id, most, ETC_TEXT_MAX >> 10);
}
