#include "launch/network.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/idrange.h"
#include "launch/launcher.h"
#include "launch/net-ops.h"
#include "launch/network-number.h"
#include "launch/sandbox.h"

static const char net_file[] = "net", net_new[] = "net.new", domain_file[] = "domain";

enum { NET_MAGIC = 0x4e444e52 /* "RNDN" */, HAS_BOX = 1 };

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
    char more_aliases[NET_MORE_MAX][LAUNCH_ALIASES_MAX + 1];
};

/* Launchers before those with several networks wrote the record without net_setup's members from
 * more_count on, and without more_aliases. Later ones had numbers of 32 bits; then none had `lan`.
 */
enum {
    SETUP_V1 = offsetof(struct net_setup, more_count),
    SETUP_V2 = offsetof(struct net_setup, group),
    SETUP_V3 = offsetof(struct net_setup, lan),
    SETUP_AT = offsetof(struct net_record, setup),
    ALIASES_AT = offsetof(struct net_record, aliases),
    RECORD_V1 = SETUP_AT + SETUP_V1 + LAUNCH_ALIASES_MAX + 1,
    RECORD_V2 = SETUP_AT + SETUP_V2 + (NET_MORE_MAX + 1) * (LAUNCH_ALIASES_MAX + 1),
    RECORD_V3 = SETUP_AT + SETUP_V3 + (NET_MORE_MAX + 1) * (LAUNCH_ALIASES_MAX + 1),
};
_Static_assert(SETUP_V2 == 3672 && SETUP_V3 == 3736, "likewise");
_Static_assert(SETUP_AT == 1448 && SETUP_V1 == 3640, "the setup in a record is a file format");
_Static_assert(SETUP_V3 % _Alignof(struct net_record) == 0, "the third struct had no padding");

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
    if (s->more_aliases != NULL)
        (void)memcpy(rec->more_aliases, s->more_aliases, sizeof(rec->more_aliases));
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

/* Returns the size of the setup in an earlier launcher's record of n bytes; 0: it is none. */
static size_t setup_size_of(size_t n)
{
    static const size_t sizes[][2] = {
        {RECORD_V1, SETUP_V1}, {RECORD_V2, SETUP_V2}, {RECORD_V3, SETUP_V3}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (n == sizes[i][0])
            return sizes[i][1];
    return 0;
}

/* Fits the record of an earlier launcher, whose setup has this many bytes, and which has n bytes
 * in all. Its sandbox keeps the numbers that its rules on the host have. */
static void record_convert(struct net_record *rec, size_t setup, size_t n)
{
    char *bytes = (char *)rec;

    (void)memmove(bytes + ALIASES_AT, bytes + SETUP_AT + setup, n - SETUP_AT - setup);
    (void)memset(bytes + SETUP_AT + setup, 0, sizeof(rec->setup) - setup);
    if (setup == SETUP_V3)
        return;
    rec->setup.group = rec->setup.group_v1;
    for (size_t i = 0; i < NET_MORE_MAX; i++)
        rec->setup.more[i] = rec->setup.more_v1[i];
}

/* Reads a record. Only the launcher writes it, so a truncated one is the result of a crash. */
static bool record_load(int dir_fd, struct net_record *ret)
{
    auto_close int fd = openat(dir_fd, net_file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    size_t setup;
    ssize_t n;

    (void)memset(ret, 0, sizeof(*ret));
    n = fd >= 0 ? read(fd, ret, sizeof(*ret)) : -1;
    if (n < 0 || ret->magic != NET_MAGIC || ret->size != (uint32_t)n)
        return false;
    if (n != (ssize_t)sizeof(*ret)) {
        setup = setup_size_of((size_t)n);
        if (setup == 0)
            return false;
        record_convert(ret, setup, (size_t)n);
    }
    if (ret->setup.more_count > NET_MORE_MAX)
        return false;
    for (size_t i = 0; i < NET_MORE_MAX; i++)
        ret->more_aliases[i][LAUNCH_ALIASES_MAX] = '\0';
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

/* count: of the further networks. NULL with count 0. */
static int sandbox_set_more(struct launch_sandbox *s, const char (*aliases)[LAUNCH_ALIASES_MAX + 1],
                            size_t count)
{
    char(*own)[LAUNCH_ALIASES_MAX + 1] = count > 0 ? calloc(NET_MORE_MAX, sizeof(*own)) : NULL;

    if (count > 0 && own == NULL)
        return -ENOMEM;
    if (count > 0)
        (void)memcpy(own, aliases, count * sizeof(*own));
    free(s->more_aliases);
    s->more_aliases = own;
    return 0;
}

/* The domain is in a file of its own, which few sandboxes have. A later launcher reads it to
 * rewrite the hosts file. No fsync, as for the record. */
static int sandbox_set_domain(struct launch_sandbox *s, const char *domain)
{
    auto_close int fd = FD_NONE;

    free(s->domain);
    s->domain = domain != NULL ? strdup(domain) : NULL;
    if (domain == NULL)
        return 0;
    if (s->domain == NULL)
        return -ENOMEM;
    fd =
        openat(s->dir_fd, domain_file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : write_all(fd, domain, strlen(domain));
}

static void sandbox_load_domain(struct launch_sandbox *s)
{
    char *text = NULL;
    size_t len = 0;

    if (file_read_at(s->dir_fd, domain_file, LAUNCH_DOMAIN_MAX, &text, &len, NULL) < 0 || len == 0)
        return;
    free(s->domain);
    s->domain = text;
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
    sandbox_load_domain(s);
    (void)sandbox_set_hosts(s, rec->hosts,
                            /* on failure its hosts file lacks these lines when it is rewritten */
                            rec->host_count);
    if ((rec->has & HAS_BOX) == 0)
        return;
    (void)sandbox_set_more(s, (const char(*)[LAUNCH_ALIASES_MAX + 1]) rec->more_aliases,
                           rec->setup.more_count); /* likewise */
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

/*
 * Opens the net namespace of a process. A held fd, and not the process, is what a start enters: an
 * init leaves its namespaces long before its pidfd tells of its exit, while the processes inside
 * end. -ESRCH: the process has left it.
 */
static int process_open_net(pid_t pid, int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    auto_close int ns = FD_NONE;
    char path[64];
    int r;

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    ns = open(path, O_RDONLY | O_CLOEXEC);
    r = ns < 0 ? -errno : 0;
    if (r == -ENOENT || poll(&p, 1, 0) != 0)
        return -ESRCH; /* the pid may be another process's by now */
    return r < 0 ? r : take_fd(&ns);
}

/* Gives s its own copy of the box: the owner may be dropped from the registry before s. */
static int network_share_box(struct launch_sandbox *s, const struct launch_sandbox *member,
                             struct err *err)
{
    if (member->net == NULL)
        return 0;
    s->net = malloc(sizeof(*s->net));
    if (s->net == NULL)
        return err_errno(err, -ENOMEM, "network");
    *s->net = *member->net;
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

/* ---- choosing, for a start ---- */

/* Opens the net namespace of a survivor's init. -ESRCH: it does not listen, or is ending. */
static int survivor_open_net(struct launcher *l, const struct net_survivor *h)
{
    struct launch_sandbox *s = sandbox_new(h->id);
    auto_close int control = FD_NONE;
    auto_close int pidfd = FD_NONE;
    pid_t pid = 0;
    int r = s == NULL ? -ENOMEM : sandbox_dir_peek(l, s, NULL);

    /* Init drops this connection at its end: no supervisor has one to a survivor. */
    if (r == 0) {
        control = sandbox_socket_connect(s, NULL);
        r = control < 0 ? control : 0;
    }
    if (r == 0) {
        pidfd = sandbox_socket_peer(control, &pid, NULL);
        r = pidfd < 0 ? pidfd : 0;
    }
    sandbox_free(s);
    if (r < 0)
        return r == -ENOMEM || r == -EMFILE || r == -ENFILE ? r : -ESRCH;
    return process_open_net(pid, pidfd);
}

/* Opens the network of s by any member that is still in it. -ESRCH: all are ending, or are
 * survivors that do not listen. */
static int network_open_any(struct launcher *l, const struct launch_sandbox *s)
{
    int r = -ESRCH;

    for (struct launch_sandbox *p = l->joined; r == -ESRCH && p != NULL; p = p->joined.next)
        if (sandbox_is_peer(p, s))
            r = process_open_net(p->pid, p->pidfd);
    for (size_t i = 0; r == -ESRCH && i < l->survivor_count; i++)
        if (strcmp(l->survivors[i].owner, s->net_owner) == 0 &&
            strcmp(l->survivors[i].id, s->id) != 0)
            r = survivor_open_net(l, &l->survivors[i]);
    return r;
}

/* Sandboxes that joined this one may have survived its last run: it gets the same network again. */
static int network_choose_own(struct launcher *l, struct launch_sandbox *s,
                              const struct launch_request *q, int *ret_ns, struct err *err)
{
    const bool admin = (q->net_flags & LAUNCH_NET_ADMIN) != 0;
    const struct launch_sandbox *member = network_peer(l, s);
    const char *id = member != NULL ? member->id : network_survivor(l, s);
    int ns;

    if (id == NULL)
        return 0;
    /* That network belongs to the user namespace of the previous run. */
    if (member != NULL && admin)
        return err_set(err, -EBUSY,
                       "network: sandbox %s, which has joined it, still runs; a sandbox that "
                       "administers its network starts with a new one",
                       member->id);
    ns = admin ? -ESRCH : network_open_any(l, s);
    if (ns == -ESRCH)
        return err_set(err, -EINPROGRESS,
                       "network: sandbox %s, which has joined it, has not ended yet, or has not "
                       "been taken up",
                       id);
    if (ns < 0)
        return err_errno(err, ns, "network: the namespace of sandbox %s, which has joined it", id);
    if ((q->net_flags & LAUNCH_NET_LINK) != 0)
        network_load(s);
    *ret_ns = ns;
    return 0;
}

int network_choose(struct launcher *l, struct launch_sandbox *s, const struct launch_request *q,
                   int *ret_ns, struct err *err)
{
    const struct launch_sandbox *member;
    int ns, r;

    (void)snprintf(s->net_owner, sizeof(s->net_owner), "%s", s->id);
    if (q->net_join == NULL)
        return network_choose_own(l, s, q, ret_ns, err);
    member = live_sandbox(l, q->net_join);
    ns = member == NULL ? -ESRCH : process_open_net(member->pid, member->pidfd);
    if (ns == -ESRCH)
        return err_set(err, -EBUSY,
                       "network: sandbox %s, whose network is to be joined, does not run",
                       q->net_join);
    if (ns < 0)
        return err_errno(err, ns, "network: the namespace of sandbox %s", q->net_join);
    (void)memcpy(s->net_owner, member->net_owner, sizeof(s->net_owner));
    r = network_share_box(s, member, err);
    if (r == 0)
        *ret_ns = ns;
    else
        (void)close(ns);
    return r;
}

/* ---- making ---- */

bool network_is_grouped(const struct launch_sandbox *s)
{
    return s->net != NULL && s->net->group != NET_GROUP_NONE;
}

static int setup_set_groups(struct launcher *l, struct net_setup *setup,
                            const struct launch_request *q, struct err *err)
{
    int r = 0;

    setup->group_v1 = 0;
    setup->group = NET_GROUP_NONE;
    setup->more_count = 0;
    if (q->net_name != NULL)
        r = network_number(l, q->net_name, &setup->group, err);
    for (size_t i = 0; r == 0 && i < q->net_more_count; i++) {
        setup->more_v1[i] = 0;
        r = network_number(l, q->net_more[i].name, &setup->more[setup->more_count++], err);
    }
    return r;
}

static int sandbox_set_aliases(struct launch_sandbox *s, const struct launch_request *q)
{
    char all[NET_MORE_MAX][LAUNCH_ALIASES_MAX + 1] = {""};

    for (size_t i = 0; i < q->net_more_count; i++)
        (void)snprintf(all[i], sizeof(all[i]), "%s", q->net_more[i].aliases);
    if (sandbox_set_more(s, (const char(*)[LAUNCH_ALIASES_MAX + 1]) all, q->net_more_count) < 0)
        return -ENOMEM;
    (void)snprintf(s->aliases, sizeof(s->aliases), "%s",
                   q->net_aliases != NULL ? q->net_aliases : "");
    return 0;
}

static void setup_set_resolv(struct net_setup *setup, const struct launch_request *q)
{
    const char *search = q->net_search, *options = q->net_options;
    const bool none = search != NULL && strcmp(search, ".") == 0;

    if (search != NULL)
        setup->own_lines |= NET_OWN_SEARCH;
    if (options != NULL)
        setup->own_lines |= NET_OWN_OPTIONS;
    (void)snprintf(setup->search, sizeof(setup->search), "%s%s%s%s%s%s",
                   search != NULL && !none ? "search " : "", search != NULL && !none ? search : "",
                   search != NULL && !none ? "\n" : "", options != NULL ? "options " : "",
                   options != NULL ? options : "", options != NULL ? "\n" : "");
}
_Static_assert(sizeof("search \noptions \n") + 2 * (size_t)LAUNCH_RESOLV_MAX <= NET_SEARCH_MAX,
               "both lines that a request may have fit into the setup");

static int network_box_of(struct launcher *l, struct launch_sandbox *s,
                          const struct launch_request *q, struct err *err)
{
    auto_free struct net_setup *setup = calloc(1, sizeof(*setup));
    int r;

    if (setup == NULL)
        return err_errno(err, -ENOMEM, "network");
    setup->slot = sandbox_slot(s);
    setup->internet = (q->net_flags & LAUNCH_NET_INTERNET) != 0;
    setup->admin = (q->net_flags & LAUNCH_NET_ADMIN) != 0;
    setup->access = q->net_access;
    setup->dns_count = (uint32_t)q->net_dns_count;
    (void)memcpy(setup->dns, q->net_dns, sizeof(setup->dns));
    setup_set_resolv(setup, q);
    r = setup_set_groups(l, setup, q, err);
    if (r == 0)
        s->net = take(setup);
    return r;
}

static int network_make_link(struct launcher *l, struct launch_sandbox *s,
                             const struct launch_request *q, struct err *err)
{
    auto_close int ns = FD_NONE;
    char path[64];
    int r;

    r = l->net->prepare(l->net->data, s->net, err);
    if (r == 0)
        r = network_lans_choose(l, s->net, NULL, q, err);
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
    if (r == 0 && network_lan_concerns(s->net, NULL))
        r = network_lan_set(l, s->net, NET_LAN_FRESH, ns, err);
    if (r == 0 && q->net_rate > 0)
        r = l->net->limit(l->net->data, s->net, ns, (uint64_t)q->net_rate, err);
    return r == 0 ? record_save(s, err) : r;
}

int network_make(struct launcher *l, struct launch_sandbox *s, const struct launch_request *q,
                 struct err *err)
{
    int r;

    (void)snprintf(s->hostname, sizeof(s->hostname), "%s", q->hostname);
    r = sandbox_set_aliases(s, q);
    if (r == 0)
        r = sandbox_set_hosts(s, q->hosts, q->host_count);
    if (r == 0)
        r = sandbox_set_domain(s, q->domain);
    if (r < 0)
        return err_errno(err, r, "network");
    if (q->net_join != NULL || s->net != NULL)
        return record_save(s, err);
    if ((q->net_flags & LAUNCH_NET_LINK) == 0)
        return 0;
    if (l->net == NULL)
        return err_set(err, -EOPNOTSUPP, "network: this launcher makes none");
    if (q->net_rate > 0 && (q->net_flags & LAUNCH_NET_ADMIN) != 0)
        return err_set(err, -EOPNOTSUPP,
                       "network rate: a sandbox that administers its network could take it away");
    r = network_box_of(l, s, q, err);
    return r < 0 ? r : network_make_link(l, s, q, err);
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
    bool lives_on;
    int r = 0;

    if (s->net_owner[0] == '\0')
        return 0;
    if (strcmp(s->net_owner, s->id) != 0 && s->dir_fd >= 0)
        (void)unlinkat(s->dir_fd, net_file, 0);
    network_survivor_drop(l, s->id);
    lives_on = network_peer(l, s) != NULL || network_survivor(l, s) != NULL;
    if (!lives_on)
        r = network_forget(l, s->net_owner, err);
    s->net_owner[0] = '\0';
    network_tell_all(l, s->net);
    if (!lives_on)
        network_lan_tell(l, s->net);
    return r;
}

struct net_place network_place(const struct launch_sandbox *s)
{
    struct net_place p = {.sandbox4 = {.family = 0}};

    if (s->net == NULL)
        return p;
    (void)memcpy(p.lan, s->net->lan, sizeof(p.lan));
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
        network_rewrite_resolv(s);
    }
    network_lan_renew(l, first); /* its name servers have their addresses, whatever members have */
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

size_t network_live_setups(const struct launcher *l, const struct net_setup *ret[IDRANGE_COUNT])
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
    r = l->net->restore(l->net->data, setups, network_live_setups(l, setups), NULL);
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

/* ---- leases ---- */

int network_lease(struct launch_sandbox *s, int hosts, int resolv, struct err *err)
{
    s->hosts_lease = hosts;
    s->resolv_lease = resolv;
    return record_save(s, err);
}

/* ---- other networks for a running sandbox ---- */

/* All sandboxes in this network have a copy of the box, a record and files. */
static int network_share_change(struct launcher *l, struct launch_sandbox *owner, struct err *err)
{
    int first = 0;

    for (struct launch_sandbox *s = l->sandboxes; s != NULL; s = s->all.next) {
        int r;

        if (!sandbox_lives_at(s, owner->net->slot))
            continue;
        if (s != owner)
            *s->net = *owner->net;
        r = record_save(s, first == 0 ? err : NULL);
        if (first == 0)
            first = r;
    }
    return first;
}

static void network_rewrite_files(struct launcher *l, uint32_t slot)
{
    for (struct launch_sandbox *s = l->sandboxes; s != NULL; s = s->all.next) {
        if (!sandbox_lives_at(s, slot))
            continue;
        network_rewrite_hosts(l, s);
        network_rewrite_resolv(s);
    }
}

static int network_check_change(const struct launch_sandbox *s, const struct launch_request *q,
                                struct err *err)
{
    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", q->id);
    if (sandbox_ended(s))
        return err_set(err, -EBUSY, "network: sandbox %s has ended", q->id);
    if (strcmp(s->net_owner, s->id) != 0)
        return err_set(err, -EINVAL, "network: sandbox %s is in the network of another", q->id);
    if (s->net == NULL)
        return err_set(err, -EOPNOTSUPP,
                       "network: sandbox %s was started without any network, and so has no link",
                       q->id);
    if (q->net_name != NULL && s->hosts_lease == 0)
        return err_set(
            err, -EBUSY,
            "network: the files of sandbox %s do not follow its networks (it was started "
            "in none of a name, under the policy fuse or by an earlier rind)",
            q->id);
    return 0;
}

/* A former launcher may have ended between its record and what is inside. So that is put in order
 * even where neither setup has subnets; it cannot be in a network that the sandbox administers. */
static int network_change_inside(const struct launcher *l, const struct launch_sandbox *s,
                                 const struct net_setup *was, struct err *err)
{
    int r;

    if (s->net->admin)
        return 0;
    r = network_lan_set(l, s->net, NET_LAN_OWN, s->pidfd, err);
    return network_lan_concerns(s->net, was) ? r : 0;
}

int network_change(struct launcher *l, const struct launch_request *q, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, q->id);
    struct net_setup was, want;
    int r = network_check_change(s, q, err);

    if (r < 0)
        return r;
    was = want = *s->net;
    r = setup_set_groups(l, &want, q, err);
    if (r == 0)
        r = network_lans_choose(l, &want, &was, q, err);
    if (r < 0)
        return r;
    if ((q->net_flags & LAUNCH_NET_SAME) == 0)
        want.internet = (q->net_flags & LAUNCH_NET_INTERNET) != 0;
    r = l->net->change(l->net->data, s->net, &want, err);
    if (r < 0)
        return r;
    r = sandbox_set_aliases(s, q);
    r = r < 0 ? err_errno(err, r, "network") : network_share_change(l, s, err);
    if (r == 0)
        r = network_change_inside(l, s, &was, err);
    if (r < 0) {
        /* A later launcher would go by the old record. */
        if (l->net->change(l->net->data, s->net, &was, NULL) == 0) {
            (void)network_share_change(l, s, NULL);
            (void)network_change_inside(l, s, &want, NULL);
        }
        return r;
    }
    network_rewrite_files(l, s->net->slot);
    network_tell_all(l, &was);
    network_tell_all(l, s->net);
    network_lan_tell(l, &was);
    network_lan_tell(l, s->net);
    return 0;
}
