#pragma once

/*
 * Policies ready for use: parsed, the seccomp filter compiled, patterns expanded with this host's
 * file names.
 */

#include "policy/policy.h"
#include "policy/seccomp.h"

struct err;

struct ready_policy {
    char *name;            /* owned; the name that clients use */
    struct policy *policy; /* owned; its seccomp profile is NULL, replaced by filter */
    struct bpf filter;     /* owned */
    char **masked;         /* owned, NULL-terminated */
    char **read_only;      /* owned, NULL-terminated */
    struct ready_policy *next;
};

/*
 * name: a shipped policy's name or (with from_files) a path. state_fd: the state directory, for the
 * cache of compiled filters. Blocks: reads files.
 */
int policy_make_ready(int state_fd, const char *name, bool from_files, struct ready_policy **ret,
                      struct err *err);
void ready_policy_free(struct ready_policy *p);

/*
 * Loads all shipped policies, and each NAME.json of dir (NULL or missing: none), as a list. Blocks.
 */
int policies_load(int state_fd, const char *dir, struct ready_policy **ret, struct err *err);
const struct ready_policy *policies_find(const struct ready_policy *list, const char *name);
void policies_free(struct ready_policy *list);
