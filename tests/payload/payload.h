#pragma once

/*
 * The static multi-command program that integration tests run inside a sandbox, so that no test
 * needs a distribution. A command prints facts as one JSON object on a line (or raw bytes where it
 * says so) and judges nothing: what is right is written in the tests. libc only, and no kernel
 * headers: musl's compiler wrapper does not see them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cmd {
    const char *name;
    int (*fn)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
    const char *usage;
};

/* One table a file, each ended by {0}. */
extern const struct cmd facts_cmds[], fs_cmds[], fuse_cmds[], guard_cmds[], io_cmds[], ipc_cmds[],
    load_cmds[], lock_cmds[], net_cmds[], serve_cmds[], setid_cmds[], sys_cmds[], table_cmds[],
    tty_cmds[];

/* JSON on stdout. key is NULL inside an array. Bytes outside ASCII become \u00XX. */
void js_open(const char *key, char bracket);
void js_close(char bracket);
void js_str(const char *key, const char *value);
void js_strn(const char *key, const char *value, size_t len);
void js_int(const char *key, long long value);
void js_hex(const char *key, unsigned long long value);
/* "ok" for 0 and above, else the name of errno. */
void js_result(const char *key, long ret);

const char *errno_name(int e);
const char *signal_name(int sig);
/* Reads at most cap-1 bytes and ends them with a NUL; the length, or -1 with errno. */
long slurp(const char *path, char *buf, size_t cap);
long long number(const char *text);
double now(void);
void nap(double seconds);
/* "payload: what: ERRNO" on stderr; returns 1. */
int complain(const char *what);

/*
 * What a probe did in a child of its own, so that a filter that kills or a call that blocks does
 * not end the run: >= 0 its return value, -errno, or -(1000 + signal). A probe that is not back
 * after 2 s is ended by SIGALRM.
 */
long in_child(long (*probe)(void *arg), void *arg);
enum { KILLED = 1000 };
void js_outcome(const char *key, long outcome);

/* Probes: one system call, of the processor's own table, and of i386's (pointers below 4 GiB). */
struct raw {
    long nr;
    long a[6];
};
long raw_call(void *arg);
long i386_call(void *arg);
