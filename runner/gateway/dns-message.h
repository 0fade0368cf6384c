#pragma once

/* Reads and writes DNS messages by ldns: questions from inside a sandbox and answers of name
 * servers. Both are hostile. Pure: no I/O, no state. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "policy/egress.h"
#include "policy/net-rule.h"

enum {
    DNS_MESSAGE_MAX = 65535,
    DNS_UDP_PLAIN = 512,    /* bytes of an answer that a client without EDNS takes */
    DNS_UDP_MOST = 1232,    /* most bytes sent by UDP: fits the packets of every path */
    DNS_ADDRESSES_MAX = 64, /* addresses kept of one answer */
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

enum { DNS_TYPE_A = 1, DNS_TYPE_PTR = 12, DNS_TYPE_AAAA = 28 };

struct dns_question {
    uint16_t id, type;
    bool recurse, edns, dnssec, no_check;
    size_t room;                    /* most bytes of an answer by UDP that the client takes */
    char name[EGRESS_NAME_MAX + 1]; /* lower case, no dot at the end; "" if it is no host name
                                     * (the root, or bytes that are not allowed) */
    char wire[256];                 /* the name in wire format, as received */
    size_t wire_len;
};

/* Parses one question of class IN. -EBADMSG: too malformed for any answer. Otherwise ret->id is
 * set and the result is the rcode to answer with, DNS_NOERROR if the question is to be resolved. */
int dns_question_read(const uint8_t *data, size_t len, struct dns_question *ret);

/* Writes the question for a name server under the id `id`. 0 or a negative errno. */
int dns_query_write(const struct dns_question *q, uint16_t id, struct buf *out);

struct dns_answer {
    unsigned rcode;
    bool truncated;
    uint32_t ttl; /* the smallest of all records, in seconds: how long the answer may be cached */
    struct net_addr addresses[DNS_ADDRESSES_MAX];
    size_t count;
};

/* Parses an answer to this question and id. -EBADMSG: the bytes are no answer to it. */
int dns_answer_read(const uint8_t *data, size_t len, const struct dns_question *q, uint16_t id,
                    struct dns_answer *ret);

/* Writes a name server's answer for the client: under the client's id and question, with times
 * to live reduced by `age` seconds. By UDP an answer larger than the client's room is sent
 * without records and with TC set. 0 or a negative errno. */
int dns_answer_write(const uint8_t *data, size_t len, const struct dns_question *q, uint32_t age,
                     bool udp, struct buf *out);
/* Writes an answer of the resolver itself: an rcode, and those of `addresses` that are of the
 * asked type. */
int dns_answer_make(const struct dns_question *q, enum dns_rcode rcode,
                    const struct net_addr *addresses, size_t count, uint32_t ttl, struct buf *out);
/* Writes an answer of the resolver itself with a host name, for a question of the type PTR. */
int dns_answer_name(const struct dns_question *q, const char *name, uint32_t ttl, struct buf *out);

/* Reads the address in a question's name: 4.3.2.1.in-addr.arpa. False: it has none. */
bool dns_question_address4(const struct dns_question *q, struct net_addr *ret);
