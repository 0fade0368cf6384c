/* The decoder behind policy/host-rootfs.h. Pure functions. */

#include "policy/host-rootfs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "json/decode.h"
#include "json/parse.h"
#include "policy/plain-path.h"

/* Embedded by the assembler; see builtin.c. */
__asm__(".pushsection .rodata\n"
        ".globl policy_host_rootfs_start, policy_host_rootfs_end\n"
        ".hidden policy_host_rootfs_start, policy_host_rootfs_end\n"
        "policy_host_rootfs_start:\n"
        ".incbin \"policies/host-rootfs.json\"\n"
        "policy_host_rootfs_end:\n"
        ".byte 0\n"
        ".popsection\n");
extern const char policy_host_rootfs_start[], policy_host_rootfs_end[];

const char *host_rootfs_builtin(size_t *ret_len)
{
    /* cppcheck-suppress comparePointers; both lie in the one section above */
    *ret_len = (size_t)(policy_host_rootfs_end - policy_host_rootfs_start);
    return policy_host_rootfs_start;
}

enum { PATH_MAX_BYTES = 1024 };

static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return strncmp(path, top, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Returns NULL, or what is wrong with the path. */
static const char *path_fault(const char *path, bool pattern)
{
    static const char *const made[] = {"/proc", "/sys", "/dev"};
    const char *star = strchr(path, '*');

    if (strlen(path) > PATH_MAX_BYTES || path[0] != '/' || path[1] == '\0')
        return "must be an absolute path below /";
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
        if (is_below(path, made[i]))
            return "is made by rind";
    if (star != NULL && (!pattern || strchr(star, '/') != NULL))
        return "a * may stand in the last name of a tree only";
    return path_is_plain(path) ? NULL : "must be without //, ., .. and / at the end";
}

static int d_paths(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                   struct err *err)
{
    const bool pattern = strcmp(field->name, "trees") == 0;
    char *const *list;
    int r;

    r = j_strings(value, field, dst, path, err);
    if (r < 0)
        return r;
    list = *(char ***)(void *)((char *)dst + field->off);
    for (size_t i = 0; list[i] != NULL; i++) {
        struct jpath here = {.up = path, .index = i};
        const char *fault = path_fault(list[i], pattern);

        if (fault != NULL)
            return json_fail(err, -EINVAL, &here, "\"%.128s\": %s", list[i], fault);
    }
    return 0;
}

#define MINE(member) offsetof(struct host_rootfs, member)
/* clang-format off */
static const struct jfield fields[] = {
    {.name = "description", .decode = j_ignore},
    {.name = "trees",       .decode = d_paths, .off = MINE(trees),  .max = HOST_ROOTFS_LIST_MAX, .required = true},
    {.name = "hidden",      .decode = d_paths, .off = MINE(hidden), .max = HOST_ROOTFS_LIST_MAX, .required = true},
    {.name = "files",       .decode = d_paths, .off = MINE(files),  .max = HOST_ROOTFS_LIST_MAX, .required = true},
    {0},
};
/* clang-format on */

/* Refuses a hidden path that is below none of the trees, since it would have no effect. */
static int check_hidden(const struct host_rootfs *h, struct err *err)
{
    const struct jpath list = {.key = "hidden"};

    for (size_t i = 0; h->hidden[i] != NULL; i++) {
        const struct jpath here = {.up = &list, .index = i};
        bool below = false;

        for (char **tree = h->trees; *tree != NULL; tree++)
            below |= is_below(h->hidden[i], *tree) && strcmp(h->hidden[i], *tree) != 0;
        if (!below)
            return json_fail(err, -EINVAL, &here, "\"%.128s\": is below none of the trees",
                             h->hidden[i]);
    }
    return 0;
}

int host_rootfs_parse(const char *text, size_t len, const char *where, struct host_rootfs **ret,
                      struct err *err)
{
    auto_ptr(host_rootfs_free) struct host_rootfs *h = NULL;
    auto_ptr(json_decref) json_t *root = NULL;
    int r;

    h = calloc(1, sizeof(*h));
    if (h == NULL)
        return err_errno(err, -ENOMEM, "%s", where);
    r = json_parse(text, len, HOST_ROOTFS_TEXT_MAX, &root, err);
    if (r == 0)
        r = json_decode(root, fields, h, err);
    if (r == 0)
        r = check_hidden(h, err);
    if (r < 0)
        return err_wrap(err, r, "%s", where);
    *ret = take(h);
    return 0;
}

void host_rootfs_free(struct host_rootfs *h)
{
    if (h == NULL)
        return;
    json_strings_free(h->trees);
    json_strings_free(h->hidden);
    json_strings_free(h->files);
    free(h);
}
