/* Encodes a spec as JSON, the reverse of json.c. Pure. */

#include <errno.h>
#include <stdio.h>
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
#include "spec/tmpfs.h"

/* Output object. Callers put all members, and check `failed` once. */
struct out {
    json_t *root;       /* borrowed */
    const char *failed; /* key of the first value that could not be encoded */
};

/* Takes the value; NULL counts as a failure. */
static void put_value(struct out *o, const char *key, json_t *value)
{
    if (json_object_set_new(o->root, key, value) < 0 && o->failed == NULL)
        o->failed = key;
}

static void put_string(struct out *o, const char *key, const char *text)
{
    if (text != NULL)
        put_value(o, key, json_string(text));
}

static void put_number(struct out *o, const char *key, int64_t n)
{
    if (n != LIMIT_UNSET)
        put_value(o, key, json_integer(n));
}

/* NULL if a string is not UTF-8, or out of memory. */
static json_t *encode_strings(char *const *list)
{
    json_t *array = json_array();

    for (; array != NULL && *list != NULL; list++)
        if (json_array_append_new(array, json_string(*list)) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

/* Converts "K=V" strings to an object. */
static json_t *encode_pairs(char *const *list)
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

/* Takes the element. If it is NULL, the array is freed and set to NULL. */
static void append_element(json_t **array, json_t *element)
{
    if (*array == NULL || json_array_append_new(*array, element) < 0) {
        if (*array == NULL)
            json_decref(element);
        json_decref(*array);
        *array = NULL;
    }
}

static json_t *encode_io_devices(const struct resources *r)
{
    json_t *array = json_array();

    for (size_t i = 0; i < r->io_device_count; i++)
        for (size_t k = 0; k < IO_KIND_MAX; k++)
            if (r->io_devices[i].rates[k] != LIMIT_UNSET)
                append_element(&array,
                               json_sprintf("%s:%s=%" JSON_INTEGER_FORMAT, r->io_devices[i].path,
                                            spec_io_kind_name((enum io_kind)k),
                                            (json_int_t)r->io_devices[i].rates[k]));
    return array;
}

static void put_io(struct out *o, const struct resources *r)
{
    static const char *const keys[IO_KIND_MAX] = {[IO_READ_BPS] = "ioReadBps",
                                                  [IO_WRITE_BPS] = "ioWriteBps",
                                                  [IO_READ_IOPS] = "ioReadIops",
                                                  [IO_WRITE_IOPS] = "ioWriteIops"};

    put_number(o, "ioWeight", r->io_weight);
    for (size_t i = 0; i < IO_KIND_MAX; i++)
        put_number(o, keys[i], r->io_rates[i]);
    if (r->io_device_count > 0)
        put_value(o, "ioDevices", encode_io_devices(r));
    put_number(o, "networkRate", r->net_rate);
}

static json_t *encode_limits(const struct limits *l, const struct resources *r)
{
    json_t *object = json_object();
    struct out o = {.root = object};

    put_number(&o, "memory", l->memory_bytes);
    put_number(&o, "pids", l->pids);
    put_number(&o, "shmSize", l->shm_bytes);
    put_number(&o, "disk", l->disk_bytes);
    put_number(&o, "memorySwap",
               r->swap_bytes == SPEC_SWAP_UNLIMITED ? LIMIT_UNSET : r->swap_bytes);
    if (r->swap_bytes == SPEC_SWAP_UNLIMITED)
        put_value(&o, "memorySwap", json_integer(-1));
    put_number(&o, "memoryReservation", r->reservation_bytes);
    put_number(&o, "cpuShares", r->cpu_shares);
    put_string(&o, "cpusetCpus", r->cpus);
    put_string(&o, "cpusetMems", r->mems);
    put_number(&o, "oomScoreAdj", r->oom_score);
    put_io(&o, r);
    if (l->cpu_millis != LIMIT_UNSET && l->cpu_millis % 1000 == 0)
        put_value(&o, "cpus", json_integer(l->cpu_millis / 1000));
    else if (l->cpu_millis != LIMIT_UNSET)
        put_value(&o, "cpus", json_real((double)l->cpu_millis / 1000));
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

static json_t *encode_ulimit(const struct rlimit_value *v)
{
    const char *name = strtab_name(rlimit_names, v->resource);
    char text[16] = "";

    name += strlen("RLIMIT_");
    for (size_t i = 0; name[i] != '\0' && i + 1 < sizeof(text); i++)
        text[i] = (char)(name[i] | 0x20);
    return json_pack("{s:s, s:I, s:I}", "name", text, "soft", rlimit_number(v->soft), "hard",
                     rlimit_number(v->hard));
}

static json_t *encode_volume(const struct volume *v)
{
    if (!v->named)
        return json_pack("{s:s, s:s, s:b, s:o*}", "source", v->source, "target", v->target,
                         "readOnly", v->read_only, "makeSource", v->make ? json_true() : NULL);
    return json_pack("{s:s?, s:s, s:b, s:b, s:s*}", "source", v->source, "target", v->target,
                     "readOnly", v->read_only, "noCopy", v->no_copy, "from", v->from);
}

static json_t *encode_tmpfs(const struct tmpfs *t)
{
    json_t *object = json_pack("{s:s, s:I}", "target", t->target, "size", (json_int_t)t->bytes);
    struct out o = {.root = object};
    char mode[8];

    (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)t->mode & TMPFS_MODE_MAX);
    if (t->read_only)
        put_value(&o, "readOnly", json_true());
    if (t->no_exec)
        put_value(&o, "noExec", json_true());
    if (t->mode != TMPFS_MODE_DEFAULT)
        put_string(&o, "mode", mode);
    if (t->uid != 0)
        put_number(&o, "uid", t->uid);
    if (t->gid != 0)
        put_number(&o, "gid", t->gid);
    if (o.failed != NULL) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *encode_port(const struct publish *p)
{
    char host[ADDRESS_TEXT_MAX];
    json_t *root;

    address_format_host(&p->host, host);
    root = json_pack("{s:s, s:i, s:i, s:s}", "hostAddress", host, "hostPort", (int)p->host.port,
                     "port", (int)p->port, "protocol", p->udp ? "udp" : "tcp");
    if (p->host_last != 0 &&
        json_object_set_new(root, "hostPortLast", json_integer(p->host_last)) < 0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static void put_arrays(struct out *o, const struct spec *s)
{
    json_t *ulimits = json_array(), *volumes = json_array(), *mounts = json_array(),
           *ports = json_array();

    for (size_t i = 0; i < s->rlimit_count; i++)
        append_element(&ulimits, encode_ulimit(&s->rlimits[i]));
    for (size_t i = 0; i < s->volume_count; i++)
        append_element(&volumes, encode_volume(&s->volumes[i]));
    for (size_t i = 0; i < s->tmpfs_count; i++)
        append_element(&mounts, encode_tmpfs(&s->tmpfs[i]));
    put_value(o, "ulimits", ulimits);
    put_value(o, "volumes", volumes);
    put_value(o, "tmpfs", mounts);
    for (size_t i = 0; i < s->port_count; i++)
        append_element(&ports, encode_port(&s->ports[i]));
    put_value(o, "ports", ports);
}

static json_t *encode_restart(const struct spec *s)
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

static json_t *encode_rules(const struct net_access *a, uint8_t deny)
{
    json_t *array = json_array();

    for (size_t i = 0; i < a->rule_count; i++) {
        char text[NET_RULE_TEXT_MAX];

        if (a->rules[i].deny != deny)
            continue;
        net_rule_format(&a->rules[i], text);
        append_element(&array, json_string(text));
    }
    return array;
}

static json_t *encode_host_ports(const struct net_access *a)
{
    json_t *array = json_array();

    for (size_t i = 0; i < a->port_count; i++) {
        char text[NET_PORT_TEXT_MAX];

        net_port_format(&a->ports[i], text);
        append_element(&array, json_string(text));
    }
    return array;
}

static json_t *encode_name_servers(const struct spec *s)
{
    json_t *array = json_array();

    for (size_t i = 0; i < s->dns_count; i++) {
        char text[NET_ADDR_TEXT_MAX];

        net_addr_format(&s->dns[i], text);
        append_element(&array, json_string(text));
    }
    return array;
}

static json_t *encode_extra_hosts(const struct spec *s)
{
    json_t *array = json_array();

    for (size_t i = 0; i < s->host_count; i++) {
        char text[SPEC_HOST_TEXT_MAX];

        spec_format_host(&s->hosts[i], text);
        append_element(&array, json_string(text));
    }
    return array;
}

static json_t *encode_cap_drop(const struct spec *s)
{
    json_t *array = json_array();

    for (const struct strtab *c = capability_names; c->name != NULL; c++)
        if ((s->cap_drop & UINT64_C(1) << c->value) != 0)
            append_element(&array, json_string(c->name));
    return array;
}

/* Splits a text at spaces. */
static json_t *encode_words(const char *text)
{
    json_t *array = json_array();

    for (size_t n; *text != '\0'; text += n + (text[n] == ' ')) {
        n = strcspn(text, " ");
        append_element(&array, json_stringn(text, n));
    }
    return array;
}

static json_t *encode_net_address(const struct net_addr *a)
{
    char text[NET_ADDR_TEXT_MAX];

    net_addr_format(a, text);
    return json_string(text);
}

static json_t *encode_more_nets(const struct spec *s)
{
    json_t *array = json_array(), *net;

    for (size_t i = 0; i < s->more_net_count; i++) {
        const struct spec_net *n = &s->more_nets[i];

        net = json_pack("{s:s}", "name", n->name);
        if (net != NULL && n->aliases != NULL)
            (void)json_object_set_new(net, "aliases", encode_words(n->aliases));
        if (net != NULL && n->lan.address.family != 0)
            (void)json_object_set_new(net, "address", encode_net_address(&n->lan.address));
        append_element(&array, net);
    }
    return array;
}

/* Encodes the network as one word if that is sufficient, else as an object. */
static void put_network(struct out *o, const struct spec *s)
{
    json_t *object;
    struct out n;

    if (s->net_container == NULL && s->net_name == NULL && s->access.rule_count == 0 &&
        s->access.port_count == 0 && s->dns_count == 0 && s->dns_search == NULL &&
        s->dns_options == NULL) {
        put_string(o, "network", strtab_name(net_mode_names, (int)s->network));
        return;
    }
    object = json_object();
    n = (struct out){.root = object};
    put_string(&n, "mode", strtab_name(net_mode_names, (int)s->network));
    put_string(&n, "container", s->net_container);
    put_string(&n, "name", s->net_name);
    if (s->net_aliases != NULL)
        put_value(&n, "aliases", encode_words(s->net_aliases));
    if (s->net_lan.address.family != 0)
        put_value(&n, "address", encode_net_address(&s->net_lan.address));
    if (s->more_net_count > 0)
        put_value(&n, "more", encode_more_nets(s));
    if (s->net_links != NULL)
        put_value(&n, "links", encode_words(s->net_links));
    put_value(&n, "allow", encode_rules(&s->access, 0));
    put_value(&n, "deny", encode_rules(&s->access, 1));
    put_value(&n, "hostPorts", encode_host_ports(&s->access));
    put_value(&n, "dns", encode_name_servers(s));
    if (s->dns_search != NULL)
        put_value(&n, "dnsSearch", encode_words(s->dns_search));
    if (s->dns_options != NULL)
        put_value(&n, "dnsOptions", encode_words(s->dns_options));
    if (n.failed != NULL) {
        json_decref(object);
        object = NULL;
    }
    put_value(o, "network", object);
}

static json_t *encode_shares(const struct share_list *l)
{
    json_t *array = json_array();

    for (size_t i = 0; i < l->count; i++) {
        char text[SHARE_TEXT_MAX];

        share_format(&l->list[i], text);
        append_element(&array, json_string(text));
    }
    return array;
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
        put_value(&o, "imageLayers", encode_strings(s->image_layers));
    if (s->entrypoint != NULL)
        put_value(&o, "entrypoint", encode_strings(s->entrypoint));
    put_string(&o, "policy", s->policy);
    put_value(&o, "command", encode_strings(s->argv));
    put_value(&o, "env", encode_pairs(s->env));
    put_string(&o, "cwd", s->cwd);
    put_string(&o, "user", s->user);
    if (s->sysctls != NULL)
        put_value(&o, "sysctls", encode_strings(s->sysctls));
    if (s->groups != NULL)
        put_value(&o, "groups", encode_strings(s->groups));
    put_string(&o, "hostname", s->hostname);
    put_string(&o, "domainname", s->domainname);
    put_value(&o, "labels", encode_pairs(s->labels));
    if (s->shares.count > 0)
        put_value(&o, "share", encode_shares(&s->shares));
    put_value(&o, "limits", encode_limits(&s->limits, &s->resources));
    put_arrays(&o, s);
    put_network(&o, s);
    if (s->egress != NULL)
        put_value(&o, "egress", egress_to_json(s->egress));
    if (s->host_count > 0)
        put_value(&o, "extraHosts", encode_extra_hosts(s));
    if (s->cap_drop != 0)
        put_value(&o, "capDrop", encode_cap_drop(s));
    put_value(&o, "readOnly", json_boolean(s->read_only));
    put_value(&o, "init", json_boolean(s->init));
    put_value(&o, "noExec", json_boolean(s->no_exec));
    put_value(&o, "tty", json_boolean(s->tty));
    put_value(&o, "stdin", json_boolean(s->interactive));
    put_value(&o, "attach", json_boolean(s->attach));
    put_value(&o, "console", json_boolean(s->console));
    if (s->discard)
        put_value(&o, "discardOutput", json_true());
    put_value(&o, "restart", encode_restart(s));
    put_string(&o, "stopSignal", signal);
    put_number(&o, "stopTimeoutMs", s->stop_timeout_ms);
    put_number(&o, "inactivityTimeoutMs", s->inactivity_ms);
    put_number(&o, "hardTimeoutMs", s->timeout_ms);
    put_value(&o, "autoRemove", json_boolean(s->auto_remove));
    if (s->health.none || s->health.test != NULL)
        put_value(&o, "healthcheck", spec_health_to_json(&s->health));
    if (o.failed != NULL)
        return err_set(err, -EILSEQ, "%s: is not UTF-8, which JSON must be (or out of memory)",
                       o.failed);
    *ret = take(root);
    return 0;
}
