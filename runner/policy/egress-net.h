#pragma once

/* Numbers that the kernel's rules inside a sandbox's net namespace, the launcher's sockets and the
 * supervisor's listeners have to agree on. */

enum egress_table {
    EGRESS_TABLE_CLOSED, /* connections and questions for names are redirected, the rest ends */
    EGRESS_TABLE_OPEN,   /* the same, and UDP and ICMP may leave */
    EGRESS_TABLE_NONE,   /* as if there had never been one */
};

/* Inside: where a port of the host's loopback is, which the sandbox may reach (core/door.h). */
#define DOOR_ADDRESS "127.114.110.100"
#define DOOR_BYTES                                                                                 \
    {                                                                                              \
        127, 114, 110, 100                                                                         \
    }

enum {
    EGRESS_TCP_PORT = 61080,  /* of the namespace's loopback: every connection that leaves */
    EGRESS_DNS_PORT = 61053,  /* and every question for a name, by UDP */
    EGRESS_PROXY_PORT = 3128, /* of the gateway's address: the explicit proxy */
    EGRESS_MARK = 0x72696e64, /* of the supervisor's own sockets in the namespace, which are let
                                 through: nobody inside may set a mark (CAP_NET_ADMIN and
                                 CAP_NET_RAW over the namespace are the host's alone) */
};
