#pragma once

/*
 * The guard of sandboxes that may write to a directory of the host's as the owner of its files
 * (PLAN_GUARD): there no set-id file may come to be, which a user of the host could execute. On all
 * other mounts that the sandbox has set-id bits are set as ever, because packages do not install
 * without.
 *
 * Which mount a call is about no filter can see. So the floor stops the calls that would set such a
 * bit and tells init (SECCOMP_RET_USER_NOTIF), whose loop takes them and starts a broker for each:
 * a process that takes over the caller's root, directory, ids and capabilities, opens what the call
 * names, and does the call on what it has opened unless that lies on a guarded mount. The caller's
 * own call is never let through: what its arguments point to can change meanwhile.
 *
 * A broker's own chmod is stopped by the floor as well, and let through: it has but one argument
 * that can change, a descriptor that is the broker's alone. That is safe as long as no process of
 * the sandbox can act as a broker: it is not dumpable, its memory belongs to the first user
 * namespace, and it opens nothing that is itself (/proc/self).
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
    GUARD_WAITING_MAX = 256, /* calls that wait for a broker; further ones are answered EAGAIN */
    GUARD_BROKER_MS = 5000,  /* a broker's time: a file system of the sandbox's may never answer */
    GUARD_WAIT_MS = 20000,
};

/* A call that the floor has stopped. */
struct guard_call {
    uint64_t id;
    uint64_t args[6];
    int64_t deadline; /* ms of CLOCK_MONOTONIC */
    int32_t nr;
    pid_t pid; /* of the thread; as broker: the broker's. As init sees it */
};

struct guard {
    int listener; /* -1 = there is no guard */
    int proc;     /* O_PATH of the inner /proc */
    bool fsetid;  /* brokers may use CAP_FSETID for a root with all of `capabilities` */
    uint64_t capabilities;
    uint64_t mounts[GUARD_MOUNTS_MAX]; /* ids of the guarded ones */
    unsigned mount_count;
    /* Ids of all others that the sandbox has. What lies on neither is as good as guarded: a
     * descriptor from outside can be of a mount that an earlier run had, with the same ids. */
    uint64_t others[GUARD_OTHERS_MAX];
    unsigned other_count;
    uint32_t volumes[GUARD_MOUNTS_MAX]; /* operations that attach them, and what their roots are */
    uint64_t devices[GUARD_MOUNTS_MAX], inodes[GUARD_MOUNTS_MAX];
    unsigned volume_count;
    struct guard_call brokers[GUARD_BROKERS_MAX]; /* pid 0 = free */
    unsigned broker_count;
    struct guard_call waiting[GUARD_WAITING_MAX]; /* a ring */
    unsigned wait_first, wait_count;
};

/* Installs the floor, and takes the listener where it has notifications. 0 or -errno. */
int guard_install_baseline(struct init *init);
/* A guarded volume is about to be attached by this operation. 0 or -errno. */
int guard_note_volume(struct guard *g, uint32_t op, int mount_fd);
/* Once the mounts are locked: finds the guarded ones among them, and opens what the brokers need.
 * Returns 0, or -errno with the operation in *ret_op. */
int guard_find_mounts(struct init *init, int *ret_op);

/* ---- of the loop ---- */

/* Takes one call: never waits, once poll has said that there is one. */
void guard_take(struct guard *g);
/* A child has ended. Returns whether it was a broker. */
bool guard_reaped(struct guard *g, pid_t pid);
/* Ends what has had its time. Returns when the next one has, in ms of CLOCK_MONOTONIC; INT64_MAX =
 * none. */
int64_t guard_expire(struct guard *g, int64_t now);
/* broker.c: the broker's process. owner: a file whose owner (F_GETOWN_EX) is the calling thread, as
 * seen from here. ids_open: a change of ids would open its memory to others (spawn-vm.c). */
_Noreturn void broker_main(const struct guard *g, const struct guard_call *call, int owner,
                           bool ids_open);
/* As ioctl(2), which libcs declare in two ways. */
static inline int guard_ioctl(int fd, unsigned long request, void *data)
{
    return (int)syscall(SYS_ioctl, fd, request, data);
}
/* Answers a call: a value, or a negative errno. */
void guard_answer(int listener, uint64_t id, int64_t result);

/* broker-text.c: what a broker reads, pure. */
enum { BROKER_GROUPS_MAX = 1024 };
struct broker_status {
    uint32_t uid, gid; /* of file systems */
    uint64_t caps;     /* effective */
    unsigned umask;
    uint32_t groups[BROKER_GROUPS_MAX];
    unsigned group_count;
};
/* /proc/PID/status, NUL-terminated. 0, or -1: it is not all there. */
int broker_status_parse(const char *text, struct broker_status *ret);
/* Whether fdinfo says that it was opened with O_PATH. */
bool broker_fdinfo_is_path(const char *text);
/* N of "/proc/self/fd/N" or "/proc/thread-self/fd/N", by which libcs name a descriptor; -1 = none
 * of these. */
int broker_path_fd(const char *path);
