#include "path.h"

#include <errno.h>
#include <string.h>

static void path_drop_last(char *out, size_t *len)
{
    while (*len > 0 && out[*len - 1] != '/')
        (*len)--;
    if (*len > 0)
        (*len)--;
}

int path_clean(const char *name, char out[PATH_ROOM])
{
    size_t len = 0;

    while (*name != '\0') {
        size_t n = strcspn(name, "/");

        if (n == 2 && name[0] == '.' && name[1] == '.') {
            path_drop_last(out, &len);
        } else if (n > 0 && !(n == 1 && name[0] == '.')) {
            if (n > WORKER_NAME_MAX || len + 1 + n > WORKER_PATH_MAX)
                return -ENAMETOOLONG;
            if (len > 0)
                out[len++] = '/';
            (void)memcpy(out + len, name, n);
            len += n;
        }
        name += n;
        name += strspn(name, "/");
    }
    out[len] = '\0';
    return 0;
}

const char *path_split(const char *path, char parent[PATH_ROOM])
{
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t)(slash - path) : 0;

    (void)memcpy(parent, path, len);
    parent[len] = '\0';
    return slash != NULL ? slash + 1 : path;
}

int path_join(const char *parent, const char *name, char out[PATH_ROOM])
{
    size_t a = strlen(parent), b = strlen(name), slash = a > 0 && b > 0;

    if (a + slash + b > WORKER_PATH_MAX)
        return -ENAMETOOLONG;
    (void)memmove(out, parent, a + 1);
    if (slash)
        out[a] = '/';
    (void)memcpy(out + a + slash, name, b + 1);
    return 0;
}
