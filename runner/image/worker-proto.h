#pragma once

/*
 * What the worker `rind-rootfs` says and hears: it unpacks, splits and packs archives for the
 * supervisor, and trusts nothing that it reads. SEQPACKET messages of one layout, encoded and
 * decoded by worker-proto.c on both sides.
 *
 * Who starts it (the launcher, or tests by rootfs-builder/jail.h) executes
 *
 *   rind-rootfs worker PARENTS
 *
 * as user 0 of a user namespace that maps 0..65535 to the ids of the tree, in new mount, pid (it is
 * pid 1), net, ipc, uts and cgroup namespaces, with an empty environment, an empty root directory,
 * and these descriptors alone:
 *
 *   WORKER_FD_CONTROL  one end of a SOCK_SEQPACKET pair
 *   WORKER_FD_TREE     the directory that it works on: the root of a detached mount of just that
 *                      directory (open_tree with OPEN_TREE_CLONE), nosuid and nodev, read-only for
 *                      PACK and CHANGES: so `..` leads nowhere. O_RDONLY or O_PATH
 *   WORKER_FD_OPAQUE   a memfd. UNPACK writes the paths of opaque directories to it, PACK and
 *                      CHANGES find those of its tree in it: relative to the tree ("." for itself),
 * each behind the other with a NUL at its end, WORKER_OPAQUE_MAX bytes at most. Only the first user
 * namespace can set or see trusted.overlay.opaque; whoever sets it opens each path beneath the tree
 * and through no link (OPEN_PLAIN) WORKER_FD_PARENTS  and on: PARENTS directories as
 * WORKER_FD_TREE, read-only: what lies below the layer, the next one first. CHANGES: one, all of
 * that as one tree
 *
 * Then, with the supervisor:
 *
 *   START(op, limits, …) + the archive's fd    ->   UNPACK, UNPACK_DIR, SPLIT: read from it;
 *                                                   PACK, CHANGES: written to it. A file, pipe or
 *                                                   socket
 *   <- PROGRESS(bytes, …)                           at most one each WORKER_PROGRESS_MS
 *   <- DONE(result) or FAILED(code, text, entry)    the last message; then it ends
 *
 * SPLIT has, for each entry of the archive, in its order:
 *
 *   <- ENTRY(kind, size, name, link)
 *   TAKE + fd, or SKIP                         ->   for WORKER_ENTRY_FILE alone, no other has
 *                                                   contents. fd: the file to write them to,
 *                                                   from its present offset
 *   <- STORED(size, digest)                         after TAKE: all of it is written
 *
 * Names are as the archive has them ("./a//b", "/etc", "../x"): bytes, not checked beyond their
 * length.
 *
 * DONE and STORED, and the digests in them, come from the one process of the worker that parses
 * nothing; names, sizes of entries and counts come from one that does: a hostile archive may have
 * taken it over, and then they are lies. It never holds the descriptors of START or TAKE. The tree
 * is complete when the worker has ended (not only said DONE), and not synced: that is for whoever
 * gives it its name. EOF without DONE or FAILED is a failure. To cancel: close the socket.
 *
 * The digest of UNPACK is that of the bytes that were unpacked: the layer's diff id. What is in the
 * tree means nothing before it has been compared.
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
    WORKER_PATH_MAX = 4095,      /* bytes of a name or a link's target */
    WORKER_NAME_MAX = 255,       /* bytes of a component */
    WORKER_PROGRESS_MS = 100,
    WORKER_DIGEST = 32, /* bytes of a SHA-256 */
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
    WORKER_UNPACK_DIR, /* a plain tree: names with .wh. are nothing special */
    WORKER_SPLIT,
    WORKER_PACK,
    WORKER_CHANGES, /* what an upper directory changes: records of rootfs-builder/changes.h */
    WORKER_OP_MAX,
};

enum worker_flags {
    /* START of UNPACK: nothing lies below this layer. Whiteouts then make nothing. */
    WORKER_BOTTOM = 1 << 0,
    /* START of PACK: an overlay's upper directory or a layer: 0/0 devices and opaque directories
     * become .wh. entries. Without it 0/0 devices are left out. */
    WORKER_OVERLAY = 1 << 1,
    /* START of PACK: with an entry "./" for the directory itself. START of UNPACK and UNPACK_DIR
     * take such an entry always. */
    WORKER_ROOT_ENTRY = 1 << 2,
    /* DONE of UNPACK: what was made depends on what lies below the layer (a hard link to a file
     * there, a directory that the archive has no entry for; with WORKER_BOTTOM: a whiteout), so it
     * is good for this chain of layers alone. */
    WORKER_OF_PARENTS = 1 << 3,
    /* START of UNPACK and UNPACK_DIR: all files are left to the worker's user 0, for a namespace
     * that has no other ids. */
    WORKER_KEEP_OWNER = 1 << 4,
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

/* Fields that a message does not name are 0 and "". */
struct worker_msg {
    enum worker_type type;
    uint32_t flags; /* START, DONE: enum worker_flags */
    uint32_t op;    /* START: enum worker_op */
    uint32_t kind;  /* START of PACK, DONE: enum worker_compression (of the archive); ENTRY: enum
                       worker_entry */
    int32_t code;   /* FAILED: negative errno */
    /* START: 0 is not "no limit", it is none at all. DONE and PROGRESS: how many there were. */
    uint64_t bytes;   /* of the tar stream, uncompressed, or of the records. ENTRY, STORED: of the
                         contents */
    uint64_t files;   /* sum of the sizes of regular files, holes and all */
    uint64_t entries; /* of the archive; UNPACK: directories that had none, too */
    uint64_t packed;  /* DONE, PROGRESS: of the archive as it was read or written */
    uint64_t devices; /* DONE: device nodes (PACK: and sockets) left out */
    uint64_t xattrs;  /* DONE: extended attributes left out */
    uint8_t digest[WORKER_DIGEST];        /* DONE: of the tar stream; STORED: of the contents */
    uint8_t packed_digest[WORKER_DIGEST]; /* DONE of PACK: of the archive as it was written */
    char name[WORKER_PATH_MAX + 1]; /* ENTRY. FAILED: the entry at fault, or "". START of PACK: the
                                       directory beneath the tree to pack, "" for all; links in it
                                       are followed inside the tree */
    char text[WORKER_PATH_MAX + 1]; /* ENTRY: target of a link. FAILED: what went wrong, one line.
                                       START of PACK: what stands in front of each name ("", or
                                       "dir/"; the directory's own entry is then "dir/") */
};

/* Bytes of the longest message. */
enum { WORKER_MSG_MAX = 160 + 2 * WORKER_PATH_MAX };

/* Returns the size; -EINVAL when the message is not one that worker_msg_decode takes. */
ssize_t worker_msg_encode(const struct worker_msg *m, uint8_t out[WORKER_MSG_MAX]);
/* The whole of `in` is one message. -EPROTO with the reason: every field is checked. Pure. */
int worker_msg_decode(const void *in, size_t len, struct worker_msg *ret, struct err *err);

/*
 * One message over a socket, with fd when it is not negative. worker_msg_recv: 1 with a message,
 * and in *ret_fd the descriptor that came with it (CLOEXEC; FD_NONE when none did, more than one is
 * -EPROTO), 0 at the end of the stream. Negative errno, -EAGAIN where the socket does not block.
 */
int worker_msg_send(int sock, const struct worker_msg *m, int fd, struct err *err);
int worker_msg_recv(int sock, struct worker_msg *ret, int *ret_fd, struct err *err);
