/*
 * Directories of root that are never mapped to a sandbox's user. A process that may write there as
 * root, or read root's files, can become root on the host: files there are executed, or are
 * configuration or keys.
 *
 * The daemon's owner may ask for a mount of them. But the launcher hears this only from the
 * supervisor, which it does not trust (creator.h). In other directories of root, such as a
 * project's, a compromised supervisor can do what the owner could; `bindPrefixes` limits that.
 *
 * Runs in the launcher; called by root.c.
 */
#include <stddef.h>
#include <string.h>

#include "launch/sandbox.h"

/* Returns true if path is dir, or is below it. */
static bool path_is_at_or_below(const char *path, const char *dir)
{
    const size_t len = strlen(dir);

    return strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

enum path_kind path_kind(const char *path, const char *state_dir)
{
    static const char *const system[] = {
        "/bin",   "/boot",  "/dev",    "/efi",     "/etc",    "/gnu",        "/lib",
        "/lib32", "/lib64", "/libx32", "/nix",     "/proc",   "/lost+found", "/run",
        "/sbin",  "/sys",   "/usr",    "/sysroot", "/ostree", "/snap",       "/root/bin"};
    /* Files of root in these directories stay root's; users put their own directories below them.
     */
    static const char *const shared[] = {"/home", "/media", "/mnt", "/opt", "/srv", "/tmp"};

    if (path[0] != '/' || strcmp(path, "/") == 0)
        return PATH_SYSTEM;
    if (path_is_at_or_below(path, state_dir))
        return PATH_STATE;
    if (path_is_at_or_below(state_dir, path))
        return PATH_SYSTEM;
    if (strcmp(path, "/var/tmp") == 0)
        return PATH_SHARED;
    if (path_is_at_or_below(path, "/var"))
        return path_is_at_or_below(path, "/var/tmp") || path_is_at_or_below(path, "/var/www")
                   ? PATH_ANY
                   : PATH_SYSTEM;
    for (size_t i = 0; i < sizeof(system) / sizeof(system[0]); i++)
        if (path_is_at_or_below(path, system[i]))
            return PATH_SYSTEM;
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
        if (strcmp(path, shared[i]) == 0)
            return PATH_SHARED;
    /* Root's home has keys and start-up files, whose names begin with a dot. */
    return strcmp(path, "/root") == 0 || strncmp(path, "/root/.", sizeof("/root/.") - 1) == 0
               ? PATH_SYSTEM
               : PATH_ANY;
}
