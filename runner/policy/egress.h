#pragma once

/*
 * Egress rules: where a sandbox may connect to. An ordered list of rules on host names, addresses
 * and ports, and a default. Pure. Rules are found by hash, one lookup for each suffix of a name and
 * each prefix length in use, so the number of rules hardly matters.
 *
 *     {"default": "deny", "trust": true, "rules": [
 *         {"to": "*.example.com", "action": "allow"},
 *         {"to": "api.internal:8443", "protocol": "https", "handler": "/run/handler.sock"},
 *         {"to": "192.0.2.0/24", "protocol": "tcp", "action": "deny"}]}
 *
 * A TLS connection is matched against rules for "https", an HTTP connection against rules for
 * "http". If none matches, and for all other connections, rules for "tcp" apply. The first match in
 * the list wins. A rule without "protocol" is for all three.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "policy/net-rule.h"

struct err;
struct jpath;
struct egress_slot;

enum {
    EGRESS_RULES_MAX = 1024,
    EGRESS_GLOBS_MAX = 64, /* names with '*' elsewhere than in a leading "*."; tried one by one */
    EGRESS_WEB_PORTS_MAX = 64,
    EGRESS_NAME_MAX = 253,
    EGRESS_TO_MAX = 320,       /* bytes of "to" */
    EGRESS_TEXT_MAX = 1 << 20, /* bytes of all rules as JSON */
};

/* Kinds of lookups; bits. */
enum egress_kind {
    EGRESS_HTTP = 1 << 0,
    EGRESS_HTTPS = 1 << 1,
    EGRESS_TCP = 1 << 2,
    EGRESS_PROTOCOLS = EGRESS_HTTP | EGRESS_HTTPS | EGRESS_TCP,
    /* Lookups by name only, whatever the port: handled, allowed, or denied altogether. */
    EGRESS_NAME_HANDLED = 1 << 3,
    EGRESS_NAME_ALLOWED = 1 << 4,
    EGRESS_NAME_DENIED = 1 << 5,
};

enum egress_action { EGRESS_DENY = 0, EGRESS_ALLOW, EGRESS_HANDLE };

struct egress_rule {
    char *to;      /* owned; as written */
    char *handler; /* owned; NULL unless EGRESS_HANDLE */
    enum egress_action action;
    unsigned protocols;             /* bits of EGRESS_PROTOCOLS */
    uint16_t port;                  /* 0 = any */
    bool by_name;                   /* the rule has a host glob; false: it has a network */
    bool any;                       /* "*": every destination, with or without a name */
    struct net_rule net;            /* only the prefix is used */
    char host[EGRESS_NAME_MAX + 1]; /* lower case */
};

struct egress_rules {
    struct egress_rule *list; /* owned */
    size_t count;
    bool open;  /* the default is to allow */
    bool trust; /* the CA is trusted inside */
    /* Private members. */
    struct egress_slot *slots; /* owned; hash table, size is a power of two */
    size_t slot_count;
    uint64_t prefixes4;    /* bit n: prefix length n is in use */
    uint64_t prefixes6[3]; /* 0 to 128 */
    size_t globs[EGRESS_GLOBS_MAX];
    size_t glob_count;
    bool by_address;                          /* some address rule allows or hands over */
    uint16_t web_ports[EGRESS_WEB_PORTS_MAX]; /* ports of rules for http or https only */
    size_t web_port_count; /* may exceed EGRESS_WEB_PORTS_MAX: then every port counts */
};

/*
 * Decodes and indexes rules. path: the value's place, or NULL at the root. -EINVAL, -ERANGE; err
 * has the JSON path: "egress.rules[2].to: ...".
 */
int egress_from_json(json_t *value, const struct jpath *path, struct egress_rules **ret,
                     struct err *err);
/* Encodes the rules; a new reference; NULL = out of memory. */
json_t *egress_to_json(const struct egress_rules *e);
void egress_free(struct egress_rules *e);
DEFINE_AUTO(struct egress_rules, egress_free);

/*
 * Builds rules one by one: egress_new, then egress_add, then egress_index. protocols: bits.
 * handler: NULL unless action is EGRESS_HANDLE.
 */
struct egress_rules *egress_new(void);
int egress_add(struct egress_rules *e, const char *to, unsigned protocols,
               enum egress_action action, const char *handler, struct err *err);
int egress_index(struct egress_rules *e, struct err *err);

/*
 * Returns the first rule for a destination, or NULL. kind: one bit. name: lower case without a
 * trailing dot, or NULL. address: NULL to match by name only. Port 0 only finds rules for any port.
 */
const struct egress_rule *egress_match(const struct egress_rules *e, enum egress_kind kind,
                                       const char *name, const struct net_addr *address,
                                       uint16_t port);
/* True if the port is named by a rule for http or https only. */
bool egress_is_web(const struct egress_rules *e, uint16_t port);
/* Returns the rule that comes first in the list; each may be NULL. */
const struct egress_rule *egress_first(const struct egress_rule *a, const struct egress_rule *b);

/* How a DNS query is answered. */
enum egress_answer {
    EGRESS_ANSWER_NO,    /* the name does not exist for this sandbox */
    EGRESS_ANSWER_ASK,   /* as the name servers answer */
    EGRESS_ANSWER_STAND, /* as they answer, or with a stand-in address if the name does not exist: a
                            handler serves it */
    EGRESS_ANSWER_OWN,   /* with a stand-in address, without a query */
};
enum egress_answer egress_answer(const struct egress_rules *e, const char *name);

/*
 * Converts a host name to lower case, without port and trailing dot. -EINVAL: no host name; IP
 * addresses are none.
 */
int egress_name(const char *text, size_t len, char ret[EGRESS_NAME_MAX + 1]);
