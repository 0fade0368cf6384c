#include "net/legacy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"

enum {
    NAMES_MAX = 4096, /* bytes of the list of tables */
    TRIES = 8,        /* the table may change between the two queries */
};

/* The differences between IPv4 and IPv6. */
static const struct legacy {
    const char *program, *names;
    int family, level;
    /* size of an entry, and of its part that matches addresses */
    size_t entry, match, target_at, next_at;
} both[] = {
    {"iptables-legacy", "/proc/net/ip_tables_names", AF_INET, IPPROTO_IP, sizeof(struct ipt_entry),
     sizeof(struct ipt_ip), offsetof(struct ipt_entry, target_offset),
     offsetof(struct ipt_entry, next_offset)},
    {"ip6tables-legacy", "/proc/net/ip6_tables_names", AF_INET6, IPPROTO_IPV6,
     sizeof(struct ip6t_entry), sizeof(struct ip6t_ip6), offsetof(struct ip6t_entry, target_offset),
     offsetof(struct ip6t_entry, next_offset)},
};

/* Both use the same requests, and an entry begins with its address match. */
static_assert(sizeof(struct ipt_getinfo) == sizeof(struct ip6t_getinfo) &&
                  sizeof(struct ipt_get_entries) == sizeof(struct ip6t_get_entries) &&
                  (int)IPT_SO_GET_INFO == (int)IP6T_SO_GET_INFO &&
                  (int)IPT_SO_GET_ENTRIES == (int)IP6T_SO_GET_ENTRIES,
              "one struct for both");

static const char filter[] = "filter";

/* Querying a missing table would create it, so the list of tables is read first. */
static int table_has_filter(const struct legacy *l, struct err *err)
{
    auto_close int fd = open(l->names, O_RDONLY | O_CLOEXEC);
    auto_free char *text = NULL;
    size_t len = 0;
    char *line, *rest;
    int r;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "%s", l->names);
    r = file_read_fd(fd, NAMES_MAX, &text, &len, err);
    if (r < 0)
        return r;
    for (rest = text; (line = strsep(&rest, "\n")) != NULL;)
        if (strcmp(line, filter) == 0)
            return 1;
    return 0;
}

/* *ret: the rules, to be freed; info has the offsets of the chains. */
static int table_read(const struct legacy *l, struct ipt_getinfo *info,
                      struct ipt_get_entries **ret, struct err *err)
{
    auto_close int fd = socket(l->family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

    if (fd < 0)
        return err_errno(err, -errno, "socket for %s", l->program);
    for (int i = 0; i < TRIES; i++) {
        auto_free struct ipt_get_entries *all = NULL;
        socklen_t len = sizeof(*info);

        (void)memset(info, 0, sizeof(*info));
        (void)memcpy(info->name, filter, sizeof(filter));
        if (getsockopt(fd, l->level, IPT_SO_GET_INFO, info, &len) < 0)
            return err_errno(err, -errno, "rules of %s", l->program);
        if (info->size > LEGACY_SIZE_MAX)
            return err_set(err, -E2BIG, "rules of %s: %u bytes", l->program, info->size);
        len = (socklen_t)(sizeof(*all) + info->size);
        all = calloc(1, len);
        if (all == NULL)
            return err_errno(err, -ENOMEM, "rules of %s", l->program);
        (void)memcpy(all->name, filter, sizeof(filter));
        all->size = info->size;
        if (getsockopt(fd, l->level, IPT_SO_GET_ENTRIES, all, &len) == 0) {
            *ret = take(all);
            return 0;
        }
        if (errno != EAGAIN)
            return err_errno(err, -errno, "rules of %s", l->program);
    }
    return err_errno(err, -EAGAIN, "rules of %s", l->program);
}

/* True if a rule refuses every packet: it matches everything, and its target is DROP, like a
 * policy's, or REJECT. */
static bool rule_refuses(const struct legacy *l, const char *rule, size_t target_at, size_t size)
{
    static const char any[sizeof(struct ip6t_ip6)];
    struct xt_standard_target target;

    static_assert(sizeof(struct ipt_ip) <= sizeof(any), "of both");
    if (target_at != l->entry || memcmp(rule, any, l->match) != 0 ||
        size < target_at + sizeof(target))
        return false;
    (void)memcpy(&target, rule + target_at, sizeof(target));
    return strncmp(target.target.u.user.name, "REJECT", sizeof(target.target.u.user.name)) == 0 ||
           (target.target.u.user.name[0] == '\0' && target.verdict == -NF_DROP - 1);
}

/* Walks FORWARD up to its policy, which is its last rule. */
static bool table_drops(const struct legacy *l, const struct ipt_getinfo *info, const char *rules)
{
    size_t at = info->hook_entry[NF_INET_FORWARD];

    while (at <= info->underflow[NF_INET_FORWARD] && at + l->entry <= info->size) {
        unsigned short target_at, next;

        (void)memcpy(&target_at, rules + at + l->target_at, sizeof(target_at));
        (void)memcpy(&next, rules + at + l->next_at, sizeof(next));
        if (next < l->entry || next > info->size - at)
            return false;
        if (rule_refuses(l, rules + at, target_at, next))
            return true;
        at += next;
    }
    return false;
}

int legacy_foreign_drop(char text[LEGACY_TEXT_MAX], struct err *err)
{
    for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
        auto_free struct ipt_get_entries *rules = NULL;
        struct ipt_getinfo info;
        int r = table_has_filter(&both[i], err);

        if (r == 1)
            r = table_read(&both[i], &info, &rules, err);
        if (r < 0)
            return r;
        if (rules == NULL || !table_drops(&both[i], &info, (const char *)rules->entrytable))
            continue;
        (void)snprintf(text, LEGACY_TEXT_MAX, "%s %s FORWARD", both[i].program, filter);
        return 1;
    }
    return 0;
}
