/* The decoder behind policy/client.h. Pure functions. */

#include "policy/client.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/strtab.h"
#include "json/decode.h"
#include "json/parse.h"
#include "policy/plain-path.h"
#include "policy/tables.h"

/* Embedded by the assembler; see builtin.c. */
__asm__(".pushsection .rodata\n"
        ".globl policy_client_start, policy_client_end\n"
        ".hidden policy_client_start, policy_client_end\n"
        "policy_client_start:\n"
        ".incbin \"policies/client.json\"\n"
        "policy_client_end:\n"
        ".byte 0\n"
        ".popsection\n");
extern const char policy_client_start[], policy_client_end[];

const char *client_policy_builtin(size_t *ret_len)
{
    /* cppcheck-suppress comparePointers; both lie in the one section above */
    *ret_len = (size_t)(policy_client_end - policy_client_start);
    return policy_client_start;
}

static int d_prefixes(json_t *value, const struct jfield *field, void *dst,
                      const struct jpath *path, struct err *err)
{
    char *const *list;
    int r;

    r = j_strings(value, field, dst, path, err);
    if (r < 0)
        return r;
    list = *(char ***)(void *)((char *)dst + field->off);
    for (size_t i = 0; list[i] != NULL; i++) {
        struct jpath here = {.up = path, .index = i};

        if (strcmp(list[i], "/") != 0 && !path_is_plain(list[i]))
            return json_fail(err, -EINVAL, &here, "must be an absolute path without //, . and ..");
    }
    return 0;
}

static int d_networks(json_t *value, const struct jfield *field, void *dst,
                      const struct jpath *path, struct err *err)
{
    bool *networks = (bool *)((char *)dst + field->off);
    json_t *element;
    size_t i;

    if (!json_is_array(value))
        return json_fail(err, -EINVAL, path, "must be an array of strings");
    json_array_foreach(value, i, element) {
        struct jpath here = {.up = path, .index = i};
        int mode = -1;

        if (json_is_string(element))
            mode = strtab_value(net_mode_names, json_string_value(element));
        if (mode < 0)
            return json_fail(err, -EINVAL, &here, "must be none or internet");
        networks[mode] = true;
    }
    return 0;
}

/* Decodes the upper bound of network rules that clients may request. */
static int d_access(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                    struct err *err)
{
    struct client_policy *p = dst;
    bool is_port = strcmp(field->name, "hostPorts") == 0;
    json_t *element;
    size_t i;

    if (!json_is_array(value))
        return json_fail(err, -EINVAL, path, "must be an array of strings");
    json_array_foreach(value, i, element) {
        struct jpath here = {.up = path, .index = i};
        struct err why = ERR_NONE;
        const char *text = json_string_value(element);
        int r;

        if (text == NULL)
            return json_fail(err, -EINVAL, &here, "must be a string");
        r = is_port ? net_access_add_port(&p->most_access, text, &why)
                    : net_access_add_rule(&p->most_access, text, false, &why);
        if (r < 0)
            return json_fail(err, r, &here, "%s", why.msg);
    }
    return 0;
}

#define MOST(member) offsetof(struct limits, member)
#define MINE(member) offsetof(struct client_policy, member)
/* clang-format off */
static const struct jfield limit_fields[] = {
    {.name = "memoryBytes", .decode = j_int64, .off = MOST(memory_bytes), .min = LIMIT_MEMORY_MIN, .max = LIMIT_BYTES_MAX},
    {.name = "pids",        .decode = j_int64, .off = MOST(pids),         .min = 1, .max = LIMIT_PIDS_MAX},
    {.name = "cpuMillis",   .decode = j_int64, .off = MOST(cpu_millis),   .min = LIMIT_CPU_MILLIS_MIN, .max = LIMIT_CPU_MILLIS_MAX},
    {.name = "shmBytes",    .decode = j_int64, .off = MOST(shm_bytes),    .min = LIMIT_SHM_MIN, .max = LIMIT_BYTES_MAX},
    {.name = "diskBytes",   .decode = j_int64, .off = MOST(disk_bytes),   .min = LIMIT_DISK_MIN, .max = LIMIT_DISK_MAX},
    {0},
};

#define BOUND(key, member, most) {.name = (key), .decode = j_int64, .off = offsetof(struct member_bounds, member), .min = 0, .max = (most)}
static const struct jfield bound_fields[] = {
    BOUND("sandboxes",  sandboxes,   1000000),
    BOUND("diskBytes",  disk_bytes,  LIMIT_BYTES_MAX),
    BOUND("imageBytes", image_bytes, LIMIT_BYTES_MAX),
    BOUND("ports",      ports,       1000000),
    BOUND("volumes",    volumes,     1000000),
    BOUND("networks",   networks,    1000000),
    {0},
};

static const struct jfield client_fields[] = {
    {.name = "description",          .decode = j_ignore},
    {.name = "policies",             .decode = j_strings,  .off = MINE(policies), .max = CLIENT_POLICY_LIST_MAX, .required = true},
    {.name = "networks",             .decode = d_networks, .off = MINE(networks), .required = true},
    {.name = "allowNetworks",        .decode = d_access},
    {.name = "hostPorts",            .decode = d_access},
    {.name = "shareNetworks",        .decode = j_bool,     .off = MINE(share_network)},
    {.name = "bindPrefixes",         .decode = d_prefixes, .off = MINE(bind_prefixes), .max = CLIENT_POLICY_LIST_MAX, .required = true},
    {.name = "readOnlyBindPrefixes", .decode = d_prefixes, .off = MINE(read_only_prefixes), .max = CLIENT_POLICY_LIST_MAX, .required = true},
    {.name = "rootfsPrefixes",       .decode = d_prefixes, .off = MINE(rootfs_prefixes), .max = CLIENT_POLICY_LIST_MAX, .required = true},
    {.name = "hostRootfs",           .decode = j_bool,     .off = MINE(host_rootfs)},
    {.name = "namedVolumes",         .decode = j_bool,     .off = MINE(named_volumes)},
    {.name = "limits",               .decode = j_object,   .off = MINE(most), .fields = limit_fields},
    {.name = "perMember",            .decode = j_object,   .off = MINE(per_member), .fields = bound_fields},
    {.name = "allMembers",           .decode = j_object,   .off = MINE(all_members), .fields = bound_fields},
    {.name = "publish",              .decode = j_publish_rules, .off = MINE(publish)},
    {.name = "ulimits",              .decode = j_bool,     .off = MINE(ulimits), .required = true},
    {.name = "loadImages",           .decode = j_bool,     .off = MINE(load_images)},
    {.name = "removeImages",         .decode = j_bool,     .off = MINE(remove_images)},
    {.name = "restart",              .decode = j_bool,     .off = MINE(restart), .required = true},
    {0},
};
/* clang-format on */

struct member_bounds member_bounds_unset(void)
{
    struct member_bounds b = {0};

    for (const struct jfield *f = bound_fields; f->name != NULL; f++)
        *(int64_t *)(void *)((char *)&b + f->off) = LIMIT_UNSET;
    return b;
}

int client_policy_parse(const char *text, size_t len, const char *where, struct client_policy **ret,
                        struct err *err)
{
    auto_ptr(client_policy_free) struct client_policy *p = NULL;
    auto_ptr(json_decref) json_t *root = NULL;
    int r;

    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "%s", where);
    p->most = limits_unset();
    p->per_member = p->all_members = member_bounds_unset();
    r = json_parse(text, len, CLIENT_POLICY_TEXT_MAX, &root, err);
    if (r == 0)
        r = json_decode(root, client_fields, p, err);
    if (r < 0)
        return err_wrap(err, r, "%s", where);
    *ret = take(p);
    return 0;
}

void client_policy_free(struct client_policy *p)
{
    if (p == NULL)
        return;
    json_strings_free(p->policies);
    json_strings_free(p->bind_prefixes);
    json_strings_free(p->read_only_prefixes);
    json_strings_free(p->rootfs_prefixes);
    publish_rules_done(&p->publish);
    free(p);
}
