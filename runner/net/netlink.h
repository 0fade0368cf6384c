#pragma once

/*
 * Netlink requests: several messages in one datagram, which the kernel processes in order before
 * sendmsg(2) returns. So all replies are there at once, and nothing blocks. libnl-3 builds messages
 * and walks attributes. (libnl-route-3 and libnftnl are not used: libnftnl needs libmnl, which
 * Debian ships only as a shared object, and rind is linked statically. And both families need only
 * the same few attributes.)
 *
 * A request that could not be built (out of memory, too many messages) is remembered, and
 * nlreq_send returns the error.
 */

#include <netinet/in.h> /* must come before the kernel's headers of the same names */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct nl_msg;
struct nlattr;
struct nlmsghdr;

enum {
    NLREQ_MAX = 512,         /* messages in one datagram */
    NLMSG_BYTES = 1024,      /* bytes of one message, unless nlreq_add_large is used */
    NLREPLY_BYTES = 1 << 15, /* bytes of one datagram from the kernel */
};

struct nlreq {
    struct nl_msg *msgs[NLREQ_MAX]; /* owned */
    unsigned count;
    int failed; /* negative errno */
};

/* Opens a socket of `protocol` (NETLINK_ROUTE, NETLINK_NETFILTER) in the caller's net namespace.
 * Returns the fd or a negative errno. */
int nl_open(int protocol);

void nlreq_init(struct nlreq *q);
void nlreq_done(struct nlreq *q);
#define auto_nlreq __attribute__((cleanup(nlreq_done)))

/* Begins a message; `head` is the family's fixed header. Adds NLM_F_REQUEST. */
void nlreq_add(struct nlreq *q, uint16_t type, uint16_t flags, const void *head, size_t len);
/* Likewise, with room for `bytes`. */
void nlreq_add_large(struct nlreq *q, uint16_t type, uint16_t flags, const void *head, size_t len,
                     size_t bytes);

/* Add attributes to the last message. */
void nl_put(struct nlreq *q, int attr, const void *data, size_t len);
void nl_put_u8(struct nlreq *q, int attr, uint8_t value);
void nl_put_u32(struct nlreq *q, int attr, uint32_t value);
void nl_put_be32(struct nlreq *q, int attr, uint32_t value);
void nl_put_string(struct nlreq *q, int attr, const char *text);
struct nlattr *nl_nest(struct nlreq *q, int attr);
void nl_nest_end(struct nlreq *q, struct nlattr *nest);
/* Appends plain bytes after the header, such as a nested fixed header. */
void nl_append(struct nlreq *q, const void *data, size_t len);

/* Called for each message that is no acknowledgement; a negative errno ends the request. */
typedef int nl_message_fn(const struct nlmsghdr *h, void *data);

/* Sends all messages and reads all replies. Returns the first error of the kernel, with its message
 * if it has one; *ret_index (may be NULL) is the number of the failed message. With NETLINK_ROUTE
 * the messages before the failed one have taken effect. */
int nlreq_send(struct nlreq *q, int sock, nl_message_fn *fn, void *data, unsigned *ret_index,
               struct err *err);

/* Handles one datagram from the kernel. Pure. Counts acknowledgements into acks, stores the first
 * error with its message's number, and passes other messages to fn. -EBADMSG when it is malformed;
 * NLMSG_DONE sets done. */
struct nl_answers {
    unsigned acks;
    int error; /* negative errno of message `index` */
    unsigned index;
    char text[128]; /* the kernel's error message, or "" */
    bool done;
};
int nl_feed(struct nl_answers *a, const void *data, size_t len, nl_message_fn *fn, void *fn_data);
