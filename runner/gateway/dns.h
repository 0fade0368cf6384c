#pragma once

/* The resolver of one sandbox. It answers questions by UDP and TCP, but only for names that the
 * egress rules allow. Questions go to the host's name servers, by UDP, and by TCP if an answer
 * is truncated; a server that does not answer is followed by the next. Answers are cached for
 * their time to live.
 *
 * Questions in progress, questions per second, connections and the cache are bounded. Questions
 * above a limit are dropped, as a network would, and ops->trouble is called.
 *
 * Runs in the supervisor's loop thread; made by egress.c. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/evloop.h"
#include "policy/egress.h"

struct dns;
struct dns_question;
struct err;

/* Limits and their defaults. */
enum {
    DNS_QUERIES = 64,     /* questions in progress */
    DNS_PER_SECOND = 200, /* new questions per second */
    DNS_TCP_CLIENTS = 16, /* TCP connections from inside */
    DNS_TCP_MS = 10000,   /* lifetime of a TCP connection, even if active */
    DNS_TRY_MS = 1500,    /* for a name server to answer */
    DNS_TRIES = 4,
    DNS_CACHE = 256,       /* answers kept */
    DNS_CACHED_MAX = 2048, /* largest answer that is cached, in bytes */
    DNS_TTL_MOST_S = 3600,
    DNS_STAND_TTL_S = 60, /* time to live of a stand-in address */
    DNS_LOCAL_TTL_S = 5,  /* of a local answer, as members come and go */
    DNS_LOCAL_MAX = 32,   /* addresses in one */
};

/* The callee owns fd. */
typedef void dns_socket_fn(void *who, int r, int fd, const struct err *err);

/* An answer from the supervisor's own knowledge. */
struct dns_local {
    struct net_addr addresses[DNS_LOCAL_MAX];
    size_t count;
    char name[EGRESS_NAME_MAX + 1]; /* of a reverse look-up; "": none */
};

struct dns_ops {
    /* Answers a question from inside without a name server. Returns false if the name is not known
     * here. NULL: no name is. The answer has no records if the type is not the one asked for. */
    bool (*local)(void *data, const struct dns_question *q, struct dns_local *ret);
    bool plain; /* there are no rules: HTTPS and SVCB are asked for like other types */
    enum egress_answer (*policy)(void *data, const char *name);
    /* Returns the stand-in address for a name that no name server knows; false: none of this
     * family. */
    bool (*stand_in)(void *data, const char *name, int family, struct net_addr *ret);
    /* Opens a socket that is connected or connecting to name server number `index`. cb follows
     * once, never from within the call. An index that is too high gives -ENOENT, either at once
     * or by cb. */
    int (*server)(void *data, unsigned index, bool udp, dns_socket_fn *cb, void *who,
                  void **ret_handle, struct err *err);
    void (*cancel)(void *handle);
    /* The name was answered with this address, valid for ttl seconds. */
    void (*learned)(void *data, const char *name, const struct net_addr *a, uint32_t ttl);
    /* A limit was reached; `what` names it. */
    void (*trouble)(void *data, const char *what);
};

int dns_new(struct evloop *evloop, const struct dns_ops *ops, void *data, unsigned per_second,
            struct dns **ret, struct err *err);
/* Frees the resolver; pending lookups get -ECANCELED. NULL is allowed. */
void dns_close(struct dns *d);

/* Serves a bound UDP socket, owned by the resolver on success. At most two; -E2BIG. */
int dns_serve(struct dns *d, int fd, struct err *err);
/* Serves a TCP connection of a client inside; always takes fd. */
void dns_adopt(struct dns *d, int fd);

/* Looks up a name for the supervisor under the same rules. cb is called once, from the loop or
 * from within the call, with all addresses of the family. r is 0, -ENOENT (no address, or denied
 * by the rules), -ETIMEDOUT, -EAGAIN (limit reached) or -ECANCELED (resolver freed). */
typedef void dns_found_fn(void *who, int r, const struct net_addr *a, size_t count);
struct dns_query;
void dns_lookup(struct dns *d, const char *name, int family, dns_found_fn *cb, void *who,
                struct dns_query **ret);
void dns_cancel(struct dns_query *q);
