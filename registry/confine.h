#pragma once

/*
 * The confinement of rind-registry, in two steps: everything that needs rights, before the threads
 * are made; the filter of system calls for all of them, before the first byte of a network.
 *
 *   root       an empty directory, on a read-only tmpfs that nothing else has
 *   ids        65532 of the user namespace (or the only one there is), no capability
 *   limits     address space, descriptors, size of a file, no core file
 *   calls      an allow-list: memory without PROT_EXEC and without files, the fds that there are,
 *              TCP and UDP sockets. No path, no new process or thread, no signal, no unix socket
 * but pairs
 */

#include <stdint.h>

struct err;

/* Closes all fds but stdio and the first `fds`. file_max: bytes of the largest file. */
int confine_begin(unsigned fds, uint64_t file_max, struct err *err);
/* Irrevocable; for all threads. */
int confine_filter(struct err *err);
