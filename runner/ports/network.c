#include "ports/network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "net/conn-limit.h"
#include "net/link.h"
#include "sandbox/paths.h"

static int ops_prepare(void *data, struct net_setup *setup, struct err *err)
{
    return net_prepare(data, setup, err);
}

static int ops_add(void *data, struct net_setup *setup, int ns_fd, struct err *err)
{
    return net_add(data, setup, ns_fd, err);
}

static int ops_limit(void *data, const struct net_setup *setup, int ns_fd, uint64_t rate,
                     struct err *err)
{
    return net_limit(data, setup, ns_fd, rate, err);
}

static int ops_change(void *data, struct net_setup *setup, const struct net_setup *want,
                      struct err *err)
{
    return net_change(data, setup, want, err);
}

static int ops_lan(void *data, const struct net_setup *setup, const struct net_lan_peer *peers,
                   size_t count, enum net_lan_step step, int ns_fd, struct err *err)
{
    (void)data;
    return net_lan_set(setup, peers, count, step, ns_fd, err);
}

static int ops_forget(void *data, const struct net_setup *setup, struct err *err)
{
    return net_remove(data, setup, err);
}

static int ops_watch(void *data)
{
    return net_watch(data);
}

static int ops_restore(void *data, const struct net_setup *const *setups, size_t count,
                       struct err *err)
{
    struct err why = ERR_NONE;
    int r = net_restore(data, setups, count, &why);

    if (err != NULL)
        *err = why;
    if (r < 0) {
        log_warn("network", "changes of the host are followed later: %s", why.msg);
        return r;
    }
    if ((r & NET_RESTORED) != 0)
        log_warn("network",
                 "another program has removed firewall rules of rind: put back for %zu sandboxes",
                 count);
    /* Each change is logged once, however often restoring is retried. */
    if ((r & NET_CLOSED) != 0)
        log_error("network",
                  "firewall rules of sandboxes cannot be put back: %s; their links are down until "
                  "they can",
                  why.msg);
    if ((r & NET_OPENED) != 0)
        log_warn("network", "links of sandboxes are up again: their firewall rules are there");
    return ((r & NET_MOVED) != 0 ? NET_OPS_MOVED : 0) |
           ((r & (NET_CLOSED | NET_OPENED)) != 0 ? NET_OPS_TURNED : 0);
}

static int ops_wait_ms(void *data)
{
    return net_wait(data);
}

static const char *ops_closed(void *data, uint32_t slot)
{
    return net_closed(data, slot);
}

static void ops_shut(void *data, uint32_t slot, const char *why)
{
    struct err err = ERR_NONE;

    if (net_shut(data, slot, why, &err) < 0)
        log_error("network", "a sandbox's link cannot be taken down, although %s: %s", why,
                  err.msg);
    else
        log_error("network", "the link of slot %u is down: %s", slot, why);
}

static int ops_follow(void *data, struct net_setup *setup, int pidfd, struct err *err)
{
    return net_follow(data, setup, pidfd, err);
}

static int ops_egress(void *data, const struct net_setup *setup, int ns_fd, enum egress_table table,
                      struct err *err)
{
    return net_egress(data, setup, ns_fd, table, err);
}

static int ops_names(void *data, int ns_fd, struct err *err)
{
    (void)data;
    return net_names(ns_fd, err);
}

static int ops_resolver(void *data, unsigned index, struct sockaddr_storage *ret, struct err *err)
{
    return net_resolver(data, index, ret, err);
}

static int ops_over(void *data, struct err *err)
{
    (void)data;
    return conn_limit_open(err);
}

static void on_net_warning(const char *text)
{
    log_warn("network", "%s", text); /* a setting of the host has been changed */
}

/* True if this was not logged since the last boot, or if that cannot be determined. */
static bool is_first_since_boot(const struct network *n, const char *ifname, int family)
{
    auto_close int dir = FD_NONE;
    auto_close int mark = FD_NONE;
    char name[64];

    (void)mkdir(n->boot_dir, 0755);
    dir = open(n->boot_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return true;
    (void)snprintf(name, sizeof(name), "forwards-%s-ipv%d", ifname, family);
    mark = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return mark >= 0 || errno != EEXIST;
}

static void on_forwarding_change(void *data, const char *ifname, int family, bool on)
{
    const struct network *n = data;
    const char *how = on ? "on" : "off";

    if (n->boot_dir == NULL)
        log_warn("network", "forwarding of %s switched %s for IPv%d", ifname, how, family);
    else if (on && is_first_since_boot(n, ifname, family))
        log_warn("network",
                 "forwarding of %s switched on for IPv%d, while a sandbox needs it; not said again "
                 "before the next boot",
                 ifname, family);
    else
        log_info("network", "forwarding of %s switched %s for IPv%d", ifname, how, family);
}

int network_open(struct network *n, const struct net_config *config, const char *boot_dir,
                 struct err *err)
{
    struct net_config own = *config;
    int r;

    *n = (struct network){.net = NULL, .lock_dir = FD_NONE, .boot_dir = boot_dir};
    /* The launcher creates this directory as well, when it starts. */
    n->lock_dir = open(CORE_IDS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (n->lock_dir < 0 && errno == ENOENT) {
        (void)mkdir(CORE_STATE_DIR, 0700);
        (void)mkdir(CORE_IDS_DIR, 0700);
        n->lock_dir = open(CORE_IDS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (n->lock_dir < 0)
        return err_errno(err, -errno, "directory %s", CORE_IDS_DIR);
    own.lock_dir = n->lock_dir;
    own.said = on_net_warning;
    own.forwards = on_forwarding_change;
    own.forwards_data = n;
    r = net_new(&own, &n->net, err);
    if (r < 0) {
        network_close(n);
        return r;
    }
    n->ops = (struct launch_net_ops){.data = n->net,
                                     .prepare = ops_prepare,
                                     .add = ops_add,
                                     .limit = ops_limit,
                                     .change = ops_change,
                                     .lan = ops_lan,
                                     .remove = ops_forget,
                                     .lingers = link_lingers,
                                     .erase = link_erase,
                                     .watch = ops_watch,
                                     .wait = ops_wait_ms,
                                     .restore = ops_restore,
                                     .closed = ops_closed,
                                     .shut = ops_shut,
                                     .follow = ops_follow,
                                     .egress = ops_egress,
                                     .names = ops_names,
                                     .resolver = ops_resolver,
                                     .over = ops_over};
    return 0;
}

void network_close(struct network *n)
{
    net_free(take(n->net));
    if (n->lock_dir >= 0)
        (void)close(take_fd(&n->lock_dir));
}
