#pragma once

/*
 * The protocol of the worker `rind-rootfs`, which unpacks, splits and packs archives for the
 * supervisor. SEQPACKET messages of one layout, encoded and decoded by worker-proto.c on both
 * sides. Input of the worker is hostile.
 *
 * The launcher (in tests rootfs-builder/jail.h) executes
 *
 *   rind-rootfs worker PARENTS
 *
 * as user 0 of a user namespace that maps 0..65535 to the ids of the tree, in new mount, pid (as
 * pid 1), net, ipc, uts and cgroup namespaces, with an empty environment, an empty root directory,
 * and only these file descriptors:
 *
 *   WORKER_FD_CONTROL  one end of a SOCK_SEQPACKET pair
 *   WORKER_FD_TREE     the directory to work on: root of a detached mount of it alone (open_tree
 *                      with OPEN_TREE_CLONE), so `..` leads nowhere; nosuid, nodev, read-only
 *                      for PACK, CHANGES and SIZE. O_RDONLY or O_PATH
 *   WORKER_FD_OPAQUE   a memfd with paths of opaque directories, relative to the tree ("." is
 *                      the tree itself), each NUL-terminated, WORKER_OPAQUE_MAX bytes at most.
 *                      UNPACK writes it; PACK and CHANGES read it
 *   WORKER_FD_PARENTS  and following: PARENTS directories like WORKER_FD_TREE, read-only: the
 *                      layers below, topmost first. CHANGES: one, all layers as one tree
 *
 * Only the initial user namespace can set or see trusted.overlay.opaque, hence the memfd. The
 * process that sets it opens each path beneath the tree without following links (OPEN_PLAIN).
 *
 * Messages with the supervisor:
 *
 *   START(op, limits, …) + the archive's fd    ->   UNPACK, UNPACK_DIR, SPLIT read it;
 *                                                   PACK, CHANGES write it. A file, pipe or
 *                                                   socket. SIZE has none
 *   <- PROGRESS(bytes, …)                           at most one in WORKER_PROGRESS_MS
 *   <- DONE(result) or FAILED(code, text, entry)    the last message; then the worker exits
 *
 * SPLIT adds, for each entry of the archive, in order:
 *
 *   <- ENTRY(kind, size, name, link)
 *   TAKE + fd, or SKIP                         ->   for WORKER_ENTRY_FILE only; other kinds have
 *                                                   no contents. fd: the file to write them to,
 *                                                   from its current offset
 *   <- STORED(size, digest)                         after TAKE: the contents are written
 *
 * Names are the archive's ("./a//b", "/etc", "../x"): bytes, checked for their length only.
 *
 * DONE and STORED, with their digests, come from the worker's one process that parses nothing, and
 * can be trusted. Names, sizes of entries and counts come from a process that a hostile archive may
 * have taken over. That process never holds the fds of START or TAKE.
 *
 * The tree is complete when the worker has exited (DONE alone does not suffice). It is not synced;
 * the process that commits it does that. EOF without DONE or FAILED is a failure. To cancel, close
 * the socket.
 *
 * The digest of UNPACK is that of the unpacked bytes: the layer's diff id. The tree must not be
 * used before the digest is compared.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum {
    WORKER_FD_CONTROL = 3,
    WORKER_FD_TREE,
    WORKER_FD_OPAQUE,
    WORKER_FD_PARENTS,

    WORKER_PARENTS_MAX = 128,
    WORKER_OPAQUE_MAX = 1 << 20, /* bytes */
    WORKER_PATH_MAX = 4095,      /* bytes of a name or link target */
    WORKER_NAME_MAX = 255,       /* bytes of a component */
    WORKER_PROGRESS_MS = 100,
    WORKER_SIZE_MS = 5000, /* the longest walk of SIZE */
    WORKER_DIGEST = 32,    /* bytes of a SHA-256 */
    WORKER_WINDOW_LOG_MAX = 27,
    WORKER_VERSION = 1,
};

enum worker_type {
    WORKER_INVALID = 0,
    /* supervisor to worker */
    WORKER_START,
    WORKER_TAKE,
    WORKER_SKIP,
    /* worker to supervisor */
    WORKER_PROGRESS = 64,
    WORKER_ENTRY,
    WORKER_STORED,
    WORKER_DONE,
    WORKER_FAILED,
};

enum worker_op {
    WORKER_OP_INVALID = 0,
    WORKER_UNPACK,     /* a layer: with whiteouts, over its parents */
    WORKER_UNPACK_DIR, /* a plain tree; names with .wh. are ordinary */
    WORKER_SPLIT,
    WORKER_PACK,
    WORKER_CHANGES, /* lists changes in an upper directory: records of rootfs-builder/changes.h */
    WORKER_SIZE,    /* adds up the disk space of a tree (rootfs-builder/tree-size.h); no archive */
    WORKER_OP_MAX,
};

enum worker_flags {
    /* START of UNPACK: there is no layer below. Whiteouts are ignored. */
    WORKER_BOTTOM = 1 << 0,
    /*
     * START of PACK: the tree is an overlay's upper directory or a layer, so 0/0 devices and opaque
     * directories become .wh. entries. Without this flag 0/0 devices are left out.
     */
    WORKER_OVERLAY = 1 << 1,
    /*
     * START of PACK: adds an entry "./" for the directory itself. UNPACK and UNPACK_DIR always
     * accept such an entry.
     */
    WORKER_ROOT_ENTRY = 1 << 2,
    /*
     * DONE of UNPACK: the tree depends on the layers below (a hard link to a file there, a
     * directory without an entry; with WORKER_BOTTOM: a whiteout). It can be used for this chain of
     * layers only.
     */
    WORKER_OF_PARENTS = 1 << 3,
    /*
     * START of UNPACK and UNPACK_DIR: all files belong to the worker's user 0, for a namespace
     * without other ids.
     */
    WORKER_KEEP_OWNER = 1 << 4,
    /* DONE of SIZE: entries, time or depth have reached their bound, and the rest is not counted.
     */
    WORKER_PARTIAL = 1 << 5,
};

enum worker_compression {
    WORKER_PLAIN = 0,
    WORKER_GZIP,
    WORKER_ZSTD,
    WORKER_COMPRESSION_MAX,
};

enum worker_entry {
    WORKER_ENTRY_INVALID = 0,
    WORKER_ENTRY_FILE,
    WORKER_ENTRY_HARD_LINK,
    WORKER_ENTRY_SYMBOLIC,
    WORKER_ENTRY_DIRECTORY,
    WORKER_ENTRY_OTHER,
    WORKER_ENTRY_MAX,
};

/* Fields not listed for a message are 0 or "". */
struct worker_msg {
    enum worker_type type;
    uint32_t flags; /* START, DONE: enum worker_flags */
    uint32_t op;    /* START: enum worker_op */
    uint32_t kind;  /* START of PACK, DONE: enum worker_compression (of the archive); ENTRY: enum
                       worker_entry */
    int32_t code;   /* FAILED: negative errno */
    /* START: limits; 0 means none allowed, not "no limit". DONE and PROGRESS: counts. */
    uint64_t bytes; /* bytes of the uncompressed tar stream, or of the records. ENTRY, STORED: bytes
                       of the contents */
    uint64_t files; /* sum of the sizes of regular files, including holes. DONE of SIZE: bytes on
                       disk */
    uint64_t entries; /* entries of the archive; UNPACK: plus directories without an entry */
    uint64_t packed;  /* DONE, PROGRESS: of the archive as read or written */
    uint64_t devices; /* DONE: device nodes (PACK: and sockets) left out */
    uint64_t xattrs;  /* DONE: extended attributes left out */
    uint8_t digest[WORKER_DIGEST];        /* DONE: of the tar stream; STORED: of the contents */
    uint8_t packed_digest[WORKER_DIGEST]; /* DONE of PACK: digest of the archive as written */
    /*
     * ENTRY: its name. FAILED: the entry at fault, or "". START of PACK: the directory beneath the
     * tree to pack, "" for all; its links are followed inside the tree.
     */
    char name[WORKER_PATH_MAX + 1];
    /*
     * ENTRY: link target. FAILED: the cause, one line. START of PACK: prefix of each name ("", or
     * "dir/"; the directory's own entry is then "dir/").
     */
    char text[WORKER_PATH_MAX + 1];
};

/* Size of the longest message in bytes. */
enum { WORKER_MSG_MAX = 160 + 2 * WORKER_PATH_MAX };

/* Returns the size; -EINVAL if worker_msg_decode would refuse the message. */
ssize_t worker_msg_encode(const struct worker_msg *m, uint8_t out[WORKER_MSG_MAX]);
/* Decodes one message, all of `in`. Every field is checked: -EPROTO with the reason. Pure. */
int worker_msg_decode(const void *in, size_t len, struct worker_msg *ret, struct err *err);

/*
 * Transfers one message over a socket, with fd unless it is negative. worker_msg_recv returns 1
 * with a message and its fd in *ret_fd (CLOEXEC; FD_NONE if none; more than one is -EPROTO), 0 at
 * the end of the stream. Negative errno; -EAGAIN if the socket is non-blocking.
 */
int worker_msg_send(int sock, const struct worker_msg *m, int fd, struct err *err);
int worker_msg_recv(int sock, struct worker_msg *ret, int *ret_fd, struct err *err);
