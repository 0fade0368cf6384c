/* Supplementary groups of a sandbox's processes. Pure. */
#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "proto/userdb.h"
#include "spec/parse.h"
#include "spec/spec.h"
#include "spec/strings.h"

int spec_add_group(struct spec *s, const char *text, struct err *err)
{
    struct userdb_spec group;
    const char *why = "";
    size_t count = 0;
    int r = userdb_parse_group(text, &group, &why);

    if (r == 0 && group.gid > SPEC_GROUP_ID_MAX) {
        why = "a sandbox has the ids 0 to 65535";
        r = -ERANGE;
    }
    if (r < 0)
        return err_set(err, r, "group \"%.*s\": %s", QUOTE_MAX, text, why);
    if (s->groups == NULL)
        s->groups = strings_new();
    if (s->groups == NULL)
        return err_errno(err, -ENOMEM, "group");
    while (s->groups[count] != NULL)
        count++;
    if (count == SPEC_GROUPS_MAX)
        return err_set(err, -E2BIG, "group \"%.*s\": more than %d", QUOTE_MAX, text,
                       SPEC_GROUPS_MAX);
    r = strings_append(&s->groups, count, text);
    return r < 0 ? err_errno(err, r, "group") : 0;
}
