/* A spec into JSON: the other direction of json.c's table. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/strtab.h"
#include "json/parse.h"
#include "policy/egress.h"
#include "policy/tables.h"
#include "spec/health.h"
#include "spec/json.h"
#include "spec/signals.h"
#include "spec/spec.h"

/* The first failure is kept: callers put everything, and look once. */
struct out {
    json_t *root;       /* borrowed */
    const char *failed; /* the key whose value could not be made */
};

/* Takes the value; NULL is a failure. */
static void put(struct out *o, const char *key, json_t *value)
{
    if (json_object_set_new(o->root, key, value) < 0 && o->failed == NULL)
        o->failed = key;
}

static void put_string(struct out *o, const char *key, const char *text)
{
    if (text != NULL)
        put(o, key, json_string(text));
}

static void put_number(struct out *o, const char *key, int64_t n)
{
    if (n != LIMIT_UNSET)
        put(o, key, json_integer(n));
}

/* NULL when one is no text. */
static json_t *strings(char *const *list)
{
    json_t *array = json_array();

    for (; array != NULL && *list != NULL; list++)
        if (json_array_append_new(array, json_string(*list)) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

/* "K=V" strings as an object. */
static json_t *pairs(char *const *list)
{
    json_t *object = json_object();

    for (; object != NULL && *list != NULL; list++) {
        const char *equals = strchr(*list, '=');

        if (json_object_setn_new(object, *list, (size_t)(equals - *list), json_string(equals + 1)) <
            0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *limits(const struct limits *l)
{
    json_t *object = json_object();
    struct out o = {.root = object};

    put_number(&o, "memory", l->memory_bytes);
    put_number(&o, "pids", l->pids);
    put_number(&o, "shmSize", l->shm_bytes);
    put_number(&o, "disk", l->disk_bytes);
    if (l->cpu_millis != LIMIT_UNSET && l->cpu_millis % 1000 == 0)
        put(&o, "cpus", json_integer(l->cpu_millis / 1000));
    else if (l->cpu_millis != LIMIT_UNSET)
        put(&o, "cpus", json_real((double)l->cpu_millis / 1000));
    if (o.failed != NULL) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_int_t rlimit_number(uint64_t n)
{
    return n == RLIM_INFINITY ? RLIMIT_UNLIMITED : (json_int_t)n;
}

static json_t *ulimit(const struct rlimit_value *v)
{
    const char *name = strtab_name(rlimit_names, v->resource);
    char text[16] = "";

    name += strlen("RLIMIT_");
    for (size_t i = 0; name[i] != '\0' && i + 1 < sizeof(text); i++)
        text[i] = (char)(name[i] | 0x20);
    return json_pack("{s:s, s:I, s:I}", "name", text, "soft", rlimit_number(v->soft), "hard",
                     rlimit_number(v->hard));
}

static json_t *volume(const struct volume *v)
{
    if (!v->named)
        return json_pack("{s:s, s:s, s:b}", "source", v->source, "target", v->target, "readOnly",
                         v->read_only);
    return json_pack("{s:s?, s:s, s:b, s:b, s:s*}", "source", v->source, "target", v->target,
                     "readOnly", v->read_only, "noCopy", v->no_copy, "from", v->from);
}

static json_t *tmpfs(const struct tmpfs *t)
{
    return json_pack("{s:s, s:I}", "target", t->target, "size", (json_int_t)t->bytes);
}

static json_t *port(const struct publish *p)
{
    char host[ADDRESS_TEXT_MAX];

    address_format_host(&p->host, host);
    return json_pack("{s:s, s:i, s:i, s:s}", "hostAddress", host, "hostPort", (int)p->host.port,
                     "port", (int)p->port, "protocol", p->udp ? "udp" : "tcp");
}

/* Takes the element; a missing one makes the array missing. */
static void append(json_t **array, json_t *element)
{
    if (*array == NULL || json_array_append_new(*array, element) < 0) {
        if (*array == NULL)
            json_decref(element);
        json_decref(*array);
        *array = NULL;
    }
}

static void put_arrays(struct out *o, const struct spec *s)
{
    json_t *ulimits = json_array(), *volumes = json_array(), *mounts = json_array(),
           *ports = json_array();

    for (size_t i = 0; i < s->rlimit_count; i++)
        append(&ulimits, ulimit(&s->rlimits[i]));
    for (size_t i = 0; i < s->volume_count; i++)
        append(&volumes, volume(&s->volumes[i]));
    for (size_t i = 0; i < s->tmpfs_count; i++)
        append(&mounts, tmpfs(&s->tmpfs[i]));
    put(o, "ulimits", ulimits);
    put(o, "volumes", volumes);
    put(o, "tmpfs", mounts);
    for (size_t i = 0; i < s->port_count; i++)
        append(&ports, port(&s->ports[i]));
    put(o, "ports", ports);
}

static json_t *restart(const struct spec *s)
{
    json_t *object = json_pack("{s:s}", "policy", spec_restart_name(s->restart));
    struct out o = {.root = object};

    put_number(&o, "maxRetries", s->restart_max);
    if (o.failed != NULL) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *rules(const struct net_access *a, uint8_t deny)
{
    json_t *array = json_array();

    for (size_t i = 0; i < a->rule_count; i++) {
        char text[NET_RULE_TEXT_MAX];

        if (a->rules[i].deny != deny)
            continue;
        net_rule_format(&a->rules[i], text);
        append(&array, json_string(text));
    }
    return array;
}

static json_t *host_ports(const struct net_access *a)
{
    json_t *array = json_array();

    for (size_t i = 0; i < a->port_count; i++) {
        char text[NET_PORT_TEXT_MAX];

        net_port_format(&a->ports[i], text);
        append(&array, json_string(text));
    }
    return array;
}

static json_t *name_servers(const struct spec *s)
{
    json_t *array = json_array();

    for (size_t i = 0; i < s->dns_count; i++) {
        char text[NET_ADDR_TEXT_MAX];

        net_addr_format(&s->dns[i], text);
        append(&array, json_string(text));
    }
    return array;
}

static json_t *extra_hosts(const struct spec *s)
{
    json_t *array = json_array();

    for (size_t i = 0; i < s->host_count; i++) {
        char text[SPEC_HOST_TEXT_MAX];

        spec_format_host(&s->hosts[i], text);
        append(&array, json_string(text));
    }
    return array;
}

static json_t *cap_drop(const struct spec *s)
{
    json_t *array = json_array();

    for (const struct strtab *c = capability_names; c->name != NULL; c++)
        if ((s->cap_drop & UINT64_C(1) << c->value) != 0)
            append(&array, json_string(c->name));
    return array;
}

/* What has a space between, one by one. */
static json_t *words(const char *text)
{
    json_t *array = json_array();

    for (size_t n; *text != '\0'; text += n + (text[n] == ' ')) {
        n = strcspn(text, " ");
        append(&array, json_stringn(text, n));
    }
    return array;
}

/* One word where that says all. */
static void put_network(struct out *o, const struct spec *s)
{
    json_t *object;
    struct out n;

    if (s->net_container == NULL && s->net_name == NULL && s->access.rule_count == 0 &&
        s->access.port_count == 0 && s->dns_count == 0) {
        put_string(o, "network", strtab_name(net_mode_names, (int)s->network));
        return;
    }
    object = json_object();
    n = (struct out){.root = object};
    put_string(&n, "mode", strtab_name(net_mode_names, (int)s->network));
    put_string(&n, "container", s->net_container);
    put_string(&n, "name", s->net_name);
    if (s->net_aliases != NULL)
        put(&n, "aliases", words(s->net_aliases));
    put(&n, "allow", rules(&s->access, 0));
    put(&n, "deny", rules(&s->access, 1));
    put(&n, "hostPorts", host_ports(&s->access));
    put(&n, "dns", name_servers(s));
    if (n.failed != NULL) {
        json_decref(object);
        object = NULL;
    }
    put(o, "network", object);
}

int spec_to_json(const struct spec *s, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = json_object();
    struct out o = {.root = root};
    char signal[SIGNAL_TEXT_MAX];

    if (root == NULL)
        return err_errno(err, -ENOMEM, "spec");
    signal_format(s->stop_signal, signal);
    put_string(&o, "name", s->name);
    put_string(&o, "rootfs", s->rootfs);
    put_string(&o, "image", s->image);
    put_string(&o, "imageId", s->image_id);
    if (s->image_layers != NULL)
        put(&o, "imageLayers", strings(s->image_layers));
    if (s->entrypoint != NULL)
        put(&o, "entrypoint", strings(s->entrypoint));
    put_string(&o, "policy", s->policy);
    put(&o, "command", strings(s->argv));
    put(&o, "env", pairs(s->env));
    put_string(&o, "cwd", s->cwd);
    put_string(&o, "user", s->user);
    if (s->groups != NULL)
        put(&o, "groups", strings(s->groups));
    put_string(&o, "hostname", s->hostname);
    put(&o, "labels", pairs(s->labels));
    put(&o, "limits", limits(&s->limits));
    put_arrays(&o, s);
    put_network(&o, s);
    if (s->egress != NULL)
        put(&o, "egress", egress_to_json(s->egress));
    if (s->host_count > 0)
        put(&o, "extraHosts", extra_hosts(s));
    if (s->cap_drop != 0)
        put(&o, "capDrop", cap_drop(s));
    put(&o, "readOnly", json_boolean(s->read_only));
    put(&o, "init", json_boolean(s->init));
    put(&o, "tty", json_boolean(s->tty));
    put(&o, "stdin", json_boolean(s->interactive));
    put(&o, "attach", json_boolean(s->attach));
    put(&o, "console", json_boolean(s->console));
    put(&o, "restart", restart(s));
    put_string(&o, "stopSignal", signal);
    put_number(&o, "stopTimeoutMs", s->stop_timeout_ms);
    put_number(&o, "inactivityTimeoutMs", s->inactivity_ms);
    put_number(&o, "hardTimeoutMs", s->timeout_ms);
    put(&o, "autoRemove", json_boolean(s->auto_remove));
    if (s->health.none || s->health.test != NULL)
        put(&o, "healthcheck", spec_health_to_json(&s->health));
    if (o.failed != NULL)
        return err_set(err, -EILSEQ, "%s: is not UTF-8, which JSON must be (or out of memory)",
                       o.failed);
    *ret = take(root);
    return 0;
}
