/* What rind doctor says of subordinate ids, and which range it proposes. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/idrange.h"
#include "sandbox/subids.h"
#include "tap.h"

static int free_in(const char *subuid, const char *subgid, const char *passwd, const char *group,
                   uint32_t *ret, struct err *err)
{
    const struct subid_texts t = {.subuid = subuid,
                                  .subgid = subgid,
                                  .passwd = passwd,
                                  .group = group,
                                  .subuid_len = subuid != NULL ? strlen(subuid) : 0,
                                  .subgid_len = subgid != NULL ? strlen(subgid) : 0,
                                  .passwd_len = passwd != NULL ? strlen(passwd) : 0,
                                  .group_len = group != NULL ? strlen(group) : 0};

    return subids_free(&t, ret, err);
}

/* clang-format off */
static const struct {
    const char *subuid, *subgid, *passwd, *group;
    uint32_t first;
} proposed[] = {
    {NULL, NULL, NULL, NULL, 100000},
    {"", "", "", "", 100000},
    {"\n# a:100000:65536\na:100000:0\n", NULL, NULL, NULL, 100000},
    /* the next one, whether the owner is a name or a number, in either file, without a newline */
    {"a:100000:65536\n", "a:100000:65536\n", NULL, NULL, 165536},
    {"1000:100000:65536", NULL, NULL, NULL, 165536},
    {NULL, "1000:100000:65536", NULL, NULL, 165536},
    {"a:100000:65536\n", "b:165536:65536\n", NULL, NULL, 231072},
    /* unsorted, overlapping, touching, one in another */
    {"c:231072:65536\na:100000:65536\nb:165536:65536\n", NULL, NULL, NULL, 296608},
    {"a:100000:200000\nb:100001:5\nc:299999:2\n", NULL, NULL, NULL, 300001},
    /* the first gap that is large enough: not that of 65535, but that of 65536 */
    {"a:100000:10\nb:165545:10\nc:231091:10\n", NULL, NULL, NULL, 165555},
    {"a:165535:1\n", NULL, NULL, NULL, 165536},
    {"a:165536:1\n", NULL, NULL, NULL, 100000},
    {"a:99999:1\n", NULL, NULL, NULL, 100000},
    {"a:0:100001\n", NULL, NULL, NULL, 100001},
    /* users and groups of the host in the way; those below are in nobody's way */
    {NULL, NULL, "root:x:0:0::/:\nldap:x:100005:1::/:\n", "wheel:x:165541:\n", 165542},
    {NULL, NULL, "root:x:0:0::/:\nu:x:1000:100:\n", "u:x:1000:\n", 100000},
    /* lines of passwd and group that are none */
    {NULL, NULL, "\n::\nx\n+:::::\nx:x:-1:0\nx:x:99999999999999999999:0\nx:x:0x1:\nx:x:100000", ":\n", 100001},
    /* rind's pool is above all of it, and may be given to a user */
    {"a:1879048192:268435456\n", NULL, NULL, NULL, 100000},
};

static const struct {
    const char *subuid, *subgid;
    int code;
    const char *msg;
} refused[] = {
    {"a:100000:65536\nb;165536;65536\n", NULL, -EINVAL, "correct line 2 of /etc/subuid, which is not NAME:FIRST:COUNT"},
    {NULL, "\n\na:0x10:1\n", -EINVAL, "correct line 3 of /etc/subgid, which is not NAME:FIRST:COUNT"},
    {"a:-1:5\n", NULL, -EINVAL, NULL},
    {"a:1\n", NULL, -EINVAL, NULL},
    {":1:1\n", NULL, -EINVAL, NULL},
    {"a:1:1:1\n", NULL, -EINVAL, NULL},
    {"a:100000:4294967295\n", NULL, -ENOSPC, NULL},
    {"a:100000:99999999999999999999999999\n", NULL, -ENOSPC, NULL},
    {"a:100000:600000000\n", "b:600034466:1\n", -ENOSPC, NULL},
};

static const struct {
    const char *text, *user;
    uid_t uid;
    uint32_t first;
    uint64_t count;
    const char *other;
} owned[] = {
    {"", "me", 1000, 0, 0, ""},
    {"you:100000:65536\n", "me", 1000, 0, 0, ""},
    {"me:100000:65536\n", "me", 1000, 100000, 65536, ""},
    {"1000:100000:65536\n", "me", 1000, 100000, 65536, ""},
    {"1000:100000:65536\n", "", 1000, 100000, 65536, ""},
    {":100000:65536\n", "", 1000, 0, 0, ""},
    {"mee:1:65536\nm:1:65536\n10000:1:65536\n", "me", 1000, 0, 0, ""},
    {"me:5:10\nme:100000:65536\nme:7:20\n", "me", 1000, 100000, 65536, ""},
    {"junk\nme\nme:\nme:1:x\nme:300000:9\n", "me", 1000, 300000, 9, ""},
    {"me:4294967295:5\n", "me", 1000, 4294967295U, 1, ""},
    /* the same line by name and by number is the same user's */
    {"me:100000:65536\n1000:100000:65536\n", "me", 1000, 100000, 65536, ""},
    {"you:100000:65536\nme:100000:65536\n", "me", 1000, 100000, 65536, "you"},
    {"me:100000:65536\n1001:165535:1\n", "me", 1000, 100000, 65536, "1001"},
    {"me:100000:65536\nyou:165536:1\n", "me", 1000, 100000, 65536, ""},
    {"me:100000:65536\nyou:0:100000\n", "me", 1000, 100000, 65536, ""},
    {"me:100000:65536\nyou:0:100001\n", "me", 1000, 100000, 65536, "you"},
    {"me:100000:65536\nabcdefghijklmnopqrstuvwxyz0123456789:1:99999999\n", "me", 1000, 100000, 65536,
     "abcdefghijklmnopqrstuvwxyz012345"},
};
/* clang-format on */

TEST(the_next_free_range)
{
    for (size_t i = 0; i < sizeof(proposed) / sizeof(proposed[0]); i++) {
        struct err err = ERR_NONE;
        uint32_t first = 0;

        CHECK_INT(free_in(proposed[i].subuid, proposed[i].subgid, proposed[i].passwd,
                          proposed[i].group, &first, &err),
                  0);
        CHECK_INT(first, proposed[i].first);
        if (tap_failed)
            printf("# row %zu: %s\n", i, err.msg);
    }
}

TEST(no_range_is_guessed)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct err err = ERR_NONE;
        uint32_t first = 7;

        CHECK_INT(free_in(refused[i].subuid, refused[i].subgid, NULL, NULL, &first, &err),
                  refused[i].code);
        CHECK_INT(first, 7);
        CHECK(err.msg[0] != '\0');
        if (refused[i].msg != NULL)
            CHECK_STR(err.msg, refused[i].msg);
        if (tap_failed)
            printf("# row %zu\n", i);
    }
}

/* Each gets what none before it has got, also after thousands of them. */
TEST(proposals_that_are_followed_never_meet)
{
    enum { USERS = 3000 };
    auto_free char *text = calloc(USERS, 32);
    size_t len = 0;
    uint32_t last = 0;

    for (int i = 0; text != NULL && i < USERS; i++) {
        struct subid_texts t = {.subuid = text, .subuid_len = len};
        struct subid_range r;
        struct err err = ERR_NONE;
        uint32_t first;
        char name[16];

        if (subids_free(&t, &first, &err) < 0 || (i > 0 && first <= last))
            tap_fail("user %d: %s", i, err.msg);
        last = first + (SUBIDS_COUNT - 1);
        (void)snprintf(name, sizeof(name), "u%d", i);
        len += (size_t)snprintf(text + len, 32, "%s:%u:%d\n", name, (unsigned)first, SUBIDS_COUNT);
        subids_of(text, len, name, 5, &r);
        if (r.first != first || r.count != SUBIDS_COUNT || r.other[0] != '\0')
            tap_fail("user %d has %u, shared with '%s'", i, (unsigned)r.first, r.other);
    }
}

TEST(too_many_lines)
{
    enum { LINES = IDRANGE_SUBIDS_MAX + 1 };
    auto_free char *text = malloc((size_t)LINES * 16);
    struct err err = ERR_NONE;
    uint32_t first;
    size_t len = 0;

    for (int i = 0; text != NULL && i < LINES; i++)
        len += (size_t)snprintf(text + len, 16, "a:%d:1\n", 200000 + i);
    CHECK_INT(subids_free(&(struct subid_texts){.subuid = text, .subuid_len = len}, &first, &err),
              -E2BIG);
    len -= strlen("a:200000:1\n");
    CHECK_INT(subids_free(&(struct subid_texts){.subuid = text, .subuid_len = len}, &first, &err),
              0);
    CHECK_INT(first, 100000);
}

TEST(bytes_that_are_no_text)
{
    static const char text[] = "a:100000:65536\nb\0:1:1\n";
    struct err err = ERR_NONE;
    struct subid_range r;
    uint32_t first;

    CHECK_INT(subids_free(&(struct subid_texts){.subgid = text, .subgid_len = sizeof(text) - 1},
                          &first, &err),
              -EINVAL);
    subids_of(text, sizeof(text) - 1, "a", 1, &r);
    CHECK_INT(r.count, 65536);
    CHECK_STR(r.other, "");
    subids_of(NULL, 0, "a", 1, &r);
    CHECK_INT(r.count, 0);
}

TEST(what_a_user_has)
{
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
        struct subid_range r;

        subids_of(owned[i].text, strlen(owned[i].text), owned[i].user, owned[i].uid, &r);
        CHECK_INT(r.count, owned[i].count);
        CHECK_INT(r.first, owned[i].first);
        CHECK_STR(r.other, owned[i].other);
        if (tap_failed)
            printf("# row %zu\n", i);
    }
}

TAP_MAIN
