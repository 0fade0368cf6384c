#pragma once

/*
 * A request from the supervisor to the launcher: one message of typed records. The launcher trusts
 * no part of it. Every record is checked once, here, for shape, range and character set; then it
 * becomes a struct launch_request. Checks that need the host (is this source below an allowed
 * prefix?) are made where it is opened.
 *
 *   struct launch_wire | record | record | ...
 *   record: u16 tag, u16 flags, u32 length, bytes, zero padding to 8
 *
 * Records are only added, never changed. An unknown tag is refused, so that an old launcher cannot
 * silently ignore a new supervisor's request.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/buf.h"
#include "policy/net-rule.h"
#include "policy/net-setup.h"
#include "policy/sysctl.h"

struct err;

enum {
    LAUNCH_MAGIC = 0x4c444e52, /* "RNDL" */
    LAUNCH_VERSION = 2,
    LAUNCH_SIZE_MAX = 512 << 10, /* bytes of one request, which is sent as a sealed memfd */
    LAUNCH_ID_MAX = 63,
    LAUNCH_ALIASES_MAX = 511, /* bytes of all names beside the host name */
    LAUNCH_LAYERS_MAX = 128,
    LAUNCH_LAYER_NAME = 64, /* hexadecimal digits */
    LAUNCH_VOLUMES_MAX = 64,
    LAUNCH_TMPFS_MAX = 32,
    LAUNCH_PATHS_MAX = 256, /* each of masked and read-only, after pattern expansion */
    LAUNCH_RLIMITS_MAX = 16,
    LAUNCH_PATH_MAX = 4095,
    LAUNCH_HOSTNAME_MAX = 63,
    LAUNCH_DOMAIN_MAX = 189,
    LAUNCH_RESOLV_MAX = 115, /* bytes of each list of words for resolv.conf */
    LAUNCH_USER_MAX = 511,   /* two names and a colon */
    LAUNCH_BPF_MAX = 4096,
    LAUNCH_HOSTS_MAX = 16,       /* additional lines of /etc/hosts */
    LAUNCH_CLOSED_MAX = 2 << 20, /* bytes of LAUNCH_CLOSED's list */
    LAUNCH_REPLY_FDS_MAX = 16,   /* fds in one reply */
};

enum launch_verb {
    LAUNCH_VERB_INVALID = 0,
    LAUNCH_START,   /* makes and starts a sandbox; replies with its pidfd and control socket */
    LAUNCH_KILL,    /* LAUNCH_END that replies with init's pidfd, for a supervisor without one */
    LAUNCH_RELEASE, /* removes what an ended sandbox leaves: cgroups, files, id range */
    /* for an ended, kept sandbox: removes the cgroups; files and id range stay. May reply with a
     * pidfd: after that process has exited they are synced, and the sandbox can be started again;
     * -EBUSY before */
    LAUNCH_STOP,
    LAUNCH_FREEZE, /* freezes the users' processes; -EAGAIN: ask again */
    LAUNCH_THAW,
    LAUNCH_STATS, /* replies with counters of its cgroups */
    /* reattaches a kept sandbox whose init runs; replies as LAUNCH_START; -ESRCH: no init runs */
    LAUNCH_REATTACH,
    LAUNCH_LIST, /* replies with a memfd of the ids of all kept sandboxes, each NUL-terminated */
    /* replies with up to TAG_COUNT TCP sockets of its net namespace, at least one; unconnected,
     * non-blocking */
    LAUNCH_CONNECT,
    LAUNCH_END, /* kills every process of a sandbox; they have exited when init has */
    /* replies with a non-blocking socket bound to TAG_BIND; a TCP socket listens. With TAG_ID (TCP
     * only): inside, on the sandbox's loopback */
    LAUNCH_LISTEN,
    LAUNCH_CERTIFICATE, /* replies with memfds of the gateway's certificate chain and key */
    /* installs, replaces or removes its egress table, before or while it runs, as TAG_EGRESS says;
     * replies with the listener and the datagram socket of TAG_FAMILY inside */
    LAUNCH_EGRESS,
    LAUNCH_DIAL, /* replies with a socket connected, or connecting, to TAG_HANDLER */
    /* replies with a socket connected, or connecting, to the host's name server number TAG_INDEX */
    LAUNCH_RESOLVER,
    /* replies with a socket on which the kernel reports sandboxes that exceed their connection
     * limit (net/conn-limit.h); -EBUSY: another process has it */
    LAUNCH_CONN_LIMIT,
    /* Layers of images (layers.c, worker.c). */
    /* starts a worker of TAG_WORKER's kind; replies with its pidfd and socket
     * (image/worker-proto.h) */
    LAUNCH_WORKER,
    /* makes the tree of the worker TAG_ID, which must have exited, the layer TAG_IMAGE_LAYER of
     * TAG_BYTES; -EAGAIN: ask again */
    LAUNCH_LAYER_COMMIT,
    LAUNCH_LAYER_DROP,   /* kills the worker TAG_ID and removes what it has made */
    LAUNCH_LAYER_REMOVE, /* removes the layer TAG_IMAGE_LAYER */
    LAUNCH_LAYER_LIST,   /* replies with a memfd: for each layer "NAME BYTES" and a NUL */
    /* makes the volume TAG_VOLUME_NAME with TAG_META and optionally TAG_DISK (volume.h) */
    LAUNCH_VOLUME_MAKE,
    LAUNCH_VOLUME_WRITE, /* replaces the record of an existing volume */
    LAUNCH_VOLUME_READ,  /* replies with a memfd of its record */
    LAUNCH_VOLUME_REMOVE,
    LAUNCH_VOLUME_LIST, /* replies with a memfd of all names, each NUL-terminated */
    /* fills the volume of one TAG_NAMED_VOLUME from layers or root_dir, optionally with TAG_SANDBOX
     * or TAG_VOLUME_NAME; replies with a process's pidfd and the pipe of its report, or without fds
     * if there is nothing to fill */
    LAUNCH_VOLUME_FILL,
    LAUNCH_PROCESSES, /* replies with a memfd of one struct launch_process each */
    /* replies with a memfd of the sandboxes whose network is closed because its rules could not be
     * restored: id and reason, each NUL-terminated; and with an eventfd that is incremented when
     * this changes */
    LAUNCH_CLOSED,
    /* moves a running sandbox to the named networks TAG_NET_NAME and TAG_NET_MORE, with or without
     * the internet, as TAG_NET says; -EOPNOTSUPP: it has no link */
    LAUNCH_NETWORKS,
    /* replies with the listener and the datagram socket of the name server inside
     * (policy/egress-net.h), and installs the table that leads its address there */
    LAUNCH_NAMES,
    /* replies with a socket of its net namespace, connected or connecting to the sandbox's own name
     * server number TAG_INDEX; -ENOENT: it has fewer */
    LAUNCH_ASK,
    /* changes the limits of a running sandbox to the ones given, which are all that it has then;
     * -ENOENT: it does not run */
    LAUNCH_LIMITS,
    LAUNCH_WRITTEN, /* replies with the bytes that its processes have written to disks */
    LAUNCH_VERB_MAX
};

enum launch_tag {
    TAG_INVALID = 0,
    TAG_ID,           /* string */
    TAG_HOSTNAME,     /* string */
    TAG_FLAGS,        /* u64: enum launch_flags */
    TAG_CAPABILITIES, /* u64 */
    TAG_MEMORY,       /* u64 bytes */
    TAG_PIDS,         /* u64 */
    TAG_CPU,          /* u64 thousandths of a CPU */
    TAG_SHM,          /* u64 bytes */
    TAG_LAYER,        /* string: a name under layers/; top first */
    TAG_ROOT_DIR,     /* string: an absolute host directory, read-only, below an allowed prefix */
    /* flags: 1 = read-only, 2 = a missing source is made, as a directory; */
    TAG_VOLUME,   /* u32 uid and u32 gid inside, then source NUL target NUL */
    TAG_TMPFS,    /* flags: 1 = read-only, 2 = noexec; u64 bytes, then target NUL */
    TAG_MASKED,   /* string, absolute */
    TAG_READONLY, /* string, absolute */
    TAG_RLIMIT,   /* u64 resource, soft, hard */
    TAG_COUNTER,  /* u64 limit, then the name of a user.max_* counter */
    TAG_FILTER,   /* struct sock_filter[] */
    TAG_FAMILY,   /* u64: 4 or 6, for LAUNCH_CONNECT */
    TAG_USER,     /* string: a user whose ids volume owners are mapped to, looked up in the image */
    TAG_NET,      /* u64: enum launch_net_flags */
    TAG_NET_RULE, /* struct net_rule */
    TAG_NET_PORT, /* struct net_port: a host port, reachable at the gateway's address */
    TAG_NET_DNS,  /* struct net_addr: name servers instead of the host's */
    TAG_NET_JOIN, /* string: the id of a sandbox whose network it joins */
    TAG_NET_NAME, /* string: a network whose members reach each other */
    /* struct net_addr (family 0: the gateway), then a name NUL: a line of /etc/hosts */
    TAG_NET_HOST,
    TAG_BIND,         /* struct launch_bind, for LAUNCH_LISTEN */
    TAG_UDP,          /* u64: 1 = UDP, for LAUNCH_CONNECT and LAUNCH_RESOLVER */
    TAG_EGRESS,       /* u64: enum launch_egress */
    TAG_HANDLER,      /* string: policy/egress-handler.h */
    TAG_INDEX,        /* u64 */
    TAG_MARK,         /* u64: 1 = passes the sandbox's own egress table, for LAUNCH_CONNECT */
    TAG_IMAGE_LAYER,  /* string: the name of an image layer; top first, above those of TAG_LAYER */
    TAG_WORKER,       /* u64: enum launch_work */
    TAG_SANDBOX,      /* string: the id of a sandbox */
    TAG_BYTES,        /* u64: size of a layer; with LAUNCH_WORKER: the most that it may write */
    TAG_NAMED_VOLUME, /* flags: 1 = read-only; a volume's name NUL target NUL */
    TAG_VOLUME_NAME,  /* string */
    TAG_META,         /* bytes: the supervisor's own record of a volume */
    TAG_DISK,  /* u64 bytes: a file system of this size for the writable layer, or for a volume */
    TAG_COUNT, /* u64: number of sockets, for LAUNCH_CONNECT; default 1 */
    /* string: more names, separated by spaces, under which members of its named network find it */
    TAG_NET_ALIASES,
    /* the name of a further named network NUL, then its aliases there as in TAG_NET_ALIASES, or
     * "", NUL */
    TAG_NET_MORE,
    TAG_TMPFS_ROOT,  /* struct launch_tmpfs_root, of the TAG_TMPFS before it */
    TAG_SWAP,        /* u64 bytes of memory and swap together; LAUNCH_SWAP_UNLIMITED */
    TAG_RESERVATION, /* u64 bytes of memory that are not taken first; a wish */
    TAG_SHARES,      /* u64 weight of its processor time, 2 to 262144; a wish */
    TAG_CPUSET_CPUS, /* string: processors, such as "0-3,8" */
    TAG_CPUSET_MEMS, /* string: memory nodes */
    TAG_OOM_SCORE,   /* u64, 0 to 1000: oom_score_adj of its processes */
    TAG_SYSCTL,      /* string: NAME=VALUE (policy/sysctl.h) */
    TAG_NET_LAN,     /* struct net_lan_ask: the subnet of one of its named networks */
    TAG_DOMAIN,      /* string: the domain of its host name */
    TAG_NET_SEARCH,  /* string: domains of its resolv.conf, separated by spaces; ".": none */
    TAG_NET_OPTIONS, /* string: options of its resolv.conf, separated by spaces */
    TAG_IO_WEIGHT,   /* u64, 10 to 1000: of its accesses to the disk of the state directory */
    /* u64 rates[4] a second (bytes read, bytes written, reads, writes; 0: none), then the path of a
     * disk below /dev, or "": that of the state directory; NUL */
    TAG_IO,
    TAG_NET_RATE, /* u64 bytes a second of its link, each way */
    TAG_MAX
};

#define LAUNCH_SWAP_UNLIMITED INT64_MAX

enum launch_egress {
    LAUNCH_EGRESS_OPEN = 1 << 0,  /* UDP and ICMP may leave, as far as the host's firewall allows */
    LAUNCH_EGRESS_TABLE = 1 << 1, /* only the table, no sockets */
    LAUNCH_EGRESS_NONE = 1 << 2,  /* removes the table; alone, and no sockets */
    LAUNCH_EGRESS_ALL = (1 << 3) - 1,
};

enum launch_flags {
    LAUNCH_READ_ONLY = 1 << 0,
    LAUNCH_ATTACHED = 1 << 1, /* exits with its control socket */
    LAUNCH_REAPER = 1 << 2,
    LAUNCH_NO_NEW_PRIVS = 1 << 3,
    LAUNCH_KEEP = 1 << 4,       /* files and ids outlive init, and init outlives its supervisor */
    LAUNCH_HOST_ROOT = 1 << 5,  /* the root file system `host`, above the layers */
    LAUNCH_FUSE = 1 << 6,       /* with /dev/fuse */
    LAUNCH_CORE_SCHED = 1 << 7, /* no process of others on the same core */
    LAUNCH_NO_EXEC = 1 << 8,    /* a process executes one program, and no other */
    LAUNCH_FLAGS_ALL = (1 << 9) - 1,
};

/* The kinds of workers. TAG_ID names the worker, TAG_SANDBOX the sandbox, TAG_VOLUME_NAME the
 * volume. */
enum launch_work {
    LAUNCH_WORK_INVALID = 0,
    LAUNCH_WORK_STREAM, /* no files, only streams: SPLIT */
    LAUNCH_WORK_LAYER,  /* UNPACK: a new tree, above the layers TAG_IMAGE_LAYER */
    LAUNCH_WORK_IMAGE,  /* PACK: the layers TAG_IMAGE_LAYER as one tree */
    /* PACK: the writable layer of a kept sandbox, which must be stopped or frozen */
    LAUNCH_WORK_UPPER,
    /* PACK: the root of a kept sandbox: TAG_IMAGE_LAYER and TAG_LAYER, and its writable layer on
     * top */
    LAUNCH_WORK_ROOT,
    /* CHANGES: the writable layer of a kept sandbox against LAUNCH_WORK_ROOT without it */
    LAUNCH_WORK_CHANGES,
    LAUNCH_WORK_SANDBOX_SIZE, /* SIZE: the writable layer of a kept sandbox */
    LAUNCH_WORK_VOLUME_SIZE,  /* SIZE: the contents of the volume TAG_VOLUME_NAME */
    LAUNCH_WORK_MAX
};

enum launch_net_flags {
    LAUNCH_NET_LINK = 1 << 0, /* a link to the host, whatever it may reach */
    LAUNCH_NET_INTERNET = 1 << 1,
    /* CAP_NET_ADMIN and CAP_NET_RAW inside apply to its net namespace; also without a link */
    LAUNCH_NET_ADMIN = 1 << 2,
    LAUNCH_NET_SAME = 1 << 3, /* NETWORKS: the internet stays as it is */
    LAUNCH_NET_FLAGS_ALL = (1 << 4) - 1,
};

struct launch_wire {
    uint32_t magic;
    uint16_t version, verb;
    uint32_t size; /* bytes of the whole message */
    uint32_t record_count;
};
_Static_assert(sizeof(struct launch_wire) == 16, "launch_wire is a wire format");

struct launch_bind {
    uint16_t family, port; /* family: 4 or 6 */
    uint32_t udp;          /* 0 or 1 */
    unsigned char bytes[16];
};
_Static_assert(sizeof(struct launch_bind) == 24, "launch_bind is a wire format");

struct launch_volume {
    const char *source, *target;
    uint32_t uid, gid; /* the inside ids that the source's owner and group are mapped to */
    bool read_only;
    bool named; /* source is a volume's name; the ids are ignored */
    bool make;  /* a missing source is made, as a directory */
};

/* The root directory of a tmpfs: its mode, and its owner inside. */
struct launch_tmpfs_root {
    uint32_t mode, uid, gid, reserved;
};
_Static_assert(sizeof(struct launch_tmpfs_root) == 16, "launch_tmpfs_root is a wire format");

struct launch_tmpfs {
    const char *target;
    uint64_t bytes;
    bool read_only, no_exec;
    bool has_root; /* else 01777 and root's */
    struct launch_tmpfs_root root;
};

enum { LAUNCH_VOLUME_READ_ONLY = 1 << 0, LAUNCH_VOLUME_MAKE_SOURCE = 1 << 1 };
enum { LAUNCH_TMPFS_READ_ONLY = 1 << 0, LAUNCH_TMPFS_NO_EXEC = 1 << 1 };

enum { LAUNCH_IO_RATES = 4, LAUNCH_IO_MAX = 9, LAUNCH_IO_PATH_MAX = 127 };
struct launch_io {
    const char *path;
    uint64_t rates[LAUNCH_IO_RATES];
};

struct launch_rlimit {
    uint64_t resource, soft, hard;
};

struct launch_counter {
    const char *name; /* one of a fixed list: "max_inotify_instances" */
    uint64_t limit;
};

struct launch_net {
    const char *name, *aliases;
};

struct launch_host {
    struct net_addr addr; /* family 0: the gateway */
    char name[LAUNCH_HOSTNAME_MAX + 1];
};

/* The decoded request. Strings and the filter point into the message, which must outlive it. */
struct launch_request {
    enum launch_verb verb;
    const char *id;
    const char *hostname;
    const char *domain; /* NULL = not given */
    const char *user;   /* NULL = not given */
    uint64_t flags, capabilities;
    int64_t memory, pids, cpu, shm, disk;         /* -1 = not given */
    int64_t swap, reservation, shares, oom_score; /* 0 = not given */
    const char *cpus, *mems;                      /* NULL = not given */
    int64_t io_weight, net_rate;                  /* 0 = not given */
    struct launch_io io[LAUNCH_IO_MAX];
    size_t io_count;
    const char *sysctls[SYSCTLS_MAX];
    size_t sysctl_count;
    const char *root_dir;
    const char *layers[LAUNCH_LAYERS_MAX];
    size_t layer_count;
    struct launch_volume volumes[LAUNCH_VOLUMES_MAX];
    size_t volume_count;
    struct launch_tmpfs tmpfs[LAUNCH_TMPFS_MAX];
    size_t tmpfs_count;
    const char *masked[LAUNCH_PATHS_MAX];
    size_t masked_count;
    const char *read_only[LAUNCH_PATHS_MAX];
    size_t read_only_count;
    struct launch_rlimit rlimits[LAUNCH_RLIMITS_MAX];
    size_t rlimit_count;
    struct launch_counter counters[16];
    size_t counter_count;
    const void *filter;
    size_t filter_count;
    const char *image_layers[LAUNCH_LAYERS_MAX]; /* names: 64 hexadecimal digits */
    size_t image_layer_count;
    enum launch_work work; /* INVALID = not given */
    const char *sandbox;   /* NULL = not given */
    int64_t bytes;         /* -1 = not given */
    int family;            /* 0 = not given */
    int client_fd;         /* borrowed; the client's connection, received with the message; or -1 */
    uint64_t net_flags;
    struct net_access net_access;
    struct net_addr net_dns[NET_DNS_MAX];
    size_t net_dns_count;
    const char *net_search, *net_options; /* NULL = not given */
    const char *net_join, *net_name, *net_aliases;
    struct launch_net net_more[NET_MORE_MAX];
    size_t net_more_count;
    struct net_lan_ask net_lans[NET_GROUPS_MAX]; /* by index, none twice */
    size_t net_lan_count;
    struct launch_host hosts[LAUNCH_HOSTS_MAX];
    size_t host_count;
    const char *volume_name; /* NULL = not given */
    const void *meta;        /* NULL = not given */
    size_t meta_len;
    bool udp;
    uint64_t egress;
    bool has_egress, mark;
    const char *handler; /* NULL = not given */
    unsigned index;
    unsigned count; /* at least 1 */
    bool has_bind;
    struct address bind;
};

/* Checks and decodes a message. -EPROTO for one that no intact supervisor sends; -EINVAL, -ERANGE
 * or -E2BIG for bad values. err names the record. */
int launch_decode(const void *data, size_t len, struct launch_request *ret, struct err *err);

/* Returns true if text is a valid sandbox id: [a-z0-9-], 1 to LAUNCH_ID_MAX, no leading dash. */
bool launch_id_ok(const char *id);

/* Build a request: begin, any number of puts, end. A failed put is remembered, and launch_end
 * returns the error. */
void launch_begin(struct buf *b, enum launch_verb verb);
void launch_put(struct buf *b, enum launch_tag tag, uint16_t flags, const void *data, size_t len);
void launch_put_string(struct buf *b, enum launch_tag tag, const char *text);
void launch_put_number(struct buf *b, enum launch_tag tag, uint64_t value);
void launch_put_volume(struct buf *b, const struct launch_volume *v);
void launch_put_tmpfs(struct buf *b, const struct launch_tmpfs *t);
void launch_put_io(struct buf *b, const struct launch_io *io);
void launch_put_rlimit(struct buf *b, const struct launch_rlimit *r);
void launch_put_host(struct buf *b, const struct launch_host *h);
void launch_put_net(struct buf *b, const struct launch_net *n);
void launch_put_counter(struct buf *b, const struct launch_counter *c);
void launch_put_bind(struct buf *b, const struct address *a, bool udp);
int launch_end(struct buf *b);
