/* Translates PortBindings and ExposedPorts of POST /containers/create. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/create-body-internal.h"
#include "base/err.h"

static int port_parse(const char *text, int64_t least, int64_t *ret)
{
    char *end = NULL;
    long n = strtol(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || n < least || n > 65535)
        return -EINVAL;
    *ret = n;
    return 0;
}

/* Parses "80", "80/tcp", "53/udp". */
static int port_split(const char *key, int64_t *ret, const char **ret_protocol)
{
    const char *slash = strchr(key, '/');
    char number[8];

    *ret_protocol = slash != NULL ? slash + 1 : "tcp";
    (void)snprintf(number, sizeof(number), "%.*s",
                   (int)(slash != NULL ? slash - key : (ptrdiff_t)strlen(key)), key);
    if (strcmp(*ret_protocol, "tcp") != 0 && strcmp(*ret_protocol, "udp") != 0)
        return -EINVAL;
    return port_parse(number, 1, ret);
}

int t_exposed(json_t *value, const struct body_field *field, void *dst, const char *path,
              struct err *err)
{
    const char *key, *protocol;
    json_t *element;
    int64_t port;

    (void)field;
    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "must be an object");
    json_object_foreach(value, key, element)
        if (port_split(key, &port, &protocol) < 0)
            return body_fail(err, -EINVAL, path, "\"%.32s\" is no port of TCP or UDP", key);
    ((struct making *)dst)->out->exposed = value;
    return 0;
}

struct binding {
    const char *ip, *port;
};

static const struct body_field binding_fields[] = {
    {.name = "HostIp", .take = b_string, .off = offsetof(struct binding, ip)},
    {.name = "HostPort", .take = b_string, .off = offsetof(struct binding, port)},
    {0},
};

/* Parses "8080", or "8000-8010" for a free one of them. *ret_last: 0 without a range. */
static int host_port_parse(const char *text, int64_t *ret, int64_t *ret_last)
{
    const char *dash = strchr(text, '-');
    char first[8];

    if (dash == NULL)
        return port_parse(text, 0, ret);
    if (dash - text >= (ptrdiff_t)sizeof(first))
        return -EINVAL;
    (void)snprintf(first, sizeof(first), "%.*s", (int)(dash - text), text);
    if (port_parse(first, 1, ret) < 0 || port_parse(dash + 1, *ret, ret_last) < 0)
        return -EINVAL;
    return 0;
}

/* Without an address Docker binds all addresses of the host. Here the default is 127.0.0.1, as
 * Docker recommends; all addresses must be requested. */
static int add_port(struct making *m, const char *key, const struct binding *b, const char *path,
                    struct err *err)
{
    const char *protocol;
    int64_t port, host = 0, last = 0;
    json_t *p;

    if (port_split(key, &port, &protocol) < 0)
        return body_fail(err, -EINVAL, path, "\"%.32s\" is no port of TCP or UDP", key);
    if (b->port != NULL && host_port_parse(b->port, &host, &last) < 0)
        return body_fail(err, -EINVAL, path, "HostPort \"%.32s\": must be a port, or FIRST-LAST",
                         b->port);
    p = json_pack("{s:I, s:I, s:s, s:s*}", "port", (json_int_t)port, "hostPort", (json_int_t)host,
                  "protocol", protocol, "hostAddress", b->ip);
    if (p != NULL && last != 0 && !docker_put(p, "hostPortLast", json_integer(last))) {
        json_decref(p);
        p = NULL;
    }
    return p != NULL ? create_push(m, "ports", p, err) : create_no_memory(err);
}

int t_bindings(json_t *value, const struct body_field *field, void *dst, const char *path,
               struct err *err)
{
    const char *key;
    json_t *list, *element;
    size_t i;

    (void)field;
    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "must be an object");
    json_object_foreach(value, key, list) {
        if (!json_is_array(list) && !json_is_null(list))
            return body_fail(err, -EINVAL, path, "must hold arrays");
        json_array_foreach(list, i, element) {
            struct binding b = {0};
            int r = body_decode(element, binding_fields, &b, path, err);

            if (r == 0)
                r = add_port(dst, key, &b, path, err);
            if (r < 0)
                return r;
        }
    }
    return docker_put(((struct making *)dst)->out->kept, "ports", json_incref(value))
               ? 0
               : create_no_memory(err);
}
