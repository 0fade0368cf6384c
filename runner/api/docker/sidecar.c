#include "api/docker/sidecar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/create-body.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "image/reference.h"
#include "policy/egress-net.h"
#include "spec/json.h"
#include "spec/spec.h"
#include "workerd/loopback-forward.h"
#include "workerd/sidecar.h"

#define SIDECAR_NAME "docker.io/cloudflare/proxy-everything"

bool docker_sidecar_image(const char *configured, const char *image)
{
    struct reference r;

    return image != NULL && reference_parse(image, &r, NULL) == 0 &&
           strcmp(r.name, configured != NULL ? configured : SIDECAR_NAME) == 0;
}

/* ---- command line ---- */

enum flag_kind { FLAG_IGNORED = 0, FLAG_PORT, FLAG_BOOL };

/* Flags of the original. Its addresses have no meaning here: nothing listens inside. */
static const struct flag {
    const char *name, *key;
    enum flag_kind kind;
    bool value;
} flags[] = {
    {"--http-egress-port", "egressPort", FLAG_PORT, true},
    {"--http-ingress-address", NULL, FLAG_IGNORED, true},
    {"--docker-gateway-cidr", NULL, FLAG_IGNORED, true},
    {"--gateway-ip", NULL, FLAG_IGNORED, true},
    {"--address", NULL, FLAG_IGNORED, true},
    {"--address-v6", NULL, FLAG_IGNORED, true},
    {"--dns-address", NULL, FLAG_IGNORED, true},
    {"--dns-address-v6", NULL, FLAG_IGNORED, true},
    {"--disable-ipv6", NULL, FLAG_IGNORED, false},
    {"--dns-enabled", "dns", FLAG_BOOL, false},
    {"--tls-intercept", "tls", FLAG_BOOL, false},
};

static const struct flag *flag_find(const char *text)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (strcmp(flags[i].name, text) == 0)
            return &flags[i];
    return NULL;
}

static int flag_take_value(json_t *kept, const struct flag *f, const char *value, struct err *err)
{
    char *end = NULL;
    long port;

    if (value == NULL)
        return err_set(err, -EINVAL, "Cmd: %s needs a value", f->name);
    if (f->kind != FLAG_PORT)
        return 0;
    port = strtol(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || port < 1 || port > 65535)
        return err_set(err, -EINVAL, "Cmd: %s \"%.16s\": must be a port", f->name, value);
    return docker_put(kept, f->key, json_integer(port)) ? 0 : err_errno(err, -ENOMEM, "sidecar");
}

static int flags_take(json_t *cmd, json_t *kept, struct err *err)
{
    size_t count = json_array_size(cmd);

    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(cmd, i));
        const struct flag *f = flag_find(text);
        int r = 0;

        if (f == NULL)
            return err_set(err, -EINVAL, "Cmd: the built-in sidecar has no \"%.64s\"", text);
        if (f->value)
            r = flag_take_value(kept, f, json_string_value(json_array_get(cmd, ++i)), err);
        else if (f->kind == FLAG_BOOL && !docker_put(kept, f->key, json_true()))
            r = err_errno(err, -ENOMEM, "sidecar");
        if (r < 0)
            return r;
    }
    return 0;
}

int docker_sidecar_take(struct create_body *b, struct err *err)
{
    json_t *kept;
    int r;

    if (json_array_size(b->entrypoint) > 0 || json_array_size(b->cmd) == 0)
        return 0;
    kept = json_object();
    if (kept == NULL || !docker_put(b->kept, "sidecar", kept))
        return err_errno(err, -ENOMEM, "sidecar");
    r = flags_take(b->cmd, kept, err);
    if (r == 0 && json_object_get(kept, "egressPort") == NULL)
        r = err_set(err, -EINVAL, "Cmd: --http-egress-port is missing");
    return r < 0 ? r : 1;
}

static bool sandbox_keeps(const struct sandbox *s, const char *key)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(sandbox_spec(s));

    return json_object_get(kept, key) != NULL;
}

bool docker_is_sidecar(const struct sandbox *s)
{
    return sandbox_keeps(s, "sidecar");
}

/* ---- a sidecar of another image ---- */

#define OWN "ownSidecar"

bool docker_is_own_sidecar(const struct sandbox *s)
{
    return sandbox_keeps(s, OWN);
}

/* The sidecar's bridge handles only IPv4, so IPv6 is denied: traffic that it does not inspect
 * must not leave. */
static bool spec_deny_ipv6(json_t *spec)
{
    json_t *network = json_object_get(spec, "network");

    return network != NULL && docker_put(network, "deny", json_pack("[s]", "[::]/0"));
}

/* Maps host-gateway to the host loopback forward. */
static bool spec_map_host_gateway(json_t *spec)
{
    static const char host[] = ":host-gateway";
    json_t *list = json_object_get(spec, "extraHosts"), *own = json_array(), *element;
    size_t i;

    json_array_foreach(list, i, element) {
        const char *text = json_string_value(element);
        size_t len = strlen(text), at = len - (sizeof(host) - 1);

        if (len > sizeof(host) - 1 && strcmp(text + at, host) == 0)
            element = json_sprintf("%.*s:" LOOPBACK_FORWARD_ADDRESS, (int)at, text);
        else
            element = json_incref(element);
        if (json_array_append_new(own, element) < 0) {
            json_decref(own);
            return false;
        }
    }
    return docker_put(spec, "extraHosts", own);
}

int docker_own_sidecar_take(struct create_body *b, struct err *err)
{
    json_t *kept;
    bool v4 = false;
    int r = 0;

    if (json_array_size(b->entrypoint) > 0)
        return 0;
    kept = json_object();
    /* All flags are passed to the process; rind uses these two as well. */
    for (size_t i = 0; kept != NULL && r == 0 && i < json_array_size(b->cmd); i++) {
        const struct flag *f = flag_find(json_string_value(json_array_get(b->cmd, i)));

        if (f != NULL && f->kind == FLAG_PORT)
            r = flag_take_value(kept, f, json_string_value(json_array_get(b->cmd, i + 1)), err);
        v4 |= f != NULL && strcmp(f->name, "--disable-ipv6") == 0;
    }
    if (r == 0 && kept != NULL && json_object_size(kept) == 0) {
        json_decref(kept);
        return 0;
    }
    if (r < 0) {
        json_decref(kept);
        return r;
    }
    if (kept == NULL || !docker_put(b->kept, OWN, kept) || !spec_map_host_gateway(b->spec) ||
        (v4 && !spec_deny_ipv6(b->spec)))
        return err_errno(err, -ENOMEM, "sidecar");
    return 1;
}

/* ---- starting ---- */

struct sidecar_starting {
    struct sandbox *s; /* a reference */
    sandbox_cb cb;
    void *data;
};

static void starting_done(struct sidecar_starting *st, int r, const struct err *err)
{
    if (st->cb != NULL)
        st->cb(st->data, r, err);
    sandbox_unref(st->s);
    free(st);
}

/* Stores a port in the label, where a later supervisor finds it. */
static int sidecar_keep_port(struct sandbox *s, const char *part, const char *key, uint16_t port,
                             struct err *err)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(sandbox_spec(s));
    auto_ptr(json_decref) json_t *patch = NULL;
    auto_ptr(spec_free) struct spec *changed = NULL;
    auto_free char *text = NULL;
    json_t *sidecar = json_object_get(kept, part);
    int r;

    if (json_integer_value(json_object_get(sidecar, key)) == port)
        return 0;
    if (docker_put(sidecar, key, json_integer(port)))
        text = json_dumps(kept, JSON_COMPACT);
    patch = text != NULL ? json_pack("{s:{s:s}}", "labels", DOCKER_LABEL, text) : NULL;
    if (patch == NULL)
        return err_errno(err, -ENOMEM, "sidecar");
    r = spec_patch(sandbox_spec(s), patch, &changed, err);
    return r < 0 ? r : sandbox_update(s, changed, err);
}

static void on_sidecar_listening(void *data, int r, uint16_t port, const struct err *err)
{
    struct sidecar_starting *st = data;
    struct err own = ERR_NONE;

    if (r == 0) {
        r = sidecar_keep_port(st->s, "sidecar", "port", port, &own);
        err = &own;
        if (r < 0)
            sidecar_stop(st->s);
    }
    starting_done(st, r, err);
}

static void on_sidecar_init(void *data, int r, const struct err *err)
{
    struct sidecar_starting *st = data;
    auto_ptr(json_decref) json_t *kept = docker_kept(sandbox_spec(st->s));
    const json_t *sidecar = json_object_get(kept, "sidecar");
    struct err own = ERR_NONE;

    if (r == 0) {
        const struct sidecar_config config = {
            .egress_port = (uint16_t)json_integer_value(json_object_get(sidecar, "egressPort")),
            .port = (uint16_t)json_integer_value(json_object_get(sidecar, "port")),
            .tls = json_is_true(json_object_get(sidecar, "tls")),
            .dns = json_is_true(json_object_get(sidecar, "dns")),
        };

        r = sidecar_start(st->s, &config, on_sidecar_listening, st, &own);
        if (r == 0)
            return;
        err = &own;
    }
    starting_done(st, r, err);
}

static int sidecar_start_with(struct sandbox *s, sandbox_cb on, sandbox_cb cb, void *data,
                              struct err *err)
{
    struct sidecar_starting *st = calloc(1, sizeof(*st));
    int r;

    if (st == NULL)
        return err_errno(err, -ENOMEM, "sidecar");
    *st = (struct sidecar_starting){.s = s, .cb = cb, .data = data};
    sandbox_ref(s);
    r = sandbox_with_init(s, on, st, err);
    if (r < 0) {
        sandbox_unref(s);
        free(st);
    }
    return r;
}

int docker_sidecar_start(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    return sidecar_start_with(s, on_sidecar_init, cb, data, err);
}

static void on_forward_open(void *data, int r, const struct err *err)
{
    struct sidecar_starting *st = data;
    struct err own = ERR_NONE;

    if (r == 0) {
        r = sandbox_start(st->s, st->cb, st->data, &own);
        err = &own;
        if (r == 0)
            st->cb = NULL; /* sandbox_start calls it */
    }
    starting_done(st, r, err);
}

static void on_loopback_forward_moved(struct sandbox *s, uint16_t port)
{
    struct err err = ERR_NONE;

    if (sidecar_keep_port(s, OWN, "egressPort", port, &err) < 0)
        log_warn("docker", "sidecar %s: port %u is not written down: %s", sandbox_name(s), port,
                 err.msg);
}

static int sidecar_open_forward(struct sandbox *s, loopback_forward_cb *cb, void *data,
                                struct err *err)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(sandbox_spec(s));
    const json_t *port = json_object_get(json_object_get(kept, OWN), "egressPort");
    const struct loopback_forward_config config = {.port = (uint16_t)json_integer_value(port),
                                                   .ingress = SIDECAR_INGRESS_PORT,
                                                   .moved = on_loopback_forward_moved};

    return loopback_forward_open(s, &config, cb, data, err);
}

static void on_own_sidecar_init(void *data, int r, const struct err *err)
{
    struct sidecar_starting *st = data;
    struct err own = ERR_NONE;

    if (r == 0) {
        r = sidecar_open_forward(st->s, on_forward_open, st, &own);
        if (r == 0)
            return;
        err = &own;
    }
    starting_done(st, r, err);
}

int docker_own_sidecar_start(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    return sidecar_start_with(s, on_own_sidecar_init, cb, data, err);
}

static void on_sidecar_resumed(void *data, int r, const struct err *err)
{
    struct sandbox *s = data;

    if (r < 0)
        log_warn("docker", "sidecar %s is not taken up: %s", sandbox_name(s),
                 err != NULL ? err->msg : strerror(-r));
    sandbox_unref(s);
}

static bool sidecar_was_started(const struct sandbox *s)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(sandbox_spec(s));

    return json_object_get(json_object_get(kept, "sidecar"), "port") != NULL &&
           sandbox_get_state(s) == SANDBOX_CREATED;
}

/* A running sidecar continues; its host loopback forward is opened again. */
static void on_sidecar_resume(void *data, int r, const struct err *err)
{
    struct sandbox *s = data;
    struct err own = ERR_NONE;

    if (r == 0) {
        r = sidecar_open_forward(s, on_sidecar_resumed, s, &own);
        if (r == 0)
            return;
        err = &own;
    }
    on_sidecar_resumed(s, r, err);
}

void docker_sidecar_resume(struct native *n)
{
    struct err err = ERR_NONE;

    for (struct sandbox *s = sandbox_first(n->config.supervisor); s != NULL; s = sandbox_next(s)) {
        const bool own = docker_is_own_sidecar(s) && docker_is_running(s);
        int r;

        if (!own && !sidecar_was_started(s))
            continue;
        sandbox_ref(s);
        r = own ? sandbox_with_init(s, on_sidecar_resume, s, &err)
                : docker_sidecar_start(s, on_sidecar_resumed, s, &err);
        if (r < 0)
            on_sidecar_resumed(s, err.code, &err);
    }
}
