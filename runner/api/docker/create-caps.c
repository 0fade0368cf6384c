/* HostConfig.CapAdd and CapDrop: capabilities of the policy can be dropped. None can be added,
 * except NET_ADMIN, which selects another policy. */
#include <errno.h>
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
            strcmp(name, "NET_ADMIN") != 0)
            return err_set(err, -EPERM,
                           "HostConfig.CapAdd: \"%s\": the policy %.64s has not got it", name,
                           policy);
    }
    return 0;
}
