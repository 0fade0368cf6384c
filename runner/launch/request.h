#pragma once

/*
 * What the supervisor asks of the launcher: one message of typed records. The launcher believes
 * nothing of it: every record is checked here once, for shape, range and character set, and only
 * then becomes a struct launch_request. What only the host can answer (does this source lie beneath
 * an allowed prefix?) is checked where it is opened.
 *
 *   struct launch_wire | record | record | …        record: u16 tag, u16 flags, u32 length, bytes,
 * zero padding to 8
 *
 * Records are added, never changed: an unknown tag is refused, so that an old launcher cannot
 * silently leave out what a new supervisor asks for.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/buf.h"
#include "policy/net-rule.h"

struct err;

enum {
    LAUNCH_MAGIC = 0x4c444e52, /* "RNDL" */
    LAUNCH_VERSION = 1,
    LAUNCH_SIZE_MAX = 512 << 10, /* bytes of one request; it travels in a sealed memfd */
    LAUNCH_ID_MAX = 63,
    LAUNCH_ALIASES_MAX = 511, /* bytes of all names beside the host name */
    LAUNCH_LAYERS_MAX = 128,
    LAUNCH_LAYER_NAME = 64, /* hexadecimal digits */
    LAUNCH_VOLUMES_MAX = 64,
    LAUNCH_TMPFS_MAX = 32,
    LAUNCH_PATHS_MAX = 256, /* masked, and read-only, each (after expansion) */
    LAUNCH_RLIMITS_MAX = 16,
    LAUNCH_PATH_MAX = 4095,
    LAUNCH_HOSTNAME_MAX = 63,
    LAUNCH_USER_MAX = 511, /* two names and a colon */
    LAUNCH_BPF_MAX = 4096,
    LAUNCH_HOSTS_MAX = 16,       /* further lines of /etc/hosts */
    LAUNCH_CLOSED_MAX = 2 << 20, /* bytes of LAUNCH_CLOSED's list */
    LAUNCH_REPLY_FDS_MAX = 16,   /* descriptors that come with an answer */
};

enum launch_verb {
    LAUNCH_VERB_INVALID = 0,
    LAUNCH_START,   /* makes and starts a sandbox: replies with its pidfd and control socket */
    LAUNCH_KILL,    /* as LAUNCH_END, and replies with init's pidfd, for who has none */
    LAUNCH_RELEASE, /* removes what is left of an ended sandbox: cgroups, files, id range */
    LAUNCH_STOP, /* of an ended, kept sandbox: removes the cgroups; files and id range stay its own.
                    May reply with the pidfd of a process: once that has ended, they are synced, and
                    it can be started again; -EBUSY before */
    LAUNCH_FREEZE, /* stops the users' processes where they are; -EAGAIN: ask again */
    LAUNCH_THAW,
    LAUNCH_STATS,   /* replies with counters of the cgroups */
    LAUNCH_ADOPT,   /* of a kept sandbox whose init lives: replies as LAUNCH_START; -ESRCH when it
                       does not */
    LAUNCH_LIST,    /* replies with a memfd of the ids of all kept sandboxes, NUL-terminated each */
    LAUNCH_CONNECT, /* replies with TAG_COUNT TCP sockets of its net namespace, perhaps fewer, one
                       at least; not connected, non-blocking */
    LAUNCH_END,     /* kills every process of a sandbox; init's death says that they are gone */
    LAUNCH_LISTEN,  /* replies with a socket that is bound to TAG_BIND, non-blocking; TCP: it
                       listens.  With TAG_ID, TCP alone: inside, on the sandbox's loopback */
    LAUNCH_CERTIFICATE, /* replies with memfds of the gateway's certificate chain and key */
    LAUNCH_EGRESS,      /* puts what it sends under control, or again with another TAG_EGRESS, also
                           while it runs, or out of it; replies
                           with the listener and the datagram socket of TAG_FAMILY inside */
    LAUNCH_DIAL,        /* replies with a socket that is connected, or connecting, to TAG_HANDLER */
    LAUNCH_RESOLVER,    /* the same to the TAG_INDEX'th name server of the host's */
    LAUNCH_OVER,        /* replies with a socket on which the kernel tells who is over his bounds of
                           connections (net/over.h); -EBUSY: another process has it */
    /* Layers of images (layers.c, worker.c). */
    LAUNCH_WORKER, /* starts a worker of TAG_WORKER's kind: replies with its pidfd and the socket
                      to it (image/worker-proto.h) */
    LAUNCH_LAYER_COMMIT, /* the tree that the worker TAG_ID has made, and who has ended, becomes the
                            layer TAG_IMAGE_LAYER, of TAG_BYTES; -EAGAIN: ask again */
    LAUNCH_LAYER_DROP,   /* forgets the worker TAG_ID, ends it, and removes what it has made */
    LAUNCH_LAYER_REMOVE, /* removes the layer TAG_IMAGE_LAYER */
    LAUNCH_LAYER_LIST,   /* replies with a memfd: for each layer "NAME BYTES" and a NUL */
    LAUNCH_VOLUME_MAKE,  /* of TAG_VOLUME_NAME, TAG_META, perhaps TAG_DISK: volume.h */
    LAUNCH_VOLUME_WRITE, /* the same of one that is there */
    LAUNCH_VOLUME_READ,  /* replies with a memfd of its record */
    LAUNCH_VOLUME_REMOVE,
    LAUNCH_VOLUME_LIST, /* replies with a memfd of the names of all, NUL-terminated each */
    LAUNCH_VOLUME_FILL, /* layers or root_dir, perhaps of TAG_SANDBOX, or TAG_VOLUME_NAME, and one
                           TAG_NAMED_VOLUME: replies with a process's
                           pidfd and the pipe of its report, or with nothing where nothing is to do
                         */
    LAUNCH_PROCESSES,   /* replies with a memfd of struct launch_process, one each */
    LAUNCH_CLOSED,      /* replies with a memfd of the sandboxes whose network is closed, as its
                           rules could not be put back: id and reason, NUL-terminated each; and
                           with an eventfd that is counted up when that has changed */
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
    TAG_ROOT_DIR,     /* string: an absolute host directory, read-only, beneath an allowed prefix */
    TAG_VOLUME,   /* flags: 1 = read-only; u32 uid and u32 gid inside, then source NUL target NUL */
    TAG_TMPFS,    /* u64 bytes, then target NUL */
    TAG_MASKED,   /* string, absolute */
    TAG_READONLY, /* string, absolute */
    TAG_RLIMIT,   /* u64 resource, soft, hard */
    TAG_COUNTER,  /* u64 limit, then the name of a user.max_* counter */
    TAG_FILTER,   /* struct sock_filter[] */
    TAG_FAMILY,   /* u64: 4 or 6, for LAUNCH_CONNECT */
    TAG_USER, /* string: whom volumes' owners are mapped to instead of their numbers, looked up in
                 the image */
    TAG_NET,  /* u64: enum launch_net_flags */
    TAG_NET_RULE, /* struct net_rule */
    TAG_NET_PORT, /* struct net_port: of the host, reachable by the gateway's address */
    TAG_NET_DNS,  /* struct net_addr: name servers instead of the host's */
    TAG_NET_JOIN, /* string: the id of a sandbox whose network it shares */
    TAG_NET_NAME, /* string: of a network whose members reach each other */
    TAG_NET_HOST, /* struct net_addr (family 0: the gateway), then a name NUL: for /etc/hosts */
    TAG_BIND,     /* struct launch_bind, for LAUNCH_LISTEN */
    TAG_UDP,      /* u64: 1 = a datagram socket, for LAUNCH_CONNECT */
    TAG_EGRESS,   /* u64: enum launch_egress */
    TAG_HANDLER,  /* string: policy/egress-handler.h */
    TAG_INDEX,    /* u64 */
    TAG_MARK,     /* u64: 1 = let through by the sandbox's own egress table, for LAUNCH_CONNECT */
    TAG_IMAGE_LAYER,  /* string: the name of a layer of an image; top first, above those of
                         TAG_LAYER */
    TAG_WORKER,       /* u64: enum launch_work */
    TAG_SANDBOX,      /* string: the id of a sandbox, for LAUNCH_WORKER */
    TAG_BYTES,        /* u64: of a layer; LAUNCH_WORKER of one: that it may write at most */
    TAG_NAMED_VOLUME, /* flags: 1 = read-only; a volume's name NUL target NUL */
    TAG_VOLUME_NAME,  /* string */
    TAG_META,         /* bytes: the supervisor's own record of a volume */
    TAG_DISK,  /* u64 bytes: of a file system of its own for the writable layer, or a volume */
    TAG_COUNT, /* u64: how many, for LAUNCH_CONNECT; without it one */
    TAG_NET_ALIASES, /* string: further names, a space between them, by which the members of its
                        named network find it */
    TAG_MAX
};

enum launch_egress {
    LAUNCH_EGRESS_OPEN = 1 << 0,  /* UDP and ICMP may leave, as far as the host's firewall lets them
                                   */
    LAUNCH_EGRESS_TABLE = 1 << 1, /* the table alone, no sockets */
    LAUNCH_EGRESS_NONE = 1 << 2,  /* takes the table away again; alone, and no sockets */
    LAUNCH_EGRESS_ALL = (1 << 3) - 1,
};

enum launch_flags {
    LAUNCH_READ_ONLY = 1 << 0,
    LAUNCH_ATTACHED = 1 << 1, /* ends with its control socket */
    LAUNCH_REAPER = 1 << 2,
    LAUNCH_NO_NEW_PRIVS = 1 << 3,
    LAUNCH_KEEP = 1 << 4,      /* files and ids stay after its end, init after its supervisor's */
    LAUNCH_HOST_ROOT = 1 << 5, /* what the launcher shows of the host, above the layers */
    LAUNCH_FUSE = 1 << 6,      /* /dev/fuse */
    LAUNCH_FLAGS_ALL = (1 << 7) - 1,
};

/* What a worker works on. TAG_ID names the worker, TAG_SANDBOX the sandbox. */
enum launch_work {
    LAUNCH_WORK_INVALID = 0,
    LAUNCH_WORK_STREAM,  /* nothing but streams: SPLIT */
    LAUNCH_WORK_LAYER,   /* UNPACK: a new tree, above the layers TAG_IMAGE_LAYER */
    LAUNCH_WORK_IMAGE,   /* PACK: the layers TAG_IMAGE_LAYER as one tree */
    LAUNCH_WORK_UPPER,   /* PACK: the writable layer of a kept sandbox, which stands still */
    LAUNCH_WORK_ROOT,    /* PACK: the root of a kept sandbox: TAG_IMAGE_LAYER and TAG_LAYER, and its
                            writable layer on top */
    LAUNCH_WORK_CHANGES, /* CHANGES: the writable layer of a kept sandbox, and what LAUNCH_WORK_ROOT
                            has without it */
    LAUNCH_WORK_MAX
};

enum launch_net_flags {
    LAUNCH_NET_LINK = 1 << 0, /* a link to the host: whatever it may reach */
    LAUNCH_NET_INTERNET = 1 << 1,
    LAUNCH_NET_ADMIN = 1 << 2, /* those inside who have CAP_NET_ADMIN and CAP_NET_RAW have them over
                                  its net namespace; without a link, too */
    LAUNCH_NET_FLAGS_ALL = (1 << 3) - 1,
};

struct launch_wire {
    uint32_t magic;
    uint16_t version, verb;
    uint32_t size; /* of the whole message */
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
    bool named; /* source is a volume's name, and the ids count for nothing */
};

struct launch_tmpfs {
    const char *target;
    uint64_t bytes;
};

struct launch_rlimit {
    uint64_t resource, soft, hard;
};

struct launch_counter {
    const char *name; /* of a fixed table: "max_inotify_instances" */
    uint64_t limit;
};

struct launch_host {
    struct net_addr addr; /* family 0: the gateway's */
    char name[LAUNCH_HOSTNAME_MAX + 1];
};

/* The decoded request. Strings and the filter point into the message, which must outlive it. */
struct launch_request {
    enum launch_verb verb;
    const char *id;
    const char *hostname;
    const char *user; /* NULL = not given */
    uint64_t flags, capabilities;
    int64_t memory, pids, cpu, shm, disk; /* -1 = not given */
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
    int client_fd; /* borrowed; the connection of who asks, which came beside the message; -1 */
    uint64_t net_flags;
    struct net_access net_access;
    struct net_addr net_dns[NET_DNS_MAX];
    size_t net_dns_count;
    const char *net_join, *net_name, *net_aliases;
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

/* Checks and decodes; -EPROTO for what no honest supervisor sends, -EINVAL/-ERANGE/-E2BIG for the
 * rest, always with the record's name. */
int launch_decode(const void *data, size_t len, struct launch_request *ret, struct err *err);

/* Whether text can name a sandbox: [a-z0-9-], 1 to LAUNCH_ID_MAX, no leading dash. */
bool launch_id_ok(const char *id);

/* Building a request: begin, any number of puts, end. A put that fails is remembered and told by
 * launch_end. */
void launch_begin(struct buf *b, enum launch_verb verb);
void launch_put(struct buf *b, enum launch_tag tag, uint16_t flags, const void *data, size_t len);
void launch_put_string(struct buf *b, enum launch_tag tag, const char *text);
void launch_put_number(struct buf *b, enum launch_tag tag, uint64_t value);
void launch_put_volume(struct buf *b, const struct launch_volume *v);
void launch_put_tmpfs(struct buf *b, const struct launch_tmpfs *t);
void launch_put_rlimit(struct buf *b, const struct launch_rlimit *r);
void launch_put_host(struct buf *b, const struct launch_host *h);
void launch_put_counter(struct buf *b, const struct launch_counter *c);
void launch_put_bind(struct buf *b, const struct address *a, bool udp);
int launch_end(struct buf *b);
