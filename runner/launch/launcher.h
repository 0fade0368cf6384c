#pragma once

/*
 * The launcher: the only code with privileges. It is single-threaded, parses no JSON, HTTP or
 * archive, and does not believe who asks: requests are decoded and checked (request.h), id ranges
 * are its own choice, images and uppers lie beneath its state directory's fd, bind sources beneath
 * prefixes that its owner configured, devices come from a fixed list, and every sandbox gets the
 * seccomp floor.
 *
 * `rind run` without a daemon calls it in its own process; `rind serve` runs it behind a SEQPACKET
 * socket (launcher_serve).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/request.h"
#include "policy/net-box.h"

struct err;
struct launcher;
struct launch_net_ops;
struct address;
struct publish_rules;
struct host_rootfs;

struct launcher_config {
    const char *state_dir;            /* made when missing, 0700 */
    const char *ids_dir;              /* the host's id range registry */
    const char *const *bind_prefixes; /* absolute, NULL-terminated: where bind sources and root
                                         directories may lie; borrowed */
    const struct publish_rules
        *publish;                   /* of the host's ports, whoever asks; borrowed; NULL = none */
    const struct host_rootfs *host; /* what the root file system `host` shows; borrowed; NULL = it
                                       cannot be had */
    const char *certificate, *key;  /* the gateway's, absolute paths; borrowed; NULL = none */
    uint64_t disk_reserve;  /* bytes that stay free where sandboxes are kept; 0 = a twentieth
                              of that file system, at most 1 GiB */
    const void *init_image; /* the static program that becomes init */
    size_t init_size;
    const void *worker_image; /* the static program that unpacks and packs; NULL = none */
    size_t worker_size;
    const struct launch_net_ops *net; /* borrowed; NULL: no networks */
    uint32_t terminals; /* of all sandboxes; 0: there are other launchers, nobody counts for all */
    unsigned volume_makers;  /* volumes that are made at a time; 0, or more: LAUNCH_MAKERS_MAX */
    unsigned volume_make_ms; /* what takes longer to make one is ended; 0: nothing is */
};

struct launch_result {
    int pidfd;   /* owned; init's */
    int control; /* owned; SEQPACKET to init, which is ready */
    pid_t pid;   /* of init, on the host */
    uid_t base;  /* the host's id of the sandbox's uid 0 */
    struct net_place net;
    char net_owner[LAUNCH_ID_MAX + 1]; /* whose network it is in: its own id, or another's */
};

int launcher_open(const struct launcher_config *config, struct launcher **ret, struct err *err);
/* Closes; what runs goes on running. */
void launcher_free(struct launcher *l);

/*
 * From now on requests are made for clients who have connected to this listening socket: a start
 * needs one to open volumes or a root directory, and opens them with that one's rights. Without it
 * everything is asked by the owner of the process.
 */
int launcher_serve_clients_of(struct launcher *l, int listen_fd, struct err *err);

/* O_DIRECTORY fd of the state directory. Borrowed. */
int launcher_state_fd(const struct launcher *l);

/*
 * Starts a sandbox as asked. On failure err names the step: -EEXIST the id is taken, -EOPNOTSUPP
 * the host cannot give what is asked, -EPERM a path that is not allowed, other codes as the kernel
 * gave them. Nothing is left then, unless its processes do not end at once while others wait for
 * us: then it is in the table as one that was killed (launch_reply.remains).
 */
int launcher_start(struct launcher *l, const struct launch_request *q, struct launch_result *ret,
                   struct err *err);

/* Ends every process of the sandbox, without waiting for it: init's pidfd says when it is so.
 * -ENOENT: no such sandbox. */
int launcher_end(struct launcher *l, const char *id, struct err *err);
/* A copy of init's pidfd, which is the caller's; -ESRCH when it has none. */
int launcher_pidfd(struct launcher *l, const char *id, struct err *err);
/* The same, and waits until they are gone: for a launcher that has nobody else. */
int launcher_kill(struct launcher *l, const char *id, struct err *err);

/* Removes what an ended sandbox leaves: cgroups, files, id range. -EBUSY while init runs. */
int launcher_release(struct launcher *l, const char *id, struct err *err);

/* What an ended, kept sandbox no longer needs: its cgroups. Files stay, the id range is reserved
 * for them. -EBUSY while init runs. *ret_pidfd, the caller's: of a process that syncs both, before
 * whose end the sandbox cannot be started again; FD_NONE: that has been done. */
int launcher_stop(struct launcher *l, const char *id, int *ret_pidfd, struct err *err);

/* Stops the users' processes where they are, or lets them go on. -ENOENT, -EOPNOTSUPP without a
 * freezer, -EAGAIN when one has not followed yet: it is asked again, or they are let go on. */
int launcher_freeze(struct launcher *l, const char *id, bool freeze, struct err *err);

/* Finds a kept sandbox whose init outlived its launcher. -ESRCH: its init is gone (it is stopped).
 * -ENOENT: no such sandbox. -EAGAIN: its init does not listen, because it is about to, or to end:
 * ask again. *ret_frozen: whether its processes are paused. */
int launcher_adopt(struct launcher *l, const char *id, struct launch_result *ret, bool *ret_frozen,
                   struct err *err);

/*
 * q->count sockets, TCP or q->udp, of q->family in the net namespace of the sandbox q->id, not
 * connected, non-blocking. Returns how many there are in ret, which may be fewer: one at least.
 * -ENOENT; -EBUSY: its init is gone; -EAFNOSUPPORT; -EPERM: the namespace is the host's.
 * -ENOTRECOVERABLE: the launcher is left in that namespace and must end. q->mark: the sandbox's own
 * egress table lets them through.
 */
int launcher_sockets(struct launcher *l, const struct launch_request *q, int *ret, struct err *err);
/* A socket of the host's that is bound there and, for TCP, listens; non-blocking. Returns the fd.
 * -EPERM: no rule allows it. -EADDRINUSE, -EADDRNOTAVAIL, … */
int launcher_listen(struct launcher *l, const struct address *a, bool udp, struct err *err);

/* The same inside a sandbox, TCP, at an address of its own loopback: -EPERM else. -ENOENT; -EBUSY:
 * its init is gone; -ENOTRECOVERABLE as launcher_sockets. */
int launcher_listen_inside(struct launcher *l, const char *id, const struct address *a,
                           struct err *err);

/*
 * What a sandbox sends comes under control (net/egress.h), before anything runs in it, later, or
 * again; or out of it. ret: the TCP listener and the UDP socket of q->family inside, non-blocking,
 * unless the table alone was asked for, or none. -EAFNOSUPPORT, -EADDRINUSE (somebody inside has
 * the port), and as launcher_socket.
 */
int launcher_egress(struct launcher *l, const struct launch_request *q, int ret[2],
                    struct err *err);
/* A stream socket that is connected or connecting to a client's handler: egress_handler_ok. Returns
 * the fd. */
int launcher_dial(struct launcher *l, const char *id, const char *handler, struct err *err);
/* The same to a name server of the host's, TCP or UDP. -ENOENT: there is no index'th. */
int launcher_resolver(struct launcher *l, unsigned index, bool udp, struct err *err);

/*
 * A worker for archives, confined to what q->work says (request.h). -EAGAIN: too many; -EEXIST: the
 * name is taken; -ENOENT: no such layer or sandbox.
 */
struct launch_worker {
    int pidfd;   /* owned */
    int control; /* owned; the socket to it */
};
int launcher_worker(struct launcher *l, const struct launch_request *q, struct launch_worker *ret,
                    struct err *err);
/* LAUNCH_LAYER_COMMIT: -ENOENT no such worker, -EEXIST there is such a layer, -EAGAIN: it takes a
 * while, and has to be asked again. */
int launcher_layer_commit(struct launcher *l, const struct launch_request *q, struct err *err);
/* LAUNCH_LAYER_DROP, LAUNCH_LAYER_REMOVE: files go in a process of its own. -ENOENT. */
int launcher_layer_drop(struct launcher *l, const char *id, struct err *err);
int launcher_layer_remove(struct launcher *l, const char *name, struct err *err);
/* LAUNCH_LAYER_LIST: a sealed memfd. */
int launcher_layer_list(struct launcher *l, struct err *err);
/* Removes what workers of launchers that were killed have left, and layers that a host which went
 * down may not have had time to write. A worker may outlive its launcher by a moment: what it has
 * is looked at again when the next layer is made. */
void launcher_layers_sweep(struct launcher *l);

enum { LAUNCH_PEM_MAX = 1 << 20 /* bytes of either file */ };
/* Sealed memfds of the gateway's certificate chain and key, read now. -ENOENT: none is configured.
 */
int launcher_certificate(struct launcher *l, int ret[2], struct err *err);

/* A descriptor (borrowed; -1: none) that is readable when the host's firewall or routes have
 * changed, and what to do then, and launcher_watch_wait ms from now (-1: not), for live sandboxes
 * (launch/net-ops.h). launcher_serve does so itself. */
int launcher_watch(const struct launcher *l);
int launcher_watch_wait(const struct launcher *l);
void launcher_watched(struct launcher *l);

/* A sealed memfd with the ids of all kept sandboxes, each NUL-terminated. */
int launcher_list(struct launcher *l, struct err *err);

/* Learns which sandboxes of an earlier launcher live, and puts the rules of their networks back
 * where they are gone: before anything is swept, which may take along what is nobody's any more. */
int launcher_inherit(struct launcher *l, struct err *err);

/* Takes the reservations of kept sandboxes whose init is gone, after a reboot or a crash, and gives
 * back those of sandboxes that are no more. One launcher of a state directory at a time. */
int launcher_recover(struct launcher *l, struct err *err);

/* Counters of its cgroups into the reply. -ENOENT. */
struct launch_reply;
int launcher_stats(struct launcher *l, const char *id, struct launch_reply *ret, struct err *err);

/* One process of a sandbox's users, by the numbers that its init sees it by. */
enum { LAUNCH_PROCESSES_MAX = 1024 /* of one sandbox that are listed */ };
struct launch_process {
    int32_t pid, parent;        /* parent: 1 = init, 0 = not to be seen from there */
    uint32_t uid;               /* inside: the effective one */
    int32_t terminal;           /* N of its /dev/pts/N, or -1 */
    int64_t started_ms, cpu_ms; /* since the epoch; used so far */
    char name[32];              /* what it calls itself: any bytes; NUL-terminated */
};
/* A sealed memfd with one struct launch_process each, also while they are paused. -ENOENT: no such
 * sandbox; -E2BIG: more than LAUNCH_PROCESSES_MAX; -EOPNOTSUPP: no cgroup to find them by. */
int launcher_processes(struct launcher *l, const char *id, struct err *err);

/* How often the kernel killed for memory in it; 0 when unknown. */
unsigned long launcher_oom_kills(const struct launcher *l, const char *id);

/* Removes what launchers that were killed have left in the state directory. Returns how many
 * sandboxes that were. */
int launcher_sweep(struct launcher *l);
/* The same, and what has many files is removed by a process of its own: for who has others that
 * wait for him. */
int launcher_sweep_aside(struct launcher *l);

/*
 * The same by messages: one request in a sealed memfd a SEQPACKET message, with LAUNCH_START the
 * connection of the client for whom it is behind it; one struct launch_reply each, with pidfd and
 * control socket for LAUNCH_START. Returns 0 when the peer has closed (every sandbox goes on).
 */
/* A sandbox's disk limit and what it uses of it. limit 0: it has none. */
struct launch_disk {
    uint64_t limit, allocated;                /* of the image; what it takes of the host's disk */
    uint64_t size, used, inodes, inodes_used; /* of the file system; 0 while it is not mounted */
};
struct launch_reply {
    int code; /* 0 or a negative errno */
    int pid;  /* of init */
    unsigned base;
    int frozen;  /* LAUNCH_ADOPT: whether its processes are paused */
    int remains; /* a failed LAUNCH_START: processes of it still end; LAUNCH_KILL, then LAUNCH_STOP
                    or LAUNCH_RELEASE follow, as for any other */
    unsigned long oom_kills;
    uint64_t memory_bytes, memory_peak_bytes, cpu_usec, pids; /* LAUNCH_STATS */
    struct launch_disk disk;                                  /* LAUNCH_STATS */
    struct net_place net;                                     /* LAUNCH_START, LAUNCH_ADOPT */
    char net_owner[LAUNCH_ID_MAX + 1];                        /* LAUNCH_START, LAUNCH_ADOPT */
    char message[480];                                        /* NUL-terminated */
};
int launcher_serve(struct launcher *l, int sock, struct err *err);
