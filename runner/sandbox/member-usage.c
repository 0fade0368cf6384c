/*
 * Counts what members have and compares it with the client policy. Owns nothing. Runs in the
 * supervisor's loop; called when a sandbox, a volume or a network is made.
 */
#include "sandbox/member-usage.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "base/err.h"
#include "policy/client.h"
#include "sandbox/caller.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/shared.h"
#include "spec/spec.h"

bool member_counts(const struct supervisor *sup, const struct member_scope *scope, int64_t maker)
{
    if (maker <= 0 || maker == (int64_t)sup->owner)
        return false;
    return scope->all || maker == (int64_t)scope->uid;
}

void member_usage(const struct supervisor *sup, const struct member_scope *scope,
                  struct member_usage *ret)
{
    *ret = (struct member_usage){0};
    for (const struct sandbox *s = sup->sandboxes; s != NULL; s = s->all.next) {
        const int64_t disk = sandbox_limits(s).disk_bytes;

        if (!member_counts(sup, scope, s->made.by))
            continue;
        ret->sandboxes++;
        ret->ports += s->spec != NULL ? s->spec->port_count : 0;
        ret->disk_bytes += disk > 0 ? (uint64_t)disk : 0;
    }
    sandbox_parts_usage(sup, scope, ret);
}

struct bound_row {
    const char *key, *what;
    size_t usage, bound; /* offsets in member_usage and member_bounds */
    int code;
};

#define ROW(k, w, u, e)                                                                            \
    {                                                                                              \
        .key = (k), .what = (w), .usage = offsetof(struct member_usage, u),                        \
        .bound = offsetof(struct member_bounds, u), .code = -(e)                                   \
    }
static const struct bound_row bound_rows[] = {
    ROW("sandboxes", "sandboxes", sandboxes, EUSERS),
    ROW("diskBytes", "bytes of disks and volumes", disk_bytes, EDQUOT),
    ROW("ports", "published ports", ports, EUSERS),
    ROW("volumes", "volumes", volumes, EUSERS),
    ROW("networks", "networks", networks, EUSERS),
};
#undef ROW

static uint64_t usage_at(const struct member_usage *u, const struct bound_row *row)
{
    return *(const uint64_t *)(const void *)((const char *)u + row->usage);
}

static int bounds_check(const struct member_bounds *bounds, const struct member_usage *have,
                        const struct member_usage *more, bool all, struct err *err)
{
    for (size_t i = 0; i < sizeof(bound_rows) / sizeof(bound_rows[0]); i++) {
        const struct bound_row *row = &bound_rows[i];
        const int64_t most = *(const int64_t *)(const void *)((const char *)bounds + row->bound);
        const uint64_t had = usage_at(have, row), asked = usage_at(more, row);

        /* No request is refused for what it does not add to: a bound may have become narrower. */
        if (asked == 0 || most == LIMIT_UNSET || had + asked <= (uint64_t)most)
            continue;
        return err_set(err, row->code,
                       "limit %s.%s: %s %" PRIu64 " %s, and %" PRIu64
                       " more are asked for; the client policy allows %" PRId64,
                       all ? "allMembers" : "perMember", row->key,
                       all ? "members of the group have" : "you have", had, row->what, asked, most);
    }
    return 0;
}

int member_check(const struct supervisor *sup, const struct caller *who,
                 const struct member_usage *more, struct err *err)
{
    struct member_usage have;
    int r;

    if (!who->limited || sup->clients == NULL)
        return 0;
    member_usage(sup, &(struct member_scope){.uid = who->uid}, &have);
    r = bounds_check(&sup->clients->per_member, &have, more, false, err);
    if (r < 0)
        return r;
    member_usage(sup, &(struct member_scope){.all = true}, &have);
    return bounds_check(&sup->clients->all_members, &have, more, true, err);
}

int member_check_spec(const struct supervisor *sup, const struct caller *who, struct spec *spec,
                      struct err *err)
{
    const struct client_policy *c = sup->clients;
    const struct ready_policy *ready = policies_find(sup->policies, spec->policy);
    struct member_usage more = {.sandboxes = 1, .ports = spec->port_count};

    if (!who->limited || c == NULL || ready == NULL)
        return 0;
    spec->limits.disk_bytes = limits_disk_size(&ready->policy->limits, &spec->limits, &c->most);
    if (spec->limits.disk_bytes == LIMIT_UNSET &&
        (c->per_member.disk_bytes != LIMIT_UNSET || c->all_members.disk_bytes != LIMIT_UNSET))
        return err_set(
            err, -EPERM,
            "limits.disk: the client policy bounds the disks of its members together, so "
            "this one needs a size");
    more.disk_bytes = spec->limits.disk_bytes > 0 ? (uint64_t)spec->limits.disk_bytes : 0;
    return member_check(sup, who, &more, err);
}
