/* What a broker of init reads of its caller: texts of /proc, as they are and spoiled. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "init/guard.h"
#include "tap.h"

static const char status[] = "Name:\ta\\nUid:\t0\t0\t0\t0\n"
                             "Umask:\t0027\nState:\tS (sleeping)\nTgid:\t7\n"
                             "Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t4294967294\nFDSize:\t64\n"
                             "Groups:\t10 20 30 \nNStgid:\t7\n"
                             "CapInh:\t0000000000000000\nCapPrm:\tffffffffffffffff\n"
                             "CapEff:\t000001ffa80425fb\nCapBnd:\t0\n";

TEST(a_status)
{
    struct broker_status s;

    CHECK_INT(broker_status_parse(status, &s), 0);
    CHECK_INT(s.uid, 4);
    CHECK_INT(s.gid, 4294967294);
    CHECK_INT(s.umask, 027);
    CHECK(s.caps == 0x1ffa80425fb);
    CHECK_INT(s.group_count, 3);
    CHECK(s.groups[0] == 10 && s.groups[1] == 20 && s.groups[2] == 30);
}

TEST(no_groups)
{
    struct broker_status s;

    CHECK_INT(broker_status_parse(
                  "Umask:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t \nCapEff:\t0\n", &s),
              0);
    CHECK_INT(s.group_count, 0);
    CHECK(s.uid == 0 && s.gid == 0 && s.caps == 0 && s.umask == 0);
}

/* A process without a line has nothing done for it, rather than as somebody else. */
TEST(each_line_missing)
{
    static const char *const names[] = {"Umask:", "\nUid:", "Gid:", "Groups:", "CapEff:"};
    struct broker_status s;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[sizeof(status)];

        (void)memcpy(text, status, sizeof(text));
        *(strstr(text, names[i]) + 1) = '-';
        CHECK_INT(broker_status_parse(text, &s), -1);
    }
    for (size_t len = 0; len < sizeof(status) - 1; len++) {
        char text[sizeof(status)];

        (void)memcpy(text, status, len);
        text[len] = '\0';
        /* Cut within the last line that is of interest it may still be a number. */
        if (strstr(text, "CapEff:\t0") == NULL)
            CHECK_INT(broker_status_parse(text, &s), -1);
    }
}

TEST(numbers_that_are_none)
{
    static const char *const rows[] = {
        "Umask:\t01000\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\nCapEff:\t0\n",
        "Umask:\t8\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\nCapEff:\t0\n",
        "Umask:\t0\nUid:\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\nCapEff:\t0\n",
        "Umask:\t0\nUid:\t0\t0\t0\t4294967296\nGid:\t0\t0\t0\t0\nGroups:\t\nCapEff:\t0\n",
        "Umask:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t-1\nGroups:\t\nCapEff:\t0\n",
        "Umask:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t1 x\nCapEff:\t0\n",
        "Umask:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t1\nCapEff:\tg\n",
        "Umask:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t1\nCapEff:\t10000000000000000\n",
    };
    struct broker_status s;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_INT(broker_status_parse(rows[i], &s), -1);
}

/* No group is left out: one may be what a file is closed to. */
TEST(more_groups_than_there_is_room_for)
{
    static char text[64 + (BROKER_GROUPS_MAX + 1) * 2 + 64];
    struct broker_status s;

    for (size_t n = BROKER_GROUPS_MAX; n <= BROKER_GROUPS_MAX + 1; n++) {
        size_t at = (size_t)sprintf(
            text, "Umask:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nCapEff:\t0\nGroups:\t");

        for (size_t i = 0; i < n; i++)
            at += (size_t)sprintf(text + at, "7 ");
        (void)sprintf(text + at, "\n");
        CHECK_INT(broker_status_parse(text, &s), n > BROKER_GROUPS_MAX ? -1 : 0);
    }
}

TEST(descriptors_of_o_path)
{
    CHECK(broker_fdinfo_is_path("pos:\t0\nflags:\t012100000\nmnt_id:\t1\n"));
    CHECK(!broker_fdinfo_is_path("pos:\t0\nflags:\t0100002\nmnt_id:\t1\n"));
    CHECK(broker_fdinfo_is_path("pos:\t0\n"));
    CHECK(broker_fdinfo_is_path("flags:\tx\n"));
}

TEST(paths_that_are_descriptors)
{
    CHECK_INT(broker_path_fd("/proc/self/fd/0"), 0);
    CHECK_INT(broker_path_fd("/proc/self/fd/17"), 17);
    CHECK_INT(broker_path_fd("/proc/thread-self/fd/5"), 5);
    CHECK_INT(broker_path_fd("/proc/self/fd/2147483647"), INT32_MAX);
    CHECK_INT(broker_path_fd("/proc/self/fd/2147483648"), -1);
    CHECK_INT(broker_path_fd("/proc/self/fd/"), -1);
    CHECK_INT(broker_path_fd("/proc/self/fd/ 1"), -1);
    CHECK_INT(broker_path_fd("/proc/self/fd/-1"), -1);
    CHECK_INT(broker_path_fd("/proc/self/fd/01"), -1);
    CHECK_INT(broker_path_fd("/proc/self/fd/1/x"), -1);
    CHECK_INT(broker_path_fd("/proc/self/fd"), -1);
    CHECK_INT(broker_path_fd("/proc/7/fd/1"), -1);
    CHECK_INT(broker_path_fd("proc/self/fd/1"), -1);
    CHECK_INT(broker_path_fd(""), -1);
}

TAP_MAIN
