#pragma once

#include <sys/types.h>

#include "floor.h"

enum cg { CG_MEMORY, CG_PIDS, CG_CPU, CG_V1_MAX };

/* One sandbox's directories; -1 where there is none. */
struct cgroups {
    int v1[CG_V1_MAX], v2;
};
#define CGROUPS_NONE                                                                               \
    {                                                                                              \
        .v1 = {-1, -1, -1}, .v2 = -1                                                               \
    }

/* Our own directory in each hierarchy, for all sandboxes of this process. */
void cg_host_open(void);
void cg_host_remove(void);

void cg_make(struct cgroups *c, const char *name, uid_t owner);
/* Into the v1 directories: pid, written by us; or the caller itself, as root of the host. */
void cg_attach(const struct cgroups *c, pid_t pid);
void cg_enter(const struct cgroups *c);
void cg_remove(const struct cgroups *c, const char *name);
