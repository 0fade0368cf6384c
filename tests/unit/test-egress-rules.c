/* Rules of egress: what is accepted, which one is found, and that many cost what few do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "json/parse.h"
#include "policy/egress-handler.h"
#include "policy/egress.h"
#include "tap.h"

static struct egress_rules *rules_of(const char *text)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct egress_rules *e = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(json_parse(text, strlen(text), EGRESS_TEXT_MAX, &root, &err), 0);
    CHECK_INT(egress_from_json(root, NULL, &e, &err), 0);
    CHECK_STR(err.msg, "");
    return e;
}

static const char *found(const struct egress_rules *e, enum egress_kind kind, const char *name,
                         const char *address, uint16_t port)
{
    struct net_addr a = {.family = 0};
    const struct egress_rule *r;

    if (address != NULL)
        CHECK_INT(net_addr_parse(address, &a), 0);
    r = egress_match(e, kind, name, &a, port);
    return r != NULL ? r->to : "-";
}

TEST(the_first_that_matches)
{
    auto_ptr(egress_free) struct egress_rules *e = rules_of(
        "{\"rules\":[{\"to\":\"a.example.com\",\"action\":\"deny\"},"
        "{\"to\":\"*.example.com\",\"action\":\"allow\"},"
        "{\"to\":\"b.example.com\",\"action\":\"deny\"},"
        "{\"to\":\"*.org:8443\",\"protocol\":\"https\",\"action\":\"allow\"},"
        "{\"to\":\"api-*.net\",\"protocol\":\"http\",\"action\":\"allow\"},"
        "{\"to\":\"10.1.0.0/16\",\"action\":\"deny\"},{\"to\":\"10.0.0.0/8\",\"action\":\"allow\"},"
        "{\"to\":\"2001:db8::/32\",\"action\":\"allow\"},"
        "{\"to\":\"[2001:db8::1]:53\",\"protocol\":\"tcp\",\"action\":\"deny\"}]}");
    static const struct {
        enum egress_kind kind;
        const char *name, *address;
        uint16_t port;
        const char *want;
    } rows[] = {
        {EGRESS_HTTP, "a.example.com", NULL, 80, "a.example.com"},
        {EGRESS_HTTPS, "b.example.com", NULL, 443, "*.example.com"},
        {EGRESS_TCP, "x.y.example.com", NULL, 22, "*.example.com"},
        {EGRESS_TCP, "example.com", NULL, 22, "-"},
        {EGRESS_TCP, "badexample.com", NULL, 22, "-"},
        {EGRESS_HTTPS, "x.org", NULL, 8443, "*.org:8443"},
        {EGRESS_HTTPS, "x.org", NULL, 443, "-"},
        {EGRESS_TCP, "x.org", NULL, 8443, "-"},
        {EGRESS_HTTP, "api-7.net", NULL, 80, "api-*.net"},
        {EGRESS_HTTP, "api-7.net", NULL, 81, "-"},
        {EGRESS_TCP, NULL, "10.1.2.3", 5, "10.1.0.0/16"},
        {EGRESS_TCP, NULL, "10.2.2.3", 5, "10.0.0.0/8"},
        {EGRESS_TCP, NULL, "11.2.2.3", 5, "-"},
        {EGRESS_HTTP, "c.example.com", "10.1.2.3", 80, "*.example.com"},
        {EGRESS_TCP, NULL, "2001:db8::1", 53, "2001:db8::/32"},
        {EGRESS_TCP, NULL, "2001:db9::1", 53, "-"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_STR(found(e, rows[i].kind, rows[i].name, rows[i].address, rows[i].port),
                  rows[i].want);
}

TEST(a_rule_for_everything_matches_everything)
{
    auto_ptr(egress_free) struct egress_rules *e = rules_of(
        "{\"rules\":[{\"to\":\"x.y\",\"action\":\"deny\"},{\"to\":\"*\",\"action\":\"allow\"},"
        "{\"to\":\"0.0.0.0/0\",\"action\":\"deny\"}]}");

    CHECK_STR(found(e, EGRESS_TCP, "x.y", NULL, 1), "x.y");
    CHECK_STR(found(e, EGRESS_TCP, "y.x", NULL, 1), "*");
    CHECK_STR(found(e, EGRESS_TCP, NULL, "1.2.3.4", 1), "*");
    CHECK_STR(found(e, EGRESS_TCP, NULL, "::2", 1), "*");
}

TEST(names_that_are_answered)
{
    auto_ptr(egress_free) struct egress_rules *e =
        rules_of("{\"rules\":[{\"to\":\"no.a.b\",\"action\":\"deny\"},{\"to\":\"*.a.b\",\"action\":"
                 "\"allow\"},"
                 "{\"to\":\"h.b\",\"protocol\":\"https\",\"handler\":\"/x\"},"
                 "{\"to\":\"half.a.b:80\",\"action\":\"deny\"}]}");
    auto_ptr(egress_free) struct egress_rules *open =
        rules_of("{\"default\":\"allow\",\"rules\":[{\"to\":\"no.*\",\"action\":\"deny\"}]}");
    auto_ptr(egress_free) struct egress_rules *addresses =
        rules_of("{\"rules\":[{\"to\":\"10.0.0.0/8\",\"action\":\"allow\"}]}");

    CHECK_INT(egress_answer(e, "no.a.b"), EGRESS_ANSWER_NO);
    CHECK_INT(egress_answer(e, "x.a.b"), EGRESS_ANSWER_ASK);
    CHECK_INT(egress_answer(e, "half.a.b"), EGRESS_ANSWER_ASK);
    CHECK_INT(egress_answer(e, "h.b"), EGRESS_ANSWER_STAND);
    CHECK_INT(egress_answer(e, "other"), EGRESS_ANSWER_NO);
    CHECK_INT(egress_answer(open, "other"), EGRESS_ANSWER_ASK);
    CHECK_INT(egress_answer(open, "no.x"), EGRESS_ANSWER_NO);
    /* Whoever may go to an address may ask for names: they may lead there. */
    CHECK_INT(egress_answer(addresses, "other"), EGRESS_ANSWER_ASK);
}

TEST(bad_rules_are_refused)
{
    static const char *const bad[] = {
        "",        ".",          "a..b",        "a b",     "a.b:",           "a.b:0",   "a.b:65536",
        "a.b:1-2", "10.0.0.1/8", "10.0.0.0/33", "1.2.3",   "1.2.3.4:80/tcp", "::1:80:", "[::1",
        "-\n",     "a/b",        "ä.de",        "a.b:080", "::ffff:1.2.3.4", "127.1:80"};
    char long_name[300];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        auto_ptr(egress_free) struct egress_rules *e = egress_new();
        struct err err = ERR_NONE;

        if (egress_add(e, bad[i], EGRESS_PROTOCOLS, EGRESS_ALLOW, NULL, &err) >= 0)
            tap_fail("\"%s\" was accepted", bad[i]);
        CHECK(strstr(err.msg, "must be a host name") != NULL);
    }
    (void)memset(long_name, 'a', sizeof(long_name));
    long_name[299] = '\0';
    auto_ptr(egress_free) struct egress_rules *e = egress_new();
    CHECK(egress_add(e, long_name, EGRESS_PROTOCOLS, EGRESS_ALLOW, NULL, NULL) < 0);
    long_name[64] = '\0'; /* one label */
    CHECK(egress_add(e, long_name, EGRESS_PROTOCOLS, EGRESS_ALLOW, NULL, NULL) < 0);
    long_name[63] = '\0';
    CHECK_INT(egress_add(e, long_name, EGRESS_PROTOCOLS, EGRESS_ALLOW, NULL, NULL), 0);
}

TEST(handler_addresses_are_checked)
{
    static const char *const good[] = {"/a", "/run/x.sock", "127.0.0.1:1", "127.9.9.9:65535",
                                       "[::1]:80"};
    static const char *const bad[] = {
        "",    "a",           "/",           "/a//b",     "/a/../b",  "/a/.",
        "/a/", "10.0.0.1:80", "127.0.0.1:0", "127.0.0.1", "[::2]:80", "localhost:80"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        CHECK(egress_handler_ok(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (egress_handler_ok(bad[i]))
            tap_fail("\"%s\" was accepted", bad[i]);
}

TEST(as_json_again)
{
    static const char text[] =
        "{\"default\":\"allow\",\"trust\":true,\"rules\":[{\"to\":\"A.b:80\",\"action\":\"deny\"},"
        "{\"to\":\"*\",\"protocol\":\"tcp\",\"handler\":\"/x\"}]}";
    auto_ptr(egress_free) struct egress_rules *e = rules_of(text);
    auto_ptr(json_decref) json_t *root = egress_to_json(e);
    char *again = json_dumps(root, JSON_COMPACT);

    CHECK_STR(again, text);
    CHECK_STR(found(e, EGRESS_HTTP, "a.b", NULL, 80), "A.b:80");
    free(again);
}

static double lookup_ns(size_t count)
{
    auto_ptr(egress_free) struct egress_rules *e = egress_new();
    struct timespec a, b;
    unsigned hits = 0;
    double best = 1e9;

    for (size_t i = 0; i < count; i++) {
        char to[64];

        if (i % 2 != 0)
            (void)snprintf(to, sizeof(to), "*.host%zu.example.com", i);
        else
            (void)snprintf(to, sizeof(to), "10.%zu.%zu.0/24", i / 200, i % 200);
        CHECK_INT(egress_add(e, to, EGRESS_PROTOCOLS, EGRESS_ALLOW, NULL, NULL), 0);
    }
    CHECK_INT(egress_index(e, NULL), 0);
    for (int round = 0; round < 20; round++) {
        (void)clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < 2000; i++) {
            const struct net_addr to = {.family = 4, .bytes = {10, 0, (uint8_t)i, 1}};

            hits += egress_match(e, EGRESS_HTTPS, "a.b.host1.example.com", &to, 443) != NULL;
        }
        (void)clock_gettime(CLOCK_MONOTONIC, &b);
        double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 2000;
        best = ns < best ? ns : best;
    }
    CHECK(hits > 0);
    return best;
}

TEST(a_thousand_cost_what_ten_do)
{
    double few = lookup_ns(10), many = lookup_ns(1000);

    (void)printf("# a lookup among 10 rules %.0f ns, among 1000 %.0f ns\n", few, many);
    CHECK(many < 3 * few + 300); /* caches; a list would be a hundred times as long */
}

TAP_MAIN
