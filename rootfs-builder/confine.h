#pragma once

/* The confinement of a worker's processes before they read the first byte. Each has only the fds
 * that it needs. The namespaces are made by the process that starts the worker (see
 * image/worker-proto.h). */

#include <stddef.h>
#include <stdint.h>

struct err;

enum confine_role {
    ROLE_INVALID = 0,
    ROLE_KEEPER,   /* P: moves bytes, hashes, sends messages */
    ROLE_CODEC,    /* A: compresses or decompresses */
    ROLE_UNPACKER, /* B: parses, and makes files below a directory */
    ROLE_SPLITTER, /* B: parses, and passes contents on */
    ROLE_PACKER,   /* B: reads files below a directory */
    ROLE_MAX,
};

/* Closes all fds but these and stdio, which is /dev/null. */
int confine_descriptors(const int *keep, size_t count, struct err *err);

/* The directories below which a process opens files; FD_NONE: none. */
struct confine_dirs {
    int tree;
    const int *parents; /* read only */
    size_t parent_count;
};

/* Confines the process irrevocably: no new privileges, not dumpable, no core files, no files larger
 * than file_max, few fds. It keeps only its role's capabilities and gets an id of its own (except
 * unpacker and packer). Landlock, where the kernel has it, locks all files but those below `dirs`
 * (NULL: none), and there all that its role does not do. A filter allows only its role's system
 * calls (EPERM for all others). */
int confine(enum confine_role role, const struct confine_dirs *dirs, uint64_t file_max,
            struct err *err);
