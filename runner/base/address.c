#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

int address_parse_host(const char *text, struct address *ret)
{
    struct address a = {.port = 0};

    if (inet_pton(AF_INET, text, a.bytes) == 1)
        a.family = 4;
    else if (inet_pton(AF_INET6, text, a.bytes) == 1)
        a.family = 6;
    else
        return -EINVAL;
    *ret = a;
    return 0;
}

int address_parse(const char *text, struct address *ret)
{
    const char *colon = strrchr(text, ':');
    char host[ADDRESS_TEXT_MAX];
    int64_t port;
    size_t len;
    struct address a;

    if (colon == NULL)
        return -EINVAL;
    len = (size_t)(colon - text);
    port = number_whole(colon + 1, 5);
    if (port < 0 || port > 65535)
        return -EINVAL;
    /* Without brackets the last part of an IPv6 address would be read as the port. */
    if (memchr(text, ':', len) != NULL && (text[0] != '[' || text[len - 1] != ']'))
        return -EINVAL;
    if (text[0] == '[') {
        text++;
        len -= 2;
    }
    if (len >= sizeof(host))
        return -EINVAL;
    (void)memcpy(host, text, len);
    host[len] = '\0';
    if (address_parse_host(host, &a) < 0)
        return -EINVAL;
    a.port = (uint16_t)port;
    *ret = a;
    return 0;
}

void address_format_host(const struct address *a, char ret[ADDRESS_TEXT_MAX])
{
    ret[0] = '\0';
    (void)inet_ntop(a->family == 6 ? AF_INET6 : AF_INET, a->bytes, ret, ADDRESS_TEXT_MAX);
}

void address_format(const struct address *a, char ret[ADDRESS_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";

    (void)inet_ntop(a->family == 6 ? AF_INET6 : AF_INET, a->bytes, host, sizeof(host));
    (void)snprintf(ret, ADDRESS_TEXT_MAX, a->family == 6 ? "[%s]:%u" : "%s:%u", host, a->port);
}

socklen_t address_socket(const struct address *a, struct sockaddr_storage *ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(a->port)};

    (void)memset(ret, 0, sizeof(*ret));
    if (a->family == 6) {
        (void)memcpy(&v6.sin6_addr, a->bytes, sizeof(v6.sin6_addr));
        (void)memcpy(ret, &v6, sizeof(v6));
        return sizeof(v6);
    }
    (void)memcpy(&v4.sin_addr, a->bytes, sizeof(v4.sin_addr));
    (void)memcpy(ret, &v4, sizeof(v4));
    return sizeof(v4);
}

bool address_equal(const struct address *a, const struct address *b)
{
    return a->family == b->family && a->port == b->port &&
           memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool address_from_socket(const struct sockaddr *from, struct address *ret)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    *ret = (struct address){.family = 0};
    if (from->sa_family == AF_INET) {
        (void)memcpy(&v4, from, sizeof(v4));
        ret->family = 4;
        ret->port = ntohs(v4.sin_port);
        (void)memcpy(ret->bytes, &v4.sin_addr, sizeof(v4.sin_addr));
    } else if (from->sa_family == AF_INET6) {
        (void)memcpy(&v6, from, sizeof(v6));
        ret->family = 6;
        ret->port = ntohs(v6.sin6_port);
        (void)memcpy(ret->bytes, &v6.sin6_addr, sizeof(v6.sin6_addr));
    }
    return ret->family != 0;
}
