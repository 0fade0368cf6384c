#pragma once

/*
 * Messages of the domain name system, read and written by ldns: questions from inside a sandbox,
 * answers from name servers. Both are hostile. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "policy/egress.h"
#include "policy/net-rule.h"

enum {
    DNS_MESSAGE_MAX = 65535,
    DNS_UDP_PLAIN = 512,    /* bytes that a client takes who does not say more */
    DNS_UDP_MOST = 1232,    /* and what is sent at most: fits into every path's packets */
    DNS_ADDRESSES_MAX = 64, /* of one answer, that are remembered */
    DNS_HEADER = 12,
};

enum dns_rcode {
    DNS_NOERROR = 0,
    DNS_FORMERR = 1,
    DNS_SERVFAIL = 2,
    DNS_NXDOMAIN = 3,
    DNS_NOTIMP = 4,
    DNS_REFUSED = 5
};

enum { DNS_TYPE_A = 1, DNS_TYPE_AAAA = 28 };

struct dns_question {
    uint16_t id, type;
    bool recurse, edns, dnssec, no_check;
    size_t room;                    /* bytes of an answer by UDP that the client takes */
    char name[EGRESS_NAME_MAX + 1]; /* lower case, no dot at the end; "" = no host name (the root,
                                       or bytes that no host name has) */
    char wire[256];                 /* the name as it was sent */
    size_t wire_len;
};

/* One question of class IN. -EBADMSG: cannot even be answered; else ret->id is set and the rcode to
 * answer with is returned, DNS_NOERROR when there is something to ask. */
int dns_question_read(const uint8_t *data, size_t len, struct dns_question *ret);

/* What is asked of a name server, under another id. Negative errno. */
int dns_query_write(const struct dns_question *q, uint16_t id, struct buf *out);

struct dns_answer {
    unsigned rcode;
    bool truncated;
    uint32_t ttl; /* the least of all, seconds; how long it may be kept */
    struct net_addr addresses[DNS_ADDRESSES_MAX];
    size_t count;
};

/* Whether these bytes answer that question under that id, and what they say. -EBADMSG: they are no
 * answer to it. */
int dns_answer_read(const uint8_t *data, size_t len, const struct dns_question *q, uint16_t id,
                    struct dns_answer *ret);

/*
 * The answer as the client gets it: under its own id and question, with times to live that are
 * `age` seconds smaller; by UDP within its room, else without records and marked as cut.
 */
int dns_answer_write(const uint8_t *data, size_t len, const struct dns_question *q, uint32_t age,
                     bool udp, struct buf *out);
/* One of our own: an rcode and addresses of the type that was asked for (others are left out). */
int dns_answer_make(const struct dns_question *q, enum dns_rcode rcode,
                    const struct net_addr *addresses, size_t count, uint32_t ttl, struct buf *out);
