/* What init's child takes of an EXEC's memfd: every field, cut and changed in every place. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "init/init.h"
#include "tap.h"

/* A request as the runner makes it. */
struct request {
    union {
        char bytes[512];
        struct exec_header h;
        uint64_t align;
    };
    size_t size;
};

static struct request make(void)
{
    static const char strings[] = "echo\0hi\0A=1\0B=\0app:10\0/work\0audio\0007";
    struct request r = {.size = sizeof(struct exec_header) + sizeof(struct plan_rlimit) +
                                sizeof(strings)};

    r.h = (struct exec_header){.magic = EXEC_MAGIC,
                               .size = (uint32_t)r.size,
                               .argc = 2,
                               .envc = 2,
                               .rlimit_count = 1,
                               .group_count = 2};
    (void)memcpy(r.bytes + sizeof(struct exec_header) + sizeof(struct plan_rlimit), strings,
                 sizeof(strings));
    return r;
}

/* From a copy of exactly its size, so that a sanitizer sees a byte too many. */
static int parse(const struct request *r, size_t size, char ***ret_argv, struct exec_strings *ret)
{
    char *data = malloc(size > 0 ? size : 1);
    const struct exec_header *h;
    char **list = NULL;
    int n;

    (void)memcpy(data, r->bytes, size);
    n = exec_request_header(data, size, &h);
    if (n == 0) {
        list = calloc(EXEC_LIST(h), sizeof(*list));
        n = list == NULL ? -ENOMEM : exec_request_strings(data, h, list, ret);
    }
    if (n < 0 || ret_argv == NULL) {
        free(list);
        free(data);
    } else {
        *ret_argv = list; /* data stays; the test ends soon */
    }
    return n;
}

TEST(what_is_asked_for)
{
    struct request r = make();
    struct exec_strings s;
    char **list;

    CHECK_INT(parse(&r, r.size, &list, &s), 0);
    CHECK_STR(s.argv[0], "echo");
    CHECK_STR(s.argv[1], "hi");
    CHECK(s.argv[2] == NULL);
    CHECK_STR(s.envp[0], "A=1");
    CHECK_STR(s.envp[1], "B=");
    CHECK(s.envp[2] == NULL && s.envp[3] == NULL);
    CHECK_STR(s.user, "app:10");
    CHECK_STR(s.cwd, "/work");
    CHECK_STR(s.groups[0], "audio");
    CHECK_STR(s.groups[1], "7");
    CHECK(s.groups[2] == NULL);
    free(s.argv[0] - sizeof(struct exec_header) - sizeof(struct plan_rlimit));
    free(list);
}

TEST(cut_anywhere)
{
    struct request r = make();
    struct exec_strings s;

    for (size_t size = 0; size < r.size; size++) {
        CHECK_INT(parse(&r, size, NULL, &s), -EPROTO);
        r.h.size = (uint32_t)size; /* also where the header agrees */
        CHECK_INT(parse(&r, size, NULL, &s), -EPROTO);
    }
}

TEST(fields_that_are_wrong)
{
    static const struct {
        size_t off;
        uint32_t value;
    } rows[] = {
        {offsetof(struct exec_header, magic), 0},
        {offsetof(struct exec_header, size), 0},
        {offsetof(struct exec_header, size), UINT32_MAX},
        {offsetof(struct exec_header, argc), 0},
        {offsetof(struct exec_header, argc), 1},
        {offsetof(struct exec_header, argc), 3},
        {offsetof(struct exec_header, argc), EXEC_STRINGS_MAX},
        {offsetof(struct exec_header, argc), EXEC_STRINGS_MAX + 1},
        {offsetof(struct exec_header, argc), UINT32_MAX},
        {offsetof(struct exec_header, envc), 1},
        {offsetof(struct exec_header, envc), 3},
        {offsetof(struct exec_header, envc), EXEC_STRINGS_MAX + 1},
        {offsetof(struct exec_header, envc), UINT32_MAX},
        {offsetof(struct exec_header, rlimit_count), 2},
        {offsetof(struct exec_header, rlimit_count), PLAN_RLIMITS_MAX + 1},
        {offsetof(struct exec_header, rlimit_count), UINT32_MAX},
        {offsetof(struct exec_header, group_count), 1},
        {offsetof(struct exec_header, group_count), 3},
        {offsetof(struct exec_header, group_count), EXEC_GROUPS_MAX + 1},
        {offsetof(struct exec_header, group_count), UINT32_MAX},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct request r = make();
        struct exec_strings s;

        (void)memcpy(r.bytes + rows[i].off, &rows[i].value, sizeof(rows[i].value));
        CHECK_INT(parse(&r, r.size, NULL, &s), -EPROTO);
    }
}

TEST(strings_that_are_wrong)
{
    struct request r = make();
    struct exec_strings s;

    r.bytes[r.size - 1] = 'x'; /* the last one has no end */
    CHECK_INT(parse(&r, r.size, NULL, &s), -EPROTO);
    r = make();
    r.bytes[r.size - 5] = '\0'; /* one string too many */
    CHECK_INT(parse(&r, r.size, NULL, &s), -EPROTO);
}

/* Whatever the bytes are, it is a request whose strings lie inside, or a refusal. */
TEST(any_bytes)
{
    unsigned seed = 1;

    for (int round = 0; round < 200000; round++) {
        struct request r = make();
        struct exec_strings s;
        char **list;

        for (int n = round % 4 + 1; n > 0; n--) {
            seed = seed * 1103515245 + 12345;
            r.bytes[(seed >> 8) % r.size] = (char)(seed >> 24);
        }
        if (parse(&r, r.size, &list, &s) < 0)
            continue;
        CHECK(s.cwd > s.user && s.user > s.argv[0]);
        free(s.argv[0] - sizeof(struct exec_header) -
             ((const struct exec_header *)(const void *)r.bytes)->rlimit_count *
                 sizeof(struct plan_rlimit));
        free(list);
    }
}

TAP_MAIN
