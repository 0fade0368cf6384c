#pragma once

/*
 * Requests to the kernel by netlink: several messages of one datagram, which the kernel works off
 * in order before sendmsg(2) returns, so that all answers are there at once and nothing ever waits.
 * libnl-3 builds messages and walks attributes. (Neither its libnl-route-3 nor libnftnl: the latter
 * needs libmnl, which Debian ships as a shared object only, and rind is linked statically; and
 * links, addresses and rules are the same few attributes for both families of messages.)
 *
 * A request that could not be built (out of memory, too many messages) is remembered and told by
 * nlreq_send.
 */

#include <netinet/in.h> /* in front of the kernel's headers of the same names */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct nl_msg;
struct nlattr;
struct nlmsghdr;

enum {
    NLREQ_MAX = 512,         /* messages in one datagram */
    NLMSG_BYTES = 1024,      /* room in one message, unless more is asked for */
    NLREPLY_BYTES = 1 << 15, /* one datagram of the kernel's */
};

struct nlreq {
    struct nl_msg *msgs[NLREQ_MAX]; /* owned */
    unsigned count;
    int failed; /* negative errno */
};

/* A socket of `protocol` (NETLINK_ROUTE, NETLINK_NETFILTER) in the net namespace of the caller. */
int nl_open(int protocol);

void nlreq_init(struct nlreq *q);
void nlreq_done(struct nlreq *q);
#define auto_nlreq __attribute__((cleanup(nlreq_done)))

/* Begins a message; `head` is the family's fixed header. NLM_F_REQUEST is added. */
void nlreq_add(struct nlreq *q, uint16_t type, uint16_t flags, const void *head, size_t len);
/* The same with room for `bytes`. */
void nlreq_add_large(struct nlreq *q, uint16_t type, uint16_t flags, const void *head, size_t len,
                     size_t bytes);

/* Attributes of the message begun last. */
void nl_put(struct nlreq *q, int attr, const void *data, size_t len);
void nl_put_u8(struct nlreq *q, int attr, uint8_t value);
void nl_put_u32(struct nlreq *q, int attr, uint32_t value);
void nl_put_be32(struct nlreq *q, int attr, uint32_t value);
void nl_put_string(struct nlreq *q, int attr, const char *text);
struct nlattr *nl_nest(struct nlreq *q, int attr);
void nl_nest_end(struct nlreq *q, struct nlattr *nest);
/* Plain bytes behind the header, such as a nested fixed header. */
void nl_append(struct nlreq *q, const void *data, size_t len);

/* Called for each message that is no acknowledgement; a negative errno ends the request. */
typedef int nl_message_fn(const struct nlmsghdr *h, void *data);

/*
 * Sends all and reads all answers. The first error of the kernel's is returned, with its own words
 * where it has some; *ret_index (may be NULL) is the number of the message that it is about. What
 * was sent in front of a message of NETLINK_ROUTE that failed has happened.
 */
int nlreq_send(struct nlreq *q, int sock, nl_message_fn *fn, void *data, unsigned *ret_index,
               struct err *err);

/*
 * One datagram of the kernel's, pure: acknowledgements are counted into *acks, the first error goes
 * to *error (with its message's number), other messages to fn. -EBADMSG when it is not well-formed;
 * *done is set by NLMSG_DONE.
 */
struct nl_answers {
    unsigned acks;
    int error; /* negative errno, of message `index` */
    unsigned index;
    char text[128]; /* the kernel's words, or "" */
    bool done;
};
int nl_feed(struct nl_answers *a, const void *data, size_t len, nl_message_fn *fn, void *fn_data);
