/* Which directories of root's are never a sandbox's own. */

#include "launch/sandbox.h"
#include "tap.h"

static const struct {
    const char *path;
    bool want;
} rows[] = {
    {"/", true},
    {"", true},
    {"relative", true},
    {"(unreachable)/x", true},
    {"/etc", true},
    {"/etc/cron.d", true},
    {"/etcetera", false},
    {"/usr", true},
    {"/usr/local/bin", true},
    {"/usr/src", false},
    {"/usr/src/app", false},
    {"/usr/srcs", true},
    {"/usr/local/src/x", false},
    {"/var", true},
    {"/var/spool/cron", true},
    {"/var/www/html", false},
    {"/var/tmp", false},
    {"/root", true},
    {"/root/.ssh", true},
    {"/root/.config/systemd", true},
    {"/root/project", false},
    {"/root/project/.git", false},
    {"/rooted", false},
    {"/srv/app", false},
    {"/home/a/b", false},
    {"/workspace", false},
    {"/data", true},        /* the state directory is below it */
    {"/data/rind", true},   /* is it */
    {"/data/rind/x", true}, /* is in it */
    {"/data/rinds", false},
    {"/data/other", false},
};

TEST(paths)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (system_path(rows[i].path, "/data/rind") != rows[i].want)
            tap_fail("%s: %s", rows[i].path, rows[i].want ? "is not one" : "is one");
}

TAP_MAIN
