#pragma once

/* Reads and writes whole small files by directory fd. Reads are bounded; durable writes are
 * atomic. All functions may block on disk. */

#include <stddef.h>
#include <sys/types.h>

struct err;

/* Reads a regular file (final symlinks are not followed) of at most max bytes into a
 * NUL-terminated buffer, which the caller frees. -EFBIG if longer, -EINVAL if it is not a
 * regular file. */
int file_read_at(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
                 struct err *err);

/* Like file_read_at, from an open fd at its current offset; also for /proc files whose size is
 * 0. */
int file_read_fd(int fd, size_t max, char **ret, size_t *ret_len, struct err *err);

/* Opens a file only if root or the process's own user controls it: owned by one of the two, not
 * writable by others, and no symlink where dirfd is a directory fd. flags: of open(2);
 * O_CLOEXEC, O_NONBLOCK and O_NOCTTY are added. Returns the fd; -EPERM. */
int file_open_trusted(int dirfd, const char *path, int flags, struct err *err);

/* Writes all data, retrying EINTR and short writes. 0 or a negative errno. */
int write_all(int fd, const void *data, size_t len);

/* Reads the bytes that a pipe holds, at most len, with several reads if one gives less (packet
 * mode). Returns their number. */
size_t read_held(int fd, void *data, size_t len);

/* Writes text to an existing control file (cgroup, proc) by one write(2): no create, no
 * truncate. */
int file_poke_at(int dirfd, const char *path, const char *text);

/* Replaces a file atomically: temporary file in the same directory, fsync, rename, fsync of the
 * directory. */
int file_replace_at(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                    struct err *err);

/* Returns a sealed (no write, grow, shrink), CLOEXEC memfd with these bytes, or a negative
 * errno. */
int memfd_sealed(const char *name, const void *data, size_t len);
/* Like memfd_sealed, and executable even if vm.memfd_noexec is 1; -EACCES if it is 2. */
int memfd_program(const char *name, const void *data, size_t len);
