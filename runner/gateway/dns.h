#pragma once

/*
 * The resolver of one sandbox: answers what it asks, by UDP and TCP, as far as its rules let it
 * know names. What may be known is asked of the host's name servers (by UDP, and by TCP when an
 * answer does not fit; one after the other when one does not answer) and kept for as long as they
 * say.
 *
 * Everything is bounded: questions under way and in a second, connections, what is kept. What is
 * too much is dropped, as a network would, and told once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/poller.h"
#include "policy/egress.h"

struct dns;
struct dns_question;
struct err;

/* Limits: each has its default here. */
enum {
    DNS_QUERIES = 64,     /* under way at once */
    DNS_PER_SECOND = 200, /* new ones */
    DNS_TCP_CLIENTS = 16, /* connections from inside */
    DNS_TCP_MS = 10000,   /* that one of them lives, however it is used */
    DNS_TRY_MS = 1500,    /* for one name server to answer */
    DNS_TRIES = 4,
    DNS_CACHE = 256,       /* answers kept */
    DNS_CACHED_MAX = 2048, /* bytes of one that is */
    DNS_TTL_MOST_S = 3600,
    DNS_STAND_TTL_S = 60, /* of a stand-in address */
};

/* fd: the callee's. */
typedef void dns_socket_fn(void *who, int r, int fd, const struct err *err);

struct dns_ops {
    enum egress_answer (*policy)(void *data, const char *name);
    /* The address that a name gets that nobody knows; false: none of this family. */
    bool (*stand_in)(void *data, const char *name, int family, struct net_addr *ret);
    /* A socket that is connected, or connecting, to the index'th name server; cb follows once, not
     * from within. -ENOENT for an index that is too high comes by cb, too. */
    int (*server)(void *data, unsigned index, bool udp, dns_socket_fn *cb, void *who,
                  void **ret_handle, struct err *err);
    void (*cancel)(void *handle);
    /* The name has been answered with this address, for ttl seconds. */
    void (*learned)(void *data, const char *name, const struct net_addr *a, uint32_t ttl);
    /* A limit was reached; what: which. */
    void (*trouble)(void *data, const char *what);
};

int dns_new(struct poller *poller, const struct dns_ops *ops, void *data, unsigned per_second,
            struct dns **ret, struct err *err);
/* NULL is fine. */
void dns_close(struct dns *d);

/* Serves a bound datagram socket, taken on success. At most two. */
int dns_serve(struct dns *d, int fd, struct err *err);
/* Serves a connection of a client inside; taken in any case. */
void dns_adopt(struct dns *d, int fd);

/*
 * Looks a name up for the supervisor itself, under the same rules: cb follows once, from the loop,
 * perhaps from within, with all its addresses of the family. r: -ENOENT there is none, or the rules
 * say no, -ETIMEDOUT, …
 */
typedef void dns_found_fn(void *who, int r, const struct net_addr *a, size_t count);
struct dns_query;
void dns_lookup(struct dns *d, const char *name, int family, dns_found_fn *cb, void *who,
                struct dns_query **ret);
void dns_cancel(struct dns_query *q);
