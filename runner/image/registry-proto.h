#pragma once

/*
 * The protocol of `rind-registry`, the confined program that talks to image registries. TLS, HTTP
 * and the JSON of registries are parsed in it and nowhere else. One process serves one operation
 * (a pull, a push, a login). It has the network, but neither files nor the store: what it fetches
 * goes to fds that its parent passes. SEQPACKET messages of one layout, encoded and decoded by
 * registry-proto.c on both sides. What registries say is hostile, so the parent checks everything
 * again: every digest, every document, every size.
 *
 * The launcher executes
 *
 *   rind-registry worker
 *
 * with an empty environment and only these file descriptors (a missing file: /dev/null):
 *
 *   REGISTRY_FD_CONTROL  one end of a SOCK_SEQPACKET pair
 *   REGISTRY_FD_CA       the system's bundle of CA certificates, PEM
 *   REGISTRY_FD_RESOLV   /etc/resolv.conf
 *   REGISTRY_FD_HOSTS    /etc/hosts
 *
 * The program confines itself before it reads the first byte of a network (registry/confine.h). It
 * can be started in an empty root and a user namespace of its own, as the worker rind-rootfs is,
 * but in the host's net namespace; if "/" is not empty it makes an empty root by itself, and fails
 * if it cannot. The program is static: it needs no file of the host.
 *
 * Messages with the supervisor. Each request has an id that the parent chooses (not 0, not in use):
 *
 *   JOB + memfd                              ->  the first message, once: see below
 *   <- READY                                     it is confined. Or FAILED with id 0
 *   RESOLVE(id, name, digest?)               ->  finds an image: name is a tag or a digest
 *   <- DOCUMENT(id, kind, digest, …) + memfd     index, manifest and configuration, in this order
 *   <- DONE(id, digest, media_type, size)        of the document that `name` names
 *   FETCH(id, digest, size, offset) + fd     ->  a blob
 *   <- PROGRESS(id, offset)                      bytes that fd has, `offset` included
 *   <- DONE(id, offset)                          all bytes are written
 *   PUSH_BLOB(id, digest, size, name?) + fd  ->  name: a repository of the same host to mount from
 *   <- PROGRESS(id, offset)
 *   <- DONE(id, flags)                           REGISTRY_EXISTS, REGISTRY_MOUNTED or neither
 *   PUSH_MANIFEST(id, name, digest, media_type, size) + fd
 *   <- DONE(id, digest)
 *   LOGIN(id)                                ->  asks the registry whether it takes the credentials
 *   <- DONE(id, text)                            text: with REGISTRY_IDENTITY an identity token,
 *                                                if the registry gives one
 *   TAGS(id)                                 ->  the tags of the repository
 *   <- DONE(id, size) + memfd                    `size` bytes: NUL-terminated tags
 *   CANCEL(id)                               ->  the request ends with FAILED, REGISTRY_CANCELED
 *   <- RETRYING(id, size, text)                  waits `size` seconds, because of `text`
 *   <- FAILED(id, kind, code, status, text)      the other end of any request
 *
 * Every request ends with exactly one DONE or FAILED. At most REGISTRY_REQUESTS_MAX run at a time;
 * a further one fails with -EAGAIN. End of the control socket ends the process at once. A process
 * that dies without an answer is a failure of all its requests.
 *
 * FETCH. fd is O_WRONLY: the partial file, opened with O_APPEND, or a pipe or socket. `offset`
 * bytes are there already; the program asks the registry for the rest. It only appends: where a
 * registry begins again at the first byte, it drops what is there already. It never writes more
 * than size - offset bytes, never reads and never truncates, so the parent can hash the file behind
 * the writer, or read the other end of a pipe. It does not hash blobs: the parent must, and the
 * bytes are unverified until then. After a mismatch the parent discards the file and may ask again
 * with REGISTRY_NO_MIRRORS, as a mirror may be damaged. A blocking fd is right: a full pipe stops
 * the transfer. To end a request that a full pipe blocks, close the read end as well as CANCEL.
 *
 * RESOLVE sends each document as it came, byte by byte, after its digest was compared. With
 * REGISTRY_TOP_ONLY the choice by platform is left out and only what `name` names is sent (and, of
 * a manifest, its configuration). With REGISTRY_HEAD only DONE comes. If `digest` is given and a
 * HEAD request shows that `name` still has it, DONE with REGISTRY_UNCHANGED comes at once;
 * registries do not count that as a pull.
 *
 * PUSH_BLOB, PUSH_MANIFEST. fd is a regular file or memfd, read from byte 0 with pread, or for
 * PUSH_BLOB a pipe, which cannot be sent a second time after a failure. Blobs come before the
 * manifest, manifests before the index that names them.
 *
 * The job is one JSON object (registry/job.h). Only `host` is required:
 *
 *   host         where to connect: "registry-1.docker.io", "10.0.0.1:5000", "[::1]:5000"
 *   shown        its name in messages; default: host
 *   repository   "library/busybox"; missing for LOGIN
 *   push         true: tokens are asked for with the right to push
 *   credential   {"username", "password", "identityToken", "registryToken"}, of `host` alone
 *   platform     {"os", "architecture", "variant"}; default: this machine's
 *   insecure     hosts ("h", "h:port") and CIDRs that may be spoken to without a trusted
 *                certificate and by http; loopback always may by http
 *   mirrors      [{"host", "repository"?, "credential"?, "pull": "all"|"digest-only"|"tag-only"}],
 *                asked in this order before `host`. repository: default: the job's
 *   tls          [{"host", "ca"?, "certificate"?, "key"?}]: PEM texts for this host[:port] alone
 *   proxy        {"http"?, "https"?, "no"?}, as in HTTP_PROXY, HTTPS_PROXY, NO_PROXY
 *   addresses    "any" or "internet" (the default): the addresses that may be connected to
 *   exempt       "host:port" that may have any address, by name; mirrors must be named, too
 *   userAgent    default "rind/VERSION"
 *   limits       {"layers", "imageBytes"}: of the chosen manifest
 *   timing       {"connectMs", "headMs", "idleMs", "floorBytes", "floorMs", "retries", "waitMs"},
 *                for tests; each may only shorten what registry.h has
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "image/manifest.h"
#include "image/reference.h"

struct err;

enum {
    REGISTRY_FD_CONTROL = 3,
    REGISTRY_FD_CA,
    REGISTRY_FD_RESOLV,
    REGISTRY_FD_HOSTS,

    REGISTRY_VERSION = 1,
    REGISTRY_REQUESTS_MAX = 8,
    REGISTRY_JOB_MAX = 4 << 20,  /* bytes of the job */
    REGISTRY_TEXT_MAX = 8191,    /* bytes of a message's text; errors are far shorter */
    REGISTRY_TAGS_MAX = 4 << 20, /* bytes of all tags */
    REGISTRY_PROGRESS_MS = 100,  /* at most one PROGRESS of a request in this time */
};

enum registry_type {
    REGISTRY_INVALID = 0,
    /* parent to program */
    REGISTRY_JOB,
    REGISTRY_RESOLVE,
    REGISTRY_FETCH,
    REGISTRY_PUSH_BLOB,
    REGISTRY_PUSH_MANIFEST,
    REGISTRY_LOGIN,
    REGISTRY_TAGS,
    REGISTRY_CANCEL,
    /* program to parent */
    REGISTRY_READY = 64,
    REGISTRY_DOCUMENT,
    REGISTRY_PROGRESS,
    REGISTRY_RETRYING,
    REGISTRY_DONE,
    REGISTRY_FAILED,
};

enum registry_flags {
    REGISTRY_TOP_ONLY = 1 << 0,   /* RESOLVE */
    REGISTRY_HEAD = 1 << 1,       /* RESOLVE */
    REGISTRY_NO_MIRRORS = 1 << 2, /* RESOLVE, FETCH */
    REGISTRY_UNCHANGED = 1 << 3,  /* DONE of RESOLVE */
    REGISTRY_EXISTS = 1 << 4,     /* DONE of PUSH_BLOB: the registry had it */
    REGISTRY_MOUNTED = 1 << 5,    /* DONE of PUSH_BLOB: mounted from `name` */
    REGISTRY_IDENTITY = 1 << 6,   /* LOGIN: an identity token is wanted */
};

/* kind of DOCUMENT */
enum registry_document {
    REGISTRY_DOCUMENT_INVALID = 0,
    REGISTRY_DOCUMENT_INDEX,
    REGISTRY_DOCUMENT_MANIFEST,
    REGISTRY_DOCUMENT_CONFIG,
    REGISTRY_DOCUMENT_MAX,
};

/* kind of FAILED, for the status that a client gets. `text` says the rest, and names the host. */
enum registry_fault {
    REGISTRY_FAULT_INVALID = 0,
    REGISTRY_NOT_FOUND,    /* no such repository, tag, manifest or blob */
    REGISTRY_UNAUTHORIZED, /* no credentials, or wrong ones */
    REGISTRY_DENIED,       /* the registry refuses */
    REGISTRY_BUSY,         /* too many requests, for longer than the program waits */
    REGISTRY_NO_PLATFORM,  /* the index has no image for the platform */
    REGISTRY_UNSUPPORTED,  /* schema 1, a chart, layers that are elsewhere */
    REGISTRY_DIGEST,       /* bytes with another digest or size than asked for */
    REGISTRY_MALFORMED,    /* an answer that is none of a registry: HTML, no JSON */
    REGISTRY_LIMIT,        /* larger than a limit */
    REGISTRY_CONNECT,      /* no such host, refused connection, time-out, broken off */
    REGISTRY_TLS,          /* an untrusted certificate, or no TLS at all */
    REGISTRY_ADDRESS,      /* an address that may not be connected to; or a scheme */
    REGISTRY_SERVER,       /* any other status of the registry */
    REGISTRY_LOCAL,        /* a failure on this side: memory, the fd (ENOSPC, EPIPE) */
    REGISTRY_CANCELED,
    REGISTRY_FAULT_MAX,
};

/* Fields not listed for a message are 0 or "". */
struct registry_msg {
    enum registry_type type;
    uint32_t id;
    uint32_t flags;  /* enum registry_flags */
    uint32_t kind;   /* DOCUMENT: enum registry_document; FAILED: enum registry_fault */
    int32_t code;    /* FAILED: negative errno */
    uint32_t status; /* FAILED: the HTTP status, or 0 */
    int64_t size, offset;
    char digest[DIGEST_LEN + 1];
    char media_type[MEDIA_TYPE_MAX + 1];
    char name[REFERENCE_NAME_MAX + 1];
    char text[REGISTRY_TEXT_MAX + 1]; /* printable; FAILED, RETRYING: one line */
};

/* Size of the longest message in bytes. */
enum {
    REGISTRY_MSG_MAX = 64 + DIGEST_LEN + MEDIA_TYPE_MAX + REFERENCE_NAME_MAX + REGISTRY_TEXT_MAX,
};

/* Returns the size; -EINVAL if registry_msg_decode would refuse the message. */
ssize_t registry_msg_encode(const struct registry_msg *m, uint8_t out[REGISTRY_MSG_MAX]);
/* Decodes one message, all of `in`. Every field is checked: -EPROTO with the reason. Pure. */
int registry_msg_decode(const void *in, size_t len, struct registry_msg *ret, struct err *err);

/*
 * Transfers one message over a socket, with fd unless it is negative. registry_msg_recv returns 1
 * with a message and its fd in *ret_fd (CLOEXEC; FD_NONE if none; more than one is -EPROTO), 0 at
 * the end of the stream. Negative errno; -EAGAIN if the socket is non-blocking.
 */
int registry_msg_send(int sock, const struct registry_msg *m, int fd, struct err *err);
int registry_msg_recv(int sock, struct registry_msg *ret, int *ret_fd, struct err *err);
