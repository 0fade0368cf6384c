#include "http/route.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "http/server.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int percent_decode(char *dst, const char *src, size_t len, bool plus)
{
    char *out = dst;

    for (size_t i = 0; i < len; i++) {
        int high, low;

        if (src[i] != '%') {
            *out++ = plus && src[i] == '+' ? ' ' : src[i];
            continue;
        }
        if (len - i < 3)
            return -EINVAL;
        high = hex_digit(src[i + 1]);
        low = hex_digit(src[i + 2]);
        if (high < 0 || low < 0 || high + low == 0)
            return -EINVAL;
        *out++ = (char)(high << 4 | low);
        i += 2;
    }
    *out = '\0';
    return (int)(out - dst);
}

/* ---- patterns ---- */

enum part_kind { PART_LITERAL, PART_NAME, PART_REST, PART_RAW };

/* One segment of a pattern, by pointers into it. */
struct route_part {
    enum part_kind kind;
    const char *text;
    size_t len;
};

/* Returns the next segment of the rest of a pattern ("/a/{b}"); false at its end. */
static bool pattern_next_part(const char **pattern, struct route_part *p)
{
    const char *start = *pattern;

    if (*start != '/')
        return false;
    start++;
    p->text = start;
    p->len = strcspn(start, "/");
    p->kind = PART_LITERAL;
    *pattern = start + p->len;
    if (p->len < 3 || start[0] != '{')
        return true;
    p->text++;
    p->len -= 2;
    p->kind = PART_NAME;
    if (p->len > 3 && memcmp(p->text + p->len - 3, "...", 3) == 0) {
        p->len -= 3;
        p->kind = PART_REST;
    } else if (p->len > 1 && p->text[p->len - 1] == '*') {
        p->len--;
        p->kind = PART_RAW;
    }
    return true;
}

static size_t pattern_count_parts(const char *pattern, bool *has_rest, bool *has_raw)
{
    struct route_part p;
    size_t n = 0;

    *has_rest = *has_raw = false;
    for (; pattern_next_part(&pattern, &p); n++) {
        *has_rest = *has_rest || p.kind == PART_REST;
        *has_raw = *has_raw || p.kind == PART_RAW;
    }
    return n;
}

static int pattern_check(const struct route *route, struct err *err)
{
    const char *rest = route->pattern;
    size_t names = 0, rests = 0;
    struct route_part p = {.kind = PART_LITERAL};

    while (pattern_next_part(&rest, &p)) {
        bool braces = memchr(p.text, '{', p.len) != NULL || memchr(p.text, '}', p.len) != NULL;

        if ((p.len == 0 && strcmp(route->pattern, "/") != 0) || braces)
            return err_set(err, -EINVAL, "route %s %s: an odd segment", route->method,
                           route->pattern);
        names += p.kind != PART_LITERAL;
        rests += p.kind == PART_REST || p.kind == PART_RAW;
        if (p.kind == PART_RAW && *rest != '\0')
            return err_set(err, -EINVAL, "route %s %s: more behind what is left", route->method,
                           route->pattern);
    }
    if (*rest != '\0' || rest == route->pattern)
        return err_set(err, -EINVAL, "route %s %s: is no path", route->method, route->pattern);
    if (names > HTTP_MAX_PARAMS || rests > 1)
        return err_set(err, -EINVAL, "route %s %s: too many names", route->method, route->pattern);
    return 0;
}

int route_check(const struct route *routes, struct err *err)
{
    for (const struct route *a = routes; a->method != NULL; a++) {
        unsigned stream = a->flags & ROUTE_STREAM;
        int r = pattern_check(a, err);

        if (r < 0)
            return r;
        if (a->handler == NULL || (stream != 0 && (a->flags & (ROUTE_BODY | ROUTE_UPGRADE)) != 0))
            return err_set(err, -EINVAL, "route %s %s: flags", a->method, a->pattern);
        for (const struct route *b = routes; b != a; b++)
            if (strcmp(a->method, b->method) == 0 && strcmp(a->pattern, b->pattern) == 0)
                return err_set(err, -EINVAL, "route %s %s: twice", a->method, a->pattern);
    }
    return 0;
}

/* ---- paths ---- */

/* A path's decoded segments, NUL-terminated, adjacent in the store. Only a {name*} may begin at
 * or before a bad escape. */
struct path {
    char *segments[ROUTE_SEGMENTS_MAX];
    size_t count;
    size_t good;    /* number of segments before the first bad escape */
    bool unbounded; /* more than ROUTE_SEGMENTS_MAX segments */
};

static int path_split(const char *path, char *store, struct path *ret, struct err *err)
{
    *ret = (struct path){.good = SIZE_MAX};
    if (*path != '/')
        return err_set(err, -ENOENT, "no such path");
    while (*path == '/') {
        size_t len = strcspn(++path, "/");
        int n = percent_decode(store, path, len, false);

        if (ret->count == ROUTE_SEGMENTS_MAX) {
            ret->unbounded = true;
            break;
        }
        if (n < 0) {
            n = 0;
            *store = '\0';
            ret->good = ret->good < ret->count ? ret->good : ret->count;
        }
        ret->segments[ret->count++] = store;
        store += n + 1;
        path += len;
    }
    return 0;
}

static bool segment_is_version(const char *s)
{
    size_t major, minor;

    if (s[0] != 'v')
        return false;
    major = strspn(s + 1, "0123456789");
    if (major == 0 || s[1 + major] != '.')
        return false;
    minor = strspn(s + 2 + major, "0123456789");
    return minor > 0 && s[2 + major + minor] == '\0';
}

/* Compares structure and literals only; values are checked once a row is chosen. */
static bool pattern_matches(const char *pattern, const struct path *path, size_t first)
{
    size_t have = path->count - first, parts;
    const char *rest = pattern;
    struct route_part p;
    bool has_rest, has_raw;

    parts = pattern_count_parts(pattern, &has_rest, &has_raw);
    if (has_raw && (have < parts - 1 || path->good < first + parts - 1))
        return false;
    if (!has_raw &&
        ((has_rest ? have < parts : have != parts) || path->good < path->count || path->unbounded))
        return false;
    for (size_t i = first; pattern_next_part(&rest, &p) && p.kind != PART_RAW; i++) {
        const char *segment = path->segments[i];

        assert(segment != NULL); /* there are as many segments as parts */
        if (p.kind == PART_REST)
            i += have - parts;
        else if (p.kind == PART_LITERAL &&
                 (strncmp(segment, p.text, p.len) != 0 || segment[p.len] != '\0'))
            return false;
    }
    return true;
}

/* A value that names a file beneath a directory must not lead out of it. */
static bool segment_is_safe(const char *segment, bool slashes)
{
    if (*segment == '\0' || (!slashes && strchr(segment, '/') != NULL))
        return false;
    do {
        size_t len = strcspn(segment, "/");

        if (len == 0 || (len <= 2 && strspn(segment, ".") >= len))
            return false;
        segment += len;
    } while (*segment++ == '/');
    return true;
}

/* Returns the rest of a path after n segments, undecoded. */
static const char *path_raw_rest(const char *path, size_t n)
{
    for (; n > 0 && *path != '\0'; n--)
        path += 1 + strcspn(path + 1, "/");
    return path;
}

static int route_take_params(const struct route *route, const struct path *path, size_t first,
                             struct http_request *req, struct err *err)
{
    size_t have = path->count - first, parts, n = 0;
    const char *rest = route->pattern;
    struct route_part p;
    bool has_rest, has_raw;

    parts = pattern_count_parts(route->pattern, &has_rest, &has_raw);
    for (size_t i = first; pattern_next_part(&rest, &p); i++) {
        char *value;

        if (p.kind == PART_LITERAL)
            continue;
        if (p.kind == PART_RAW) {
            req->params[n++] = (struct http_param){
                .name = p.text, .name_len = p.len, .value = path_raw_rest(req->path, i)};
            break;
        }
        value = path->segments[i];
        assert(value != NULL); /* pattern_matches has counted them */
        for (size_t more = p.kind == PART_REST ? have - parts : 0; more > 0; more--, i++)
            value[strlen(value)] = '/'; /* the NUL between this segment and the next */
        if (!segment_is_safe(value, p.kind == PART_REST))
            return err_set(err, -EINVAL, "the path's '%.*s' is no name", (int)p.len, p.text);
        req->params[n++] = (struct http_param){.name = p.text, .name_len = p.len, .value = value};
    }
    req->param_count = n;
    return 0;
}

/* Returns the index of the first segment after a set's version prefix. */
static size_t path_first_segment(const struct route_set *set, const struct path *path)
{
    return set->version_prefix && path->count > 1 && segment_is_version(path->segments[0]) ? 1 : 0;
}

static const struct route *route_find(const struct route_set *set, const struct path *path,
                                      const char *method)
{
    size_t first = path_first_segment(set, path);

    for (const struct route *r = set->routes; r->method != NULL; r++)
        if (strcmp(r->method, method) == 0 && pattern_matches(r->pattern, path, first))
            return r;
    return NULL;
}

static void allow_add_method(const char *method, char *allow, size_t size)
{
    size_t len = strlen(allow);
    const char *at = strstr(allow, method);
    char before = at == NULL || at == allow ? ' ' : at[-1];
    char after = at == NULL ? 'x' : at[strlen(method)];

    if (before == ' ' && (after == '\0' || after == ','))
        return;
    (void)snprintf(allow + len, size - len, "%s%s", len > 0 ? ", " : "", method);
}

/* No row matches: collects the methods that this path has. */
static int route_explain_miss(const struct route_set *sets, const struct path *path,
                              struct http_request *req, char *allow, size_t size, struct err *err)
{
    for (const struct route_set *set = sets; set->routes != NULL; set++) {
        size_t first = path_first_segment(set, path);

        for (const struct route *r = set->routes; r->method != NULL; r++) {
            if (!pattern_matches(r->pattern, path, first))
                continue;
            req->set = set;
            allow_add_method(r->method, allow, size);
            if (strcmp(r->method, "GET") == 0)
                allow_add_method("HEAD", allow, size);
        }
        if (*allow != '\0')
            return err_set(err, -EOPNOTSUPP, "this path takes %s", allow);
        if (first > 0)
            req->set = set; /* only such sets have a version prefix */
    }
    return err_set(err, -ENOENT, "no such path");
}

int route_match(const struct route_set *sets, struct http_request *req, char *store, char *allow,
                size_t allow_size, struct err *err)
{
    const struct route *route = NULL;
    struct path path;
    int r;

    req->set = sets;
    r = path_split(req->path, store, &path, err);
    if (r < 0)
        return r;
    for (const struct route_set *set = sets; set->routes != NULL && route == NULL; set++) {
        route = route_find(set, &path, req->method);
        if (route == NULL && req->head)
            route = route_find(set, &path, "GET");
        if (route != NULL)
            req->set = set;
    }
    if (route == NULL && path.good < path.count)
        return err_set(err, -EINVAL, "the path holds '%%' without two hex digits, or %%00");
    if (route == NULL && path.unbounded)
        return err_set(err, -ENOENT, "no such path");
    if (route == NULL)
        return route_explain_miss(sets, &path, req, allow, allow_size, err);
    r = route_take_params(route, &path, path_first_segment(req->set, &path), req, err);
    if (r < 0)
        return r;
    if (path_first_segment(req->set, &path) > 0)
        req->version = path.segments[0] + 1;
    req->route = route;
    req->context = req->set->context;
    return 0;
}
