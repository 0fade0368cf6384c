/* Names of preview URLs: what they name, what they do not, and what is made of them. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "gateway/preview.h"
#include "tap.h"

#define TOKEN "abcdefghij_12345"

TEST(a_preview_host_names_port_and_sandbox)
{
    static const struct {
        const char *host;
        int r;
        unsigned port;
        const char *name, *token;
    } rows[] = {
        {"8080-box-" TOKEN ".localhost", 0, 8080, "box", TOKEN},
        {"8080-box-" TOKEN ".localhost:80", 0, 8080, "box", TOKEN},
        {"8080-box-" TOKEN ".localhost.", 0, 8080, "box", TOKEN},
        {"8080-box-" TOKEN ".localhost.:1", 0, 8080, "box", TOKEN},
        {"8080-BOX-ABC.LocalHost", 0, 8080, "box", "abc"},
        {"8080-box-a", 0, 8080, "box", "a"},
        {"1024-a-b.c", 0, 1024, "a", "b"},
        {"65535-a-b.c", 0, 65535, "a", "b"},
        /* names with hyphens, digits, and what looks like a port or a token */
        {"8080-my-long-name-a_b.x", 0, 8080, "my-long-name", "a_b"},
        {"8080-9090-8080-1.x", 0, 8080, "9090-8080", "1"},
        {"8080-a--b.x", 0, 8080, "a-", "b"},
        {"8080-a_b-_.x", 0, 8080, "a_b", "_"},
        {"8080-xn--a-b.x", 0, 8080, "xn--a", "b"},
        /* no preview */
        {"localhost", -ENOENT, 0, NULL, NULL},
        {"8080-" TOKEN ".localhost", -ENOENT, 0, NULL, NULL},
        {"8080--" TOKEN ".localhost", -ENOENT, 0, NULL, NULL},
        {"8080-box-.localhost", -ENOENT, 0, NULL, NULL},
        {"-box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"8080-box-" TOKEN "6.localhost", -ENOENT, 0, NULL, NULL}, /* 17 */
        {"1023-box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"65536-box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"70000-box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"0-box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"08080-box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"008080-box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"8080x-box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"4294975376-box-abc.localhost", -ENOENT, 0, NULL, NULL}, /* 8080 + 2^32 */
        {"8080--box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"8080-_box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"x.8080-box-abc.localhost", -ENOENT, 0, NULL, NULL},
        {"8080-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-abcd.x", -ENOENT, 0, NULL,
         NULL}, /* 64 */
        {"127.0.0.1", -ENOENT, 0, NULL, NULL},
        {"[::1]", -ENOENT, 0, NULL, NULL},
        {"[::1]:8080", -ENOENT, 0, NULL, NULL},
        /* no host */
        {"", -EBADMSG, 0, NULL, NULL},
        {":80", -EBADMSG, 0, NULL, NULL},
        {".", -EBADMSG, 0, NULL, NULL},
        {".x", -EBADMSG, 0, NULL, NULL},
        {"x..y", -EBADMSG, 0, NULL, NULL},
        {"x:", -EBADMSG, 0, NULL, NULL},
        {"x:y", -EBADMSG, 0, NULL, NULL},
        {"x:80:80", -EBADMSG, 0, NULL, NULL},
        {"x:65536", -EBADMSG, 0, NULL, NULL},
        {"x:-1", -EBADMSG, 0, NULL, NULL},
        {"x:+1", -EBADMSG, 0, NULL, NULL},
        {"a b", -EBADMSG, 0, NULL, NULL},
        {"a/b", -EBADMSG, 0, NULL, NULL},
        {"a@b", -EBADMSG, 0, NULL, NULL},
        {"a%2eb", -EBADMSG, 0, NULL, NULL},
        {"a,b", -EBADMSG, 0, NULL, NULL},
        {"b\xc3\xbc"
         "cher.example",
         -EBADMSG, 0, NULL, NULL},
        {"[::1", -EBADMSG, 0, NULL, NULL},
        {"[]", -EBADMSG, 0, NULL, NULL},
        {"[x]", -EBADMSG, 0, NULL, NULL},
        {"[::1]x", -EBADMSG, 0, NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct preview p = {.port = 7};
        int r = preview_parse(rows[i].host, &p);

        if (r != rows[i].r)
            tap_fail("'%s': %d, want %d", rows[i].host, r, rows[i].r);
        else if (r < 0)
            CHECK_INT(p.port, 7); /* untouched */
        if (r != 0 || rows[i].r != 0)
            continue;
        CHECK_INT(p.port, rows[i].port);
        CHECK_STR(p.name, rows[i].name);
        CHECK_STR(p.token, rows[i].token);
    }
}

/* Whatever can be made is read again as what it was made of. */
TEST(a_preview_url_is_made)
{
    static const struct {
        const char *name, *token, *host;
        struct preview_front front;
        const char *want; /* NULL: too long */
    } rows[] = {
        {"box", "abc", "localhost", {.port = 8080}, "http://3000-box-abc.localhost:8080/"},
        {"box", "abc", "localhost", {.port = 80}, "http://3000-box-abc.localhost/"},
        {"box", "abc", "localhost", {.port = 0}, "http://3000-box-abc.localhost/"},
        {"box", "abc", "localhost:99", {.port = 8080}, "http://3000-box-abc.localhost:99/"},
        {"box", "abc", "LocalHost.", {.port = 8080}, "http://3000-box-abc.localhost:8080/"},
        {"box", "abc", "x.localhost", {.port = 8080}, "http://3000-box-abc.x.localhost:8080/"},
        {"box",
         "abc",
         "localhost",
         {.port = 8443, .tls = true},
         "https://3000-box-abc.localhost:8443/"},
        {"box", "abc", "localhost", {.port = 443, .tls = true}, "https://3000-box-abc.localhost/"},
        {"box", "abc", "example.com", {.port = 8080}, "https://3000-box-abc.example.com/"},
        {"box",
         "abc",
         "example.com",
         {.port = 8443, .tls = true},
         "https://3000-box-abc.example.com:8443/"},
        {"box", "abc", "example.com:444", {.port = 8080}, "https://3000-box-abc.example.com:444/"},
        {"box", "abc", "example.com:443", {.port = 8080}, "https://3000-box-abc.example.com/"},
        {"notlocalhost",
         "a",
         "notlocalhost",
         {.port = 80},
         "https://3000-notlocalhost-a.notlocalhost/"},
        {"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
         TOKEN,
         "localhost",
         {.port = 80},
         "http://3000-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-" TOKEN ".localhost/"},
        {"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", TOKEN, "localhost", {.port = 80}, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct preview p = {.port = 3000}, again;
        struct preview_host host;
        struct err err = ERR_NONE;
        char url[PREVIEW_URL_MAX], *at;
        int r;

        (void)snprintf(p.name, sizeof(p.name), "%s", rows[i].name);
        (void)snprintf(p.token, sizeof(p.token), "%s", rows[i].token);
        CHECK_INT(preview_host_parse(rows[i].host, &host, &err), 0);
        r = preview_url(&p, &host, &rows[i].front, url, &err);
        if (rows[i].want == NULL) {
            CHECK_INT(r, -ENAMETOOLONG);
            CHECK(strstr(err.msg, "63 bytes") != NULL);
            continue;
        }
        CHECK_INT(r, 0);
        CHECK_STR(url, rows[i].want);
        at = strstr(url, "://") + 3;
        at[strcspn(at, "/")] = '\0';
        CHECK_INT(preview_parse(at, &again), 0);
        CHECK_INT(again.port, p.port);
        CHECK_STR(again.name, p.name);
        CHECK_STR(again.token, p.token);
    }
}

TEST(hostnames_refused)
{
    static const char *const rows[] = {
        "",   "127.0.0.1", "10.1", "[::1]", "a b",      "a_b.com", "a..b",
        ".a", "a:x",       "a:",   "a/b",   "http://a", "*.a",     "a:70000"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct preview_host host;
        struct err err = ERR_NONE;

        if (preview_host_parse(rows[i], &host, &err) != -EINVAL)
            tap_fail("'%s' is accepted", rows[i]);
        CHECK(strncmp(err.msg, "hostname: ", 10) == 0);
    }
}

TEST(tokens_are_checked)
{
    char tokens[200][PREVIEW_TOKEN_MAX + 1];
    bool seen[256] = {false};
    int letters = 0;

    CHECK(preview_token_ok("a") && preview_token_ok("_") && preview_token_ok(TOKEN));
    CHECK(!preview_token_ok("") && !preview_token_ok(TOKEN "x") && !preview_token_ok("A") &&
          !preview_token_ok("a-b") && !preview_token_ok("a.b") && !preview_token_ok("\xc3\xa4"));
    for (int i = 0; i < 200; i++) {
        CHECK_INT(preview_token_make(tokens[i]), 0);
        CHECK_INT(strlen(tokens[i]), PREVIEW_TOKEN_MAX);
        CHECK(preview_token_ok(tokens[i]));
        for (int k = 0; k < i; k++)
            CHECK(strcmp(tokens[i], tokens[k]) != 0);
        for (const char *p = tokens[i]; *p != '\0'; p++)
            seen[(unsigned char)*p] = true;
    }
    for (int i = 0; i < 256; i++)
        letters += seen[i];
    CHECK_INT(letters, 37);
}

TEST(tokens_that_are_the_whole_permission_are_long)
{
    static const struct {
        struct preview_front front;
        bool local;
        unsigned want;
    } rows[] = {
        {{.port = 0}, false, 1}, /* no gateway: another program serves the URL */
        {{.port = 0, .min_token = 8}, false, 1},
        {{.port = 80, .loopback = true}, true, 1},
        {{.port = 80, .loopback = true}, false, PREVIEW_TOKEN_MAX},
        {{.port = 80}, true, PREVIEW_TOKEN_MAX},
        {{.port = 80}, false, PREVIEW_TOKEN_MAX},
        {{.port = 80, .min_token = 4}, false, 4},
        {{.port = 80, .loopback = true, .min_token = 4}, true, 4},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_INT(preview_token_min(&rows[i].front, rows[i].local), rows[i].want);
}

TEST(local_hosts_are_told_apart)
{
    static const struct {
        const char *host;
        bool local;
    } rows[] = {
        {"8080-a-b.localhost", true},
        {"8080-a-b.x.LocalHost.:80", true},
        {"8080-a-b.localhost.com", false},
        {"8080-a-b.xlocalhost", false},
        {"8080-a-b", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct preview p;

        CHECK_INT(preview_parse(rows[i].host, &p), 0);
        CHECK_INT(p.local, rows[i].local);
    }
}

TEST(tokens_are_compared_in_constant_time)
{
    char a[PREVIEW_TOKEN_MAX + 1] = "abc", b[PREVIEW_TOKEN_MAX + 1] = "abc";

    CHECK(preview_token_same(a, b));
    (void)strcpy(b, "abcd");
    CHECK(!preview_token_same(a, b));
    (void)strcpy(b, "xbc");
    CHECK(!preview_token_same(a, b));
    (void)strcpy(a, TOKEN);
    (void)strcpy(b, TOKEN);
    CHECK(preview_token_same(a, b));
    b[15] = '_';
    CHECK(!preview_token_same(a, b));
    b[0] = '\0';
    CHECK(!preview_token_same(a, b));
}

TEST(names_that_do_not_fit_a_host_are_refused)
{
    CHECK(preview_name_ok("a") && preview_name_ok("a-b_c") && preview_name_ok("0") &&
          preview_name_ok("a-"));
    CHECK(!preview_name_ok("") && !preview_name_ok("-a") && !preview_name_ok("_a") &&
          !preview_name_ok("a.b") && !preview_name_ok("A"));
}

TAP_MAIN
