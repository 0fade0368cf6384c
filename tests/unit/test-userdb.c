/* User strings and look-ups in hostile passwd and group files. */

#include <errno.h>

#include "proto/userdb.h"
#include "tap.h"

#define SYNTAX                                                                                     \
    "must be a name or a number, optionally with :group (names: letters, digits, _ . - and not a " \
    "digit, . or - first)"
#define RANGE "a number must be between 0 and 4294967294"
#define ZERO  "a number must not begin with 0"

/* Trap names: a login that looks like a number and is root. */
static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
                             "1:x:0:0:trap:/root:/bin/sh\n"
                             "4294967296:x:0:0:trap:/root:/bin/sh\n"
                             "1000:x:2000:2000:trap:/trap:/bin/sh\n"
                             "app:x:1000:1000:app:/home/app:/bin/sh\n"
                             "second:x:1000:7:same uid:/second:/bin/sh\n"
                             "app:x:0:0:again:/root:/bin/sh\n"
                             "homeless:x:1001:1001:::\n"
                             "relative:x:1002:1002::tmp/x:/bin/sh\n"
                             "broken:x:abc:0::/:\n"
                             "short:x:1:1::/\n"
                             "long:x:1:1::/:/bin/sh:more\n"
                             "signed:x:-1:0::/:\n"
                             "plus:x:+5:0::/:\n"
                             "space:x: 5:0::/:\n"
                             "huge:x:4294967296:0::/:\n"
                             "none:x:4294967295:0::/:\n"
                             "last:x:4294967294:5::/:\n"
                             "+:x:0:0::/:\n"
                             "\n"
                             "nonl:x:77:78::/n:/bin/sh";

static const char group[] = "root:x:0:\n"
                            "0:x:99:app\n"
                            "bad:x:1x:app\n"
                            "app:x:1000:\n"
                            "extra:x:1234:root,app,other\n"
                            "again:x:1234:app\n"
                            "prefix:x:55:apple,xapp\n"
                            "short:app\n"
                            "nonl:x:88:nonl,app2";

static struct userdb_identity id;

static int resolve(const char *text, const char **why)
{
    struct userdb_spec spec;
    int r;

    memset(&id, 0xff, sizeof(id));
    *why = "";
    r = userdb_parse(text, &spec, why);
    if (r < 0)
        return r;
    return userdb_resolve(&spec, passwd, strlen(passwd), group, strlen(group), &id, why);
}

TEST(strings_of_a_hostile_image)
{
    static const struct {
        const char *text;
        int code;
        uint32_t uid, gid;
        size_t groups;
        const char *home_or_why;
    } rows[] = {
        {"", 0, 0, 0, 2, "/root"}, /* root is listed in extra */
        {"root", 0, 0, 0, 2, "/root"},
        {"0", 0, 0, 0, 2, "/root"},
        {"0:0", 0, 0, 0, 2, "/root"},
        {"1", 0, 1, 0, 1, "/"},
        {"1:1", 0, 1, 1, 1, "/"},
        {"app", 0, 1000, 1000, 3, "/home/app"},
        {"app:0", 0, 1000, 0, 3, "/home/app"},
        {"app:root", 0, 1000, 0, 3, "/home/app"},
        {"app:1234", 0, 1000, 1234, 2, "/home/app"},
        {"1000", 0, 1000, 1000, 3, "/home/app"},
        {"1000:5", 0, 1000, 5, 3, "/home/app"},
        {"homeless", 0, 1001, 1001, 1, "/"},
        {"relative", 0, 1002, 1002, 1, "/"},
        {"nonl", 0, 77, 78, 2, "/n"},
        {"4294967294", 0, 4294967294, 5, 1, "/"},
        {"12345:nonl", 0, 12345, 88, 1, "/"},
        {"-1", -EINVAL, 0, 0, 0, SYNTAX},
        {"+0", -EINVAL, 0, 0, 0, SYNTAX},
        {" 0", -EINVAL, 0, 0, 0, SYNTAX},
        {"0 ", -EINVAL, 0, 0, 0, SYNTAX},
        {"0x0", -EINVAL, 0, 0, 0, SYNTAX},
        {"00", -EINVAL, 0, 0, 0, ZERO},
        {"010", -EINVAL, 0, 0, 0, ZERO},
        {"4294967295", -ERANGE, 0, 0, 0, RANGE},
        {"4294967296", -ERANGE, 0, 0, 0, RANGE},
        {"18446744073709551616", -ERANGE, 0, 0, 0, RANGE},
        {"99999999999999999999999999999999999999999", -ERANGE, 0, 0, 0, RANGE},
        {"app:4294967295", -ERANGE, 0, 0, 0, RANGE},
        {"1000:", -EINVAL, 0, 0, 0, SYNTAX},
        {"app:", -EINVAL, 0, 0, 0, SYNTAX},
        {":1000", -EINVAL, 0, 0, 0, SYNTAX},
        {":", -EINVAL, 0, 0, 0, SYNTAX},
        {"app:app:app", -EINVAL, 0, 0, 0, SYNTAX},
        {"1:2:3", -EINVAL, 0, 0, 0, SYNTAX},
        {"a/b", -EINVAL, 0, 0, 0, SYNTAX},
        {"a\nb", -EINVAL, 0, 0, 0, SYNTAX},
        {"a$b", -EINVAL, 0, 0, 0, SYNTAX},
        {"nosuch", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"broken", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"short", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"long", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"signed", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"plus", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"space", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"huge", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"none", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"machine$", -ENOENT, 0, 0, 0, "no such user in the image's /etc/passwd"},
        {"app:nosuch", -ENOENT, 0, 0, 0, "no such group in the image's /etc/group"},
        {"app:bad", -ENOENT, 0, 0, 0, "no such group in the image's /etc/group"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *why;
        int r = resolve(rows[i].text, &why);

        if (r != rows[i].code)
            tap_fail("\"%s\" is %d, want %d", rows[i].text, r, rows[i].code);
        if (rows[i].code < 0) {
            CHECK_STR(why, rows[i].home_or_why);
            continue;
        }
        CHECK_INT(id.uid, rows[i].uid);
        CHECK_INT(id.gid, rows[i].gid);
        CHECK_INT(id.group_count, rows[i].groups);
        CHECK_INT(id.groups[0], rows[i].gid);
        CHECK_STR(id.home, rows[i].home_or_why);
    }
}

TEST(memberships_are_whole_words_and_counted_once)
{
    const char *why;

    CHECK_INT(resolve("app", &why), 0);
    CHECK_INT(id.group_count, 3);
    CHECK_INT(id.groups[0], 1000);
    CHECK_INT(id.groups[1], 99); /* the group that is called "0" */
    CHECK_INT(id.groups[2], 1234);
}

TEST(an_image_without_files)
{
    static const struct {
        const char *text;
        int code;
        uint32_t uid, gid;
    } rows[] = {{"root", 0, 0, 0},          {"", 0, 0, 0},       {"5", 0, 5, 0},
                {"5:6", 0, 5, 6},           {"5:root", 0, 5, 0}, {"app", -ENOENT, 0, 0},
                {"root:app", -ENOENT, 0, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct userdb_spec spec;

        CHECK_INT(userdb_parse(rows[i].text, &spec, NULL), 0);
        CHECK_INT(userdb_resolve(&spec, NULL, 0, NULL, 0, &id, NULL), rows[i].code);
        if (rows[i].code < 0)
            continue;
        CHECK_INT(id.uid, rows[i].uid);
        CHECK_INT(id.gid, rows[i].gid);
        CHECK_INT(id.group_count, 1);
        CHECK_STR(id.home, "/");
    }
}

TEST(a_root_line_that_is_not_uid_0)
{
    static const char text[] = "root:x:500:500::/home:\n";
    struct userdb_spec spec;

    CHECK_INT(userdb_parse("root", &spec, NULL), 0);
    CHECK_INT(userdb_resolve(&spec, text, strlen(text), NULL, 0, &id, NULL), 0);
    CHECK_INT(id.uid, 500);
}

TEST(lines_of_any_length_are_read)
{
    static char text[USERDB_LINE_MAX + 64], name[USERDB_NAME_MAX + 2];
    struct userdb_spec spec;
    size_t len;

    memset(name, 'a', USERDB_NAME_MAX);
    CHECK_INT(userdb_parse(name, &spec, NULL), 0);
    name[USERDB_NAME_MAX] = 'a';
    CHECK_INT(userdb_parse(name, &spec, NULL), -EINVAL);

    /* A line that is too long is skipped, the one behind it counts. */
    len = (size_t)sprintf(text, "u:x:5:5:");
    memset(text + len, 'g', USERDB_LINE_MAX);
    len += USERDB_LINE_MAX;
    len += (size_t)sprintf(text + len, ":/:\nu:x:6:6::/h:\n");
    CHECK_INT(userdb_parse("u", &spec, NULL), 0);
    CHECK_INT(userdb_resolve(&spec, text, len, NULL, 0, &id, NULL), 0);
    CHECK_INT(id.uid, 6);
}

TEST(a_nul_byte_spoils_its_line_only)
{
    static const char text[] = "u:x:5:5:\0:/:\nu:x:6:6::/h:\n";
    struct userdb_spec spec;

    CHECK_INT(userdb_parse("u", &spec, NULL), 0);
    CHECK_INT(userdb_resolve(&spec, text, sizeof(text) - 1, NULL, 0, &id, NULL), 0);
    CHECK_INT(id.uid, 6);
}

TEST(too_many_groups_are_an_error_not_a_shorter_list)
{
    static char text[USERDB_GROUPS_MAX * 32];
    static const char user[] = "u:x:5:5::/:\n";
    struct userdb_spec spec;
    const char *why = NULL;
    size_t len = 0;

    CHECK_INT(userdb_parse("u", &spec, NULL), 0);
    for (int i = 0; i < USERDB_GROUPS_MAX - 1; i++)
        len += (size_t)sprintf(text + len, "g%d:x:%d:u\n", i, 100 + i);
    CHECK_INT(userdb_resolve(&spec, user, strlen(user), text, len, &id, &why), 0);
    CHECK_INT(id.group_count, USERDB_GROUPS_MAX);
    len += (size_t)sprintf(text + len, "one:x:50:u\n");
    CHECK_INT(userdb_resolve(&spec, user, strlen(user), text, len, &id, &why), -E2BIG);
    CHECK_STR(why, "the user is in too many groups");
}

TEST(groups_that_are_added)
{
    static const char user[] = "u:x:5:5::/:\n", groups[] = "g:x:50:\n60:x:7:\nh:x:51:u\n";
    struct userdb_spec spec;
    const char *why = NULL;

    CHECK_INT(userdb_parse("u", &spec, NULL), 0);
    CHECK_INT(userdb_resolve(&spec, user, strlen(user), groups, strlen(groups), &id, NULL), 0);
    CHECK_INT(id.group_count, 2);
    CHECK_INT(userdb_add_group(&id, "g", groups, strlen(groups)), 0);
    CHECK_INT(userdb_add_group(&id, "60", groups, strlen(groups)), 0);
    CHECK_INT(userdb_add_group(&id, "h", groups, strlen(groups)), 0);
    CHECK_INT(id.group_count, 4);
    CHECK_INT(id.groups[2], 50);
    CHECK_INT(id.groups[3], 60); /* digits are a number, whoever is called so */
    CHECK_INT(id.gid, 5);
    CHECK_INT(userdb_add_group(&id, "root", groups, strlen(groups)), 0);
    CHECK_INT(id.groups[4], 0);
    CHECK_INT(userdb_add_group(&id, "nosuch", groups, strlen(groups)), -ENOENT);
    CHECK_INT(userdb_add_group(&id, "4294967295", groups, strlen(groups)), -ERANGE);
    CHECK_INT(userdb_parse_group("", &spec, &why), -EINVAL);
    CHECK_STR(why, "must be a name or a number (names: letters, digits, _ . - and not a digit, . "
                   "or - first)");
    CHECK_INT(userdb_parse_group("a:b", &spec, NULL), -EINVAL);
    while (id.group_count < USERDB_GROUPS_MAX)
        id.groups[id.group_count++] = 1000;
    CHECK_INT(userdb_add_group(&id, "70", groups, strlen(groups)), -E2BIG);
}

TAP_MAIN
