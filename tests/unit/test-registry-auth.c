/* Credentials in Docker's files and headers, and what a name means. */

#include <errno.h>

#include "base/err.h"
#include "image/registry-auth.h"
#include "policy/internet.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

TEST(a_name_says_where_its_registry_is)
{
    static const struct {
        const char *text, *host, *connect, *repository, *key;
    } rows[] = {
        {"busybox", "docker.io", "registry-1.docker.io", "library/busybox", REGISTRY_HUB_KEY},
        {"index.docker.io/me/app:1", "docker.io", "registry-1.docker.io", "me/app",
         REGISTRY_HUB_KEY},
        {"localhost:5000/a/b/c@sha256:"
         "0123456789012345678901234567890123456789012345678901234567890123",
         "localhost:5000", "localhost:5000", "a/b/c", "localhost:5000"},
        {"ghcr.io/x/y", "ghcr.io", "ghcr.io", "x/y", "ghcr.io"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct registry_name n;
        struct reference r;
        struct err err = ERR_NONE;

        CHECK_INT(reference_parse(rows[i].text, &r, &err), 0);
        registry_name_split(&r, &n);
        CHECK_STR(n.host, rows[i].host);
        CHECK_STR(n.connect, rows[i].connect);
        CHECK_STR(n.repository, rows[i].repository);
        CHECK_STR(registry_key_of(n.host), rows[i].key);
    }
}

static const char file[] =
    "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"dTpwOnE=\"},"
    "\"https://old.example/v1/\":{\"auth\":\"dTpwAAA=\"},"
    "\"r:5000\":{\"identitytoken\":\"i\"},\"bad\":{\"auth\":\"OnA=\"},\"worse\":{\"auth\":\"*\"},"
    "\"p.example\":{\"auth\":\"YTpi\"},\"p.example/ns\":{\"auth\":\"Yzpk\"},"
    "\"plain\":{\"username\":\"u\",\"password\":\"p\"},\"empty\":{}},"
    "\"credHelpers\":{\"h.example\":\"ecr-login\"},\"other\":{\"kept\":[1,2]}}";

TEST(a_host_has_the_entry_that_is_its_own)
{
    static const struct {
        const char *host, *repository, *user, *password, *identity, *helper;
        int code;
    } rows[] = {
        {"docker.io", NULL, "u", "p:q", NULL, "", 0},
        {"old.example", "a/b", "u", "p", NULL, "", 0}, /* trailing NULs are dropped */
        {"r:5000", NULL, NULL, NULL, "i", "", 0},
        {"r", NULL, NULL, NULL, NULL, "", 0},
        {"p.example", "ns/x", "c", "d", NULL, "", 0},
        {"p.example", "nsx", "a", "b", NULL, "", 0},
        {"p.example", NULL, "a", "b", NULL, "", 0},
        {"plain", NULL, "u", "p", NULL, "", 0},
        {"empty", NULL, NULL, NULL, NULL, "", 0},
        {"h.example", NULL, NULL, NULL, NULL, "ecr-login", 0},
        {"bad", NULL, NULL, NULL, NULL, "", -EINVAL},
        {"worse", NULL, NULL, NULL, NULL, "", -EINVAL},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        auto_ptr(registry_auth_free) struct registry_auth *a = NULL;
        char helper[REGISTRY_HELPER_MAX + 1];
        struct err err = ERR_NONE;
        int r = registry_config_find(file, strlen(file), rows[i].host, rows[i].repository, &a,
                                     helper, &err);

        if (r != rows[i].code)
            tap_fail("%s: %d %s", rows[i].host, r, err.msg);
        if (r < 0)
            continue;
        CHECK_STR(helper, rows[i].helper);
        CHECK((a != NULL) == (rows[i].user != NULL || rows[i].identity != NULL));
        if (a != NULL && rows[i].user != NULL) {
            CHECK_STR(a->username, rows[i].user);
            CHECK_STR(a->password, rows[i].password);
        }
        if (a != NULL && rows[i].identity != NULL)
            CHECK_STR(a->identity, rows[i].identity);
    }
}

TEST(a_change_touches_one_entry_and_keeps_the_rest_in_order)
{
    char user[] = "new", password[] = "x";
    const struct registry_auth mine = {.username = user, .password = password};
    auto_free char *next = NULL, *gone = NULL, *nothing = NULL, *fresh = NULL;
    auto_ptr(registry_auth_free) struct registry_auth *a = NULL;
    char helper[REGISTRY_HELPER_MAX + 1];
    struct err err = ERR_NONE;
    const char *at;

    CHECK_INT(registry_config_change(file, strlen(file), "docker.io", &mine, &next, &err), 0);
    if (next == NULL)
        return;
    CHECK(strstr(next, "\"kept\"") != NULL);
    at = strstr(next, "index.docker.io");
    CHECK(at != NULL && strstr(at, "old.example") != NULL);
    CHECK_INT(registry_config_find(next, strlen(next), "docker.io", NULL, &a, helper, &err), 0);
    CHECK(a != NULL && strcmp(a->username, "new") == 0);
    CHECK_INT(registry_config_change(next, strlen(next), "docker.io", NULL, &gone, &err), 0);
    CHECK(gone != NULL && strstr(gone, "docker.io") == NULL && strstr(gone, "old.example") != NULL);
    CHECK_INT(registry_config_change(file, strlen(file), "none", NULL, &nothing, &err), 0);
    CHECK(nothing == NULL);
    CHECK_INT(registry_config_change("", 0, "docker.io", &mine, &fresh, &err), 0);
    CHECK(fresh != NULL && strstr(fresh, REGISTRY_HUB_KEY) != NULL);
    CHECK(registry_config_change("{\"auths\":5}", 11, "x", &mine, &fresh, &err) < 0);
}

TEST(a_header_is_for_one_host)
{
    static const struct {
        const char *text, *user, *host;
        int code;
    } rows[] = {
        {"eyJ1c2VybmFtZSI6InUiLCJwYXNzd29yZCI6Ij8_"
         "PyIsInNlcnZlcmFkZHJlc3MiOiJodHRwczovL2luZGV4LmRvY2tlci5pby92MS8ifQ",
         "u", "docker.io", 0},
        {"e30=", NULL, "", 0},
        {"e30", NULL, "", 0},
        {"bnVsbA==", NULL, "", 0},
        {"", NULL, "", 0},
        {"*", NULL, "", -EINVAL},
        {"YWJj", NULL, "", -EINVAL},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        auto_ptr(registry_auth_free) struct registry_auth *a = NULL;
        char host[REFERENCE_NAME_MAX + 1] = "?";
        struct err err = ERR_NONE;
        int r = registry_auth_decode_header(rows[i].text, &a, host, &err);

        if (r != rows[i].code)
            tap_fail("\"%s\": %d %s", rows[i].text, r, err.msg);
        if (r < 0)
            continue;
        CHECK_STR(host, rows[i].host);
        CHECK((a != NULL) == (rows[i].user != NULL));
        if (a != NULL && rows[i].user != NULL) {
            CHECK_STR(a->username, rows[i].user);
            CHECK_STR(a->password, "???");
        }
    }
}

TEST(a_helper_gives_a_password_or_a_token)
{
    static const char pair[] = "{\"ServerURL\":\"x\",\"Username\":\"u\",\"Secret\":\"s\"}",
                      token[] = "{\"Username\":\"<token>\",\"Secret\":\"s\"}";
    auto_ptr(registry_auth_free) struct registry_auth *a = NULL, *b = NULL;

    CHECK_INT(registry_helper_decode(pair, strlen(pair), &a, NULL), 0);
    CHECK(a != NULL && strcmp(a->username, "u") == 0 && strcmp(a->password, "s") == 0);
    CHECK_INT(registry_helper_decode(token, strlen(token), &b, NULL), 0);
    CHECK(b != NULL && b->username == NULL && strcmp(b->identity, "s") == 0);
    CHECK(registry_helper_ok("ecr-login") && registry_helper_ok("osxkeychain.v2"));
    CHECK(!registry_helper_ok("") && !registry_helper_ok("a/b") && !registry_helper_ok("a b"));
}

TEST(the_internet_begins_where_other_networks_end)
{
    static const struct {
        uint8_t address[16];
        int family;
        bool has;
    } rows[] = {
        {{8, 8, 8, 8}, 4, true},
        {{9, 255, 255, 255}, 4, true},
        {{10, 0, 0, 0}, 4, false},
        {{10, 255, 255, 255}, 4, false},
        {{11, 0, 0, 0}, 4, true},
        {{127, 0, 0, 1}, 4, false},
        {{169, 254, 169, 254}, 4, false},
        {{172, 15, 255, 255}, 4, true},
        {{172, 31, 255, 255}, 4, false},
        {{192, 167, 255, 255}, 4, true},
        {{223, 255, 255, 255}, 4, true},
        {{255, 255, 255, 255}, 4, false},
        {{0}, 4, false},
        {{[15] = 1}, 6, false},
        {{0x20, 0x01, 0x48, 0x60}, 6, true},
        {{0xfe, 0x80}, 6, false},
        {{[10] = 0xff, 0xff, 8, 8, 8, 8}, 6, false},
        {{0xff}, 6, false},
        {{8}, 5, false},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        if (internet_has(rows[i].family, rows[i].address) != rows[i].has)
            tap_fail("row %zu", i);
}

TAP_MAIN
