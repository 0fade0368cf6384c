/* Published ports of a spec. Pure. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/number.h"
#include "spec/parse.h"
#include "spec/spec.h"

/* The default is loopback only; access from other hosts must be requested. */
static const char default_host[] = "127.0.0.1";

int spec_put_publish(struct spec *s, const char *host, int64_t host_port, int64_t port, bool udp,
                     struct err *err)
{
    return spec_put_publish_range(s, host, host_port, 0, port, udp, err);
}

int spec_put_publish_range(struct spec *s, const char *host, int64_t host_port, int64_t host_last,
                           int64_t port, bool udp, struct err *err)
{
    struct publish p = {.port = (uint16_t)port, .udp = udp}, *more;

    if (address_parse_host(host != NULL ? host : default_host, &p.host) < 0)
        return err_set(err, -EINVAL, "\"%.*s\": must be an IP address of the host", QUOTE_MAX,
                       host);
    if (port < 1 || port > 65535)
        return err_set(err, -ERANGE, "the sandbox's port must be between 1 and 65535");
    if (host_port < 0 || host_port > 65535)
        return err_set(err, -ERANGE, "the host's port must be between 0 and 65535");
    if (host_last != 0 && (host_port == 0 || host_last < host_port || host_last > 65535))
        return err_set(err, -ERANGE,
                       "a range of the host's ports must be FIRST-LAST, from 1 to "
                       "65535");
    p.host.port = (uint16_t)host_port;
    p.host_last = host_last > host_port ? (uint16_t)host_last : 0;
    for (size_t i = 0; host_port != 0 && p.host_last == 0 && i < s->port_count; i++)
        if (s->ports[i].udp == udp && s->ports[i].host_last == 0 &&
            address_equal(&s->ports[i].host, &p.host))
            return err_set(err, -EINVAL, "the host's port %d is there twice", (int)host_port);
    if (s->port_count >= SPEC_PORTS_MAX)
        return err_set(err, -E2BIG, "more than %d published ports", SPEC_PORTS_MAX);
    more = reallocarray(s->ports, s->port_count + 1, sizeof(*more));
    if (more == NULL)
        return err_errno(err, -ENOMEM, "published ports");
    s->ports = more;
    s->ports[s->port_count++] = p;
    return 0;
}

/* Parses a decimal number; -1 if invalid; `empty` for "". */
static int64_t port_of(const char *text, int64_t empty)
{
    return text[0] == '\0' ? empty : number_whole(text, 5);
}

/* Parses "80" or "80-90"; *ret_last is the first for one port. -1 if invalid; `empty` for "". */
static int64_t port_range_of(char *text, int64_t empty, int64_t *ret_last)
{
    char *dash = strchr(text, '-');
    int64_t first;

    if (dash != NULL)
        *dash++ = '\0';
    first = port_of(text, dash == NULL ? empty : -1);
    *ret_last = dash != NULL ? port_of(dash, -1) : first;
    return *ret_last < first || (dash != NULL && first < 1) ? -1 : first;
}

/* The ports of a range go to those of another of its size in order; one port is that of any free
 * one of a range. */
static int publish_put_ranges(struct spec *s, const char *host, const int64_t from[2],
                              const int64_t to[2], bool udp, struct err *err)
{
    const int64_t count = to[1] - to[0];
    int r = 0;

    if (count == 0)
        return spec_put_publish_range(s, host, from[0], from[1] > from[0] ? from[1] : 0, to[0], udp,
                                      err);
    if (from[0] != 0 && from[1] - from[0] != count)
        return err_set(err, -EINVAL, "a range of ports inside needs one of its size on the host");
    if (count >= SPEC_PORTS_MAX)
        return err_set(err, -E2BIG, "more than %d published ports", SPEC_PORTS_MAX);
    for (int64_t i = 0; r == 0 && i <= count; i++)
        r = spec_put_publish(s, host, from[0] != 0 ? from[0] + i : 0, to[0] + i, udp, err);
    return r;
}

static int publish_error(const char *text, struct err *err)
{
    return err_set(err, -EINVAL,
                   "publish \"%.*s\": must be [HOSTIP:]HOSTPORT:PORT[/tcp|/udp], as "
                   "127.0.0.1:8080:80; without HOSTPORT one is chosen, of FIRST-LAST a free one",
                   QUOTE_MAX, text);
}

int spec_add_publish(struct spec *s, const char *text, struct err *err)
{
    auto_free char *copy = strdup(text);
    char *protocol, *port, *host_port, *host;
    int64_t from[2], to[2];
    struct err why = ERR_NONE;
    bool udp = false;
    int r;

    if (copy == NULL)
        return err_errno(err, -ENOMEM, "publish");
    protocol = strchr(copy, '/');
    if (protocol != NULL) {
        *protocol++ = '\0';
        udp = strcmp(protocol, "udp") == 0;
        if (!udp && strcmp(protocol, "tcp") != 0)
            return publish_error(text, err);
    }
    port = strrchr(copy, ':');
    if (port == NULL)
        return publish_error(text, err);
    *port++ = '\0';
    /* The rest is HOSTPORT, HOSTIP:HOSTPORT or [HOSTIP]:HOSTPORT. */
    host_port = strrchr(copy, ':');
    host = host_port == NULL ? NULL : copy;
    if (host_port == NULL)
        host_port = copy;
    else
        *host_port++ = '\0';
    if (host != NULL && host[0] == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = '\0';
        host++;
    } else if (host != NULL && strchr(host, ':') != NULL) {
        return publish_error(text, err);
    }
    from[0] = port_range_of(host_port, 0, &from[1]);
    to[0] = port_range_of(port, -1, &to[1]);
    if (from[0] < 0 || to[0] < 0)
        return publish_error(text, err);
    r = publish_put_ranges(s, host, from, to, udp, &why);
    return r < 0 ? err_set(err, r, "publish \"%.*s\": %s", QUOTE_MAX, text, why.msg) : 0;
}
