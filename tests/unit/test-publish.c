/* Ports of the host for sandboxes: how they are written, and who may have which. */
#include <errno.h>
#include <string.h>

#include "base/address.h"
#include "base/err.h"
#include "json/parse.h"
#include "policy/publish.h"
#include "spec/spec.h"
#include "tap.h"

TEST(ranges_of_ports)
{
    static const struct {
        const char *text;
        size_t count;
        unsigned host, host_last, port; /* of the last one */
    } rows[] = {
        {"8000-8010:80", 1, 8000, 8010, 80},
        {"8000-8000:80", 1, 8000, 0, 80},
        {"8000-8010:80-90", 11, 8010, 0, 90},
        {"127.0.0.1:1-64:1-64/udp", 64, 64, 0, 64},
        {":80-81", 2, 0, 0, 81},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct spec *s = spec_new();
        struct err err = ERR_NONE;
        const struct publish *last;

        CHECK_INT(spec_add_publish(s, rows[i].text, &err), 0);
        CHECK_INT(s->port_count, rows[i].count);
        last = s->port_count > 0 ? &s->ports[s->port_count - 1] : NULL;
        if (last != NULL) {
            CHECK_INT(last->host.port, rows[i].host);
            CHECK_INT(last->host_last, rows[i].host_last);
            CHECK_INT(last->port, rows[i].port);
        }
        spec_free(s);
    }
}

TEST(publish_options_are_parsed)
{
    static const struct {
        const char *text, *host; /* host: as address_format writes it; NULL: refused */
        unsigned port;
        bool udp;
    } rows[] = {
        {"127.0.0.1:8080:80", "127.0.0.1:8080", 80, false},
        {"127.0.0.1:8080:80/tcp", "127.0.0.1:8080", 80, false},
        {"127.0.0.1:53:53/udp", "127.0.0.1:53", 53, true},
        {"0.0.0.0:1:65535", "0.0.0.0:1", 65535, false},
        {"[::1]:8080:80", "[::1]:8080", 80, false},
        {"[::]:8080:80/udp", "[::]:8080", 80, true},
        {"8080:80", "127.0.0.1:8080", 80, false},
        {":80", "127.0.0.1:0", 80, false},
        {"0:80", "127.0.0.1:0", 80, false},
        {"127.0.0.1::80", "127.0.0.1:0", 80, false},
        {"127.0.0.1:0:80", "127.0.0.1:0", 80, false},
        {"80", NULL, 0, false},
        {"", NULL, 0, false},
        {"8080:", NULL, 0, false},
        {"8080:0", NULL, 0, false},
        {"70000:80", NULL, 0, false},
        {"80:70000", NULL, 0, false},
        {"-1:80", NULL, 0, false},
        {"+1:80", NULL, 0, false},
        {"0x50:80", NULL, 0, false},
        {"a:80", NULL, 0, false},
        {"localhost:80:80", NULL, 0, false},
        {"::1:80:80", NULL, 0, false},
        {"[::1:80:80", NULL, 0, false},
        {"127.0.0.1.1:80:80", NULL, 0, false},
        {"127.0.0.1:80:80/sctp", NULL, 0, false},
        {"127.0.0.1:80:80/", NULL, 0, false},
        {"127.0.0.1:80:80/tcp/udp", NULL, 0, false},
        {"80-90:80-91", NULL, 0, false},
        {"90-80:80", NULL, 0, false},
        {"0-80:80", NULL, 0, false},
        {"80-:80", NULL, 0, false},
        {"-80:80", NULL, 0, false},
        {"80-90-91:80", NULL, 0, false},
        {"80-65536:80", NULL, 0, false},
        {"80:80-81", NULL, 0, false},
        {":80-", NULL, 0, false},
        {"1-65:1-65", NULL, 0, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct spec *s = spec_new();
        struct err err = ERR_NONE;
        char host[ADDRESS_TEXT_MAX];
        int r = spec_add_publish(s, rows[i].text, &err);

        if ((r < 0) != (rows[i].host == NULL)) {
            tap_fail("'%s': %d %s", rows[i].text, r, err.msg);
        } else if (r < 0) {
            CHECK(strstr(err.msg, "publish \"") == err.msg);
            CHECK_INT(s->port_count, 0);
        } else {
            address_format(&s->ports[0].host, host);
            CHECK_STR(host, rows[i].host);
            CHECK_INT(s->ports[0].port, rows[i].port);
            CHECK_INT(s->ports[0].udp, rows[i].udp);
        }
        spec_free(s);
    }
}

TEST(the_same_twice)
{
    struct spec *s = spec_new();
    struct err err = ERR_NONE;

    CHECK_INT(spec_add_publish(s, "8080:80", &err), 0);
    CHECK_INT(spec_add_publish(s, "127.0.0.1:8080:81", &err), -EINVAL);
    CHECK(strstr(err.msg, "twice") != NULL);
    CHECK_INT(spec_add_publish(s, "8080:80/udp", &err), 0); /* another protocol */
    CHECK_INT(spec_add_publish(s, "127.0.0.2:8080:80", &err), 0);
    CHECK_INT(spec_add_publish(s, "0:80", &err), 0); /* whatever is free, as often as wanted */
    CHECK_INT(spec_add_publish(s, "0:80", &err), 0);
    while (s->port_count < SPEC_PORTS_MAX)
        CHECK_INT(spec_add_publish(s, "0:80", &err), 0);
    CHECK_INT(spec_add_publish(s, "0:80", &err), -E2BIG);
    spec_free(s);
}

static int parse(const char *text, struct publish_rules *rules, struct err *err)
{
    static const struct jfield fields[] = {{.name = "publish", .decode = j_publish_rules}, {0}};
    json_t *root = NULL;
    int r = json_parse(text, strlen(text), 4096, &root, err);

    if (r == 0)
        r = json_decode(root, fields, rules, err);
    json_decref(root);
    return r;
}

TEST(publish_rules_are_checked)
{
    static const struct {
        const char *address;
        bool allowed;
    } rows[] = {
        {"127.0.0.1:1024", true},  {"127.0.0.1:65535", true},
        {"127.0.0.1:1023", false}, {"127.0.0.1:0", true},
        {"127.0.0.2:1024", false}, {"0.0.0.0:8080", false},
        {"[::1]:80", true},        {"[::1]:81", false},
        {"[::1]:0", false},        {"[::ffff:127.0.0.1]:1024", false},
        {"10.0.0.1:443", true},    {"[fd00::1]:443", true},
        {"10.0.0.1:444", false},
    };
    struct publish_rules rules = {.list = NULL};
    struct err err = ERR_NONE;
    struct address a;

    CHECK_INT(parse("{\"publish\":[{\"address\":\"127.0.0.1\",\"minPort\":1024,\"maxPort\":65535},"
                    "{\"address\":\"0:0::1\",\"minPort\":80,\"maxPort\":80},"
                    "{\"address\":\"*\",\"minPort\":443,\"maxPort\":443}]}",
                    &rules, &err),
              0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_INT(address_parse(rows[i].address, &a), 0);
        if (publish_allowed(&rules, &a) != rows[i].allowed)
            tap_fail("%s", rows[i].address);
    }
    publish_rules_done(&rules);
    CHECK_INT(address_parse("127.0.0.1:1024", &a), 0);
    CHECK(!publish_allowed(&rules, &a)); /* none allows nothing */
    CHECK_INT(publish_rules_any(&rules), 0);
    CHECK(publish_allowed(&rules, &a));
    publish_rules_done(&rules);
}

TEST(rules_refused)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"{\"publish\":{}}", "publish: must be"},
        {"{\"publish\":[{}]}", "publish[0].address: missing"},
        {"{\"publish\":[{\"address\":\"x\",\"minPort\":1,\"maxPort\":2}]}",
         "publish[0]: address: must be"},
        {"{\"publish\":[{\"address\":\"127.0.0.1:80\",\"minPort\":1,\"maxPort\":2}]}",
         "publish[0]: address: must be"},
        {"{\"publish\":[{\"address\":\"*\",\"minPort\":3,\"maxPort\":2}]}",
         "publish[0]: minPort: larger"},
        {"{\"publish\":[{\"address\":\"*\",\"minPort\":0,\"maxPort\":2}]}",
         "publish[0].minPort: must be"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct publish_rules rules = {.list = NULL};
        struct err err = ERR_NONE;

        CHECK(parse(rows[i].text, &rules, &err) < 0);
        if (strstr(err.msg, rows[i].why) == NULL)
            tap_fail("%s: %s", rows[i].text, err.msg);
        publish_rules_done(&rules);
    }
}

TEST(addresses_are_checked)
{
    static const char *const good[] = {"127.0.0.1:80", "[::1]:0", "[fe80::1]:65535", "0.0.0.0:1"};
    static const char *const bad[] = {"",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "::1:80",
                                      "[::1]",
                                      "[::1]80",
                                      "localhost:80",
                                      "[127.0.0.1:80",
                                      "1.2.3:80",
                                      "[fe80::1%lo]:1",
                                      " 1.2.3.4:1",
                                      ":80"};
    struct address a, again;
    struct sockaddr_storage name;
    char text[ADDRESS_TEXT_MAX];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        CHECK_INT(address_parse(good[i], &a), 0);
        address_format(&a, text);
        CHECK_STR(text, good[i]);
        CHECK(address_socket(&a, &name) > 0);
        CHECK(address_from_socket((struct sockaddr *)(void *)&name, &again));
        CHECK(address_equal(&a, &again));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (address_parse(bad[i], &a) != -EINVAL)
            tap_fail("'%s' is accepted", bad[i]);
}

TAP_MAIN
