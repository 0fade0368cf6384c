#pragma once

/* Whole small files, by directory fd. Every read has a bound; every durable write is atomic. */

#include <stddef.h>
#include <sys/types.h>

struct err;

/*
 * Reads a regular file (final symlinks are not followed) of at most max bytes into a
 * NUL-terminated, caller-freed buffer. -EFBIG when longer, -EINVAL when it is not a regular file.
 */
int file_read_at(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
                 struct err *err);

/* As file_read_at, from an open fd, from its present offset; also for /proc files whose size is 0.
 */
int file_read_fd(int fd, size_t max, char **ret, size_t *ret_len, struct err *err);

/*
 * Opens what only root or we ourselves can have put there: owned by one of the two, writable by
 * nobody else, no symbolic link where dirfd is one. flags: of open(2); O_CLOEXEC, O_NONBLOCK and
 * O_NOCTTY are added. Returns the fd; -EPERM.
 */
int file_open_trusted(int dirfd, const char *path, int flags, struct err *err);

/* Writes all of data, retrying EINTR and short writes. Negative errno. */
int write_all(int fd, const void *data, size_t len);

/* What a pipe has, at most len bytes, also where one read gives less (one of packets). The bytes.
 */
size_t read_held(int fd, void *data, size_t len);

/* One write(2) to an existing control file (cgroup, proc): no create, no truncate. */
int file_poke_at(int dirfd, const char *path, const char *text);

/* New content or the old, never half: temporary file in the same directory, fsync, rename, fsync of
 * the directory. */
int file_replace_at(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                    struct err *err);

/* A sealed (no write, grow, shrink), CLOEXEC memfd holding data. Returns the fd or a negative
 * errno. */
int memfd_sealed(const char *name, const void *data, size_t len);
/* As memfd_sealed, and executable also where vm.memfd_noexec is 1; -EACCES where it is 2. */
int memfd_program(const char *name, const void *data, size_t len);
