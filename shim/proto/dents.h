#pragma once

/* getdents64: entries of a directory fd, without the allocations and the hidden position of
 * readdir. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DENT_BYTES_MIN = 24,  /* the smallest entry that the kernel writes */
    DENT_BYTES_MAX = 512, /* more than the largest takes: a buffer with less left over is full */
};

/* What the kernel writes, one behind the other. */
struct dent {
    uint64_t ino;
    int64_t next;  /* lseek() to it goes on behind this entry */
    uint16_t size; /* of all of it: where the next one starts */
    uint8_t type;  /* DT_*; DT_UNKNOWN where the file system does not say */
    char name[];
};

/* Fills buf (8-byte aligned). Returns the bytes written, 0 at the end, or a negative errno. */
long dents_read(int fd, void *buf, size_t len);

/* "." and "..", which no reader of a directory wants. */
bool dent_is_dot(const struct dent *e);
