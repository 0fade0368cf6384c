#pragma once

/*
 * Numbers shared by the nft rules inside a sandbox's net namespace, the launcher's sockets and the
 * supervisor's listeners.
 */

enum egress_table {
    EGRESS_TABLE_CLOSED, /* redirects TCP connections and DNS queries, rejects everything else */
    EGRESS_TABLE_OPEN,   /* like CLOSED, but lets UDP and ICMP out */
    EGRESS_TABLE_NONE,   /* no table */
};

/* Address inside the sandbox that is forwarded to a port of the host's loopback
 * (workerd/loopback-forward.h). */
#define LOOPBACK_FORWARD_ADDRESS "127.114.110.100"
#define LOOPBACK_FORWARD_BYTES                                                                     \
    {                                                                                              \
        127, 114, 110, 100                                                                         \
    }

/* Address inside a sandbox of a named network at which the supervisor answers for names of its
 * members (ports/names.h). Docker's containers know it, too. */
#define NAMES_ADDRESS "127.0.0.11"
#define NAMES_BYTES                                                                                \
    {                                                                                              \
        127, 0, 0, 11                                                                              \
    }

enum {
    NAMES_PORT = 61153, /* on the namespace's loopback: queries to NAMES_ADDRESS arrive there */
    EGRESS_TCP_PORT = 61080,  /* on the namespace's loopback: receives every outgoing connection */
    EGRESS_DNS_PORT = 61053,  /* receives every DNS query over UDP */
    EGRESS_PROXY_PORT = 3128, /* on the gateway's address: the explicit proxy */
    /*
     * Mark of the supervisor's own sockets in the namespace, which the table lets through.
     * Processes inside cannot set it, since CAP_NET_ADMIN and CAP_NET_RAW over the namespace belong
     * to the host.
     */
    EGRESS_MARK = 0x72696e64,
};
