/*
 * Compares a spec with the client policy. Pure; called by the supervisor for clients that are not
 * the owner.
 */

#include "spec/client-check.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/strtab.h"
#include "policy/client.h"
#include "policy/tables.h"
#include "spec/parse.h"
#include "spec/spec.h"

/* True for a prefix and the paths below it; "/srv" does not allow "/srvx". */
static bool is_below_one(const char *path, char *const *prefixes)
{
    for (; *prefixes != NULL; prefixes++) {
        size_t len = strlen(*prefixes);

        if (len == 1)
            return true; /* "/" */
        if (strncmp(path, *prefixes, len) == 0 && (path[len] == '\0' || path[len] == '/'))
            return true;
    }
    return false;
}

/*
 * True for a prefix itself. A root file system must lie below a prefix, as the prefix directory
 * holds the files of several users.
 */
static bool equals_one(const char *path, char *const *prefixes)
{
    while (*prefixes != NULL && strcmp(path, *prefixes) != 0)
        prefixes++;
    return *prefixes != NULL;
}

static int check_policy(const struct client_policy *p, const struct spec *s, struct err *err)
{
    for (char **name = p->policies; *name != NULL; name++)
        if (strcmp(*name, s->policy) == 0)
            return 0;
    return err_set(err, -EPERM, "policy: \"%.*s\": the client policy does not allow it", QUOTE_MAX,
                   s->policy);
}

static int check_network(const struct client_policy *p, const struct spec *s, struct err *err)
{
    if (s->network != NET_INVALID && !p->networks[s->network])
        return err_set(err, -EPERM, "network: \"%s\": the client policy does not allow it",
                       strtab_name(net_mode_names, (int)s->network));
    if ((s->net_container != NULL || s->net_name != NULL) && !p->share_network)
        return err_set(err, -EPERM, "network: the client policy allows no shared networks");
    return 0;
}

/* Deny rules are always allowed. */
static int check_access(const struct client_policy *p, const struct spec *s, struct err *err)
{
    for (size_t i = 0; i < s->access.rule_count; i++) {
        const struct net_rule *r = &s->access.rules[i];
        bool covered = r->deny != 0;
        char text[NET_RULE_TEXT_MAX];

        for (size_t k = 0; !covered && k < p->most_access.rule_count; k++)
            covered = net_rule_covers(&p->most_access.rules[k], r);
        if (covered)
            continue;
        net_rule_format(r, text);
        return err_set(err, -EPERM, "network.allow: \"%s\": the client policy does not allow it",
                       text);
    }
    for (size_t i = 0; i < s->access.port_count; i++) {
        bool covered = false;
        char text[NET_PORT_TEXT_MAX];

        for (size_t k = 0; !covered && k < p->most_access.port_count; k++)
            covered = memcmp(&p->most_access.ports[k], &s->access.ports[i],
                             sizeof(s->access.ports[i])) == 0;
        if (covered)
            continue;
        net_port_format(&s->access.ports[i], text);
        return err_set(err, -EPERM,
                       "network.hostPorts: \"%s\": the client policy does not allow it", text);
    }
    return 0;
}

static int check_paths(const struct client_policy *p, const struct spec *s, struct err *err)
{
    if (spec_shows_host(s) && !p->host_rootfs)
        return err_set(err, -EPERM, "rootfs: \"%s\": the client policy does not allow it",
                       s->rootfs);
    if (s->rootfs != NULL && !spec_shows_host(s) &&
        (!is_below_one(s->rootfs, p->rootfs_prefixes) || equals_one(s->rootfs, p->rootfs_prefixes)))
        return err_set(err, -EPERM,
                       "rootfs: \"%.*s\": the client policy allows no root file system from there",
                       QUOTE_MAX, s->rootfs);
    for (size_t i = 0; i < s->volume_count; i++) {
        const struct volume *v = &s->volumes[i];

        if (v->named && p->named_volumes)
            continue; /* volume_may_use checks the owner */
        if (v->named)
            return err_set(err, -EPERM,
                           "volumes[%zu].source: the client policy allows no named volumes", i);
        if (is_below_one(v->source, p->bind_prefixes) ||
            (v->read_only && is_below_one(v->source, p->read_only_prefixes)))
            continue;
        return err_set(err, -EPERM,
                       "volumes[%zu].source: \"%.*s\": the client policy allows no %svolume from "
                       "there",
                       i, QUOTE_MAX, v->source, v->read_only ? "" : "writable ");
    }
    return 0;
}

static int check_limits(const struct client_policy *p, const struct spec *s, struct err *err)
{
    static const struct {
        const char *name;
        size_t off;
    } rows[] = {
        {"memory", offsetof(struct limits, memory_bytes)},
        {"pids", offsetof(struct limits, pids)},
        {"cpus", offsetof(struct limits, cpu_millis)},
        {"shmSize", offsetof(struct limits, shm_bytes)},
        {"disk", offsetof(struct limits, disk_bytes)},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t asked = *(const int64_t *)(const void *)((const char *)&s->limits + rows[i].off);
        int64_t most = *(const int64_t *)(const void *)((const char *)&p->most + rows[i].off);

        if (asked != LIMIT_UNSET && most != LIMIT_UNSET && asked > most)
            return err_set(err, -EPERM, "limits.%s: the client policy allows at most %" PRId64 "%s",
                           rows[i].name, most,
                           strcmp(rows[i].name, "cpus") == 0 ? " thousandths" : "");
    }
    return 0;
}

/* Swap counts as the memory that it stands in for. A weight above the default would take time from
 * the sandboxes of others. */
static int check_resources(const struct client_policy *p, const struct spec *s, struct err *err)
{
    enum { SHARES_DEFAULT = 1024, IO_WEIGHT_DEFAULT = 100 };
    const struct resources *r = &s->resources;

    if (r->swap_bytes != LIMIT_UNSET && p->most.memory_bytes != LIMIT_UNSET &&
        r->swap_bytes > p->most.memory_bytes)
        return err_set(err, -EPERM,
                       "limits.memorySwap: the client policy allows at most %" PRId64
                       " bytes of memory and swap",
                       p->most.memory_bytes);
    if (r->cpu_shares > SHARES_DEFAULT)
        return err_set(
            err, -EPERM,
            "limits.cpuShares: more than %d, which all others have, is the owner's to ask "
            "for",
            SHARES_DEFAULT);
    if (r->io_weight > IO_WEIGHT_DEFAULT)
        return err_set(
            err, -EPERM,
            "limits.ioWeight: more than %d, which all others have, is the owner's to ask for",
            IO_WEIGHT_DEFAULT);
    return 0;
}

int client_check_limits(const struct client_policy *p, const struct spec *s, struct err *err)
{
    int r = check_limits(p, s, err);

    return r < 0 ? r : check_resources(p, s, err);
}

static int check_ports(const struct client_policy *p, const struct spec *s, struct err *err)
{
    char text[ADDRESS_TEXT_MAX];

    for (size_t i = 0; i < s->port_count; i++) {
        struct address last = s->ports[i].host;

        /* each port of a range */
        while (last.port < s->ports[i].host_last && publish_allowed(&p->publish, &last))
            last.port++;
        if (publish_allowed(&p->publish, &last))
            continue;
        address_format(&s->ports[i].host, text);
        return err_set(err, -EPERM, "ports[%zu]: %s: the client policy does not allow it", i, text);
    }
    return 0;
}

int client_check_spec(const struct client_policy *p, const struct spec *s, struct err *err)
{
    static int (*const checks[])(const struct client_policy *p, const struct spec *s,
                                 struct err *err) = {
        check_policy, check_network, check_access, check_paths, check_ports, client_check_limits};
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(checks) / sizeof(checks[0]); i++)
        r = checks[i](p, s, err);
    if (r == 0 && s->rlimit_count > 0 && !p->ulimits)
        r = err_set(err, -EPERM, "ulimits: the client policy does not allow to set them");
    if (r == 0 && s->restart != RESTART_NO && !p->restart)
        r = err_set(err, -EPERM, "restart: the client policy allows only \"no\"");
    return r;
}
