#pragma once

/*
 * sandbox-shim: one short process per file operation of a sandbox. It answers in frames
 * (proto/frame.h) on stdout, and for `read`, whose stdout carries the file, on stderr.
 *
 * Three kinds of failure, never mixed up:
 *   a file error      what the kernel says about the path: a frame, exit status 0
 *   a usage error     known before anything is touched: one line on stderr, exit status 1
 *   a transport error stdin, stdout or stderr cannot be used: as a usage error, and no further
 * frame
 *
 * Everything below the frames is a system call: no stdio, no path is looked at, no environment is
 * read.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "proto/frame.h"

enum { EXIT_ANSWERED = 0, EXIT_BROKEN = 1 };

/* ---- io.c ---- */

/* Makes fds 0 to 2 safe: what is closed reads as empty and swallows what is written. Ignores
 * SIGPIPE. */
void shim_stdio_init(void);

/* open with O_CLOEXEC, retrying EINTR. Negative errno. */
int shim_open(const char *path, int flags, mode_t mode);

/* read, retrying EINTR and waiting where stdio was left non-blocking. An unusable stdin (EBADF) is
 * at its end. */
ssize_t shim_read(int fd, void *buf, size_t len);

/* Writes everything; an unusable stdout or stderr (EBADF) swallows it. 0 or negative errno. */
int shim_write(int fd, const void *data, size_t len);
/* fchmod; a mode with set-id bits that is refused (EPERM: a writable directory of the host's takes
 * none) is set without them, as a file made with such a mode is. 0 or a negative errno. */
int shim_fchmod(int fd, mode_t mode);

enum shim_side { SHIM_SIDE_NONE, SHIM_SIDE_IN, SHIM_SIDE_OUT };

/* Copies until in ends; each chunk is written before the next is read. On failure *ret_side says
 * whose errno it is. */
int shim_copy(int in, int out, enum shim_side *ret_side);

/* ---- answer.c: each returns the exit status, or does not return when the frame cannot be sent
 * ---- */

int shim_answer_success(int fd);
/* code is a negative errno. */
int shim_answer_error(int fd, int code);
int shim_answer_data(int fd, const void *payload, uint32_t len);
/* shim_answer_success for 0, shim_answer_error below. */
int shim_answer(int fd, int code);

/* One line on stderr, exit status 1. */
void shim_die(const char *message) __attribute__((noreturn));
/* The same with the text of a negative errno. */
void shim_die_errno(int code) __attribute__((noreturn));

/* ---- the commands: args are NULL-terminated and hold the paths that the table in main.c promises
 * ---- */

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

/* ---- parts of commands with tests of their own ---- */

/* Seconds and nanoseconds (0 to 999999999) to floored milliseconds. -EOVERFLOW when they do not
 * fit. */
int shim_milliseconds(int64_t sec, int64_t nsec, int64_t *ret);

/* What stat says about an entry: FRAME_TYPE_FILE for what has no code of its own. */
enum frame_type shim_type_of_mode(mode_t mode);

/* Length of the parent of the path of this length, by its components; 0 = the working directory, -1
 * = none. */
ssize_t shim_parent_length(const char *path, size_t len);

/* The type of a directory entry; asks the file system where d_type does not say. Or a negative
 * errno. */
int shim_entry_type(int dirfd, const char *name, unsigned char d_type);
