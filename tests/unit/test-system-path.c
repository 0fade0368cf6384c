/* What a host directory is by its path: whether what is root's in it may be a sandbox's. */

#include "launch/sandbox.h"
#include "tap.h"

static const struct {
    const char *path;
    enum path_kind want;
} rows[] = {
    {"/", PATH_SYSTEM},
    {"", PATH_SYSTEM},
    {"relative", PATH_SYSTEM},
    {"(unreachable)/x", PATH_SYSTEM},
    {"/etc", PATH_SYSTEM},
    {"/etc/cron.d", PATH_SYSTEM},
    {"/etcetera", PATH_ANY},
    {"/usr", PATH_SYSTEM},
    {"/usr/local/bin", PATH_SYSTEM},
    {"/usr/src/linux", PATH_SYSTEM},
    {"/var", PATH_SYSTEM},
    {"/var/spool/cron", PATH_SYSTEM},
    {"/var/www/html", PATH_ANY},
    {"/var/www", PATH_ANY},
    {"/var/wwwx", PATH_SYSTEM},
    {"/var/tmp", PATH_SHARED},
    {"/var/tmp/mine", PATH_ANY},
    {"/nix/store", PATH_SYSTEM},
    {"/root", PATH_SYSTEM},
    {"/root/.ssh", PATH_SYSTEM},
    {"/root/bin", PATH_SYSTEM},
    {"/root/.config/systemd", PATH_SYSTEM},
    {"/root/project", PATH_ANY},
    {"/root/project/.git", PATH_ANY},
    {"/rooted", PATH_ANY},
    {"/home", PATH_SHARED},
    {"/home/a", PATH_ANY},
    {"/tmp", PATH_SHARED},
    {"/tmp/x", PATH_ANY},
    {"/srv", PATH_SHARED},
    {"/srv/app", PATH_ANY},
    {"/workspace", PATH_ANY},
    {"/data", PATH_SYSTEM}, /* the state directory is below it */
    {"/data/rind", PATH_STATE},
    {"/data/rind/volumes/x", PATH_STATE},
    {"/data/rinds", PATH_ANY},
    {"/data/other", PATH_ANY},
};

TEST(system_paths_are_recognised)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const enum path_kind got = path_kind(rows[i].path, "/data/rind");

        if (got != rows[i].want)
            tap_fail("%s: %d, want %d", rows[i].path, (int)got, (int)rows[i].want);
    }
}

TAP_MAIN
