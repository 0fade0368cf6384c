#pragma once

/*
 * The launcher: the only code with privileges. It is single-threaded, parses no JSON, HTTP or
 * archive, and does not trust its client. Requests are decoded and checked (request.h), and it
 * chooses id ranges itself. Images and uppers are below its state directory's fd, bind sources
 * below prefixes that its owner configured. Devices come from a fixed list, and every sandbox gets
 * the seccomp baseline.
 *
 * `rind run` without a daemon calls it in its own process; `rind serve` runs it behind a SEQPACKET
 * socket (launcher_serve).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/request.h"
#include "policy/net-setup.h"

struct err;
struct launcher;
struct launch_net_ops;
struct address;
struct publish_rules;
struct host_rootfs;

struct launcher_config {
    const char *state_dir; /* made when missing, 0700 */
    const char *ids_dir;   /* the host's id range registry */
    /* absolute, NULL-terminated: prefixes of bind sources and root directories; borrowed */
    const char *const *bind_prefixes;
    const struct publish_rules
        *publish; /* which host ports may be published, by any client; borrowed; NULL = none */
    /* what the root file system `host` shows; borrowed; NULL = not available */
    const struct host_rootfs *host;
    const char *certificate, *key; /* the gateway's, absolute paths; borrowed; NULL = none */
    /* bytes to keep free where sandboxes are stored; 0 = a twentieth of that file system, at most 1
     * GiB */
    uint64_t disk_reserve;
    const void *init_image; /* the static program that becomes init */
    size_t init_size;
    const void *worker_image; /* the static program that unpacks and packs archives; NULL = none */
    size_t worker_size;
    const struct launch_net_ops *net; /* borrowed; NULL: no networks */
    /* total for all sandboxes; 0: other launchers run on this host, so no total is kept */
    uint32_t terminals;
    unsigned volume_makers;  /* volumes made at a time; 0 or too many: LAUNCH_MAKERS_MAX */
    unsigned volume_make_ms; /* time limit for making one; 0: no limit */
};

struct launch_result {
    int pidfd;   /* owned; init's */
    int control; /* owned; SEQPACKET socket to init, which is ready */
    pid_t pid;   /* pid of init, on the host */
    uid_t base;  /* the host's id of the sandbox's uid 0 */
    struct net_place net;
    /* id of the sandbox that owns the network: this one, or another */
    char net_owner[LAUNCH_ID_MAX + 1];
};

int launcher_open(const struct launcher_config *config, struct launcher **ret, struct err *err);
/* Closes and frees; running sandboxes keep running. */
void launcher_free(struct launcher *l);

/* Requests from now on come from clients connected to this listening socket. A start passes the
 * client's connection, and volumes and root directories are opened with that client's rights.
 * Without this call all requests count as the process owner's. */
int launcher_serve_clients_of(struct launcher *l, int listen_fd, struct err *err);

/* Returns an O_DIRECTORY fd of the state directory. Borrowed. */
int launcher_state_fd(const struct launcher *l);
/* True if all controllers are in the one hierarchy of cgroup v2. */
bool launcher_cgroup_unified(const struct launcher *l);
/* True if weights of accesses to the disk of the state directory have an effect. */
bool launcher_weighs_disks(const struct launcher *l);

/*
 * Starts a sandbox as requested. On failure err names the step: -EEXIST the id is taken,
 * -EOPNOTSUPP the host lacks a feature, -EPERM a path is not allowed, other codes come from the
 * kernel.
 *
 * Nothing is left after a failure, with one exception. If its processes are slow to exit while
 * other requests wait, it stays registered as a killed sandbox (launch_reply.remains). Blocks for
 * the whole start.
 */
int launcher_start(struct launcher *l, const struct launch_request *q, struct launch_result *ret,
                   struct err *err);

/* Kills every process of the sandbox without waiting: init's pidfd tells when they have exited.
 * -ENOENT: no such sandbox. */
int launcher_end(struct launcher *l, const char *id, struct err *err);
/* Returns a copy of init's pidfd, which the caller owns; -ESRCH when it has no init. */
int launcher_pidfd(struct launcher *l, const char *id, struct err *err);
/* Like launcher_end, but blocks until they have exited: for a caller without other work. */
int launcher_kill(struct launcher *l, const char *id, struct err *err);

/* Removes what an ended sandbox leaves: cgroups, files, id range. -EBUSY while init runs. */
int launcher_release(struct launcher *l, const char *id, struct err *err);

/* Removes the cgroups of an ended, kept sandbox; its files stay, and its id range stays reserved.
 * -EBUSY while init runs. *ret_pidfd, which the caller owns, is a process that syncs both; the
 * sandbox cannot be started before it has exited. FD_NONE: the sync is done. */
int launcher_stop(struct launcher *l, const char *id, int *ret_pidfd, struct err *err);

/* Freezes or thaws the users' processes. -ENOENT; -EOPNOTSUPP without a freezer; -EAGAIN when a
 * process has not stopped yet: retry, or thaw. */
int launcher_freeze(struct launcher *l, const char *id, bool freeze, struct err *err);

/* Reattaches a kept sandbox if its init survived the previous launcher. -ENOENT: no such sandbox.
 * -ESRCH: its init has exited (the sandbox is stopped). -EAGAIN: its init does not listen, because
 * it is starting or exiting: retry. *ret_frozen: its processes are frozen. */
int launcher_reattach(struct launcher *l, const char *id, struct launch_result *ret,
                      bool *ret_frozen, struct err *err);

/*
 * Makes q->count sockets (TCP, or UDP if q->udp) of q->family in the net namespace of the sandbox
 * q->id; unconnected, non-blocking. q->mark: its own egress table lets them pass. Returns how many
 * are in ret: at least one, perhaps fewer than requested.
 *
 * -ENOENT; -EBUSY: its init has exited; -EAFNOSUPPORT; -EPERM: the namespace is the host's.
 * -ENOTRECOVERABLE: the launcher could not leave that namespace and must exit.
 */
int launcher_sockets(struct launcher *l, const struct launch_request *q, int *ret, struct err *err);
/* Makes a host socket bound to this address; a TCP socket listens. Non-blocking. Returns the fd.
 * -EPERM: no rule allows it. -EADDRINUSE, -EADDRNOTAVAIL and so on. */
int launcher_listen(struct launcher *l, const struct address *a, bool udp, struct err *err);

/* Makes a listening TCP socket inside a sandbox, at an address of its loopback; -EPERM for any
 * other. -ENOENT; -EBUSY: its init has exited; -ENOTRECOVERABLE as launcher_sockets. */
int launcher_listen_inside(struct launcher *l, const char *id, const struct address *a,
                           struct err *err);

/*
 * Installs, replaces or removes a sandbox's egress table (net/egress.h), before any process runs in
 * it or later. ret: the TCP listener and the UDP socket of q->family inside, non-blocking; none if
 * only the table, or its removal, was requested. -EAFNOSUPPORT; -EADDRINUSE: a process inside uses
 * the port; and the errors of launcher_sockets.
 */
int launcher_egress(struct launcher *l, const struct launch_request *q, int ret[2],
                    struct err *err);
/* Makes a stream socket that is connected or connecting to a client's handler, which must satisfy
 * egress_handler_ok. Returns the fd. */
int launcher_dial(struct launcher *l, const char *id, const char *handler, struct err *err);
/* Makes a socket, TCP or UDP, connected or connecting to the host's name server number `index`.
 * -ENOENT: there are fewer. */
int launcher_resolver(struct launcher *l, unsigned index, bool udp, struct err *err);

/* The name server of a named network (names.c). launcher_names: ret[0] is the listener, ret[1] the
 * datagram socket; the caller owns both. -EADDRINUSE: a process inside has the port. */
int launcher_names(struct launcher *l, const char *id, int ret[2], struct err *err);
/* Returns a socket to the sandbox's name server number q->index, in the sandbox's net namespace. */
int launcher_ask(struct launcher *l, const struct launch_request *q, struct err *err);

/* Starts a worker for archives, confined to what q->work says (request.h). -EAGAIN: too many;
 * -EEXIST: the name is taken; -ENOENT: no such layer or sandbox. */
struct launch_worker {
    int pidfd;   /* owned */
    int control; /* owned; the socket to it */
};
int launcher_worker(struct launcher *l, const struct launch_request *q, struct launch_worker *ret,
                    struct err *err);
/* LAUNCH_LAYER_COMMIT. -ENOENT: no such worker; -EEXIST: the layer exists; -EAGAIN: not done yet,
 * ask again. */
int launcher_layer_commit(struct launcher *l, const struct launch_request *q, struct err *err);
/* LAUNCH_LAYER_DROP, LAUNCH_LAYER_REMOVE; another process removes the files. -ENOENT. */
int launcher_layer_drop(struct launcher *l, const char *id, struct err *err);
int launcher_layer_remove(struct launcher *l, const char *name, struct err *err);
/* LAUNCH_LAYER_LIST: returns a sealed memfd. */
int launcher_layer_list(struct launcher *l, struct err *err);
/* Removes what workers of killed launchers have left, and layers that may not have been written
 * completely before the host crashed. A worker can outlive its launcher briefly: its layer is swept
 * when the next layer is made. */
void launcher_layers_sweep(struct launcher *l);

enum { LAUNCH_PEM_MAX = 1 << 20 /* bytes of either file */ };
/* Returns sealed memfds of the gateway's certificate chain and key, read now. -ENOENT: none is
 * configured. */
int launcher_certificate(struct launcher *l, int ret[2], struct err *err);

/*
 * For callers without launcher_serve, which does this itself. launcher_watch: an fd (borrowed; -1:
 * none) that is readable when the host's firewall or routes have changed. launcher_watched handles
 * the change for live sandboxes (launch/net-ops.h). Call it also launcher_watch_wait ms from now
 * (-1: need not).
 */
int launcher_watch(const struct launcher *l);
int launcher_watch_wait(const struct launcher *l);
void launcher_watched(struct launcher *l);

/* Returns a sealed memfd with the ids of all kept sandboxes, each NUL-terminated. */
int launcher_list(struct launcher *l, struct err *err);

/* Finds the sandboxes that survived the previous launcher, and restores missing rules of their
 * networks. Call it before any sweep, which would remove networks without an owner. */
int launcher_find_survivors(struct launcher *l, struct err *err);

/* Reserves the id ranges of kept sandboxes without a running init (reboot or crash), and releases
 * the ranges of removed sandboxes. One launcher per state directory at a time. */
int launcher_recover(struct launcher *l, struct err *err);

/* Changes the limits of a running sandbox (LAUNCH_LIMITS). -ENOENT. */
int launcher_limits(struct launcher *l, const struct launch_request *q, struct err *err);

/* Fills the reply with its cgroups' counters. -ENOENT. */
struct launch_reply;
int launcher_stats(struct launcher *l, const char *id, struct launch_reply *ret, struct err *err);

/* A process of a sandbox's users, with pids as init sees them. */
enum { LAUNCH_PROCESSES_MAX = 1024 /* listed per sandbox */ };
struct launch_process {
    int32_t pid, parent;               /* parent: 1 = init, 0 = not visible to init */
    uint32_t uid;                      /* effective uid, inside */
    int32_t terminal;                  /* N if its terminal is /dev/pts/N, or -1 */
    int64_t started_ms, cpu_ms;        /* since the epoch; CPU time used */
    char name[32];                     /* comm: any bytes; NUL-terminated */
    uint64_t virtual_bytes, rss_bytes; /* of its memory; with pages that it shares */
    char state, reserved[7];           /* as in proc(5): R, S, D, … */
};
/* Returns a sealed memfd with one struct launch_process each, also while they are frozen. -ENOENT:
 * no such sandbox; -E2BIG: more than LAUNCH_PROCESSES_MAX; -EOPNOTSUPP: no cgroup lists them. */
int launcher_processes(struct launcher *l, const char *id, struct err *err);

/*
 * The bytes that its processes have written to disks since its start (written.c); UINT64_MAX: it
 * has too many processes to ask. -ENOENT.
 */
int launcher_written(struct launcher *l, const char *id, uint64_t *ret, struct err *err);

/* The number of its OOM kills; 0 when unknown. */
unsigned long launcher_oom_kills(const struct launcher *l, const char *id);

/* Removes what killed launchers have left in the state directory. Returns the number of removed
 * sandboxes. */
int launcher_sweep(struct launcher *l);
/* Like launcher_sweep, but another process removes sandboxes with many files: for a launcher that
 * other clients wait for. */
int launcher_sweep_aside(struct launcher *l);

/*
 * launcher_serve handles requests from a SEQPACKET socket. Each message carries one request in a
 * sealed memfd, and for LAUNCH_START also the connection of the client. Each reply is one struct
 * launch_reply; LAUNCH_START's carries pidfd and control socket. Returns 0 when the peer has closed
 * its socket; every sandbox keeps running.
 */
/* A sandbox's disk limit and usage. limit 0: it has none. */
struct launch_disk {
    uint64_t limit, allocated; /* size of the image; bytes that it takes on the host's disk */
    /* bytes and inodes of the file system; 0 while it is not mounted */
    uint64_t size, used, inodes, inodes_used;
};
struct launch_reply {
    int code; /* 0 or a negative errno */
    int pid;  /* pid of init */
    unsigned base;
    int frozen; /* LAUNCH_REATTACH: its processes are frozen */
    /* a failed LAUNCH_START: processes of it still exit; LAUNCH_KILL, then LAUNCH_STOP or
     * LAUNCH_RELEASE must follow, as for a started sandbox */
    int remains;
    unsigned long oom_kills;
    uint64_t memory_bytes, memory_peak_bytes, cpu_usec, pids; /* LAUNCH_STATS */
    /* LAUNCH_STATS; LAUNCH_WRITTEN: `used` has the bytes that were written */
    struct launch_disk disk;
    struct net_place net;              /* LAUNCH_START, LAUNCH_REATTACH, LAUNCH_NETWORKS */
    char net_owner[LAUNCH_ID_MAX + 1]; /* LAUNCH_START, LAUNCH_REATTACH */
    char message[480];                 /* NUL-terminated */
};
int launcher_serve(struct launcher *l, int sock, struct err *err);
