#pragma once

/*
 * sandbox-shim: one short-lived process per file operation of a sandbox. It answers in frames
 * (proto/frame.h) on stdout; for `read`, whose stdout carries the file, on stderr.
 *
 * There are three kinds of failure:
 *
 *   a file error      the kernel's errno for the path: a frame, exit status 0
 *   a usage error     detected before any access: one line on stderr, exit status 1
 *   a transport error stdin, stdout or stderr is unusable: like a usage error, no further frame
 *
 * The shim makes system calls directly: it uses no stdio, parses no paths, and reads no
 * environment.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "proto/frame.h"

enum { EXIT_ANSWERED = 0, EXIT_BROKEN = 1 };

/* ---- io.c ---- */

/* Makes fds 0 to 2 usable: a closed one becomes /dev/null. Ignores SIGPIPE. */
void shim_stdio_init(void);

/* open with O_CLOEXEC; retries EINTR. Returns the fd or a negative errno. */
int shim_open(const char *path, int flags, mode_t mode);

/* read that retries EINTR and polls a non-blocking stdio fd. An unusable stdin (EBADF) is at EOF.
 */
ssize_t shim_read(int fd, void *buf, size_t len);

/* Writes everything; an unusable stdout or stderr (EBADF) discards it. Returns 0 or a negative
 * errno. */
int shim_write(int fd, const void *data, size_t len);
/* fchmod. If set-id bits are refused (EPERM: a writable host directory allows none), sets the mode
 * without them, like creat with such a mode. Returns 0 or a negative errno. */
int shim_fchmod(int fd, mode_t mode);

enum shim_side { SHIM_SIDE_NONE, SHIM_SIDE_IN, SHIM_SIDE_OUT };

/* Copies until EOF of `in`; each chunk is written before the next is read. On failure *ret_side
 * tells which side failed. */
int shim_copy(int in, int out, enum shim_side *ret_side);

/* ---- answer.c: each returns the exit status, or exits when the frame cannot be written ---- */

int shim_answer_success(int fd);
/* code is a negative errno. */
int shim_answer_error(int fd, int code);
int shim_answer_data(int fd, const void *payload, uint32_t len);
/* Calls shim_answer_success for 0, shim_answer_error for a negative errno. */
int shim_answer(int fd, int code);

/* Writes one line to stderr, exits with status 1. */
void shim_die(const char *message) __attribute__((noreturn));
/* Likewise, with the text of a negative errno. */
void shim_die_errno(int code) __attribute__((noreturn));

/* ---- the commands: args is NULL-terminated and has at least the paths that main.c requires ----
 */

int shim_cmd_read(char **args);
int shim_cmd_write(char **args);
int shim_cmd_stat(char **args);
int shim_cmd_lstat(char **args);
int shim_cmd_read_directory(char **args);
int shim_cmd_mkdir(char **args);
int shim_cmd_rename(char **args);
int shim_cmd_remove(char **args);
int shim_cmd_s3_mount(char **args);
int shim_cmd_directory_backup(char **args);

/* ---- parts of commands, exported for unit tests ---- */

/* Converts seconds and nanoseconds (0 to 999999999) to milliseconds, rounded down. -EOVERFLOW when
 * they do not fit. */
int shim_milliseconds(int64_t sec, int64_t nsec, int64_t *ret);

/* Returns the type code of st_mode; FRAME_TYPE_FILE for types without a code. */
enum frame_type shim_type_of_mode(mode_t mode);

/* Returns the length of the parent of the path's first `len` bytes; 0 = the working directory, -1 =
 * none. */
ssize_t shim_parent_length(const char *path, size_t len);

/* Returns the type of a directory entry; calls fstatat if d_type is unknown. Or a negative errno.
 */
int shim_entry_type(int dirfd, const char *name, unsigned char d_type);
