/* Hostile texts of registries: URLs, challenges, headers, tokens, refusals. */

#include <errno.h>

#include "base/err.h"
#include "challenge.h"
#include "header.h"
#include "refusal.h"
#include "tap.h"
#include "token.h"
#include "url.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- URLs ---- */

TEST(urls_are_split_and_put_together_again)
{
    static const struct {
        const char *text, *host, *target, *again;
        bool https;
        unsigned port;
    } rows[] = {
        {"https://R.example/v2/", "r.example", "/v2/", "https://r.example/v2/", true, 443},
        {"http://r:5000", "r", "/", "http://r:5000/", false, 5000},
        {"HTTPS://[::1]:5000/a?b=%2F#c", "::1", "/a?b=%2F", "https://[::1]:5000/a?b=%2F", true,
         5000},
        {"https://h?q=1", "h", "/?q=1", "https://h/?q=1", true, 443},
        {"https://h/a b\xc3\xbc", "h", "/a%20b%C3%BC", "https://h/a%20b%C3%BC", true, 443},
        {"https://h:443/x//y/../z", "h", "/x//y/../z", "https://h/x//y/../z", true, 443},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        static char again[URL_TEXT_MAX + 1];
        struct err err = ERR_NONE;
        struct url u;

        CHECK_INT(url_parse(rows[i].text, &u, &err), 0);
        CHECK_STR(u.host, rows[i].host);
        CHECK_STR(u.target, rows[i].target);
        CHECK_INT(u.port, rows[i].port);
        CHECK_INT(u.https, rows[i].https);
        url_format(&u, again);
        CHECK_STR(again, rows[i].again);
    }
}

TEST(what_is_no_url_of_a_registry_is_refused)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"file:///etc/passwd", -EPROTONOSUPPORT},
        {"gopher://h/", -EPROTONOSUPPORT},
        {"ftp://h/", -EPROTONOSUPPORT},
        {"httpsx://h/", -EPROTONOSUPPORT},
        {"/v2/", -EINVAL},
        {"", -EINVAL},
        {"https:/h/", -EINVAL},
        {"https:///x", -EINVAL},
        {"https://user@h/", -EINVAL},
        {"https://u:p@h/", -EINVAL},
        {"https://h:0/", -EINVAL},
        {"https://h:65536/", -EINVAL},
        {"https://h:/", -EINVAL},
        {"https://h:5x/", -EINVAL},
        {"https://[::1/", -EINVAL},
        {"https://[1.2.3.4]/", -EINVAL},
        {"https://a..b/", -EINVAL},
        {"https://-a/", -EINVAL},
        {"https://h/a\nb", -EINVAL},
        {"https://h%2e/", -EINVAL},
        {"https://h\\@evil/", -EINVAL},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err err = ERR_NONE;
        struct url u = {.port = 7};

        if (url_parse(rows[i].text, &u, &err) != rows[i].code)
            tap_fail("%s: another outcome", rows[i].text);
        CHECK(err.msg[0] != '\0');
        CHECK_INT(u.port, 7);
    }
}

TEST(a_location_is_relative_to_where_it_came_from)
{
    static const struct {
        const char *base, *location, *want;
    } rows[] = {
        {"https://r/v2/x/blobs/uploads/", "/v2/x/u?state=a%2Fb", "https://r/v2/x/u?state=a%2Fb"},
        {"https://r/v2/x/blobs/uploads/", "u1?s=1", "https://r/v2/x/blobs/uploads/u1?s=1"},
        {"https://r/v2/x/y?q=/z", "u", "https://r/v2/x/u"},
        {"https://r/v2/x/y", "../../u", "https://r/u"},
        {"https://r/v2/x/y", "../../../../u", "https://r/u"},
        {"https://r/a/b", "./c/./d/..", "https://r/a/c/"},
        {"https://r/a/b", "?q=1", "https://r/a/b?q=1"},
        {"https://r/a/b?q", "", "https://r/a/b?q"},
        {"https://r:5000/a", "//other/b", "https://other/b"},
        {"https://r/a", "http://other:80/b", "http://other/b"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        static char text[URL_TEXT_MAX + 1];
        struct err err = ERR_NONE;
        struct url base, got;

        CHECK_INT(url_parse(rows[i].base, &base, &err), 0);
        CHECK_INT(url_join(&base, rows[i].location, &got, &err), 0);
        url_format(&got, text);
        CHECK_STR(text, rows[i].want);
    }
}

TEST(a_query_goes_on_with_the_right_sign)
{
    struct err err = ERR_NONE;
    struct url u;

    CHECK_INT(url_parse("https://r/u", &u, &err), 0);
    CHECK_INT(url_add_query(&u, "digest", "sha256:ab"), 0);
    CHECK_STR(u.target, "/u?digest=sha256:ab");
    CHECK_INT(url_add_query(&u, "account", "a b&c=d"), 0);
    CHECK_STR(u.target, "/u?digest=sha256:ab&account=a%20b%26c%3Dd");
}

TEST(origins_differ_by_scheme_host_and_port)
{
    static const char *const others[] = {"http://r/", "https://r:444/", "https://s/"};
    struct err err = ERR_NONE;
    struct url a, b;

    CHECK_INT(url_parse("https://r/x", &a, &err), 0);
    CHECK_INT(url_parse("https://R:443/y", &b, &err), 0);
    CHECK(url_same_origin(&a, &b));
    for (size_t i = 0; i < COUNT(others); i++) {
        CHECK_INT(url_parse(others[i], &b, &err), 0);
        CHECK(!url_same_origin(&a, &b));
    }
}

/* ---- challenges ---- */

TEST(the_best_challenge_of_all_is_taken)
{
    static const struct {
        const char *first, *second;
        enum challenge_scheme scheme;
        const char *realm, *service, *scope;
    } rows[] = {
        {"Bearer realm=\"https://a/token\",service=\"s\",scope=\"repository:x:pull,push\"", NULL,
         CHALLENGE_BEARER, "https://a/token", "s", "repository:x:pull,push"},
        {"bearer REALM=\"https://a/token\" , Service=s", NULL, CHALLENGE_BEARER, "https://a/token",
         "s", ""},
        {"Basic realm=\"x, Bearer realm=y\"", NULL, CHALLENGE_BASIC, "x, Bearer realm=y", "", ""},
        {"Basic realm=\"x\", Bearer realm=\"https://a\"", NULL, CHALLENGE_BEARER, "https://a", "",
         ""},
        {"Negotiate", "Basic realm=x", CHALLENGE_BASIC, "x", "", ""},
        {"Negotiate abc==, Bearer realm=\"https://a\"", NULL, CHALLENGE_BEARER, "https://a", "",
         ""},
        {"Bearer realm=\"https://a\"", "Bearer realm=\"https://b\"", CHALLENGE_BEARER, "https://a",
         "", ""},
        {"Bearer realm=\"https://a\"", "Basic realm=\"b\"", CHALLENGE_BEARER, "https://a", "", ""},
        {"Bearer realm=\"a\\\"b\"", NULL, CHALLENGE_BEARER, "a\"b", "", ""},
        {"Bearer service=\"s\"", NULL, CHALLENGE_NONE, "", "", ""},
        {"Bearer realm=\"https://a", NULL, CHALLENGE_NONE, "", "", ""},
        {"Digest realm=\"x\", nonce=\"y\"", NULL, CHALLENGE_NONE, "", "", ""},
        {",,, ,", "", CHALLENGE_NONE, "", "", ""},
        {"Basic", NULL, CHALLENGE_BASIC, "", "", ""},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct challenge c = {.scheme = CHALLENGE_NONE};

        challenge_add(&c, rows[i].first);
        if (rows[i].second != NULL)
            challenge_add(&c, rows[i].second);
        if (c.scheme != rows[i].scheme)
            tap_fail("%s: scheme %d", rows[i].first, (int)c.scheme);
        CHECK_STR(c.realm, rows[i].realm);
        CHECK_STR(c.service, rows[i].service);
        CHECK_STR(c.scope, rows[i].scope);
    }
}

TEST(a_challenge_that_is_too_long_is_none)
{
    static char text[3 * CHALLENGE_TEXT_MAX];
    struct challenge c = {.scheme = CHALLENGE_NONE};

    (void)strcpy(text, "Bearer realm=\"");
    (void)memset(text + 14, 'a', CHALLENGE_TEXT_MAX + 1);
    (void)strcpy(text + 14 + CHALLENGE_TEXT_MAX + 1, "\"");
    challenge_add(&c, text);
    CHECK_INT(c.scheme, CHALLENGE_NONE);
    challenge_add(&c, "Basic realm=x");
    CHECK_INT(c.scheme, CHALLENGE_BASIC);
}

/* ---- headers ---- */

TEST(a_content_range_says_where_the_bytes_begin)
{
    static const struct {
        const char *text;
        bool ok;
        long long first, last, total;
    } rows[] = {
        {"bytes 0-0/1", true, 0, 0, 1},
        {"bytes 5-9/10", true, 5, 9, 10},
        {"Bytes  5-9/*", true, 5, 9, -1},
        {"bytes 9-5/10", false, 0, 0, 0},
        {"bytes 5-9/9", false, 0, 0, 0},
        {"bytes */10", false, 0, 0, 0},
        {"bytes=5-9/10", false, 0, 0, 0},
        {"bytes -9/10", false, 0, 0, 0},
        {"bytes 5-9", false, 0, 0, 0},
        {"", false, 0, 0, 0},
        {"bytes 5-99999999999999999999/*", false, 0, 0, 0},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t first = 0, last = 0, total = 0;

        if (header_content_range(rows[i].text, &first, &last, &total) != rows[i].ok)
            tap_fail("\"%s\": another outcome", rows[i].text);
        CHECK_INT(first, rows[i].first);
        CHECK_INT(last, rows[i].last);
        CHECK_INT(total, rows[i].total);
    }
}

TEST(a_wait_is_seconds_or_a_date)
{
    const int64_t now = 784111777; /* Sun, 06 Nov 1994 08:49:37 GMT */
    static const struct {
        const char *text;
        long long want;
    } rows[] = {
        {"0", 0},
        {"120", 120},
        {"Sun, 06 Nov 1994 08:50:37 GMT", 60},
        {"Sunday, 06-Nov-94 08:50:37 GMT", 60},
        {"Sun Nov  6 08:50:37 1994", 60},
        {"Sun, 06 Nov 1994 08:00:00 GMT", 0},
        {"-5", -EINVAL},
        {"1.5", -EINVAL},
        {"soon", -EINVAL},
        {"", -EINVAL},
        {"Sun, 06 Nov 1994 08:50:37 GMT, or so", -EINVAL},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        if (header_retry_after(rows[i].text, now) != rows[i].want)
            tap_fail("\"%s\": %lld", rows[i].text,
                     (long long)header_retry_after(rows[i].text, now));
}

TEST(the_next_page_is_found_among_links)
{
    static const struct {
        const char *text, *want; /* NULL: none */
    } rows[] = {
        {"</v2/x/tags/list?n=2&last=b>; rel=\"next\"", "/v2/x/tags/list?n=2&last=b"},
        {"<a>; rel=prev, <b>; rel=next", "b"},
        {"<a>; title=\"x, rel=next\"; rel=\"prev first\" , <b>;rel=\"last NEXT\"", "b"},
        {"<a>", NULL},
        {"<a>; rel=nextx", NULL},
        {"a; rel=next", NULL},
        {"<a; rel=next", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char got[64] = "";

        CHECK_INT(header_link_next(rows[i].text, got, sizeof(got)), rows[i].want != NULL);
        if (rows[i].want != NULL)
            CHECK_STR(got, rows[i].want);
    }
}

TEST(a_media_type_comes_without_its_parameters)
{
    char got[32];

    header_media_type(" Application/JSON; charset=utf-8", got, sizeof(got));
    CHECK_STR(got, "application/json");
    header_media_type("text/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", got, sizeof(got));
    CHECK_STR(got, "");
}

/* ---- tokens ---- */

TEST(a_token_is_read_under_either_name)
{
    static const struct {
        const char *json, *text;
        long long lifetime;
    } rows[] = {
        {"{\"token\":\"a.b-c\"}", "a.b-c", 60},
        {"{\"access_token\":\"x\",\"expires_in\":300}", "x", 300},
        {"{\"token\":\"\",\"access_token\":\"x\",\"expires_in\":5}", "x", 60},
        {"{\"token\":\"x\",\"expires_in\":300,\"issued_at\":\"1970-01-01T00:15:00Z\"}", "x", 200},
        {"{\"token\":\"x\",\"expires_in\":300,\"issued_at\":\"1970-01-02T00:15:00Z\"}", "x", 300},
        {"{\"token\":\"x\",\"expires_in\":999999999999}", "x", TOKEN_LIFETIME_MAX},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        auto_ptr(token_free) struct token *t = NULL;
        struct err err = ERR_NONE;

        CHECK_INT(token_parse(rows[i].json, strlen(rows[i].json), 1000, &t, &err), 0);
        if (t == NULL)
            continue;
        CHECK_STR(t->text, rows[i].text);
        CHECK_INT(t->lifetime, rows[i].lifetime);
    }
}

TEST(an_answer_without_a_usable_token_is_refused)
{
    static const char *const rows[] = {
        "",      "[]", "{}", "{\"token\":5}", "{\"token\":\"a b\"}", "{\"token\":\"a\\r\\nX: y\"}",
        "<html>"};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct token *t = NULL;
        struct err err = ERR_NONE;

        CHECK(token_parse(rows[i], strlen(rows[i]), 0, &t, &err) < 0);
        CHECK(t == NULL && err.msg[0] != '\0');
    }
}

/* ---- refusals ---- */

TEST(what_a_registry_says_is_one_line)
{
    static const struct {
        const char *body, *want;
    } rows[] = {
        {"{\"errors\":[{\"code\":\"DENIED\",\"message\":\"requested access\"}]}",
         "denied: requested access"},
        {"{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\",\"message\":\"manifest unknown\"}]}",
         "manifest unknown"},
        {"{\"errors\":[{\"message\":\"a\\u001b[31mb\\nc\"}]}", "a\\x1b[31mb c"},
        {"{\"errors\":[{\"code\":5}]}", "{\"errors\":[{\"code\":5}]}"},
        {"{\"details\":\"incorrect username or password\"}", "incorrect username or password"},
        {"<!DOCTYPE html><title>x</title>",
         "a page of HTML, as from a proxy or the sign-in of a network"},
        {"\n\n404 page not found\nmore\n", "404 page not found"},
        {"", ""},
        {"\x80\xff", "\\x80\\xff"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char got[REFUSAL_TEXT_MAX + 1];

        refusal_text(rows[i].body, strlen(rows[i].body), got);
        CHECK_STR(got, rows[i].want);
    }
}

TEST(a_text_for_a_terminal_changes_nothing_there)
{
    /* NOLINTNEXTLINE(misc-misleading-bidirectional): that is the point */
    static const char tricks[] = "a\xc2\x9b"
                                 "31m\xe2\x80\xae"
                                 "b\xef\xbb\xbf\x7f\xc3\xbc\xc0\x80";
    char got[80], small[8];

    text_for_terminal(tricks, sizeof(tricks) - 1, got, sizeof(got));
    CHECK_STR(got, "a\\xc2\\x9b31m\\xe2\\x80\\xaeb\\xef\\xbb\\xbf\\x7f\xc3\xbc\\xc0\\x80");
    text_for_terminal("abcdefghij", 10, small, sizeof(small));
    CHECK_STR(small, "abcd...");
}

TAP_MAIN
