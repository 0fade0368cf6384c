#include "sandbox/policies.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "sandbox/policy-cache.h"

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

/* Expands patterns with the host's file names; the sandbox's /sys is the same tree. */
static int expand_patterns(char *const *paths, char ***ret)
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
        return err_set(
            err, -ENOENT,
            "policy '%s': no such policy (untrusted, compute, container, build, fuse, net-admin%s)",
            name, from_files ? ", or a path to a file" : "");
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_errno(err, -errno, "policy '%s'", name);
    r = file_read_fd(fd, POLICY_TEXT_MAX, ret, ret_len, err);
    return r < 0 ? err_wrap(err, r, "policy '%s'", name) : 0;
}

/* Parses a policy's text and makes it ready. */
static int make_ready(int state_fd, const char *name, const char *text, size_t len,
                      struct ready_policy **ret, struct err *err)
{
    struct ready_policy *p = calloc(1, sizeof(*p));
    int r;

    if (p == NULL || (p->name = strdup(name)) == NULL) {
        free(p);
        return err_errno(err, -ENOMEM, "policy");
    }
    r = policy_cached(state_fd, name, text, len, &p->policy, &p->filter, err);
    if (r == 0) {
        assert(p->policy != NULL);
        r = expand_patterns(p->policy->masked, &p->masked);
        if (r == 0)
            r = expand_patterns(p->policy->read_only, &p->read_only);
        if (r < 0)
            (void)err_errno(err, r, "policy '%s': its paths", name);
    }
    if (r < 0) {
        ready_policy_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

int policy_make_ready(int state_fd, const char *name, bool from_files, struct ready_policy **ret,
                      struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;
    int r = read_text(name, from_files, &text, &len, err);

    return r < 0 ? r : make_ready(state_fd, name, text, len, ret, err);
}

/* ---- list of policies for the daemon ---- */

static void policies_prepend(struct ready_policy **list, struct ready_policy *p)
{
    p->next = *list;
    *list = p;
}

/* Extracts NAME from NAME.json; false: not the file name of a policy. */
static bool file_name(const char *file, char name[POLICY_NAME_MAX + 1])
{
    static const char end[] = ".json";
    size_t len = strlen(file), tail = sizeof(end) - 1;

    if (file[0] == '.' || len <= tail || len - tail > POLICY_NAME_MAX ||
        strcmp(file + len - tail, end) != 0)
        return false;
    (void)memcpy(name, file, len - tail);
    name[len - tail] = '\0';
    /* client.json holds the rules for clients, and may be in this directory. */
    return policy_name_ok(name) && strcmp(name, "client") != 0;
}

/*
 * Fails if a user other than root could change the file. The daemon then does not start: a policy
 * that is skipped silently would be missed later.
 */
static int load_file(int state_fd, int dir_fd, const char *file, const char *name,
                     struct ready_policy **list, struct err *err)
{
    auto_close int fd = FD_NONE;
    auto_free char *text = NULL;
    struct ready_policy *p;
    size_t len = 0;
    int r;

    if (policies_find(*list, name) != NULL)
        return err_set(err, -EEXIST, "%s: a shipped policy has this name", file);
    fd = file_open_trusted(dir_fd, file, O_RDONLY, err);
    if (fd < 0)
        return fd;
    r = file_read_fd(fd, POLICY_TEXT_MAX, &text, &len, err);
    if (r < 0)
        return err_wrap(err, r, "%s", file);
    r = make_ready(state_fd, name, text, len, &p, err);
    if (r == 0)
        policies_prepend(list, p);
    return r;
}

static int load_dir(int state_fd, const char *path, struct ready_policy **list, struct err *err)
{
    const int fd = file_open_trusted(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, err);
    auto_ptr(dir_close) DIR *d = dir_take(fd);
    char name[POLICY_NAME_MAX + 1];
    const struct dirent *e;
    int r = 0;

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    if (d == NULL)
        return err_errno(err, -ENOMEM, "%s", path);
    while (r == 0 && (e = dir_next(d)) != NULL)
        if (file_name(e->d_name, name))
            r = load_file(state_fd, fd, e->d_name, name, list, err);
    return r < 0 ? err_wrap(err, r, "policies in %s", path) : 0;
}

int policies_load(int state_fd, const char *dir, struct ready_policy **ret, struct err *err)
{
    struct ready_policy *list = NULL;
    int r = 0;

    for (const char *const *name = policy_builtin_names(); r == 0 && *name != NULL; name++) {
        struct ready_policy *p;

        r = policy_make_ready(state_fd, *name, false, &p, err);
        if (r == 0)
            policies_prepend(&list, p);
    }
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
