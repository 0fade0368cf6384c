#include "sys/users.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "proto/userdb.h"

enum { DATABASE_MAX = 16 << 20 }; /* bytes */

static char *read_database(const char *path, size_t *ret_len)
{
    char *text = NULL;

    return file_read_at(AT_FDCWD, path, DATABASE_MAX, &text, ret_len, NULL) < 0 ? NULL : text;
}

bool host_group(const char *name, gid_t *ret)
{
    struct userdb_spec spec = {.has_group = true};
    auto_free char *text = NULL;
    uint32_t gid;
    size_t len;

    if (name[0] == '\0')
        return false; /* userdb treats an empty name as a number */
    text = read_database("/etc/group", &len);
    if (text == NULL ||
        (size_t)snprintf(spec.group, sizeof(spec.group), "%s", name) >= sizeof(spec.group) ||
        userdb_lookup_group(text, len, &spec, &gid) < 0)
        return false;
    *ret = gid;
    return true;
}

bool host_user(const char *name, uid_t *ret)
{
    struct userdb_spec spec = {.user = ""};
    auto_free char *text = NULL;
    struct userdb_user user;
    size_t len;

    if (name[0] == '\0' || strspn(name, "0123456789") == strlen(name))
        return false; /* userdb treats it as a number, which needs no line */
    text = read_database("/etc/passwd", &len);
    if (text == NULL ||
        (size_t)snprintf(spec.user, sizeof(spec.user), "%s", name) >= sizeof(spec.user) ||
        userdb_lookup_user(text, len, &spec, &user) < 0)
        return false;
    *ret = user.uid;
    return true;
}

void host_user_name(uid_t uid, char *name, size_t size)
{
    const struct userdb_spec spec = {.uid = uid};
    auto_free char *text = NULL;
    struct userdb_user user;
    size_t len;

    name[0] = '\0';
    text = read_database("/etc/passwd", &len);
    if (text != NULL && userdb_lookup_user(text, len, &spec, &user) == 0 &&
        (size_t)snprintf(name, size, "%s", user.name) >= size)
        name[0] = '\0';
}
