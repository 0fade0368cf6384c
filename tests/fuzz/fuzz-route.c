/* Any path: no value of a name can leave a directory, and every refusal says why. */

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "http/route.h"
#include "http/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void handler(struct http_request *req)
{
    (void)req;
}

static const struct route native[] = {
    {"GET", "/v1/s", handler, 0, 0},
    {"GET", "/v1/s/{id}", handler, 0, 0},
    {"POST", "/v1/s/{id}/p/{name}", handler, 0, 0},
    {0},
};
static const struct route engine[] = {
    {"GET", "/i/{name...}/json", handler, 0, 0},
    {"DELETE", "/i/{name...}", handler, 0, 0},
    {0},
};
static const struct route_set sets[] = {
    {.routes = native}, {.routes = engine, .version_prefix = true}, {0}};

static void check_value(const struct http_param *p, const struct route *route)
{
    const char *s = p->value;
    bool many = strstr(route->pattern, "...") != NULL;

    assert(*s != '\0' && (many || strchr(s, '/') == NULL));
    for (;;) {
        size_t n = strcspn(s, "/");

        assert(n > 0 && !(n == 1 && s[0] == '.') && !(n == 2 && memcmp(s, "..", 2) == 0));
        if (s[n] == '\0')
            return;
        s += n + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "DELETE", "PUT"};
    struct http_request req = {0};
    struct err err = ERR_NONE;
    char allow[64] = "", *path, *store;
    int r;

    if (size < 1)
        return 0;
    path = calloc(1, size);
    store = malloc(size);
    if (path == NULL || store == NULL)
        abort();
    (void)memcpy(path, data + 1, size - 1);
    store = realloc(store, strlen(path) + 1);
    req.method = methods[data[0] % 5];
    req.head = data[0] % 5 == 1;
    req.path = path;
    r = route_match(sets, &req, store, allow, sizeof(allow), &err);
    assert(r == 0 || r == -ENOENT || r == -EINVAL || r == -EOPNOTSUPP);
    assert(req.set != NULL && (r == 0) == (req.route != NULL));
    assert(r == 0 || (err.msg[0] != '\0' && err.code == r));
    assert((r == -EOPNOTSUPP) == (allow[0] != '\0'));
    for (size_t i = 0; i < req.param_count && r == 0; i++)
        check_value(&req.params[i], req.route);
    free(path);
    free(store);
    return 0;
}
