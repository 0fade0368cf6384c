#include "net/forward.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "net/netlink.h"

#define MARK4 "rind-forwards4-"
#define MARK6 "rind-forwards6-"

enum { PATH_BYTES = 128, MARK_BYTES = 32 };

/* IPv4 has a switch per interface. IPv6's "forwarding" takes effect for all interfaces only, and
 * makes the host ignore router advertisements. "force_forwarding" (Linux 6.17) is per interface
 * like IPv4's. */
static void switch_path(char path[PATH_BYTES], const char *ifname, int family)
{
    (void)snprintf(path, PATH_BYTES, "/proc/sys/net/ipv%d/conf/%s/%s", family, ifname,
                   family == 4 ? "forwarding" : "force_forwarding");
}

static int switch_read(const char *path)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[8] = "";

    if (fd < 0)
        return -errno;
    if (read(fd, text, sizeof(text) - 1) < 0)
        return -errno;
    return text[0] == '1';
}

bool forward_all(int family)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/proc/sys/net/ipv%d/conf/all/forwarding", family);
    return switch_read(path) == 1;
}

int forward_get(const char *ifname, int family)
{
    char path[PATH_BYTES];

    if (family == 6 && forward_all(6))
        return 1;
    switch_path(path, ifname, family);
    return switch_read(path);
}

int forward_set(const char *ifname, int family, bool on, struct err *err)
{
    char path[PATH_BYTES];
    int r;

    switch_path(path, ifname, family);
    r = file_poke_at(AT_FDCWD, path, on ? "1" : "0");
    if (r == -ENOENT && family == 6)
        return err_set(err, -EOPNOTSUPP,
                       "IPv6 forwarding of %s alone needs Linux 6.17; sysctl -w "
                       "net.ipv6.conf.all.forwarding=1 switches it on for all interfaces",
                       ifname);
    return r < 0 ? err_errno(err, r, "switch forwarding of %s", ifname) : 0;
}

/* ---- marks ---- */

int forward_mark(int sock, const char *ifname, int family, bool on, struct err *err)
{
    const struct ifinfomsg link = {.ifi_family = AF_UNSPEC,
                                   .ifi_index = (int)if_nametoindex(ifname)};
    auto_nlreq struct nlreq q;
    struct nlattr *list;
    char mark[MARK_BYTES];
    int r;

    if (link.ifi_index == 0)
        return err_errno(err, -ENODEV, "mark %s", ifname);
    /* The mark contains the index: a name must be unique in the namespace, and interface names
     * change. */
    (void)snprintf(mark, sizeof(mark), "%s%d", family == 4 ? MARK4 : MARK6, link.ifi_index);
    nlreq_init(&q);
    nlreq_add(&q, on ? RTM_NEWLINKPROP : RTM_DELLINKPROP,
              on ? NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND | NLM_F_ACK : NLM_F_ACK, &link,
              sizeof(link));
    list = nl_nest(&q, IFLA_PROP_LIST);
    nl_put_string(&q, IFLA_ALT_IFNAME, mark);
    nl_nest_end(&q, list);
    r = nlreq_send(&q, sock, NULL, NULL, NULL, err);
    if (r == (on ? -EEXIST : -ENOENT))
        return 0;
    return r < 0 ? err_wrap(err, r, "mark %s", ifname) : 0;
}

struct marks {
    forward_mark_fn *fn;
    void *data;
};

static bool attr_begins(const struct nlattr *a, const char *text)
{
    const size_t len = strlen(text);

    return nla_len(a) > (int)len && memcmp(nla_data(a), text, len) == 0;
}

static int on_link_marks(const struct nlmsghdr *h, void *data)
{
    const struct marks *m = data;
    struct nlmsghdr *own = (struct nlmsghdr *)(uintptr_t)h;
    const struct nlattr *name, *list, *a;
    char ifname[IF_NAMESIZE] = "";
    int left;

    if (!nlmsg_valid_hdr(h, sizeof(struct ifinfomsg)))
        return -EBADMSG;
    name = nlmsg_find_attr(own, sizeof(struct ifinfomsg), IFLA_IFNAME);
    list = nlmsg_find_attr(own, sizeof(struct ifinfomsg), IFLA_PROP_LIST);
    if (name == NULL || list == NULL || nla_len(name) > IF_NAMESIZE)
        return 0;
    (void)memcpy(ifname, nla_data(name), (size_t)nla_len(name));
    ifname[IF_NAMESIZE - 1] = '\0';
    nla_for_each_nested(a, list, left)
    {
        if (nla_type(a) != IFLA_ALT_IFNAME)
            continue;
        if (attr_begins(a, MARK4))
            m->fn(ifname, 4, m->data);
        else if (attr_begins(a, MARK6))
            m->fn(ifname, 6, m->data);
    }
    return 0;
}

int forward_each_mark(int sock, forward_mark_fn *fn, void *data, struct err *err)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    struct marks m = {.fn = fn, .data = data};
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    nlreq_add(&q, RTM_GETLINK, NLM_F_DUMP, &any, sizeof(any));
    return nlreq_send(&q, sock, on_link_marks, &m, NULL, err);
}
