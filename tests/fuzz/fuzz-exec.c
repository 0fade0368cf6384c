/* Any memfd of EXEC as init takes it apart: refused, or every string that it names lies in it. */

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "init/init.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All of them, with their NULs; each begins and ends in the request. */
static size_t count_list(char *const *list, const char *begin, const char *end, size_t *ret_bytes)
{
    size_t n = 0;

    for (; list[n] != NULL; n++) {
        assert(list[n] >= begin && list[n] < end);
        *ret_bytes += strlen(list[n]) + 1;
    }
    return n;
}

static void take_apart(char *copy, size_t size)
{
    const struct exec_header *h = NULL;
    struct exec_strings s;
    size_t bytes = 0;
    char **list;
    int r = exec_request_header(copy, size, &h);

    assert(r == 0 || r == -EPROTO);
    if (r < 0)
        return;
    assert(h->rlimit_count <= PLAN_RLIMITS_MAX && h->argc >= 1 && h->argc <= EXEC_STRINGS_MAX);
    list = malloc(EXEC_LIST(h) * sizeof(*list)); /* not a pointer more */
    assert(list != NULL);
    r = exec_request_strings(copy, h, list, &s);
    assert(r == 0 || r == -EPROTO);
    if (r == 0) {
        assert(count_list(s.argv, copy, copy + size, &bytes) == h->argc);
        assert(count_list(s.envp, copy, copy + size, &bytes) == h->envc);
        assert(count_list(s.groups, copy, copy + size, &bytes) == h->group_count);
        bytes += strlen(s.user) + strlen(s.cwd) + 2;
        assert(bytes == size - sizeof(*h) - h->rlimit_count * sizeof(struct plan_rlimit));
    }
    free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    uint32_t says = (uint32_t)size;

    if (copy == NULL)
        return 0;
    if (size > 0)
        (void)memcpy(copy, data, size);
    /* The size is what it is: else nearly all inputs end there. */
    if (size >= sizeof(struct exec_header))
        (void)memcpy(copy + offsetof(struct exec_header, size), &says, sizeof(says));
    take_apart(copy, size);
    free(copy);
    return 0;
}
