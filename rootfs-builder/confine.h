#pragma once

/*
 * What the processes of a worker give up before they read the first byte. Each is alone with the
 * descriptors that it needs; the namespaces are their maker's (see image/worker-proto.h).
 */

#include <stddef.h>
#include <stdint.h>

struct err;

enum confine_role {
    ROLE_INVALID = 0,
    ROLE_KEEPER,   /* P: moves bytes, hashes, talks */
    ROLE_CODEC,    /* A: compresses or decompresses */
    ROLE_UNPACKER, /* B: parses, and makes files beneath a directory */
    ROLE_SPLITTER, /* B: parses, and passes bytes on */
    ROLE_PACKER,   /* B: reads files beneath a directory */
    ROLE_MAX,
};

/* Closes all descriptors but these (and stdio, which the maker has tied to nothing). */
int confine_descriptors(const int *keep, size_t count, struct err *err);

/*
 * For good: no new privileges, not dumpable, no core files, no larger files than file_max, no more
 * descriptors than the role needs, its capabilities, an id of its own but for the unpacker and the
 * packer, and a filter that allows the system calls of its job alone (EPERM for all others).
 */
int confine(enum confine_role role, uint64_t file_max, struct err *err);
