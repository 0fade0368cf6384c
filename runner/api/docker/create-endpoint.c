/* The settings of a container in one network: an element of NetworkingConfig.EndpointsConfig of a
 * creation, and EndpointConfig of a connect. Pure. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/docker/body.h"
#include "api/docker/create-body-internal.h"
#include "api/docker/create-body.h"
#include "base/err.h"

/* Clients send back what inspect has shown: these say nothing of what is to be. */
static bool key_is_shown_only(const char *key)
{
    static const char *const shown[] = {
        "NetworkID", "EndpointID",  "Gateway",           "IPAddress",           "IPPrefixLen",
        "DNSNames",  "IPv6Gateway", "GlobalIPv6Address", "GlobalIPv6PrefixLen", "GwPriority"};

    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
        if (strcasecmp(key, shown[i]) == 0)
            return true;
    return false;
}

/* IPAMConfig: an IPv4 address of the network's subnet. */
static int endpoint_take_address(json_t *value, const char *path, const char **ret, struct err *err)
{
    json_t *element;
    const char *key;

    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "IPAMConfig: must be an object");
    json_object_foreach(value, key, element) {
        if (body_is_empty(element))
            continue;
        if (strcasecmp(key, "IPv4Address") != 0)
            return body_fail(err, -EOPNOTSUPP, path, "IPAMConfig: %.32s is not supported", key);
        if (!json_is_string(element))
            return body_fail(err, -EINVAL, path, "IPAMConfig: IPv4Address: must be a string");
        *ret = json_string_value(element);
    }
    return 0;
}

int create_endpoint_check(const char *network, json_t *endpoint, struct create_endpoint *ret,
                          struct err *err)
{
    char path[BODY_PATH_MAX];
    const char *key;
    json_t *element;

    *ret = (struct create_endpoint){.aliases = NULL};
    (void)snprintf(path, sizeof(path), "NetworkingConfig.EndpointsConfig.%.64s", network);
    if (endpoint != NULL && !json_is_object(endpoint) && !json_is_null(endpoint))
        return body_fail(err, -EINVAL, path, "must be an object");
    json_object_foreach(endpoint, key, element) {
        json_t **list = strcasecmp(key, "Aliases") == 0 ? &ret->aliases
                        : strcasecmp(key, "Links") == 0 ? &ret->links
                                                        : NULL;

        if (body_is_empty(element) || key_is_shown_only(key))
            continue;
        if (strcasecmp(key, "IPAMConfig") == 0) {
            if (endpoint_take_address(element, path, &ret->address, err) < 0)
                return err->code;
            continue;
        }
        if (list == NULL)
            return body_fail(err, -EOPNOTSUPP, path, "%.32s is not supported", key);
        if (*list != NULL)
            return body_fail(err, -EINVAL, path, "%s twice", key);
        if (create_check_strings(element, path, err) < 0)
            return err->code;
        *list = element;
    }
    return 0;
}
