#include "api/native/sandbox-json.h"

#include <stdio.h>
#include <string.h>

#include "api/common.h"
#include "exec/health.h"
#include "policy/net-setup.h"
#include "ports/networks.h"
#include "ports/publish.h"
#include "sandbox/sandbox.h"
#include "spec/json.h"
#include "spec/spec.h"

enum { COMMAND_TEXT_MAX = 512 /* bytes, NUL included */ };

static json_t *encode_labels(const struct spec *spec)
{
    json_t *object = json_object();

    for (char **l = spec != NULL ? spec->labels : NULL; object != NULL && l != NULL && *l != NULL;
         l++) {
        const char *equals = strchr(*l, '=');

        if (json_object_setn_new(object, *l, (size_t)(equals - *l), json_string(equals + 1)) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *number_or_null(int64_t n, bool is)
{
    return is ? json_integer(n) : json_null();
}

static void json_put_address(json_t *object, const char *key, const struct net_addr *a)
{
    char text[NET_ADDR_TEXT_MAX];

    if (a->family == 0)
        return;
    net_addr_format(a, text);
    (void)json_object_set_new(object, key, json_string(text));
}

/* Adds its addresses in networks with a subnet: {"lan": "172.28.0.10/16"}. */
static void put_network_addresses(json_t *object, const struct sandbox *s)
{
    json_t *networks = json_object();
    const char *name;

    for (size_t i = 0;
         sandbox_spec(s) != NULL && (name = spec_net(sandbox_spec(s), i, NULL)) != NULL; i++) {
        const struct net_lan *lan = networks_lan(s, name);
        char text[NET_RULE_TEXT_MAX];

        if (lan == NULL)
            continue;
        net_lan_format(lan->address, lan->prefix, text);
        (void)json_object_set_new(networks, name, json_string(text));
    }
    if (json_object_size(networks) > 0)
        (void)json_object_set(object, "networks", networks);
    json_decref(networks);
}

static json_t *encode_addresses(const struct sandbox *s, const struct net_place *p)
{
    json_t *object = p != NULL ? json_object() : json_null();

    if (p == NULL || object == NULL)
        return object;
    json_put_address(object, "ipv4", &p->sandbox4);
    json_put_address(object, "ipv4Gateway", &p->gateway4);
    json_put_address(object, "ipv6", &p->sandbox6);
    json_put_address(object, "ipv6Gateway", &p->gateway6);
    put_network_addresses(object, s);
    return object;
}

/* Encodes where its ports are reachable; the host's port is null while it is not open. */
static json_t *encode_ports(const struct sandbox *s, const struct spec *spec)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && spec != NULL && i < spec->port_count; i++) {
        const struct publish *p = &spec->ports[i];
        char host[ADDRESS_TEXT_MAX];
        struct address at;
        bool open = publish_where(s, i, &at);

        address_format_host(&p->host, host);
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o, s:i, s:s}", "hostAddress", host, "hostPort",
                            number_or_null(open ? at.port : 0, open), "port", (int)p->port,
                            "protocol", p->udp ? "udp" : "tcp"));
    }
    return list;
}

/*
 * The main process's command for people: its words joined by blanks, and cut. spec.command has it
 * whole.
 */
static json_t *encode_command(const struct spec *spec)
{
    char text[COMMAND_TEXT_MAX] = "";
    json_t *encoded;
    size_t len = 0;

    for (char **a = spec != NULL ? spec->argv : NULL; a != NULL && *a != NULL; a++) {
        int n = snprintf(text + len, sizeof(text) - len, "%s%s", a != spec->argv ? " " : "", *a);

        len += n > 0 ? (size_t)n : 0;
        if (len >= sizeof(text)) {
            len = sizeof(text) - 1;
            break;
        }
    }
    if (len == 0)
        return json_null();
    encoded = json_string(text);
    /* The cut may go through a character: at most three of its bytes are left. */
    for (int i = 0; encoded == NULL && i < 3 && len > 1; i++) {
        text[--len] = '\0';
        encoded = json_string(text);
    }
    return encoded != NULL ? encoded : json_null();
}

static json_t *encode_health(const struct health_info *f, bool whole)
{
    json_t *root, *log;

    if (f == NULL || f->status == HEALTH_NONE)
        return json_null();
    root = json_pack("{s:s, s:I}", "status", health_status_name(f->status), "failingStreak",
                     (json_int_t)f->failing_streak);
    if (root == NULL || !whole)
        return root;
    log = json_array();
    for (unsigned i = 0; i < f->count; i++) {
        const struct health_check_result *c = &f->log[i];
        /* JSON cannot hold bytes that are not UTF-8. */
        json_t *output = json_string(c->output != NULL ? c->output : "");

        (void)json_array_append_new(
            log, json_pack("{s:o, s:o, s:i, s:o}", "startedAt", api_time(c->started_ms), "endedAt",
                           api_time(c->ended_ms), "exitCode", c->exit_code, "output",
                           output != NULL ? output : json_null()));
    }
    (void)json_object_set_new(root, "log", log);
    return root;
}

/* The limits in force; the spec has what was asked. null: none. */
static json_t *encode_limits_in_force(const struct sandbox *s)
{
    const struct limits l = sandbox_limits(s);
    json_t *cpus =
        l.cpu_millis != LIMIT_UNSET ? json_real((double)l.cpu_millis / 1000.0) : json_null();

    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "memory",
                     number_or_null(l.memory_bytes, l.memory_bytes != LIMIT_UNSET), "pids",
                     number_or_null(l.pids, l.pids != LIMIT_UNSET), "cpus", cpus, "shmSize",
                     number_or_null(l.shm_bytes, l.shm_bytes != LIMIT_UNSET), "disk",
                     number_or_null(l.disk_bytes, l.disk_bytes != LIMIT_UNSET));
}

json_t *sandbox_encode(const struct sandbox *s, bool whole)
{
    const struct spec *spec = sandbox_spec(s);
    struct sandbox_info f;
    json_t *root, *about = NULL;

    sandbox_get_info(s, &f);
    root = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:I, s:o, s:o, s:o, s:o}", "id",
        sandbox_id(s), "name", sandbox_name(s), "state", sandbox_state_name(sandbox_get_state(s)),
        "createdAt", api_time(f.created_ms), "startedAt", api_time(f.started_ms), "finishedAt",
        api_time(f.finished_ms), "exitCode", number_or_null(f.exit_code, f.exit_code >= 0),
        "oomKilled", f.oom_killed, "pid", number_or_null(f.pid, f.pid > 0), "restarts",
        (json_int_t)f.restarts, "error", f.error[0] != '\0' ? json_string(f.error) : json_null(),
        "addresses", encode_addresses(s, f.net), "labels", encode_labels(spec), "ports",
        encode_ports(s, spec));
    if (root != NULL)
        (void)json_object_set_new(root, "image",
                                  spec != NULL && spec->image != NULL ? json_string(spec->image)
                                                                      : json_null());
    if (root != NULL)
        (void)json_object_set_new(root, "command", encode_command(spec));
    if (root != NULL)
        (void)json_object_set_new(root, "networkClosed",
                                  f.net_closed != NULL ? json_string(f.net_closed) : json_null());
    if (root != NULL)
        (void)json_object_set_new(root, "diskHeld", json_boolean(f.disk_held));
    if (root != NULL)
        (void)json_object_set_new(root, "health", encode_health(sandbox_health(s), whole));
    if (root != NULL)
        (void)json_object_set_new(root, "owner",
                                  number_or_null(sandbox_made_by(s), sandbox_made_by(s) >= 0));
    if (root == NULL || !whole || spec == NULL)
        return root;
    if (spec_to_json(spec, &about, NULL) < 0 || json_object_set_new(root, "spec", about) < 0 ||
        json_object_set_new(root, "limits", encode_limits_in_force(s)) < 0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

json_t *sandbox_encode_for(struct http_request *req, const struct sandbox *s, bool whole)
{
    /* Where secrets are: variables, credentials that egress rules add, what Docker's clients have
     * asked for. */
    static const char *const hidden[] = {"env", "egress"};
    const struct caller c = native_caller(req);
    json_t *root = sandbox_encode(s, whole);
    json_t *spec = json_object_get(root, "spec");

    if (sandbox_right(s, &c) >= RIGHT_USE)
        return root;
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        (void)json_object_del(spec, hidden[i]);
    (void)json_object_del(json_object_get(spec, "labels"), SPEC_LABEL_OWN);
    (void)json_object_del(json_object_get(root, "labels"), SPEC_LABEL_OWN);
    return root;
}
