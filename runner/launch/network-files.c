/*
 * The files of /etc that follow a sandbox's networks: the texts of its hosts file and resolv.conf,
 * and their rewriting while it runs. Runs in the launcher; called by network.c and by a start.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "launch/launcher.h"
#include "launch/network.h"
#include "launch/sandbox.h"
#include "policy/egress-net.h"
#include "proto/plan.h"
#include "proto/syscalls.h"

/* resolves to the host, in sandboxes that may reach ports of the host */
#define HOST_NAME "host.rind.internal"

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

static void names_add(struct buf *names, const char *list)
{
    for (const char *p = list; *p != '\0';) {
        const size_t len = strcspn(p, " ");

        if (len > 0 && !is_taken_name(p, len))
            (void)buf_printf(names, "%c%.*s", names->len > 0 ? ' ' : '\t', (int)len, p);
        p += len + (p[len] == ' ');
    }
}

/* The whole name comes first: that is what programs take for the canonical one. */
static void names_add_host(struct buf *names, const struct launch_sandbox *s)
{
    if (s->domain != NULL)
        (void)buf_printf(names, "%c%s.%s", names->len > 0 ? ' ' : '\t', s->hostname, s->domain);
    names_add(names, s->hostname);
}

/* Adds a line with the names of a member that sandboxes with the setup `reader` may know: those in
 * the networks of both. The first name is what a reverse look-up finds: the host name in the
 * sandbox's own file, for programs that look for theirs, and the member's name in others. Returns
 * false if the line does not fit any more. */
static bool hosts_add_member(struct buf *b, const struct launch_sandbox *s,
                             const struct net_setup *reader)
{
    auto_buf struct buf names = BUF_INIT(ETC_TEXT_MAX);
    const struct net_addr address = net_setup_address(s->net, reader);
    char text[NET_ADDR_TEXT_MAX];

    if (s->net->slot == reader->slot)
        names_add_host(&names, s);
    if (net_setup_in_group(reader, s->net->group))
        names_add(&names, s->aliases);
    for (uint32_t i = 0; i < s->net->more_count && s->more_aliases != NULL; i++)
        if (net_setup_in_group(reader, s->net->more[i]))
            names_add(&names, s->more_aliases[i]);
    if (s->net->slot != reader->slot)
        names_add(&names, s->hostname);
    net_addr_format(&address, text);
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

static bool setups_share_group(const struct net_setup *a, const struct net_setup *b)
{
    bool both = net_setup_in_group(a, b->group);

    for (uint32_t i = 0; i < b->more_count; i++)
        both |= net_setup_in_group(a, b->more[i]);
    return both;
}

unsigned network_hosts(const struct launcher *l, const struct launch_sandbox *s, struct buf *ret)
{
    const struct net_setup *setup = s->net;
    /* A sandbox in the network of another has the other's names and lines. */
    const struct launch_sandbox *owner =
        launcher_find((struct launcher *)(uintptr_t)l, s->net_owner);
    unsigned left_out = 0;

    if (owner == NULL || (owner->net == NULL) != (setup == NULL))
        owner = s;

    (void)buf_append_str(ret, "127.0.0.1\tlocalhost\n"
                              "::1\tlocalhost ip6-localhost ip6-loopback\n");
    if (setup == NULL) {
        (void)buf_append_str(ret, "127.0.1.1\t");
        if (s->domain != NULL)
            (void)buf_printf(ret, "%s.%s ", s->hostname, s->domain);
        (void)buf_printf(ret, "%s\n", s->hostname);
        hosts_add_extra(owner, ret);
        if (owner != s)
            hosts_add_extra(s, ret);
        return 0;
    }
    (void)hosts_add_member(ret, owner, setup); /* the first member always fits */
    if (setup->access.port_count > 0)
        hosts_add_line(ret, &setup->gateway4, HOST_NAME);
    hosts_add_extra(owner, ret);
    if (owner != s)
        hosts_add_extra(s, ret);
    for (const struct launch_sandbox *p = l->sandboxes; setup->group != NET_GROUP_NONE && p != NULL;
         p = p->all.next)
        if (strcmp(p->net_owner, p->id) == 0 && p->net != NULL &&
            setups_share_group(p->net, setup) && p->net->slot != setup->slot)
            left_out += !hosts_add_member(ret, p, setup);
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
    /* In a named network the supervisor answers for members, and asks these servers for others. */
    if (setup->group != NET_GROUP_NONE)
        (void)buf_append_str(ret, "nameserver " NAMES_ADDRESS "\n");
    for (uint32_t i = 0; setup->group == NET_GROUP_NONE && i < setup->dns_count; i++) {
        char text[NET_ADDR_TEXT_MAX];

        net_addr_format(&setup->dns[i], text);
        (void)buf_printf(ret, "nameserver %s\n", text);
    }
    (void)buf_append_str(ret, setup->search);
    if (setup->group != NET_GROUP_NONE &&
        ((setup->own_lines & NET_OWN_OPTIONS) == 0 || strstr(setup->search, "ndots:") == NULL))
        (void)buf_append_str(ret, "options ndots:0\n");
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
void network_rewrite_resolv(const struct launch_sandbox *s)
{
    auto_buf struct buf text = BUF_INIT(ETC_TEXT_MAX);
    auto_close int fd = init_get_fd(s, s->resolv_lease);

    if (fd < 0)
        return;
    network_resolv(s, &text);
    etc_write_text(fd, &text);
}

/* Gets the hosts file from init. */
static void sandbox_find_hosts(struct launch_sandbox *s)
{
    auto_close int fd = init_get_fd(s, s->hosts_lease);

    if (fd < 0)
        return;
    if (s->hosts_fd >= 0)
        (void)close(s->hosts_fd);
    s->hosts_fd = take_fd(&fd);
}

void network_rewrite_hosts(const struct launcher *l, struct launch_sandbox *s)
{
    if (s->hosts_fd < 0)
        sandbox_find_hosts(s);
    (void)hosts_rewrite(l, s);
    if (!network_is_grouped(s) && s->hosts_fd >= 0)
        (void)close(take_fd(&s->hosts_fd)); /* init has it, should it be needed */
}

void network_reopen_hosts(struct launcher *l, struct launch_sandbox *s)
{
    if (!network_is_grouped(s))
        return;
    network_lan_renew(l, s); /* members may have left since */
    sandbox_find_hosts(s);
    if (s->hosts_fd >= 0)
        network_tell_all(l, s->net);
}

static void network_tell_group(struct launcher *l, uint64_t group)
{
    const struct launch_sandbox *cut = NULL;
    unsigned most = 0;
    bool told = false;

    for (struct launch_sandbox *s = l->sandboxes; s != NULL; s = s->all.next) {
        unsigned left_out;

        if (s->net == NULL || !net_setup_in_group(s->net, group))
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

void network_tell_all(struct launcher *l, const struct net_setup *setup)
{
    if (setup == NULL || setup->group == NET_GROUP_NONE)
        return;
    network_tell_group(l, setup->group);
    for (uint32_t i = 0; i < setup->more_count; i++)
        network_tell_group(l, setup->more[i]);
}
