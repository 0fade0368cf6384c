/* HostConfig.CapAdd, CapDrop, SecurityOpt and Devices: what a container may do. Capabilities of the
 * policy can be dropped. None can be added, but some requests select the policy that has what they
 * are for: NET_ADMIN, and SYS_ADMIN together with /dev/fuse. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/create-body-internal.h"
#include "api/docker/create-body.h"
#include "base/err.h"
#include "policy/tables.h"

enum { NAME_MAX_BYTES = 32 };

/* Docker accepts "NET_RAW", "net_raw" and "CAP_NET_RAW". */
static const char *cap_bare_name(const char *name)
{
    return strncasecmp(name, "CAP_", 4) == 0 ? name + 4 : name;
}

int t_cap_add(json_t *value, const struct body_field *field, void *dst, const char *path,
              struct err *err)
{
    /* The capabilities of the policy "container", which are Docker's defaults. */
    static const char *const given[] = {
        "AUDIT_WRITE",      "CHOWN",   "DAC_OVERRIDE", "FOWNER", "FSETID",  "KILL",   "MKNOD",
        "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",      "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"};
    struct making *m = dst;
    json_t *element;
    size_t i;
    int r = create_check_strings(value, path, err);

    (void)field;
    if (r < 0)
        return r;
    json_array_foreach(value, i, element) {
        const char *name = cap_bare_name(json_string_value(element));
        size_t k = 0, count = sizeof(given) / sizeof(given[0]);

        while (k < count && strcasecmp(name, given[k]) != 0)
            k++;
        if (strcasecmp(name, "NET_ADMIN") == 0)
            m->out->adds_net_admin = true;
        else if (strcasecmp(name, "SYS_ADMIN") == 0)
            m->out->adds_sys_admin = true;
        else if (strcasecmp(name, "SYS_PTRACE") == 0)
            m->out->wants_ptrace = "HostConfig.CapAdd: \"SYS_PTRACE\"";
        else if (strcasecmp(name, "ALL") == 0)
            return body_fail(err, -EPERM, path,
                             "\"ALL\": no policy has all capabilities; name those that it needs");
        else if (k == count)
            return body_fail(err, -EPERM, path,
                             "\"%.32s\": capabilities are a policy's, and none has this one", name);
    }
    return docker_put(m->out->kept, "capAdd", json_incref(value)) ? 0 : create_no_memory(err);
}

int t_cap_drop(json_t *value, const struct body_field *field, void *dst, const char *path,
               struct err *err)
{
    struct making *m = dst;
    json_t *element;
    size_t i;
    int r = create_check_strings(value, path, err);

    (void)field;
    if (r < 0)
        return r;
    json_array_foreach(value, i, element) {
        const char *name = cap_bare_name(json_string_value(element));
        const struct strtab *c = capability_names;

        while (c->name != NULL && strcasecmp(c->name + 4, name) != 0)
            c++;
        if (c->name == NULL && strcasecmp(name, "ALL") != 0)
            return body_fail(err, -EINVAL, path, "\"%.*s\" is not a capability", NAME_MAX_BYTES,
                             name);
    }
    return docker_put(m->out->kept, "capDrop", json_incref(value)) ? 0 : create_no_memory(err);
}

static bool caps_list_has(const json_t *list, const char *bare_name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcasecmp(cap_bare_name(json_string_value(json_array_get(list, i))), bare_name) == 0)
            return true;
    return false;
}

/* Like in Docker, a capability that is both added and dropped is kept. */
int create_finish_caps(struct making *m, struct err *err)
{
    const json_t *add = json_object_get(m->out->kept, "capAdd");
    const json_t *drop = json_object_get(m->out->kept, "capDrop");
    int r = 0;

    for (const struct strtab *c = capability_names; r == 0 && c->name != NULL; c++) {
        const char *name = c->name + 4;

        if ((caps_list_has(drop, "ALL") || caps_list_has(drop, name)) && !caps_list_has(add, name))
            r = create_push(m, "capDrop", json_string(c->name), err);
    }
    return r;
}

int create_check_caps(const struct create_body *b, const char *policy, uint64_t had,
                      struct err *err)
{
    const json_t *add = json_object_get(b->kept, "capAdd");

    for (const struct strtab *c = capability_names; c->name != NULL; c++) {
        const char *name = c->name + 4;

        if (caps_list_has(add, name) && (had & UINT64_C(1) << c->value) == 0 &&
            strcmp(name, "NET_ADMIN") != 0 && strcmp(name, "SYS_PTRACE") != 0)
            return err_set(err, -EPERM,
                           "HostConfig.CapAdd: \"%s\": the policy %.64s has not got it", name,
                           policy);
    }
    return 0;
}

/* ---- SecurityOpt ---- */

enum security_word {
    SECURITY_NOTHING, /* what every container has, or what no container has */
    SECURITY_NO_NEW_PRIVS,
    SECURITY_NO_SECCOMP,
    SECURITY_NEVER,
};

static const struct {
    const char *text;
    enum security_word word;
} security_words[] = {
    {"no-new-privileges", SECURITY_NO_NEW_PRIVS},
    {"no-new-privileges:true", SECURITY_NO_NEW_PRIVS},
    {"no-new-privileges=true", SECURITY_NO_NEW_PRIVS},
    {"no-new-privileges:false", SECURITY_NOTHING},
    {"no-new-privileges=false", SECURITY_NOTHING},
    {"seccomp=builtin", SECURITY_NOTHING},
    {"seccomp:builtin", SECURITY_NOTHING},
    {"seccomp=unconfined", SECURITY_NO_SECCOMP},
    {"seccomp:unconfined", SECURITY_NO_SECCOMP},
    /* No container has a profile of these, so none is taken away. */
    {"apparmor=unconfined", SECURITY_NOTHING},
    {"apparmor:unconfined", SECURITY_NOTHING},
    {"label=disable", SECURITY_NOTHING},
    {"label:disable", SECURITY_NOTHING},
    {"systempaths=unconfined", SECURITY_NEVER},
    {"systempaths:unconfined", SECURITY_NEVER},
};

static int security_take(struct create_body *out, const char *text, const char *path,
                         struct err *err)
{
    static const char policy[] = "rind-policy=";
    const size_t count = sizeof(security_words) / sizeof(security_words[0]);
    size_t i = 0;

    if (strncmp(text, policy, sizeof(policy) - 1) == 0) {
        out->policy = text + sizeof(policy) - 1;
        return 0;
    }
    while (i < count && strcmp(security_words[i].text, text) != 0)
        i++;
    if (i == count && strstr(text, "unconfined") == NULL)
        return body_fail(err, -EOPNOTSUPP, path,
                         "\"%.64s\": filters are a policy's (rind-policy=NAME)", text);
    if (i == count || security_words[i].word == SECURITY_NEVER)
        return body_fail(err, -EPERM, path, "\"%.64s\": the confinement is not taken away", text);
    if (security_words[i].word == SECURITY_NO_NEW_PRIVS)
        out->policy = "untrusted";
    if (security_words[i].word == SECURITY_NO_SECCOMP)
        out->wants_ptrace = "HostConfig.SecurityOpt: \"seccomp=unconfined\"";
    return 0;
}

int t_security(json_t *value, const struct body_field *field, void *dst, const char *path,
               struct err *err)
{
    struct create_body *out = ((struct making *)dst)->out;
    json_t *element;
    size_t i;
    int r = create_check_strings(value, path, err);

    (void)field;
    if (r < 0)
        return r;
    json_array_foreach(value, i, element) {
        r = security_take(out, json_string_value(element), path, err);
        if (r < 0)
            return r;
    }
    return docker_put(out->kept, "securityOpt", json_incref(value)) ? 0 : create_no_memory(err);
}

/* ---- Sysctls ---- */

/* The spec's parser judges them. */
int t_sysctls(json_t *value, const struct body_field *field, void *dst, const char *path,
              struct err *err)
{
    struct making *m = dst;
    const char *name;
    json_t *element;

    (void)field;
    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "must be an object of strings");
    json_object_foreach(value, name, element) {
        int r;

        if (!json_is_string(element))
            return body_fail(err, -EINVAL, path, "must be an object of strings");
        r = create_push(m, "sysctls", json_sprintf("%s=%s", name, json_string_value(element)), err);
        if (r < 0)
            return r;
    }
    return docker_put(m->out->kept, "sysctls", json_incref(value)) ? 0 : create_no_memory(err);
}

/* ---- Devices ---- */

struct device_body {
    const char *host, *inside, *permissions;
};

static const struct body_field device_fields[] = {
    {.name = "PathOnHost", .take = b_string, .off = offsetof(struct device_body, host)},
    {.name = "PathInContainer", .take = b_string, .off = offsetof(struct device_body, inside)},
    {.name = "CgroupPermissions",
     .take = b_string,
     .off = offsetof(struct device_body, permissions)},
    {0},
};

/* /dev/fuse is no device of the host's: it leads to nothing but the container's own mounts. */
int t_devices(json_t *value, const struct body_field *field, void *dst, const char *path,
              struct err *err)
{
    static const char fuse[] = "/dev/fuse";
    struct create_body *out = ((struct making *)dst)->out;
    json_t *element;
    size_t i;

    (void)field;
    if (!json_is_array(value))
        return body_fail(err, -EINVAL, path, "must be an array");
    json_array_foreach(value, i, element) {
        struct device_body b = {.host = NULL};
        int r = body_decode(element, device_fields, &b, path, err);

        if (r < 0)
            return r;
        if (b.host == NULL || strcmp(b.host, fuse) != 0 ||
            (b.inside != NULL && strcmp(b.inside, fuse) != 0))
            return body_fail(err, -EPERM, path,
                             "no devices of the host are given to containers, but /dev/fuse as "
                             "/dev/fuse together with CapAdd SYS_ADMIN");
        out->has_fuse = true;
    }
    return docker_put(out->kept, "devices", json_incref(value)) ? 0 : create_no_memory(err);
}
