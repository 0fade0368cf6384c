/* Routes and queries: what matches, what is refused, and that no name can leave its directory. */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/strtab.h"
#include "http/route-query.h"
#include "http/route.h"
#include "http/server.h"
#include "tap.h"

static void handler(struct http_request *req)
{
    (void)req;
}

static const struct route native[] = {
    {"GET", "/v1/sandboxes", handler, 0, 0},
    {"POST", "/v1/sandboxes", handler, ROUTE_BODY, 0},
    {"GET", "/v1/sandboxes/{id}", handler, 0, 0},
    {"DELETE", "/v1/sandboxes/{id}", handler, 0, 0},
    {"GET", "/v1/sandboxes/{id}/processes/{name}", handler, 0, 0},
    {"HEAD", "/v1/special", handler, 0, 0},
    {"GET", "/v1/special", handler, 0, 0},
    {"GET", "/v1/sandboxes/{id}/http/{port}/{path*}", handler, ROUTE_STREAM, 0},
    {0},
};
static const struct route engine[] = {
    {"GET", "/_ping", handler, 0, 0},
    {"GET", "/images/{name...}/json", handler, 0, 0},
    {"DELETE", "/images/{name...}", handler, 0, 0},
    {"GET", "/containers/{id}/json", handler, 0, 0},
    {0},
};
static const struct route_set sets[] = {
    {.routes = native},
    {.routes = engine, .version_prefix = true},
    {0},
};

static const struct {
    const char *method, *path;
    int code;
    const char *pattern; /* of what matches, else part of the message */
    const char *first, *second;
} rows[] = {
    {"GET", "/v1/sandboxes", 0, "/v1/sandboxes", NULL, NULL},
    {"GET", "/v1/sand%62oxes", 0, "/v1/sandboxes", NULL, NULL},
    {"GET", "/v1/sandboxes/a1", 0, "/v1/sandboxes/{id}", "a1", NULL},
    {"HEAD", "/v1/sandboxes/a1", 0, "/v1/sandboxes/{id}", "a1", NULL},
    {"HEAD", "/v1/special", 0, "/v1/special", NULL, NULL},
    {"GET", "/v1/sandboxes/a%20b", 0, "/v1/sandboxes/{id}", "a b", NULL},
    {"GET", "/v1/sandboxes/a%2525", 0, "/v1/sandboxes/{id}", "a%25", NULL}, /* once */
    {"GET", "/v1/sandboxes/...", 0, "/v1/sandboxes/{id}", "...", NULL},
    {"GET", "/v1/sandboxes/.hidden", 0, "/v1/sandboxes/{id}", ".hidden", NULL},
    {"GET", "/v1/sandboxes/a/processes/b", 0, "/v1/sandboxes/{id}/processes/{name}", "a", "b"},
    {"GET", "/images/alpine/json", 0, "/images/{name...}/json", "alpine", NULL},
    {"GET", "/images/a/b/c:1/json", 0, "/images/{name...}/json", "a/b/c:1", NULL},
    {"GET", "/images/a%2Fb%3A1/json", 0, "/images/{name...}/json", "a/b:1", NULL},
    {"GET", "/images/json/json", 0, "/images/{name...}/json", "json", NULL},
    {"DELETE", "/v1.41/images/a/json", 0, "/images/{name...}", "a/json", NULL},
    {"GET", "/v1.41/_ping", 0, "/_ping", NULL, NULL},
    {"GET", "/_ping", 0, "/_ping", NULL, NULL},
    {"GET", "/v1/sandboxes/a/http/80/x/..//%zz", 0, "/v1/sandboxes/{id}/http/{port}/{path*}", "a",
     NULL},
    {"GET", "/v1/sandboxes/a/http/80", 0, "/v1/sandboxes/{id}/http/{port}/{path*}", "a", NULL},
    {"GET", "/v1/sandboxes/a/http/80/", 0, "/v1/sandboxes/{id}/http/{port}/{path*}", "a", NULL},
    {"GET", "/v1/sandboxes/a/http", -ENOENT, "no such path", NULL, NULL},
    {"GET", "/v1/sandboxes/%zz/http/80/x", -EINVAL, "without two hex digits", NULL, NULL},
    {"GET", "/v1/sandboxes/a/http/%zz/x", -EINVAL, "without two hex digits", NULL, NULL},
    {"GET", "/v1/sandboxes/../http/80/x", -EINVAL, "the path's 'id' is no name", NULL, NULL},

    {"GET", "/", -ENOENT, "no such path", NULL, NULL},
    {"GET", "", -ENOENT, "no such path", NULL, NULL},
    {"GET", "*", -ENOENT, "no such path", NULL, NULL},
    {"GET", "v1/sandboxes", -ENOENT, "no such path", NULL, NULL},
    {"GET", "/v1/sandboxes/", -EINVAL, "the path's 'id' is no name", NULL, NULL},
    {"GET", "//v1/sandboxes", -ENOENT, "no such path", NULL, NULL},
    {"GET", "/v1%2fsandboxes", -ENOENT, "no such path", NULL, NULL},
    {"GET", "/v1/sandboxes/a/b", -ENOENT, "no such path", NULL, NULL},
    {"GET", "/v1.41/v1/sandboxes", -ENOENT, "no such path", NULL, NULL},
    {"GET", "/v1/_ping", -ENOENT, "no such path", NULL, NULL},
    {"GET", "/v1.x/_ping", -ENOENT, "no such path", NULL, NULL},
    {"GET", "/v1.41", -ENOENT, "no such path", NULL, NULL},
    {"GET", "/images/json", -EOPNOTSUPP, "this path takes DELETE", NULL, NULL},
    {"PUT", "/v1/sandboxes", -EOPNOTSUPP, "this path takes GET, HEAD, POST", NULL, NULL},
    {"GET", "/v1/sandboxes/%", -EINVAL, "without two hex digits", NULL, NULL},
    {"GET", "/v1/sandboxes/%2", -EINVAL, "without two hex digits", NULL, NULL},
    {"GET", "/v1/sandboxes/%zz", -EINVAL, "without two hex digits", NULL, NULL},
    {"GET", "/v1/sandboxes/%00", -EINVAL, "%00", NULL, NULL},
    {"GET", "/v1/sandboxes/a%00b", -EINVAL, "%00", NULL, NULL},
    {"GET", "/v1/sandboxes/..", -EINVAL, "the path's 'id' is no name", NULL, NULL},
    {"GET", "/v1/sandboxes/.", -EINVAL, "the path's 'id' is no name", NULL, NULL},
    {"GET", "/v1/sandboxes/%2e%2e", -EINVAL, "the path's 'id' is no name", NULL, NULL},
    {"GET", "/v1/sandboxes/..%2f..%2fetc", -EINVAL, "the path's 'id' is no name", NULL, NULL},
    {"GET", "/v1/sandboxes/a%2fb", -EINVAL, "the path's 'id' is no name", NULL, NULL},
    {"GET", "/v1/sandboxes/%2f", -EINVAL, "the path's 'id' is no name", NULL, NULL},
    {"GET", "/images/../json", -EINVAL, "the path's 'name' is no name", NULL, NULL},
    {"GET", "/images/a/../b/json", -EINVAL, "the path's 'name' is no name", NULL, NULL},
    {"GET", "/images/a%2f..%2fb/json", -EINVAL, "the path's 'name' is no name", NULL, NULL},
    {"GET", "/images/a//b/json", -EINVAL, "the path's 'name' is no name", NULL, NULL},
    {"GET", "/images/a%2f/json", -EINVAL, "the path's 'name' is no name", NULL, NULL},
};

TEST(a_route_matches_its_pattern_only)
{
    CHECK_INT(route_check(native, NULL), 0);
    CHECK_INT(route_check(engine, NULL), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_request req = {.method = rows[i].method, .path = rows[i].path};
        struct err err = ERR_NONE;
        char *store = malloc(strlen(req.path) + 1), allow[64] = "";
        int r;

        req.head = strcmp(req.method, "HEAD") == 0;
        r = route_match(sets, &req, store, allow, sizeof(allow), &err);
        if (r != rows[i].code)
            tap_fail("%s %s: %d (%s), want %d", req.method, req.path, r, err.msg, rows[i].code);
        else if (r < 0 && strstr(err.msg, rows[i].pattern) == NULL)
            tap_fail("%s %s: \"%s\"", req.method, req.path, err.msg);
        else if (r == 0 && strcmp(req.route->pattern, rows[i].pattern) != 0)
            tap_fail("%s %s: took %s", req.method, req.path, req.route->pattern);
        if (r == 0) {
            bool raw = strstr(rows[i].pattern, "*}") != NULL;

            CHECK_INT(req.param_count,
                      (rows[i].first != NULL) + (rows[i].second != NULL) + 2 * raw);
            if (raw) /* as it was sent, from the first slash behind the port on */
                CHECK(http_param(&req, "path") == req.path + strlen("/v1/sandboxes/a/http/80"));
            if (rows[i].first != NULL)
                CHECK_STR(req.params[0].value, rows[i].first);
            if (rows[i].second != NULL)
                CHECK_STR(http_param(&req, "name"), rows[i].second);
        }
        CHECK(req.set != NULL);
        free(store);
    }
}

TEST(more_segments_than_there_is_room_for)
{
    char path[2 * 70 + 1] = "", store[sizeof(path)], allow[64] = "";
    struct http_request req = {.method = "DELETE", .path = path};
    struct err err = ERR_NONE;

    for (size_t i = 0; i < sizeof(path) - 1; i++)
        path[i] = i % 2 == 0 ? '/' : 'a';
    CHECK_INT(route_match(sets, &req, store, allow, sizeof(allow), &err), -ENOENT);
}

TEST(version_and_sets)
{
    struct http_request req = {.method = "GET", .path = "/v1.24/images/x/y/json"};
    char store[64], allow[64] = "";
    struct err err = ERR_NONE;

    CHECK_INT(route_match(sets, &req, store, allow, sizeof(allow), &err), 0);
    CHECK_STR(req.version, "1.24");
    CHECK_STR(http_param(&req, "name"), "x/y");
    CHECK(req.set == &sets[1]);
    /* An error has the shape of the API that was meant. */
    req = (struct http_request){.method = "GET", .path = "/v1.24/nope"};
    CHECK_INT(route_match(sets, &req, store, allow, sizeof(allow), &err), -ENOENT);
    CHECK(req.set == &sets[1]);
    req = (struct http_request){.method = "PUT", .path = "/v1/sandboxes"};
    CHECK_INT(route_match(sets, &req, store, allow, sizeof(allow), &err), -EOPNOTSUPP);
    CHECK_STR(allow, "GET, HEAD, POST");
    CHECK(req.set == &sets[0]);
}

TEST(bad_tables)
{
    static const struct {
        struct route row;
        const char *message;
    } bad[] = {
        {{"GET", "a", handler, 0, 0}, "is no path"},
        {{"GET", "", handler, 0, 0}, "is no path"},
        {{"GET", "/a/", handler, 0, 0}, "an odd segment"},
        {{"GET", "/{a", handler, 0, 0}, "an odd segment"},
        {{"GET", "/a{b}", handler, 0, 0}, "an odd segment"},
        {{"GET", "/{}", handler, 0, 0}, "an odd segment"},
        {{"GET", "/{a...}/{b...}", handler, 0, 0}, "too many names"},
        {{"GET", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}", handler, 0, 0}, "too many names"},
        {{"GET", "/a", NULL, 0, 0}, "flags"},
        {{"GET", "/a", handler, ROUTE_STREAM | ROUTE_BODY, 0}, "flags"},
        {{"GET", "/x", handler, 0, 0}, "twice"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct route table[] = {{"GET", "/x", handler, 0, 0}, bad[i].row, {0}};
        struct err err = ERR_NONE;

        CHECK_INT(route_check(table, &err), -EINVAL);
        if (strstr(err.msg, bad[i].message) == NULL)
            tap_fail("%s: \"%s\"", bad[i].row.pattern, err.msg);
    }
}

/* ---- queries ---- */

struct answers {
    bool follow, all;
    int64_t tail;
    const char *name, *path;
    int order;
    struct query_list labels;
};

enum { ORDER_UP = 3, ORDER_DOWN };
static const struct strtab orders[] = {{"up", ORDER_UP}, {"down", ORDER_DOWN}, {0}};

static const struct query_field fields[] = {
    {.name = "follow", .type = QUERY_BOOL, .off = offsetof(struct answers, follow)},
    {.name = "all", .type = QUERY_BOOL, .off = offsetof(struct answers, all)},
    {.name = "tail",
     .type = QUERY_INT,
     .off = offsetof(struct answers, tail),
     .min = -5,
     .max = 1000},
    {.name = "name",
     .type = QUERY_STRING,
     .off = offsetof(struct answers, name),
     .min = 1,
     .max = 8},
    {.name = "path", .type = QUERY_BYTES, .off = offsetof(struct answers, path), .min = 1},
    {.name = "order", .type = QUERY_ENUM, .off = offsetof(struct answers, order), .names = orders},
    {.name = "label", .type = QUERY_LIST, .off = offsetof(struct answers, labels)},
    {0},
};

static int decode(const char *query, struct answers *a, struct err *err)
{
    static char copy[4096]; /* strings of *a point into it */

    *a = (struct answers){.tail = 7};
    (void)snprintf(copy, sizeof(copy), "%s", query);
    return query_decode(copy, fields, a, err);
}

TEST(queries_are_parsed)
{
    struct err err = ERR_NONE;
    struct answers a;

    CHECK_INT(query_decode(NULL, fields, &a, &err), 0);
    CHECK_INT(decode("", &a, &err), 0);
    CHECK_INT(a.tail, 7);
    CHECK_INT(
        decode("follow&all=1&tail=-5&name=a%20b+c&path=%ff%2F%26&order=down&label=a=b&label=c&&",
               &a, &err),
        0);
    CHECK(a.follow && a.all);
    CHECK_INT(a.tail, -5);
    CHECK_STR(a.name, "a b c");
    CHECK_STR(a.path, "\xff/&");
    CHECK_INT(a.order, ORDER_DOWN);
    CHECK_INT(a.labels.count, 2);
    CHECK_STR(a.labels.values[0], "a=b");
    CHECK_STR(a.labels.values[1], "c");
    CHECK_INT(decode("follow=false&all=0&t%61il=1000", &a, &err), 0);
    CHECK(!a.follow && !a.all);
    CHECK_INT(a.tail, 1000);
}

static const struct {
    const char *query;
    int code;
    const char *message;
} bad_queries[] = {
    {"nope=1", -EINVAL, "nope: unknown parameter"},
    {"=1", -EINVAL, ": unknown parameter"},
    {"Tail=1", -EINVAL, "Tail: unknown parameter"},
    {"tail=1&tail=1", -EINVAL, "tail: is there twice"},
    {"follow=yes", -EINVAL, "follow: must be true or false"},
    {"follow=True", -EINVAL, "follow: must be true or false"},
    {"tail=", -EINVAL, "tail: must be a whole number"},
    {"tail=-", -EINVAL, "tail: must be a whole number"},
    {"tail=+1", -EINVAL, "tail: must be a whole number"}, /* '+' is a blank */
    {"tail=%2B1", -EINVAL, "tail: must be a whole number"},
    {"tail=1x", -EINVAL, "tail: must be a whole number"},
    {"tail=0x1", -EINVAL, "tail: must be a whole number"},
    {"tail=1001", -ERANGE, "tail: must be between -5 and 1000"},
    {"tail=-6", -ERANGE, "tail: must be between -5 and 1000"},
    {"tail=99999999999999999999", -ERANGE, "tail: must be between -5 and 1000"},
    {"tail=-99999999999999999999", -ERANGE, "tail: must be between -5 and 1000"},
    {"name=", -ERANGE, "name: must have at least 1 bytes"},
    {"name=123456789", -ERANGE, "name: must have at most 8 bytes"},
    {"name=%ff", -EILSEQ, "name: is not UTF-8"},
    {"label=%c0%80", -EILSEQ, "label: is not UTF-8"},
    {"name=%00", -EINVAL, "the query holds '%' without two hex digits, or %00"},
    {"name=%4", -EINVAL, "the query holds '%' without two hex digits, or %00"},
    {"na%zzme=a", -EINVAL, "the query holds '%' without two hex digits, or %00"},
    {"order=sideways", -EINVAL, "order: is none of the values that are known"},
};

TEST(bad_queries_say_what)
{
    struct buf many = BUF_INIT(1 << 16);
    struct answers a;

    for (size_t i = 0; i < sizeof(bad_queries) / sizeof(bad_queries[0]); i++) {
        struct err err = ERR_NONE;
        int r = decode(bad_queries[i].query, &a, &err);

        if (r != bad_queries[i].code || strcmp(err.msg, bad_queries[i].message) != 0)
            tap_fail("%s: %d \"%s\"", bad_queries[i].query, r, err.msg);
    }
    for (int i = 0; i < QUERY_LIST_MAX; i++)
        (void)buf_append_str(&many, "label=x&");
    CHECK_INT(decode(many.data, &a, NULL), 0);
    CHECK_INT(a.labels.count, QUERY_LIST_MAX);
    (void)buf_append_str(&many, "label=x");
    CHECK_INT(decode(many.data, &a, NULL), -E2BIG);
    buf_done(&many);
    for (int i = 0; i < QUERY_KEYS_MAX; i++)
        (void)buf_append_str(&many, "&");
    CHECK_INT(decode(many.data, &a, NULL), -E2BIG);
    buf_done(&many);
}

TEST(required_parameters_are_demanded)
{
    static const struct query_field one[] = {
        {.name = "path", .type = QUERY_BYTES, .off = 0, .min = 1, .required = true}, {0}};
    struct err err = ERR_NONE;
    const char *path = NULL;
    char query[] = "path=x";

    CHECK_INT(query_decode(NULL, one, &path, &err), -EINVAL);
    CHECK_STR(err.msg, "path: is missing");
    CHECK_INT(query_decode(query, one, &path, &err), 0);
    CHECK_STR(path, "x");
    CHECK_INT(query_decode(NULL, NULL, NULL, &err), 0);
}

/* Parameters that no row names are skipped, however many; what is known is judged as ever. */
TEST(queries_with_unknown_parameters)
{
    struct err err = ERR_NONE;
    struct query_rest rest;
    struct answers a = {.tail = 7};
    char query[] = "Image=%ff%7B&tail=5&HostConfig&Image=2&Follow=x&name=ok&N%61me=4";
    char twice[] = "x=1&tail=5&x=2&tail=6", wrong[] = "x=1&tail=five", escape[] = "x=%zz";
    char many[4 * (QUERY_KEYS_MAX + 10) + 1] = "", none[] = "tail=5";

    CHECK_INT(query_decode_known(query, fields, &a, &rest, &err), 0);
    CHECK_INT(a.tail, 5);
    CHECK_STR(a.name, "ok");
    CHECK_INT(rest.count, 5);
    CHECK_STR(rest.first, "Image");
    for (size_t i = 0; i < QUERY_KEYS_MAX + 10; i++)
        (void)strcat(many, "x=1&");
    CHECK_INT(query_decode_known(many, NULL, NULL, &rest, &err), 0);
    CHECK_INT(rest.count, QUERY_KEYS_MAX + 10);
    CHECK_INT(query_decode_known(none, fields, &a, &rest, &err), 0);
    CHECK_INT(rest.count, 0);
    CHECK(rest.first == NULL);
    CHECK_INT(query_decode_known(twice, fields, &a, &rest, &err), -EINVAL);
    CHECK_STR(err.msg, "tail: is there twice");
    CHECK_INT(query_decode_known(wrong, fields, &a, &rest, &err), -EINVAL);
    CHECK_STR(err.msg, "tail: must be a whole number");
    CHECK_INT(query_decode_known(escape, fields, &a, &rest, &err), -EINVAL);
}

TAP_MAIN
