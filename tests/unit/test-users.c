/* The host's users and groups, as far as every host has them. */

#include <string.h>

#include "sys/users.h"
#include "tap.h"

TEST(groups_are_read)
{
    gid_t gid = 12345;

    CHECK(host_group("root", &gid));
    CHECK_INT(gid, 0);
    gid = 12345;
    CHECK(!host_group("no-such-group-here", &gid));
    CHECK(!host_group("", &gid));
    CHECK_INT(gid, 12345);
}

TEST(users_are_read)
{
    char name[65] = "x", small[4];

    host_user_name(0, name, sizeof(name));
    CHECK_STR(name, "root");
    host_user_name(0, small, sizeof(small)); /* a part of a name is another name */
    CHECK_STR(small, "");
    host_user_name(4000000000, name, sizeof(name));
    CHECK_STR(name, "");
}

TEST(long_names)
{
    char name[1000];
    gid_t gid;

    (void)memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    CHECK(!host_group(name, &gid));
}

TAP_MAIN
