#pragma once

/* The daemon's configuration file (docs/configuration.md): one JSON object; all keys are
 * optional, unknown keys are refused. Read by serve.c before the supervisor is confined. */

#include "daemon/supervisor.h"
#include "gateway/proxy.h"
#include "http/server.h"
#include "policy/net-rule.h"
#include "policy/publish.h"

struct err;

struct settings {
    char *policies_dir;      /* owned; default /etc/rind/policies */
    char *client_policy;     /* owned; default /etc/rind/client.json, or the built-in one */
    char *host_rootfs;       /* owned; default /etc/rind/host-rootfs.json, or the built-in one */
    char **bind_prefixes;    /* owned, NULL-terminated; parents of mountable host directories, for
                              * all users; default "/" */
    char **pools4, **pools6; /* owned, NULL-terminated CIDRs; NULL: defaults of net/pool.h */
    struct net_addr dns[NET_DNS_MAX];
    size_t dns_count;
    uint32_t flows, flows_per_second;         /* per sandbox; 0: defaults of net/net.h */
    uint32_t all_flows, all_flows_per_second; /* of all sandboxes; 0: defaults of net/net.h */
    struct supervisor_limits limits;
    struct http_config http;
    char *gateway;           /* owned; "127.0.0.1:8080"; NULL = no gateway */
    unsigned min_token;      /* fewest characters of a preview URL's token; 0: see preview.h */
    char *certificate, *key; /* owned; absolute paths; both or none */
    struct proxy_config proxy;
    char *sidecar_image; /* owned; a full name without tag (image/reference.h); NULL: workerd's
                          * default (api/docker/sidecar.h) */
    char *reaper_image;  /* owned; likewise, of Ryuk (api/docker/reaper.h) */
    struct publish_rules publish; /* owned; for host ports, for all users; default any */
};

enum { SETTINGS_TEXT_MAX = 256 << 10 };

/* Sets the defaults. -ENOMEM. */
int settings_init(struct settings *s);
/* Overrides settings by the keys in text; `where` names the file in messages. 0 or a negative
 * errno. */
int settings_parse(struct settings *s, const char *text, size_t len, const char *where,
                   struct err *err);
/* Like settings_parse, from a file. Blocks on disk. */
int settings_load(struct settings *s, const char *path, struct err *err);
void settings_done(struct settings *s);
