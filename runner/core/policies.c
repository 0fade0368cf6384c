#include "core/policies.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "core/policy-cache.h"

enum { EXPANDED_MAX = 256 };

static void strings_free(char **list)
{
    for (char **p = list; p != NULL && *p != NULL; p++)
        free(*p);
    free(list);
}

void ready_policy_free(struct ready_policy *p)
{
    if (p == NULL)
        return;
    free(p->name);
    policy_free(p->policy);
    bpf_done(&p->filter);
    strings_free(p->masked);
    strings_free(p->read_only);
    free(p);
}

static int add_path(char **list, size_t *count, const char *path)
{
    if (*count == EXPANDED_MAX)
        return -E2BIG;
    list[*count] = strdup(path);
    return list[*count] == NULL ? -ENOMEM : (int)(++*count, 0);
}

/* A pattern is expanded with the host's names: /sys inside is the same tree. */
static int expand(char *const *paths, char ***ret)
{
    char **list = calloc(EXPANDED_MAX + 1, sizeof(*list));
    size_t count = 0;
    int r = 0;

    if (list == NULL)
        return -ENOMEM;
    for (; r == 0 && paths != NULL && *paths != NULL; paths++) {
        glob_t found;

        if (strchr(*paths, '*') == NULL) {
            r = add_path(list, &count, *paths);
            continue;
        }
        if (glob(*paths, GLOB_NOSORT, NULL, &found) == 0) {
            for (size_t i = 0; r == 0 && i < found.gl_pathc; i++)
                r = add_path(list, &count, found.gl_pathv[i]);
            globfree(&found);
        }
    }
    *ret = list;
    return r;
}

static int read_text(const char *name, bool from_files, char **ret, size_t *ret_len,
                     struct err *err)
{
    const char *builtin = policy_builtin(name, ret_len);
    auto_close int fd = FD_NONE;
    int r;

    if (builtin != NULL) {
        *ret = malloc(*ret_len + 1);
        if (*ret == NULL)
            return err_errno(err, -ENOMEM, "policy");
        (void)memcpy(*ret, builtin, *ret_len);
        (*ret)[*ret_len] = '\0';
        return 0;
    }
    if (!from_files || (strchr(name, '/') == NULL && strchr(name, '.') == NULL))
        return err_set(err, -ENOENT, "policy '%s': no such policy (untrusted, container, build%s)",
                       name, from_files ? ", or a path to a file" : "");
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_errno(err, -errno, "policy '%s'", name);
    r = file_read_fd(fd, POLICY_TEXT_MAX, ret, ret_len, err);
    return r < 0 ? err_wrap(err, r, "policy '%s'", name) : 0;
}

static int fill(struct ready_policy *p, int state_fd, bool from_files, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    r = read_text(p->name, from_files, &text, &len, err);
    if (r == 0)
        r = policy_cached(state_fd, p->name, text, len, &p->policy, &p->filter, err);
    if (r < 0)
        return r;
    assert(p->policy != NULL);
    r = expand(p->policy->masked, &p->masked);
    if (r == 0)
        r = expand(p->policy->read_only, &p->read_only);
    return r < 0 ? err_errno(err, r, "policy '%s': its paths", p->name) : 0;
}

int policy_make_ready(int state_fd, const char *name, bool from_files, struct ready_policy **ret,
                      struct err *err)
{
    struct ready_policy *p = calloc(1, sizeof(*p));
    int r;

    if (p == NULL || (p->name = strdup(name)) == NULL) {
        free(p);
        return err_errno(err, -ENOMEM, "policy");
    }
    r = fill(p, state_fd, from_files, err);
    if (r < 0) {
        ready_policy_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

static int load_one(int state_fd, const char *path, const char *name, struct ready_policy **list,
                    struct err *err)
{
    struct ready_policy *p;
    int r = policy_make_ready(state_fd, path, true, &p, err);

    if (r < 0)
        return r;
    if (name != NULL) {
        free(p->name);
        p->name = strdup(name);
        if (p->name == NULL) {
            ready_policy_free(p);
            return err_errno(err, -ENOMEM, "policy");
        }
    }
    p->next = *list;
    *list = p;
    return 0;
}

static int load_dir(int state_fd, const char *dir, struct ready_policy **list, struct err *err)
{
    DIR *d = opendir(dir);
    int r = 0;

    if (d == NULL)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "policies in %s", dir);
    while (r == 0) {
        const struct dirent *e = readdir(d);
        char path[4096], name[POLICY_NAME_MAX + 1];
        size_t len;

        if (e == NULL)
            break;
        len = strlen(e->d_name);
        if (len <= 5 || len - 5 > POLICY_NAME_MAX || strcmp(e->d_name + len - 5, ".json") != 0 ||
            strcmp(e->d_name, "client.json") == 0)
            continue;
        (void)snprintf(name, sizeof(name), "%.*s", (int)(len - 5), e->d_name);
        (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        r = load_one(state_fd, path, name, list, err);
    }
    (void)closedir(d);
    return r;
}

int policies_load(int state_fd, const char *dir, struct ready_policy **ret, struct err *err)
{
    struct ready_policy *list = NULL;
    int r = 0;

    for (const char *const *name = policy_builtin_names(); r == 0 && *name != NULL; name++)
        r = load_one(state_fd, *name, NULL, &list, err);
    if (r == 0 && dir != NULL)
        r = load_dir(state_fd, dir, &list, err);
    if (r < 0) {
        policies_free(list);
        return r;
    }
    *ret = list;
    return 0;
}

const struct ready_policy *policies_find(const struct ready_policy *list, const char *name)
{
    for (; list != NULL; list = list->next)
        if (strcmp(list->name, name) == 0)
            return list;
    return NULL;
}

void policies_free(struct ready_policy *list)
{
    while (list != NULL) {
        struct ready_policy *next = list->next;

        ready_policy_free(list);
        list = next;
    }
}
