/* Parses the memfd of EXEC. Pure: it is tested and fuzzed on its own. */
#include <errno.h>
#include <string.h>

#include "init/init.h"

/* Points list[0..count) at consecutive strings; returns what follows them, or NULL when they pass
 * the end. */
static char *request_take_strings(char *at, const char *end, char **list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char *nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

        if (nul == NULL)
            return NULL;
        list[i] = at;
        at = nul + 1;
    }
    return at;
}

int exec_request_header(const void *data, size_t size, const struct exec_header **ret)
{
    const struct exec_header *h = data;
    size_t fixed;

    if (size < sizeof(*h) || size > EXEC_SIZE_MAX)
        return -EPROTO;
    if (h->magic != EXEC_MAGIC || h->size != size || h->rlimit_count > PLAN_RLIMITS_MAX ||
        h->argc < 1 || h->argc > EXEC_STRINGS_MAX || h->envc > EXEC_STRINGS_MAX ||
        h->group_count > EXEC_GROUPS_MAX)
        return -EPROTO;
    fixed = sizeof(*h) + h->rlimit_count * sizeof(struct plan_rlimit);
    if (fixed > size)
        return -EPROTO;
    *ret = h;
    return 0;
}

int exec_request_strings(char *data, const struct exec_header *h, char **list,
                         struct exec_strings *ret)
{
    char *at = data + sizeof(*h) + h->rlimit_count * sizeof(struct plan_rlimit);
    char *end = data + h->size, *tail[2] = {NULL, NULL};

    ret->argv = list;
    ret->envp = list + h->argc + 1;
    ret->groups = ret->envp + h->envc + 2;
    at = request_take_strings(at, end, ret->argv, h->argc);
    if (at != NULL)
        at = request_take_strings(at, end, ret->envp, h->envc);
    if (at != NULL)
        at = request_take_strings(at, end, tail, 2);
    if (at != NULL)
        at = request_take_strings(at, end, ret->groups, h->group_count);
    if (at != end)
        return -EPROTO;
    ret->argv[h->argc] = ret->envp[h->envc] = ret->envp[h->envc + 1] = NULL;
    ret->groups[h->group_count] = NULL;
    ret->user = tail[0];
    ret->cwd = tail[1];
    return 0;
}
