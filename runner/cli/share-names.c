/* Resolves what --share names to ids. Runs in the command line; called by the options of create,
 * run and update. */
#include "cli/share-names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/number.h"
#include "sys/users.h"

enum { NAME_MAX_LEN = 255, ID_DIGITS = 10 };

static bool name_has_id(const char *name, bool group, uint32_t *ret)
{
    int64_t number = number_whole(name, ID_DIGITS);
    uid_t uid;
    gid_t gid;

    if (number >= 0 && number < UINT32_MAX) {
        *ret = (uint32_t)number;
        return true;
    }
    if (group ? !host_group(name, &gid) : !host_user(name, &uid))
        return false;
    *ret = group ? gid : uid;
    return true;
}

int share_resolve(const char *text, char ret[SHARE_TEXT_MAX], struct err *err)
{
    struct share s = {.group = strncmp(text, "group:", strlen("group:")) == 0};
    const bool user = strncmp(text, "user:", strlen("user:")) == 0;
    const char *name = s.group || user ? strchr(text, ':') + 1 : text;
    const char *colon = strrchr(name, ':');
    char buffer[NAME_MAX_LEN + 1];
    int n;

    s.read_only = colon != NULL && strcmp(colon, ":ro") == 0;
    n = snprintf(buffer, sizeof(buffer), "%.*s",
                 (int)(s.read_only ? (size_t)(colon - name) : strlen(name)), name);
    if (n <= 0 || n > NAME_MAX_LEN || strchr(buffer, ':') != NULL)
        return err_set(err, -EINVAL,
                       "share \"%.64s\": must be a user or group, perhaps with :ro behind it",
                       text);
    if (!name_has_id(buffer, s.group, &s.id)) {
        s.group = !user;
        if (!s.group || !name_has_id(buffer, true, &s.id))
            return err_set(err, -ENOENT, "share \"%.64s\": no such user or group", text);
    }
    share_format(&s, ret);
    return 0;
}
