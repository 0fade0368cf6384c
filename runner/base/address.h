#pragma once

/* Parses and formats an IP address with a port: 127.0.0.1:80, [::1]:80. Pure. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
    int family; /* 4 or 6 */
    unsigned char bytes[16];
    uint16_t port;
};

enum { ADDRESS_TEXT_MAX = 64 };

/* The port is mandatory and may be 0. No host names, no scope ids. -EINVAL. */
int address_parse(const char *text, struct address *ret);
/* Parses an address without port and brackets: "127.0.0.1", "::1"; ret->port is 0. -EINVAL. */
int address_parse_host(const char *text, struct address *ret);
bool address_equal(const struct address *a, const struct address *b);
/* Formats without port and brackets. */
void address_format_host(const struct address *a, char ret[ADDRESS_TEXT_MAX]);
void address_format(const struct address *a, char ret[ADDRESS_TEXT_MAX]);
socklen_t address_socket(const struct address *a, struct sockaddr_storage *ret);
/* False: neither IPv4 nor IPv6. */
bool address_from_socket(const struct sockaddr *from, struct address *ret);
