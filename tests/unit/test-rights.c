/* Rights to objects, and the table of what each route needs. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/docker/docker.h"
#include "api/native/native.h"
#include "api/rights-table.h"
#include "base/err.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "spec/share.h"
#include "spec/spec.h"
#include "tap.h"

static struct caller member(uid_t uid)
{
    return (struct caller){.uid = uid, .limited = true, .daemon = 1000, .gid = uid, .fd = -1};
}

static struct caller full(uid_t uid)
{
    return (struct caller){.uid = uid, .daemon = 1000, .fd = -1};
}

TEST(rights_to_objects_of_an_owner)
{
    static const gid_t groups[] = {50, 60};
    struct share_list shares = {.list = NULL};
    struct caller in_group = member(3);
    const struct caller root = full(0), daemon = full(1000), one = member(1), two = member(2);

    in_group.groups = groups;
    in_group.group_count = 2;
    CHECK_INT(share_list_add(&shares, "user:2:ro", NULL), 0);
    CHECK_INT(share_list_add(&shares, "group:60", NULL), 0);
    CHECK_INT(right_to(&root, 1, NULL), RIGHT_OWN);
    CHECK_INT(right_to(&daemon, 1, NULL), RIGHT_OWN);
    CHECK_INT(right_to(&one, 1, NULL), RIGHT_OWN);
    CHECK_INT(right_to(&two, 1, NULL), RIGHT_NONE);
    CHECK_INT(right_to(&two, 1, &shares), RIGHT_SEE);
    CHECK_INT(right_to(&in_group, 1, &shares), RIGHT_USE);
    /* Without an owner, and of root's: the daemon's. */
    CHECK_INT(right_to(&one, -1, NULL), RIGHT_NONE);
    CHECK_INT(right_to(&one, 0, NULL), RIGHT_NONE);
    CHECK_INT(right_to(&one, -1, &shares), RIGHT_NONE);
    CHECK(right_is_own(&root, -1) && right_is_own(&root, 1000) && right_is_own(&daemon, 0));
    CHECK(!right_is_own(&root, 1) && right_is_own(&one, 1) && !right_is_own(&one, -1));
    /* A uid that looks like "none" is no other user's. */
    const struct caller odd = member((uid_t)-1);

    CHECK_INT(right_to(&odd, -1, NULL), RIGHT_NONE);
    /* The best of several shares counts; the last for an id replaces. */
    CHECK_INT(share_list_add(&shares, "group:50:ro", NULL), 0);
    CHECK_INT(right_to(&in_group, 1, &shares), RIGHT_USE);
    CHECK_INT(share_list_add(&shares, "group:60:ro", NULL), 0);
    CHECK_INT(right_to(&in_group, 1, &shares), RIGHT_SEE);
    CHECK_INT(shares.count, 3);
    share_list_done(&shares);
}

TEST(texts_of_shares)
{
    static const char *const bad[] = {
        "",          "alice",      "user:",           "user:-1",
        "user:1:rw", "user:1:ro ", "user:4294967295", "group:x",
        "user:1:",   "USER:1",     "user: 1",         "group:99999999999"};
    struct share_list l = {.list = NULL};
    char text[SHARE_TEXT_MAX];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = ERR_NONE;

        CHECK_INT(share_list_add(&l, bad[i], &err), -EINVAL);
        CHECK(strstr(err.msg, "must be user:UID or group:GID") != NULL);
    }
    CHECK_INT(share_list_add(&l, "group:4294967294:ro", NULL), 0);
    share_format(&l.list[0], text);
    CHECK_STR(text, "group:4294967294:ro");
    for (unsigned i = 1; i < SHARES_MAX; i++) {
        (void)snprintf(text, sizeof(text), "user:%u", i);
        CHECK_INT(share_list_add(&l, text, NULL), 0);
    }
    CHECK_INT(share_list_add(&l, "user:9999", NULL), -E2BIG);
    share_list_done(&l);
}

static struct sandbox *make(struct supervisor *sup, const char *id, const char *name, int64_t maker)
{
    struct spec *spec = spec_new();
    struct sandbox *s;

    if (spec == NULL || (spec->name = strdup(name)) == NULL ||
        (s = sandbox_alloc(sup, id, spec)) == NULL)
        abort();
    s->made.by = maker;
    return s;
}

TEST(lookups_are_of_what_the_caller_sees)
{
    const struct caller one = member(1), two = member(2), root = full(0);
    uv_loop_t loop;
    struct supervisor sup = {.loop = &loop};
    struct sandbox *all[5], *s = NULL;
    struct err err = ERR_NONE, none = ERR_NONE;

    sup.sandboxes_end = &sup.sandboxes;
    CHECK_INT(uv_loop_init(&loop), 0);
    all[0] = make(&sup, "abcd000000000001", "web", 1);
    all[1] = make(&sup, "abcd000000000002", "web", 2);
    all[2] = make(&sup, "1234000000000003", "db", 0);
    all[3] = make(&sup, "ffff000000000004", "1234", 1);             /* the beginning of root's id */
    all[4] = make(&sup, "eeee000000000005", "1234000000000003", 2); /* all of it */
    CHECK_INT(sandbox_find_for(&sup, &one, "web", &s, NULL), 0);
    CHECK(s == all[0]);
    CHECK_INT(sandbox_find_for(&sup, &two, "web", &s, NULL), 0);
    CHECK(s == all[1]);
    CHECK_INT(sandbox_find_for(&sup, &root, "web", &s, NULL), -ENOTUNIQ);
    /* Prefixes count only what is seen. */
    CHECK_INT(sandbox_find_for(&sup, &one, "abcd", &s, NULL), 0);
    CHECK(s == all[0]);
    /* Names that are others' ids lead only their owners astray. */
    CHECK_INT(sandbox_find_for(&sup, &root, "1234", &s, NULL), 0);
    CHECK(s == all[2]);
    CHECK_INT(sandbox_find_for(&sup, &root, "1234000000000003", &s, NULL), 0);
    CHECK(s == all[2]);
    CHECK_INT(sandbox_find_for(&sup, &two, "1234000000000003", &s, NULL), 0);
    CHECK(s == all[4]);
    /* A foreign name, a foreign id and one that is free have one text. */
    CHECK_INT(sandbox_find_for(&sup, &one, "db", &s, &err), -ENOENT);
    CHECK_STR(err.msg, "sandbox 'db': there is none of this name or id");
    CHECK_INT(sandbox_find_for(&sup, &one, "1234000000000003", &s, &none), -ENOENT);
    CHECK_STR(none.msg, "sandbox '1234000000000003': there is none of this name or id");
    /* Names are taken by one's own alone. */
    CHECK(!sandbox_name_taken(&sup, &one, "db", NULL) &&
          sandbox_name_taken(&sup, &root, "db", NULL));
    CHECK(sandbox_name_taken(&sup, &one, "web", NULL) &&
          !sandbox_name_taken(&sup, &root, "web", NULL));
    CHECK(!sandbox_name_taken(&sup, &one, "web", all[0]));
    /* What a spec names is its maker's, whatever others have. */
    CHECK(sandbox_find_beside(all[2], "web") == NULL &&
          sandbox_find_beside(all[3], "web") == all[0]);
    /* A share is seen, after one's own. */
    CHECK_INT(spec_add_share(all[1]->spec, "user:1:ro", NULL), 0);
    CHECK_INT(sandbox_find_for(&sup, &one, "web", &s, NULL), 0);
    CHECK(s == all[0]);
    CHECK_INT(sandbox_find_for(&sup, &one, "abcd000000000002", &s, NULL), 0);
    CHECK(s == all[1]);
    CHECK_INT(sandbox_check_right(s, &one, RIGHT_SEE, NULL), 0);
    CHECK_INT(sandbox_check_right(s, &one, RIGHT_USE, NULL), -EPERM);
    for (size_t i = 0; i < 5; i++)
        sandbox_forget(all[i]);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
}

/* ---- the table ---- */

static void nothing(struct http_request *req)
{
    (void)req;
}

static size_t all_sets(struct route_set *sets)
{
    static struct native n;
    size_t count = native_route_sets(&n, sets);

    return count + docker_route_sets(&n, sets + count);
}

TEST(every_route_has_a_row)
{
    struct route_set sets[NATIVE_SETS_MAX + DOCKER_SETS_MAX + 1] = {0};
    struct rights *rights = NULL;
    struct err err = ERR_NONE;

    (void)all_sets(sets);
    CHECK_INT(rights_new(sets, &rights, &err), 0);
    CHECK_STR(err.msg, "");
    rights_free(rights);
}

TEST(every_row_has_a_route_and_is_there_once)
{
    struct route_set sets[NATIVE_SETS_MAX + DOCKER_SETS_MAX + 1] = {0};

    (void)all_sets(sets);
    for (const struct rights_row *row = rights_table; row->method != NULL; row++) {
        bool found = false;

        for (const struct route_set *s = sets; s->routes != NULL; s++)
            for (const struct route *r = s->routes; r->method != NULL; r++)
                found |=
                    strcmp(r->method, row->method) == 0 && strcmp(r->pattern, row->pattern) == 0;
        if (!found)
            tap_fail("%s %s: is a row without a route", row->method, row->pattern);
        for (const struct rights_row *b = rights_table; b != row; b++)
            if (strcmp(b->method, row->method) == 0 && strcmp(b->pattern, row->pattern) == 0)
                tap_fail("%s %s: twice", row->method, row->pattern);
        /* What names a sandbox needs a right to it, or answers all alike. */
        if (strstr(row->pattern, "{id}") != NULL)
            CHECK(row->need != NEED_CALLER);
    }
}

TEST(a_route_without_a_row_is_refused)
{
    static const struct route routes[] = {{"GET", "/v1/version", nothing, 0, 0},
                                          {"GET", "/v1/sandboxes/{id}/new", nothing, 0, 0},
                                          {0}};
    const struct route_set sets[] = {{.routes = routes}, {0}};
    struct rights *rights = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(rights_new(sets, &rights, &err), -EINVAL);
    CHECK_STR(err.msg, "route GET /v1/sandboxes/{id}/new: has no row in the table of rights");
    CHECK(rights == NULL);
    CHECK_INT(rights_need(NULL, &routes[0]), NEED_DAEMON);
    CHECK_INT(need_right(NEED_DAEMON), RIGHT_OWN);
}

TAP_MAIN
