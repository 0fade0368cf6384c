#pragma once

/* getdents64: reads the entries of a directory fd without readdir's allocations and hidden offset.
 * Used by the shim's file helpers, rind-rootfs and rmtree. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DENT_BYTES_MIN = 24, /* the smallest entry that the kernel writes */
    /* more than any entry takes: a buffer with less space left counts as full */
    DENT_BYTES_MAX = 512,
};

/* The kernel writes these one after another. */
struct dent {
    uint64_t ino;
    int64_t next;  /* lseek() to it continues after this entry */
    uint16_t size; /* bytes of this entry: the next one starts there */
    uint8_t type;  /* DT_*; DT_UNKNOWN if the file system does not tell */
    char name[];
};

/* Fills buf (8-byte aligned). Returns the bytes written, 0 at the end, or a negative errno. */
long dents_read(int fd, void *buf, size_t len);

/* Returns true for "." and "..". */
bool dent_is_dot(const struct dent *e);
