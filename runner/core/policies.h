#pragma once

/* Policies made ready: parsed, the filter compiled, patterns expanded with this host's names. */

#include "policy/policy.h"
#include "policy/seccomp.h"

struct err;

struct ready_policy {
    char *name;            /* owned; as it is asked for */
    struct policy *policy; /* owned; without its seccomp profile, whose place the filter has */
    struct bpf filter;     /* owned */
    char **masked;         /* owned, NULL-terminated */
    char **read_only;      /* owned, NULL-terminated */
    struct ready_policy *next;
};

/* A shipped policy's name, or (when from_files) a path. state_fd: where compiled filters are kept.
 */
int policy_make_ready(int state_fd, const char *name, bool from_files, struct ready_policy **ret,
                      struct err *err);
void ready_policy_free(struct ready_policy *p);

/* All shipped policies, and each NAME.json of dir (may be NULL or missing), as a list. */
int policies_load(int state_fd, const char *dir, struct ready_policy **ret, struct err *err);
const struct ready_policy *policies_find(const struct ready_policy *list, const char *name);
void policies_free(struct ready_policy *list);
