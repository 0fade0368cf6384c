#pragma once

/*
 * What a sandbox may send where: an ordered list of rules over host names, addresses and ports, and
 * what counts when none matches. Pure. A rule is found by hash, by each suffix of a name and each
 * prefix length in use, so that a thousand rules cost what ten do.
 *
 *     {"default": "deny", "trust": true, "rules": [
 *         {"to": "*.example.com", "action": "allow"},
 *         {"to": "api.internal:8443", "protocol": "https", "handler": "/run/handler.sock"},
 *         {"to": "192.0.2.0/24", "protocol": "tcp", "action": "deny"}]}
 *
 * A connection that shows itself as TLS is looked up among the rules for "https", one that begins
 * as HTTP among those for "http", and what has found none there, and everything else, among those
 * for "tcp"; the first in the list's order counts. A rule without "protocol" is one of all three.
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
    EGRESS_GLOBS_MAX =
        64, /* with '*' elsewhere than in front of a name: these are tried one by one */
    EGRESS_WEB_PORTS_MAX = 64,
    EGRESS_NAME_MAX = 253,
    EGRESS_TO_MAX = 320,       /* bytes of "to" */
    EGRESS_TEXT_MAX = 1 << 20, /* bytes of all rules as JSON */
};

/* What rules are kept for; bits. */
enum egress_kind {
    EGRESS_HTTP = 1 << 0,
    EGRESS_HTTPS = 1 << 1,
    EGRESS_TCP = 1 << 2,
    EGRESS_PROTOCOLS = EGRESS_HTTP | EGRESS_HTTPS | EGRESS_TCP,
    /* Of names alone, whatever the port: that a handler takes, that are allowed, that are denied
     * altogether. */
    EGRESS_NAME_HANDLED = 1 << 3,
    EGRESS_NAME_ALLOWED = 1 << 4,
    EGRESS_NAME_DENIED = 1 << 5,
};

enum egress_action { EGRESS_DENY = 0, EGRESS_ALLOW, EGRESS_HANDLE };

struct egress_rule {
    char *to;      /* owned: as it was written */
    char *handler; /* owned; NULL unless EGRESS_HANDLE */
    enum egress_action action;
    unsigned protocols;  /* of EGRESS_PROTOCOLS */
    uint16_t port;       /* 0 = any */
    bool by_name;        /* host is a glob, and net is nothing; else the other way round */
    bool any;            /* "*": every destination, with a name or without */
    struct net_rule net; /* prefix alone */
    char host[EGRESS_NAME_MAX + 1]; /* lower case */
};

struct egress_rules {
    struct egress_rule *list; /* owned */
    size_t count;
    bool open;  /* what no rule matches is allowed */
    bool trust; /* the CA is to be trusted inside */
    /* Private. */
    struct egress_slot *slots; /* owned; a power of two of them */
    size_t slot_count;
    uint64_t prefixes4;    /* lengths in use, bit by bit */
    uint64_t prefixes6[3]; /* 0 to 128 */
    size_t globs[EGRESS_GLOBS_MAX];
    size_t glob_count;
    bool by_address; /* there is a rule for addresses that lets something through */
    uint16_t web_ports[EGRESS_WEB_PORTS_MAX]; /* that rules for http or https alone name */
    size_t web_port_count;                    /* more than there is room for: all of them */
};

/*
 * Decodes and indexes. path: where value stands, or NULL at the root. -EINVAL, -ERANGE with the
 * JSON path: "egress.rules[2].to: ...".
 */
int egress_from_json(json_t *value, const struct jpath *path, struct egress_rules **ret,
                     struct err *err);
/* The same again, as a new reference; NULL without memory. */
json_t *egress_to_json(const struct egress_rules *e);
void egress_free(struct egress_rules *e);
DEFINE_AUTO(struct egress_rules, egress_free);

/* One by one, from code and from options' texts: begin with calloc'd zeros, add, then index.
 * protocols: bits. handler: NULL unless action is EGRESS_HANDLE. */
struct egress_rules *egress_new(void);
int egress_add(struct egress_rules *e, const char *to, unsigned protocols,
               enum egress_action action, const char *handler, struct err *err);
int egress_index(struct egress_rules *e, struct err *err);

/*
 * The first rule for a destination, or NULL. kind: one bit. name: lower case without a dot at the
 * end, or NULL; address: NULL when only the name counts; port 0 finds rules of any port alone.
 */
const struct egress_rule *egress_match(const struct egress_rules *e, enum egress_kind kind,
                                       const char *name, const struct net_addr *address,
                                       uint16_t port);
/* Whether a rule for http or https alone is for this port. */
bool egress_is_web(const struct egress_rules *e, uint16_t port);
/* Of two that may be NULL the one that stands first. */
const struct egress_rule *egress_first(const struct egress_rule *a, const struct egress_rule *b);

/* What the rules say of a name that is asked for. */
enum egress_answer {
    EGRESS_ANSWER_NO,    /* it does not exist for this sandbox */
    EGRESS_ANSWER_ASK,   /* whatever the name servers say */
    EGRESS_ANSWER_STAND, /* that, and a stand-in address where they know none: a handler takes it */
    EGRESS_ANSWER_OWN,   /* a stand-in address, and nobody is asked */
};
enum egress_answer egress_answer(const struct egress_rules *e, const char *name);

/* A host name in lower case, without port and dot at the end, into ret. -EINVAL: it is none. IP
 * addresses are none, either. */
int egress_name(const char *text, size_t len, char ret[EGRESS_NAME_MAX + 1]);
