#pragma once

/*
 * The guard of a sandbox that may write to a host directory as the owner of its files (PLAN_GUARD).
 * In that directory no set-id file may be created, because a user of the host could execute it. On
 * all other mounts of the sandbox set-id bits work as usual, because packages need them.
 *
 * A seccomp filter cannot see which mount a call is about. So the seccomp baseline stops the calls
 * that would set such a bit, and notifies init (SECCOMP_RET_USER_NOTIF). init's loop takes each
 * call and starts a broker for it. The broker takes over the caller's root, directory, ids and
 * capabilities, and opens the file that the call names. It does the call on the opened file unless
 * that lies on a guarded mount. The caller's own call is never let through, because its arguments
 * in memory can change meanwhile.
 *
 * The baseline also stops a broker's own chmod; init lets that through. Its only argument that can
 * change is a descriptor of the broker itself. That is safe as long as no process of the sandbox
 * can act as a broker. A broker is not dumpable, its memory belongs to the first user namespace,
 * and it opens no file of its own (/proc/self).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

struct init;

enum {
    GUARD_MOUNTS_MAX = 64,
    GUARD_OTHERS_MAX = 512,
    GUARD_BROKERS_MAX = 32,
    GUARD_WAITING_MAX = 256, /* calls that wait for a broker; further ones get EAGAIN */
    GUARD_BROKER_MS = 5000,  /* time limit of a broker: a file system may never answer */
    GUARD_WAIT_MS = 20000,
};

/* A call that the seccomp baseline has stopped. */
struct guard_call {
    uint64_t id;
    uint64_t args[6];
    int64_t deadline; /* ms of CLOCK_MONOTONIC */
    int32_t nr;
    pid_t pid; /* the calling thread; in `brokers`: the broker; both in init's pid namespace */
};

struct guard {
    int listener; /* -1 = there is no guard */
    int proc;     /* O_PATH of the inner /proc */
    bool fsetid;  /* brokers may use CAP_FSETID for a root with all of `capabilities` */
    uint64_t capabilities;
    uint64_t mounts[GUARD_MOUNTS_MAX]; /* mount ids of the guarded mounts */
    unsigned mount_count;
    /*
     * Mount ids of the sandbox's other mounts. A file on a mount in neither list counts as guarded:
     * a descriptor from outside may be of a mount of an earlier run, with the same ids.
     */
    uint64_t others[GUARD_OTHERS_MAX];
    unsigned other_count;
    uint32_t volumes[GUARD_MOUNTS_MAX]; /* operations that attach guarded volumes, and their root
                                           directories */
    uint64_t devices[GUARD_MOUNTS_MAX], inodes[GUARD_MOUNTS_MAX];
    unsigned volume_count;
    struct guard_call brokers[GUARD_BROKERS_MAX]; /* pid 0 = free */
    unsigned broker_count;
    struct guard_call waiting[GUARD_WAITING_MAX]; /* a ring */
    unsigned wait_first, wait_count;
};

/*
 * Installs the seccomp baseline, and takes the listener if the baseline has notifications. 0 or
 * -errno.
 */
int guard_install_baseline(struct init *init);
/* Registers a guarded volume that this operation will attach. 0 or -errno. */
int guard_note_volume(struct guard *g, uint32_t op, int mount_fd);
/*
 * Finds the guarded mounts after the mounts are locked, and opens what the brokers need. Returns 0,
 * or -errno with the operation in *ret_op.
 */
int guard_find_mounts(struct init *init, int *ret_op);

/* ---- called by the loop ---- */

/* Takes one call. Does not block if poll has reported one. */
void guard_take(struct guard *g);
/* Called for each reaped child; returns whether it was a broker. */
bool guard_reaped(struct guard *g, pid_t pid);
/*
 * Ends brokers and calls whose time is over. Returns the next deadline in ms of CLOCK_MONOTONIC;
 * INT64_MAX = none.
 */
int64_t guard_expire(struct guard *g, int64_t now);
/*
 * broker.c: runs the broker. owner: a file whose owner (F_GETOWN_EX) is the calling thread, in the
 * broker's pid namespace. ids_open: a change of ids would open its memory to others (spawn-vm.c).
 */
_Noreturn void broker_main(const struct guard *g, const struct guard_call *call, int owner,
                           bool ids_open);
/* As ioctl(2), for which libcs have two prototypes. */
static inline int guard_ioctl(int fd, unsigned long request, void *data)
{
    return (int)syscall(SYS_ioctl, fd, request, data);
}
/* Answers a call with a value or a negative errno. */
void guard_answer(int listener, uint64_t id, int64_t result);

/* broker-text.c: parsers for what a broker reads; pure. */
enum { BROKER_GROUPS_MAX = 1024 };
struct broker_status {
    uint32_t uid, gid; /* file system ids */
    uint64_t caps;     /* effective capabilities */
    unsigned umask;
    uint32_t groups[BROKER_GROUPS_MAX];
    unsigned group_count;
};
/* Parses /proc/PID/status, NUL-terminated. 0, or -1: a field is missing. */
int broker_status_parse(const char *text, struct broker_status *ret);
/* True if fdinfo shows that the descriptor was opened with O_PATH. */
bool broker_fdinfo_is_path(const char *text);
/*
 * Returns N of "/proc/self/fd/N" or "/proc/thread-self/fd/N", as libcs name a descriptor; -1 =
 * another path.
 */
int broker_path_fd(const char *path);
