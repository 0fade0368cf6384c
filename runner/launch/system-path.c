/*
 * Directories of root's that no sandbox gets as its own, whoever asks. Who may write there as root,
 * or read what is root's alone, is root on the host sooner or later: what lies there is executed,
 * or read as configuration or as a key.
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

bool system_path(const char *path, const char *state_dir)
{
    static const char *const system[] = {"/bin",    "/boot",  "/dev",  "/etc", "/lib",
                                         "/lib32",  "/lib64", "/proc", "/run", "/sbin",
                                         "/libx32", "/sys",   "/usr",  "/var", "/lost+found"};
    /* Below those, where people put what is theirs. */
    static const char *const not_system[] = {"/usr/src", "/usr/local/src", "/var/tmp", "/var/www"};
    static const char root_home[] = "/root";

    if (path[0] != '/' || strcmp(path, "/") == 0)
        return true;
    if (is_at_or_below(path, state_dir) || is_at_or_below(state_dir, path))
        return true;
    for (size_t i = 0; i < sizeof(not_system) / sizeof(not_system[0]); i++)
        if (is_at_or_below(path, not_system[i]))
            return false;
    for (size_t i = 0; i < sizeof(system) / sizeof(system[0]); i++)
        if (is_at_or_below(path, system[i]))
            return true;
    /* Root's home has keys and start-up files in it, which begin with a dot. */
    return strcmp(path, root_home) == 0 || strncmp(path, "/root/.", sizeof("/root/.") - 1) == 0;
}
