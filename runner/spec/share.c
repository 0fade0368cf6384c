/* Parses and prints the entries of a spec's `share`. Pure; runs in the command line and in the
 * supervisor. Names of users and groups are looked up by the command line (cli/share-names.c). */
#include "spec/share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/number.h"
#include "spec/spec.h"

enum { ID_DIGITS = 10 };

void share_list_done(struct share_list *l)
{
    free(l->list);
    *l = (struct share_list){.list = NULL};
}

static int share_parse(const char *text, struct share *ret, struct err *err)
{
    const char *rest = text;
    int64_t id;

    *ret = (struct share){.group = strncmp(text, "group:", strlen("group:")) == 0};
    if (!ret->group && strncmp(text, "user:", strlen("user:")) != 0)
        return err_set(err, -EINVAL,
                       "share \"%.64s\": must be user:UID or group:GID, perhaps with :ro", text);
    rest = strchr(text, ':') + 1;
    id = number_take(&rest, ID_DIGITS);
    ret->read_only = strcmp(rest, ":ro") == 0;
    /* The last value is what the kernel's calls take for "no id". */
    if (id < 0 || id >= UINT32_MAX || (*rest != '\0' && !ret->read_only))
        return err_set(err, -EINVAL,
                       "share \"%.64s\": must be user:UID or group:GID, perhaps with :ro", text);
    ret->id = (uint32_t)id;
    return 0;
}

int share_list_add(struct share_list *l, const char *text, struct err *err)
{
    struct share one, *more;
    int r = share_parse(text, &one, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < l->count; i++)
        if (l->list[i].group == one.group && l->list[i].id == one.id) {
            l->list[i] = one;
            return 0;
        }
    if (l->count == SHARES_MAX)
        return err_set(err, -E2BIG, "share: more than %d users and groups", SHARES_MAX);
    more = reallocarray(l->list, l->count + 1, sizeof(*more));
    if (more == NULL)
        return err_errno(err, -ENOMEM, "share");
    l->list = more;
    more[l->count++] = one;
    return 0;
}

void share_format(const struct share *s, char ret[SHARE_TEXT_MAX])
{
    (void)snprintf(ret, SHARE_TEXT_MAX, "%s:%u%s", s->group ? "group" : "user", (unsigned)s->id,
                   s->read_only ? ":ro" : "");
}

int spec_add_share(struct spec *s, const char *text, struct err *err)
{
    return share_list_add(&s->shares, text, err);
}
