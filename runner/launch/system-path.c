/*
 * Directories of root's that are never mapped to a sandbox's user. A process that may write there
 * as root, or read root's own files, can become root on the host: files there are executed, or read
 * as configuration or as keys.
 *
 * The daemon's owner may ask for a mount of them, but what the owner has asked for the launcher
 * hears from the supervisor, which it does not believe (creator.h). For other directories of
 * root's, such as a project's, a supervisor that was taken over can do what the owner could;
 * `bindPrefixes` bounds it there.
 */
#include <stddef.h>
#include <string.h>

#include "launch/sandbox.h"

/* Whether path is dir, or lies below it. */
static bool is_at_or_below(const char *path, const char *dir)
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
    /* What is root's in these is root's; below them people put what is theirs. */
    static const char *const shared[] = {"/home", "/media", "/mnt", "/opt", "/srv", "/tmp"};

    if (path[0] != '/' || strcmp(path, "/") == 0)
        return PATH_SYSTEM;
    if (is_at_or_below(path, state_dir))
        return PATH_STATE;
    if (is_at_or_below(state_dir, path))
        return PATH_SYSTEM;
    if (strcmp(path, "/var/tmp") == 0)
        return PATH_SHARED;
    if (is_at_or_below(path, "/var"))
        return is_at_or_below(path, "/var/tmp") || is_at_or_below(path, "/var/www") ? PATH_ANY
                                                                                    : PATH_SYSTEM;
    for (size_t i = 0; i < sizeof(system) / sizeof(system[0]); i++)
        if (is_at_or_below(path, system[i]))
            return PATH_SYSTEM;
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
        if (strcmp(path, shared[i]) == 0)
            return PATH_SHARED;
    /* Root's home has keys and start-up files in it, which begin with a dot. */
    return strcmp(path, "/root") == 0 || strncmp(path, "/root/.", sizeof("/root/.") - 1) == 0
               ? PATH_SYSTEM
               : PATH_ANY;
}
