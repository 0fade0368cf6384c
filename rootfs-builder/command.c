#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "image/worker-proto.h"
#include "jail.h"

static const char usage_text[] =
    "usage: rind-rootfs unpack [options] ARCHIVE|- DIR    make a tree of a tar stream\n"
    "       rind-rootfs pack [options] DIR ARCHIVE|-      make a tar stream of a tree\n"
    "       rind-rootfs split [options] ARCHIVE|- DIR     its files, as DIR/0, DIR/1, ...\n"
    "       rind-rootfs inspect [options] ARCHIVE|-       list what it holds\n"
    "\n"
    "Archives may be compressed by gzip or zstd. The work is done by confined processes that "
    "reach\n"
    "nothing but DIR.\n"
    "\n"
    "  --layer            unpack: whiteouts become those of overlayfs; opaque directories are\n"
    "                     listed. pack: the other way round\n"
    "  --bottom           with --layer: no layer lies below\n"
    "  --parent DIR       with --layer: the layer below; may be repeated, the next one first\n"
    "  --opaque PATH      pack --layer: an opaque directory; may be repeated\n"
    "  --ids BASE         root only: the tree's ids are BASE to BASE + 65535 (0)\n"
    "  --gzip, --zstd     pack: compress\n"
    "  --root             pack: with an entry for DIR itself\n"
    "  --sub PATH         pack: that directory below DIR\n"
    "  --prefix TEXT      pack: in front of each name\n"
    "  --max-bytes N      of the tar stream, and of files (1 TiB)\n"
    "  --max-entries N    (4194304)\n";

struct command {
    struct worker_msg m;
    struct jail jail;
    const char *parents[WORKER_PARENTS_MAX];
    const char *archive, *dir;
    bool store; /* true for split, false for inspect */
    unsigned stored;
    int store_fd;
};

enum {
    OPT_LAYER = 256,
    OPT_BOTTOM,
    OPT_PARENT,
    OPT_OPAQUE,
    OPT_IDS,
    OPT_GZIP,
    OPT_ZSTD,
    OPT_ROOT,
    OPT_SUB,
    OPT_PREFIX,
    OPT_BYTES,
    OPT_ENTRIES,
    OPT_HELP
};

static const struct option options[] = {
    {"layer", no_argument, NULL, OPT_LAYER},
    {"bottom", no_argument, NULL, OPT_BOTTOM},
    {"parent", required_argument, NULL, OPT_PARENT},
    {"opaque", required_argument, NULL, OPT_OPAQUE},
    {"ids", required_argument, NULL, OPT_IDS},
    {"gzip", no_argument, NULL, OPT_GZIP},
    {"zstd", no_argument, NULL, OPT_ZSTD},
    {"root", no_argument, NULL, OPT_ROOT},
    {"sub", required_argument, NULL, OPT_SUB},
    {"prefix", required_argument, NULL, OPT_PREFIX},
    {"max-bytes", required_argument, NULL, OPT_BYTES},
    {"max-entries", required_argument, NULL, OPT_ENTRIES},
    {"help", no_argument, NULL, OPT_HELP},
    {0},
};

static bool parse_number(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0' && *ret <= max;
}

static bool message_set_text(char *to, const char *from)
{
    return snprintf(to, WORKER_PATH_MAX + 1, "%s", from) <= WORKER_PATH_MAX;
}

static bool add_opaque(const struct command *c, const char *path)
{
    size_t len = strlen(path) + 1;

    return write(c->jail.opaque, path, len) == (ssize_t)len;
}

static bool command_take_option(struct command *c, int opt, const char *value)
{
    uint64_t n = 0;

    switch (opt) {
    case OPT_LAYER:
        c->m.flags |= c->m.op == WORKER_PACK ? WORKER_OVERLAY : 0;
        c->m.op = c->m.op == WORKER_UNPACK_DIR ? WORKER_UNPACK : c->m.op;
        return true;
    case OPT_BOTTOM:
        c->m.flags |= WORKER_BOTTOM;
        return true;
    case OPT_PARENT:
        if (c->jail.parent_count == WORKER_PARENTS_MAX)
            return false;
        c->parents[c->jail.parent_count++] = value;
        return true;
    case OPT_OPAQUE:
        return add_opaque(c, value);
    case OPT_IDS:
        if (!parse_number(value, UINT32_MAX - 65536, &n))
            return false;
        c->jail.base = (uint32_t)n;
        return true;
    case OPT_GZIP:
    case OPT_ZSTD:
        c->m.kind = opt == OPT_GZIP ? WORKER_GZIP : WORKER_ZSTD;
        return true;
    case OPT_ROOT:
        c->m.flags |= WORKER_ROOT_ENTRY;
        return true;
    case OPT_SUB:
        return message_set_text(c->m.name, value);
    case OPT_PREFIX:
        return message_set_text(c->m.text, value);
    case OPT_BYTES:
        if (!parse_number(value, INT64_MAX, &n))
            return false;
        c->m.bytes = c->m.files = n;
        return true;
    case OPT_ENTRIES:
        return parse_number(value, INT64_MAX, &c->m.entries);
    default:
        return false;
    }
}

static bool command_take_verb(struct command *c, const char *verb)
{
    static const struct {
        const char *verb;
        enum worker_op op;
    } verbs[] = {{"unpack", WORKER_UNPACK_DIR},
                 {"pack", WORKER_PACK},
                 {"split", WORKER_SPLIT},
                 {"inspect", WORKER_SPLIT}};

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcmp(verbs[i].verb, verb) == 0)
            c->m.op = verbs[i].op;
    c->store = strcmp(verb, "split") == 0;
    return c->m.op != WORKER_OP_INVALID;
}

/* Returns 0; 1 for help; -EINVAL. */
static int command_parse(struct command *c, int argc, char **argv)
{
    int opt, want = 2;

    if (argc < 2 || !command_take_verb(c, argv[1]))
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 1 : -EINVAL;
    while ((opt = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1) {
        if (opt == OPT_HELP)
            return 1;
        if (!command_take_option(c, opt, optarg))
            return -EINVAL;
    }
    argv += 1 + optind;
    argc -= 1 + optind;
    if (c->m.op == WORKER_SPLIT && !c->store)
        want = 1;
    if (argc != want)
        return -EINVAL;
    c->archive = argv[c->m.op == WORKER_PACK ? 1 : 0];
    c->dir = want == 2 ? argv[c->m.op == WORKER_PACK ? 0 : 1] : NULL;
    c->jail.tree = c->m.op == WORKER_SPLIT ? NULL : c->dir;
    c->jail.read_only = c->m.op == WORKER_PACK;
    return 0;
}

static int open_archive(const struct command *c, struct err *err)
{
    bool out = c->m.op == WORKER_PACK;
    int fd;

    if (strcmp(c->archive, "-") == 0)
        fd = fcntl(out ? STDOUT_FILENO : STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    else
        fd = open(c->archive, O_CLOEXEC | (out ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY), 0666);
    return fd < 0 ? err_errno(err, -errno, "%s", c->archive) : fd;
}

/* Escapes a name from an archive before it is sent to a terminal. */
static void print_quoted(FILE *f, const char *s)
{
    for (; *s != '\0'; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f || *s == '\\')
            (void)fprintf(f, "\\%03o", (unsigned)(unsigned char)*s);
        else
            (void)fputc(*s, f);
}

static int answer_entry(struct command *c, int control, const struct worker_msg *m, struct err *err)
{
    static const char *const kinds[] = {"?", "file", "hardlink", "symlink", "directory", "other"};
    struct worker_msg reply = {.type = c->store ? WORKER_TAKE : WORKER_SKIP};
    auto_close int fd = FD_NONE;
    char name[16];

    printf("%s %" PRIu64 " ", kinds[m->kind], m->bytes);
    print_quoted(stdout, m->name);
    if (m->text[0] != '\0') {
        printf(" -> ");
        print_quoted(stdout, m->text);
    }
    printf("\n");
    if (m->kind != WORKER_ENTRY_FILE)
        return 0;
    if (c->store) {
        (void)snprintf(name, sizeof(name), "%u", c->stored++);
        fd = openat(c->store_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0)
            return err_errno(err, -errno, "%s/%s", c->dir, name);
    }
    return worker_msg_send(control, &reply, fd, err);
}

static void print_digest(FILE *f, const char *key, const uint8_t *digest)
{
    (void)fprintf(f, "%s sha256:", key);
    for (size_t i = 0; i < WORKER_DIGEST; i++)
        (void)fprintf(f, "%02x", digest[i]);
    (void)fprintf(f, "\n");
}

static int print_opaque(int fd, FILE *f)
{
    auto_free char *text = calloc(1, WORKER_OPAQUE_MAX + 1);
    ssize_t n;

    if (text == NULL || lseek(fd, 0, SEEK_SET) < 0)
        return -ENOMEM;
    n = read(fd, text, WORKER_OPAQUE_MAX);
    for (const char *s = text; n > 0 && s < text + n; s += strlen(s) + 1) {
        (void)fprintf(f, "opaque ");
        print_quoted(f, s);
        (void)fprintf(f, "\n");
    }
    return 0;
}

static void print_result(const struct command *c, const struct worker_msg *m)
{
    static const char *const kinds[] = {"none", "gzip", "zstd"};
    /* stdout may be the archive */
    FILE *f = c->m.op == WORKER_PACK ? stderr : stdout;

    if (c->m.op != WORKER_SPLIT)
        print_digest(f, "digest", m->digest);
    if (c->m.op == WORKER_PACK)
        print_digest(f, "packed-digest", m->packed_digest);
    (void)fprintf(f, "compression %s\n", kinds[m->kind]);
    (void)fprintf(f, "bytes %" PRIu64 "\npacked %" PRIu64 "\nentries %" PRIu64 "\n", m->bytes,
                  m->packed, m->entries);
    (void)fprintf(f, "files %" PRIu64 "\ndevices %" PRIu64 "\nxattrs %" PRIu64 "\n", m->files,
                  m->devices, m->xattrs);
    if (c->m.op == WORKER_UNPACK) {
        (void)fprintf(f, "of-parents %d\n", (m->flags & WORKER_OF_PARENTS) != 0);
        (void)print_opaque(c->jail.opaque, f);
    }
}

static int command_serve_worker(struct command *c, int control, struct err *err)
{
    struct worker_msg m;
    int fd = FD_NONE, r;

    for (;;) {
        r = worker_msg_recv(control, &m, &fd, err);
        if (r <= 0)
            return r < 0 ? r : err_set(err, -ECHILD, "the worker ended without a result");
        if (m.type == WORKER_ENTRY)
            r = answer_entry(c, control, &m, err);
        else if (m.type == WORKER_STORED)
            print_digest(stdout, "stored", m.digest);
        else if (m.type == WORKER_FAILED)
            return err_set(err, m.code, "%.160s%s%s%s", m.name, strlen(m.name) > 160 ? "..." : "",
                           m.name[0] != '\0' ? ": " : "", m.text);
        else if (m.type == WORKER_DONE)
            break;
        if (r < 0)
            return r;
    }
    print_result(c, &m);
    return 0;
}

static int command_run(struct command *c, struct err *err)
{
    auto_close int archive = FD_NONE, control = FD_NONE, program = FD_NONE;
    pid_t pid;
    int r;

    archive = open_archive(c, err);
    if (archive < 0)
        return archive;
    if (c->store) {
        c->store_fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (c->store_fd < 0)
            return err_errno(err, -errno, "%s", c->dir);
    }
    program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (program < 0)
        return err_errno(err, -errno, "/proc/self/exe");
    c->jail.program = program;
    c->m.flags |= geteuid() != 0 && c->m.op < WORKER_SPLIT ? WORKER_KEEP_OWNER : 0;
    r = jail_start(&c->jail, &pid, &control, err);
    if (r < 0)
        return r;
    r = worker_msg_send(control, &c->m, archive, err);
    (void)close(take_fd(&archive));
    if (r == 0)
        r = command_serve_worker(c, control, err);
    (void)close(take_fd(&control));
    (void)waitpid(pid, NULL, 0);
    return r;
}

int command_main(int argc, char **argv)
{
    struct command c = {.m = {.type = WORKER_START,
                              .bytes = UINT64_C(1) << 40,
                              .files = UINT64_C(1) << 40,
                              .entries = 1 << 22},
                        .store_fd = FD_NONE};
    struct err err = ERR_NONE;
    int r;

    c.jail.parents = c.parents;
    c.jail.opaque = memfd_create("opaque", MFD_CLOEXEC);
    r = command_parse(&c, argc, argv);
    if (r != 0) {
        (void)fputs(usage_text, r > 0 ? stdout : stderr);
        return r > 0 ? 0 : 2;
    }
    r = command_run(&c, &err);
    if (r < 0)
        log_error("rind-rootfs", "%s", err.msg);
    return r < 0;
}
