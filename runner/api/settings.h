#pragma once

/*
 * The daemon's configuration file (docs/configuration.md): one JSON object, every key optional,
 * unknown ones refused. Read before the supervisor is confined.
 */

#include "api/http.h"
#include "core/supervisor.h"
#include "gateway/proxy.h"
#include "policy/net-rule.h"
#include "policy/publish.h"

struct err;

struct settings {
    char *policies_dir;   /* owned; default /etc/rind/policies */
    char *client_policy;  /* owned; default /etc/rind/client.json, and the shipped one when there is
                             none */
    char *host_rootfs;    /* owned; default /etc/rind/host-rootfs.json, the same */
    char **bind_prefixes; /* owned, NULL-terminated; below what host directories may be mounted, by
                             anybody; default "/" */
    char **pools4, **pools6; /* owned, NULL-terminated CIDRs; NULL: net/pool.h's */
    struct net_addr dns[NET_DNS_MAX];
    size_t dns_count;
    uint32_t flows, flows_per_second;         /* of one sandbox; 0: net/net.h's */
    uint32_t all_flows, all_flows_per_second; /* of all of them; the same */
    struct supervisor_limits limits;
    struct http_config http;
    char *gateway;           /* owned; "127.0.0.1:8080"; NULL = no gateway */
    char *certificate, *key; /* owned; absolute paths; both or none */
    struct proxy_config proxy;
    char *sidecar_image; /* owned; a whole name without a tag (image/reference.h); NULL: the one
                            that workerd names (api/docker/sidecar.h) */
    struct publish_rules publish; /* owned; of the host's ports, whoever asks; default any */
};

enum { SETTINGS_TEXT_MAX = 256 << 10 };

/* The defaults. -ENOMEM. */
int settings_init(struct settings *s);
/* Puts what text says over them; `where` names the file in messages. */
int settings_parse(struct settings *s, const char *text, size_t len, const char *where,
                   struct err *err);
/* As settings_parse, from a file. */
int settings_load(struct settings *s, const char *path, struct err *err);
void settings_done(struct settings *s);
