/*
 * docs/openapi.json against the route table, both ways: every route is described, and every
 * operation that is described is served. Also what a generator of clients relies on: ids of
 * operations are unique, parts of paths are declared, references lead somewhere.
 */

#include <errno.h>
#include <jansson.h>
#include <strings.h>

#include "api/native/native.h"
#include "base/err.h"
#include "http/route.h"
#include "json/parse.h"
#include "tap.h"

static const char *const methods[] = {"get", "put", "post", "delete", "patch", "head", NULL};

static json_t *load(void)
{
    json_t *root = NULL;
    struct err err = ERR_NONE;
    const char *text;
    size_t len;

    text = native_openapi(&len);
    if (json_parse(text, len, 8 << 20, &root, &err) < 0)
        tap_fail("docs/openapi.json: %s", err.msg);
    return root != NULL ? root : json_object();
}

/* "/v1/x/{path...}" and "/v1/x/{path*}" are "/v1/x/{path}" in the description. */
static void described_path(char *out, size_t size, const char *pattern)
{
    size_t n = 0;

    while (*pattern != '\0' && n + 1 < size) {
        if (strncmp(pattern, "...}", 4) == 0)
            pattern += 3;
        if (strncmp(pattern, "*}", 2) == 0)
            pattern++;
        out[n++] = *pattern++;
    }
    out[n] = '\0';
}

TEST(every_route_is_described)
{
    json_t *root = load(), *paths = json_object_get(root, "paths");
    size_t count = 0;

    for (size_t t = 0; native_tables[t] != NULL; t++)
        for (const struct route *r = native_tables[t]; r->method != NULL; r++) {
            char path[256], method[16] = "";

            described_path(path, sizeof(path), r->pattern);
            for (size_t i = 0; r->method[i] != '\0' && i + 1 < sizeof(method); i++)
                method[i] = (char)(r->method[i] | 0x20);
            if (json_object_get(json_object_get(paths, path), method) == NULL)
                tap_fail("%s %s is served and not described", r->method, r->pattern);
            count++;
        }
    CHECK(count > 10);
    json_decref(root);
}

static bool is_served(const char *path, const char *method)
{
    for (size_t t = 0; native_tables[t] != NULL; t++)
        for (const struct route *r = native_tables[t]; r->method != NULL; r++) {
            char described[256];

            described_path(described, sizeof(described), r->pattern);
            if (strcmp(described, path) == 0 && strcasecmp(r->method, method) == 0)
                return true;
        }
    return false;
}

TEST(every_operation_is_served)
{
    json_t *root = load(), *item;
    const char *path;
    size_t count = 0;

    json_object_foreach(json_object_get(root, "paths"), path, item)
        for (const char *const *m = methods; *m != NULL; m++)
            if (json_object_get(item, *m) != NULL) {
                if (!is_served(path, *m))
                    tap_fail("%s %s is described and not served", *m, path);
                count++;
            }
    CHECK(count > 10);
    json_decref(root);
}

/* A parameter by name, also behind a reference, in the path's or the operation's list. */
static bool declares(json_t *root, json_t *list, const char *name)
{
    json_t *p;
    size_t i;

    json_array_foreach(list, i, p) {
        const char *ref = json_string_value(json_object_get(p, "$ref"));
        static const char prefix[] = "#/components/parameters/";

        if (ref != NULL && strncmp(ref, prefix, sizeof(prefix) - 1) == 0)
            p = json_object_get(json_object_get(json_object_get(root, "components"), "parameters"),
                                ref + sizeof(prefix) - 1);
        if (p != NULL && strcmp(json_string_value(json_object_get(p, "in")), "path") == 0 &&
            strcmp(json_string_value(json_object_get(p, "name")), name) == 0)
            return true;
    }
    return false;
}

static void check_operation(json_t *root, const char *path, json_t *item, json_t *op, json_t *ids)
{
    const char *id = json_string_value(json_object_get(op, "operationId"));

    if (id == NULL || json_object_get(ids, id) != NULL)
        tap_fail("%s: operationId \"%s\" is missing or used twice", path, id ? id : "");
    else
        (void)json_object_set_new(ids, id, json_true());
    if (json_object_get(json_object_get(op, "responses"), "default") == NULL)
        tap_fail("%s: no default response", path);
    for (const char *at = strchr(path, '{'); at != NULL; at = strchr(at + 1, '{')) {
        char name[64];

        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 1, "}"), at + 1);
        if (!declares(root, json_object_get(item, "parameters"), name) &&
            !declares(root, json_object_get(op, "parameters"), name))
            tap_fail("%s: {%s} is not declared", path, name);
    }
}

TEST(operations_are_whole)
{
    json_t *root = load(), *item, *ids = json_object();
    const char *path;

    json_object_foreach(json_object_get(root, "paths"), path, item)
        for (const char *const *m = methods; *m != NULL; m++)
            if (json_object_get(item, *m) != NULL)
                check_operation(root, path, item, json_object_get(item, *m), ids);
    CHECK(json_object_size(ids) > 10);
    json_decref(ids);
    json_decref(root);
}

static json_t *follow(json_t *root, const char *ref)
{
    char text[256];
    char *save = NULL;

    if (strncmp(ref, "#/", 2) != 0)
        return NULL;
    (void)snprintf(text, sizeof(text), "%s", ref + 2);
    for (char *part = strtok_r(text, "/", &save); part != NULL && root != NULL;
         part = strtok_r(NULL, "/", &save))
        root = json_object_get(root, part);
    return root;
}

static size_t check_refs(json_t *root, json_t *at)
{
    const char *key, *ref = json_string_value(json_object_get(at, "$ref"));
    size_t i, count = 0;
    json_t *value;

    if (ref != NULL) {
        if (follow(root, ref) == NULL)
            tap_fail("\"%s\" leads nowhere", ref);
        return 1;
    }
    json_object_foreach(at, key, value)
        count += check_refs(root, value);
    json_array_foreach(at, i, value)
        count += check_refs(root, value);
    return count;
}

TEST(references_lead_somewhere)
{
    json_t *root = load();

    CHECK(check_refs(root, root) > 10);
    CHECK_STR(json_string_value(json_object_get(root, "openapi")), "3.1.0");
    json_decref(root);
}

TEST(the_tables_are_well_formed)
{
    struct route_set sets[NATIVE_SETS_MAX + 1];
    struct native n = {.watchers = 0};
    struct err err = ERR_NONE;
    size_t count = native_route_sets(&n, sets);

    for (size_t i = 0; i < count; i++) {
        CHECK_INT(route_check(sets[i].routes, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK(sets[i].context == &n);
    }
    CHECK(sets[count].routes == NULL);
}

TAP_MAIN
