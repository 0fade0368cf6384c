/*
 * P, the main process of the worker: pid 1 of its namespace, so that all its processes are killed
 * when it exits. It parses nothing but the fixed messages of its parts, over sockets and pipes that
 * it has made.
 *
 *   UNPACK   archive -> A -> P (hash, limit) -> B -> tree
 *   SPLIT    archive -> A -> B -> P (hash, size) -> the supervisor's files
 *   PACK     tree -> B -> P (hash) -> A -> P (hash) -> archive; without A if not compressed
 *   SIZE     tree -> B
 *
 * Messages of A and B are not trusted: a hostile archive may have taken them over.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "confine.h"
#include "hash-copy.h"
#include "image/worker-proto.h"
#include "part.h"

enum { PIPE_BYTES = 1 << 20 };

struct worker_part {
    pid_t pid;  /* 0: there is none */
    int report; /* owned; FD_NONE: it has exited */
    bool done;
    bool broke_off; /* this part got EPIPE because the other part has exited, which reports why */
    struct worker_msg result;
};

struct worker {
    struct worker_msg start;
    int control; /* borrowed */
    int archive; /* owned */
    const int *parents;
    size_t parent_count;
    struct shown *shown; /* shared with the parts */
    struct worker_part codec, parser;
    /* [0]: the tar stream. [1]: PACK: the archive; SPLIT: the current file. */
    struct hash_copy hash_copies[2];
    int contents;   /* owned: SPLIT's pipe of contents, while no file is copied */
    uint64_t asked; /* SPLIT: 1 + size of the file that the supervisor must decide about; 0: none */
    /* SPLIT: counted here against the limits, as the parser may be compromised */
    uint64_t entries, files;
    int64_t told_ms;
    struct err err;
    char entry[WORKER_PATH_MAX + 1]; /* the entry that caused the error */
};

/* ---- start ---- */

static int make_pipe(int fds[2], struct err *err)
{
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "a pipe");
    (void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* a smaller pipe is only slower */
    return 0;
}

static int fd_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

typedef void part_fn(const struct part_request *q);

/* Forks a part; closes the child's ends here. */
static int worker_start_part(struct worker *w, struct worker_part *p, part_fn *fn, int in, int out,
                             bool with_tree)
{
    struct part_request q = {
        .start = &w->start,
        .shown = w->shown,
        .in = in,
        .out = out,
        .tree = with_tree ? WORKER_FD_TREE : FD_NONE,
        .opaque = with_tree ? WORKER_FD_OPAQUE : FD_NONE,
        .parents = w->parents,
        .parent_count = with_tree ? w->parent_count : 0,
    };
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(&w->err, -errno, "a socket");
    p->pid = fork();
    if (p->pid == 0) {
        q.report = pair[1];
        fn(&q);
    }
    (void)close(pair[1]);
    if (in >= 0)
        (void)close(in);
    if (out >= 0)
        (void)close(out);
    p->report = pair[0];
    return p->pid < 0 ? err_errno(&w->err, -errno, "fork") : 0;
}

static int start_unpack(struct worker *w)
{
    int raw[2], tar[2], r;

    r = make_pipe(raw, &w->err);
    if (r == 0)
        r = make_pipe(tar, &w->err);
    if (r == 0)
        r = worker_start_part(w, &w->codec, part_codec, take_fd(&w->archive), raw[1], false);
    if (r == 0)
        r = worker_start_part(w, &w->parser, part_unpack, tar[0], FD_NONE, true);
    if (r == 0)
        r = hash_copy_open(&w->hash_copies[0], raw[0], tar[1], w->start.bytes, &w->err);
    w->hash_copies[0].tee = true;
    if (r == 0 && (fd_set_nonblocking(raw[0]) < 0 || fd_set_nonblocking(tar[1]) < 0))
        r = err_errno(&w->err, -errno, "a pipe");
    return r;
}

static int start_split(struct worker *w)
{
    int tar[2], contents[2], r;

    r = make_pipe(tar, &w->err);
    if (r == 0)
        r = make_pipe(contents, &w->err);
    if (r == 0)
        r = worker_start_part(w, &w->codec, part_codec, take_fd(&w->archive), tar[1], false);
    if (r == 0)
        r = worker_start_part(w, &w->parser, part_split, tar[0], contents[1], false);
    w->contents = contents[0];
    return r == 0 && fd_set_nonblocking(contents[0]) < 0 ? err_errno(&w->err, -errno, "a pipe") : r;
}

/* Starts a part that writes the archive, plain or through the codec. */
static int worker_start_packing(struct worker *w, part_fn *fn)
{
    int tar[2], raw[2], packed[2], r;

    r = make_pipe(tar, &w->err);
    if (r == 0)
        r = worker_start_part(w, &w->parser, fn, FD_NONE, tar[1], true);
    if (r == 0 && fd_set_nonblocking(tar[0]) < 0)
        r = err_errno(&w->err, -errno, "a pipe");
    if (r < 0)
        return r;
    if (w->start.kind == WORKER_PLAIN) {
        r = hash_copy_open(&w->hash_copies[0], tar[0], take_fd(&w->archive), w->start.bytes,
                           &w->err);
        w->hash_copies[0].to_blocks = true;
        return r;
    }
    r = make_pipe(raw, &w->err);
    if (r == 0)
        r = make_pipe(packed, &w->err);
    if (r == 0)
        r = worker_start_part(w, &w->codec, part_codec, raw[0], packed[1], false);
    if (r == 0)
        r = hash_copy_open(&w->hash_copies[0], tar[0], raw[1], w->start.bytes, &w->err);
    if (r == 0)
        r = hash_copy_open(&w->hash_copies[1], packed[0], take_fd(&w->archive), UINT64_MAX,
                           &w->err);
    w->hash_copies[1].to_blocks = true;
    if (r == 0 && (fd_set_nonblocking(raw[1]) < 0 || fd_set_nonblocking(packed[0]) < 0))
        r = err_errno(&w->err, -errno, "a pipe");
    return r;
}

static bool worker_is_packing(const struct worker *w)
{
    return w->start.op == WORKER_PACK || w->start.op == WORKER_CHANGES;
}

static int worker_start(struct worker *w)
{
    switch (w->start.op) {
    case WORKER_UNPACK:
    case WORKER_UNPACK_DIR:
        return start_unpack(w);
    case WORKER_SPLIT:
        return start_split(w);
    case WORKER_PACK:
        return worker_start_packing(w, part_pack);
    case WORKER_CHANGES:
        if (w->parent_count == 0)
            return err_set(&w->err, -EPROTO, "nothing that could have been changed");
        return worker_start_packing(w, part_changes);
    case WORKER_SIZE:
        return worker_start_part(w, &w->parser, part_size, FD_NONE, FD_NONE, true);
    default:
        return err_set(&w->err, -EPROTO, "an operation that is not known");
    }
}

/* ---- messages of the parts ---- */

static int part_failed(struct worker *w, const struct worker_msg *m)
{
    (void)snprintf(w->entry, sizeof(w->entry), "%s", m->name);
    return err_set(&w->err, m->code, "%s", m->text);
}

/* A part has exited without DONE or FAILED. */
static int part_died(struct worker *w, const struct worker_part *p, const char *name)
{
    int status = 0;

    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) /* only the OOM killer can send it */
        return err_set(&w->err, -ENOMEM, "the %s was killed for want of memory", name);
    if (WIFSIGNALED(status))
        return err_set(&w->err, -ECHILD, "the %s was ended by signal %d", name, WTERMSIG(status));
    return err_set(&w->err, -ECHILD, "the %s ended without a result", name);
}

static int part_entry(struct worker *w, const struct worker_msg *m)
{
    int r;

    if (w->start.op != WORKER_SPLIT || w->asked > 0 || w->hash_copies[1].buf != NULL ||
        w->entries == w->start.entries || m->bytes > w->start.files - w->files)
        return err_set(&w->err, -EPROTO, "the parser says what it must not");
    w->entries++;
    w->files += m->bytes;
    r = worker_msg_send(w->control, m, FD_NONE, &w->err);
    if (r == 0 && m->kind == WORKER_ENTRY_FILE)
        w->asked = m->bytes + 1;
    return r;
}

static int on_part_message(struct worker *w, struct worker_part *p, const char *name)
{
    struct worker_msg m;
    int fd = FD_NONE, r;

    r = worker_msg_recv(p->report, &m, &fd, &w->err);
    if (fd >= 0)
        (void)close(fd);
    if (r == 0) {
        (void)close(take_fd(&p->report));
        return p->done || p->broke_off ? 0 : part_died(w, p, name);
    }
    if (r < 0)
        return r == -ECONNRESET ? part_died(w, p, name) : r;
    if (m.type == WORKER_FAILED && m.code == -EPIPE && p == &w->codec && !p->done) {
        p->broke_off = true;
        return 0;
    }
    if (m.type == WORKER_FAILED && !p->done)
        return part_failed(w, &m);
    if (m.type == WORKER_ENTRY && p == &w->parser)
        return part_entry(w, &m);
    if (m.type != WORKER_DONE || p->done)
        return err_set(&w->err, -EPROTO, "the %s says what it must not", name);
    p->done = true;
    p->result = m;
    return 0;
}

/* Handles a message of the supervisor: its decision about a file, or EOF. */
static int on_supervisor_message(struct worker *w)
{
    auto_close int fd = FD_NONE;
    struct worker_msg m;
    uint64_t size = w->asked - 1;
    int r;

    r = worker_msg_recv(w->control, &m, &fd, &w->err);
    if (r == 0)
        return err_set(&w->err, -ECANCELED, "cancelled");
    if (r < 0)
        return r;
    if (w->asked == 0 || !((m.type == WORKER_TAKE && fd >= 0) || (m.type == WORKER_SKIP && fd < 0)))
        return err_set(&w->err, -EPROTO, "the supervisor says what it must not");
    w->asked = 0;
    if (m.type == WORKER_TAKE) {
        r = hash_copy_open(&w->hash_copies[1], take_fd(&w->contents), take_fd(&fd), size, &w->err);
        w->hash_copies[1].exact = w->hash_copies[1].to_blocks = true;
        w->hash_copies[1].ended = size == 0;
    }
    return r < 0 ? r : worker_msg_send(w->parser.report, &m, FD_NONE, &w->err);
}

/* ---- streams ---- */

/* Closes the reader's pipe only if the writer has confirmed the end with DONE. */
static void lane_pass_eof(struct hash_copy *l, const struct worker_part *source)
{
    if (l->ended && source->done && l->to >= 0)
        (void)close(take_fd(&l->to));
}

static int worker_finish_file(struct worker *w)
{
    struct worker_msg m = {.type = WORKER_STORED, .bytes = w->hash_copies[1].count};

    if (w->hash_copies[1].count != w->hash_copies[1].max)
        return 0; /* the parser has exited early, and reports why */
    hash_copy_digest(&w->hash_copies[1], m.digest);
    w->contents = take_fd(&w->hash_copies[1].from);
    hash_copy_close(&w->hash_copies[1]);
    return worker_msg_send(w->control, &m, FD_NONE, &w->err);
}

static int move_streams(struct worker *w)
{
    int r = hash_copy_move(&w->hash_copies[0], &w->err);

    if (r == 0)
        r = hash_copy_move(&w->hash_copies[1], &w->err);
    if (r < 0)
        return r;
    if (w->start.op == WORKER_SPLIT && w->hash_copies[1].ended)
        return worker_finish_file(w);
    lane_pass_eof(&w->hash_copies[0], worker_is_packing(w) ? &w->parser : &w->codec);
    if (worker_is_packing(w))
        lane_pass_eof(&w->hash_copies[1], &w->codec);
    return 0;
}

static uint64_t bytes_so_far(const struct worker *w)
{
    return w->start.op == WORKER_SPLIT ? w->parser.result.bytes : w->hash_copies[0].count;
}

static uint64_t packed_so_far(const struct worker *w)
{
    if (!worker_is_packing(w))
        return w->shown->packed;
    return w->start.kind == WORKER_PLAIN ? w->hash_copies[0].count : w->hash_copies[1].count;
}

static int worker_send_progress(struct worker *w)
{
    struct worker_msg m = {.type = WORKER_PROGRESS, .entries = w->shown->entries};
    int64_t now = clock_mono_ms();

    if (now - w->told_ms < WORKER_PROGRESS_MS)
        return 0;
    w->told_ms = now;
    m.bytes = bytes_so_far(w);
    m.packed = packed_so_far(w);
    return worker_msg_send(w->control, &m, FD_NONE, &w->err);
}

/* ---- the loop ---- */

static bool worker_is_finished(const struct worker *w)
{
    return (w->codec.pid == 0 || w->codec.done) && w->parser.done &&
           (w->hash_copies[0].buf == NULL ||
            (w->hash_copies[0].ended && w->hash_copies[0].at == w->hash_copies[0].len)) &&
           (w->hash_copies[1].buf == NULL ||
            (w->hash_copies[1].ended && w->hash_copies[1].at == w->hash_copies[1].len));
}

/* Reads the codec's message first: if both failed, the parser's error is a consequence. */
static int worker_receive_parts(struct worker *w, bool codec, bool parser)
{
    int r = codec ? on_part_message(w, &w->codec, "decompressor") : 0;

    return r < 0 || !parser ? r : on_part_message(w, &w->parser, "parser");
}

static int worker_turn(struct worker *w)
{
    struct pollfd p[5] = {
        {.fd = w->control, .events = POLLIN},
        {.fd = w->codec.report, .events = POLLIN},
        /* The parser's messages wait while the supervisor decides or contents are copied. */
        {.fd = w->asked > 0 || (w->start.op == WORKER_SPLIT && w->hash_copies[1].buf != NULL &&
                                !w->hash_copies[1].broken && !w->hash_copies[1].ended)
                   ? FD_NONE
                   : w->parser.report,
         .events = POLLIN},
    };
    nfds_t n = 3;
    int r;

    n += hash_copy_poll(&w->hash_copies[0], &p[n]);
    n += hash_copy_poll(&w->hash_copies[1], &p[n]);
    if (poll(p, n, -1) < 0)
        return errno == EINTR ? 0 : err_errno(&w->err, -errno, "poll");
    r = worker_receive_parts(w, p[1].revents != 0, p[2].revents != 0);
    if (r == 0 && p[0].revents != 0)
        r = on_supervisor_message(w);
    if (r == 0)
        r = move_streams(w);
    return r < 0 ? r : worker_send_progress(w);
}

/* The parser may have failed at the end of a stream that the decompressor has cut off: then the
 * decompressor's error is reported. */
static int worker_find_cause(struct worker *w, int r)
{
    struct err first = w->err;
    struct pollfd p = {.fd = w->codec.report, .events = POLLIN};
    struct worker_msg m;
    int fd = FD_NONE;

    if (w->codec.pid == 0 || w->codec.done || w->codec.report < 0 || r != -EBADMSG ||
        poll(&p, 1, 0) <= 0 || worker_msg_recv(w->codec.report, &m, &fd, &w->err) <= 0 ||
        m.type != WORKER_FAILED || m.code == -EPIPE) {
        w->err = first;
        return r;
    }
    return part_failed(w, &m);
}

static int worker_send_result(struct worker *w, int r)
{
    struct worker_msg m = {.type = WORKER_FAILED, .code = r};

    if (r < 0) {
        (void)snprintf(m.name, sizeof(m.name), "%s", w->entry);
        (void)snprintf(m.text, sizeof(m.text), "%s", w->err.msg);
        (void)worker_msg_send(w->control, &m, FD_NONE, NULL);
        return 1;
    }
    m = w->parser.result;
    m.type = WORKER_DONE;
    m.name[0] = m.text[0] = '\0';
    m.flags &= w->start.op == WORKER_SIZE ? WORKER_PARTIAL : WORKER_OF_PARENTS;
    m.kind = worker_is_packing(w) ? w->start.kind : w->codec.result.kind;
    m.bytes = bytes_so_far(w);
    m.packed = packed_so_far(w);
    (void)memset(m.digest, 0, sizeof(m.digest));
    (void)memset(m.packed_digest, 0, sizeof(m.packed_digest));
    if (w->start.op != WORKER_SPLIT && w->start.op != WORKER_SIZE)
        hash_copy_digest(&w->hash_copies[0], m.digest);
    if (worker_is_packing(w))
        hash_copy_digest(&w->hash_copies[w->start.kind == WORKER_PLAIN ? 0 : 1], m.packed_digest);
    return worker_msg_send(w->control, &m, FD_NONE, NULL) < 0;
}

static int worker_run(struct worker *w)
{
    const int keep[] = {w->control,
                        w->codec.report,
                        w->parser.report,
                        w->contents,
                        w->hash_copies[0].from,
                        w->hash_copies[0].to,
                        w->hash_copies[1].from,
                        w->hash_copies[1].to};
    int r;

    r = confine_descriptors(keep, sizeof(keep) / sizeof(keep[0]), &w->err);
    if (r == 0)
        r = confine(ROLE_KEEPER, NULL, UINT64_MAX, &w->err);
    while (r == 0 && !worker_is_finished(w))
        r = worker_turn(w);
    return r;
}

static int worker_receive_start(struct worker *w)
{
    int r = worker_msg_recv(w->control, &w->start, &w->archive, &w->err);

    if (r == 0)
        return err_set(&w->err, -ECANCELED, "cancelled");
    if (r < 0)
        return r;
    if (w->start.type != WORKER_START || (w->archive < 0) != (w->start.op == WORKER_SIZE))
        return err_set(&w->err, -EPROTO, "the supervisor starts with something else");
    return 0;
}

static int worker_set_parents(struct worker *w, const char *text)
{
    static int parents[WORKER_PARENTS_MAX];
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0' || n > WORKER_PARENTS_MAX)
        return err_set(&w->err, -EINVAL, "the number of parents is none");
    for (unsigned long i = 0; i < n; i++)
        parents[i] = WORKER_FD_PARENTS + (int)i;
    w->parents = parents;
    w->parent_count = n;
    return 0;
}

int worker_main(int argc, char **argv)
{
    static struct worker w = {
        .control = WORKER_FD_CONTROL,
        .archive = FD_NONE,
        .contents = FD_NONE,
        .codec.report = FD_NONE,
        .parser.report = FD_NONE,
        .hash_copies = {{.from = FD_NONE, .to = FD_NONE}, {.from = FD_NONE, .to = FD_NONE}}};
    int r;

    /* EPIPE and EFBIG of write(2) are handled instead of these signals. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    r = worker_set_parents(&w, argc == 3 ? argv[2] : "");
    w.shown =
        mmap(NULL, sizeof(*w.shown), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r == 0 && w.shown == MAP_FAILED)
        r = err_errno(&w.err, -errno, "memory");
    if (r == 0)
        r = worker_receive_start(&w);
    if (r == 0)
        r = worker_start(&w);
    if (r == 0)
        r = worker_run(&w);
    return worker_send_result(&w, r < 0 ? worker_find_cause(&w, r) : r);
}
