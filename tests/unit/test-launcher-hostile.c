/*
 * A supervisor that was taken over, against a real launcher: forged messages, requests for what is
 * not allowed, and what runs inside when everything that can be asked for was asked for.
 */

#include <linux/capability.h>
#include <linux/filter.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "launcher-lab.h"

static struct lab lab = {.sock = FD_NONE};
static struct lab_run run; /* large */
static char path_buffer[8][256];

/* A path below the lab; valid for eight calls. */
static const char *at(const char *rest)
{
    static unsigned next;
    char *p = path_buffer[next++ % 8];

    lab_path(p, &lab, rest);
    return p;
}

static void honest(struct buf *b, unsigned without)
{
    honest_begin(b, lab.id, lab.layers, without);
}

static void make_file(const char *rest, const char *text, mode_t mode)
{
    int fd = open(at(rest), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0)
        lab_die(rest);
    (void)close(fd);
}

static void must(int r, const char *what)
{
    if (r < 0)
        lab_die(what);
}

/* What lies about on the host. */
static void furnish(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd;

    must(mkdir(at("denied"), 0755), "denied");
    make_file("denied/secret", "canary\n", 0644);
    must(mkdir(at("allowedx"), 0755), "allowedx");
    must(mkdir(at("allowed/dir"), 0755), "dir");
    must(mkdir(at("allowed/open"), 01777), "open");
    must(chmod(at("allowed/open"), 01777), "open");
    must(mkdir(at("allowed/alice"), 0700), "alice");
    must(chown(at("allowed/alice"), 12345, 12345), "alice");
    make_file("allowed/dir/roots", "root's\n", 0600);
    make_file("allowed/file", "file\n", 0644);
    must(symlink("/etc", at("allowed/link")), "link");
    must(symlink("../denied", at("allowed/out")), "out");
    must(symlink("/proc/self/root", at("allowed/magic")), "magic");
    must(mkfifo(at("allowed/fifo"), 0666), "fifo");
    must(mknod(at("allowed/null"), S_IFCHR | 0666, makedev(1, 3)), "null");
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", at("allowed/sock"));
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(fd, (const struct sockaddr *)&name, sizeof(name)), "bind");
    (void)close(fd);
    /* An image with links to where only the launcher mounts, and with a device. */
    must(mkdir(at("allowed/img"), 0755), "img");
    must(symlink("/proc", at("allowed/img/p")), "p");
    must(symlink("/sys", at("allowed/img/s")), "s");
    must(symlink("/dev", at("allowed/img/d")), "d");
    must(symlink("/dev/shm", at("allowed/img/m")), "m");
    must(mknod(at("allowed/img/zero"), S_IFCHR | 0666, makedev(1, 5)), "zero");
    must(chmod(at("allowed/img/zero"), 0666), "zero");
    must(symlink("/etc", at("state/layers/evil")), "evil");
    make_file("state/layers/file", "", 0644);
}

static void start_lab(void)
{
    struct lab_answer a;
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    lab_start(&lab);
    /* What is opened once: at the first start, and at the first with a limit of each kind. */
    honest(&b, 0);
    launch_put_number(&b, TAG_MEMORY, 64 << 20);
    launch_put_number(&b, TAG_PIDS, 64);
    launch_put_number(&b, TAG_CPU, 500);
    lab_ask(&lab, &b, &a);
    if (a.reply.code < 0) {
        printf("Bail out! the launcher does not work: %s\n", a.reply.message);
        exit(1);
    }
    lab_finish(&lab, &a);
    lab.fds = (int)lab_open_fds(&lab);
    lab.mounts = lab_mount_count(&lab);
}

/* ---- the transport ---- */

static int memfd(size_t size, int seals)
{
    int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
        lab_die("memfd");
    return fd;
}

static int a_request(void)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    int fd;

    launch_begin(&b, LAUNCH_KILL);
    launch_put_string(&b, TAG_ID, "nobody");
    CHECK_INT(launch_end(&b), 0);
    fd = memfd_sealed("request", b.data, b.len);
    return fd;
}

static void refused(const char *what, size_t len, const int *fds, int count, const char *text)
{
    struct lab_answer a;

    lab_send_raw(&lab, len, fds, count);
    lab_receive(&lab, &a);
    if (a.reply.code != -EPROTO || strstr(a.reply.message, text) == NULL || a.fd_count != 0)
        tap_fail("%s: %d \"%s\", want \"%s\"", what, a.reply.code, a.reply.message, text);
    lab_answer_done(&a);
}

TEST(forged_messages)
{
    enum { ALL = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };
    int pair[2], many[250];
    const struct {
        const char *what;
        int fd;
        const char *text;
    } rows[] = {
        {"unsealed", memfd(64, 0), "request: its memfd is not sealed"},
        {"may shrink", memfd(64, F_SEAL_GROW | F_SEAL_WRITE), "not sealed"},
        {"may grow", memfd(64, F_SEAL_SHRINK | F_SEAL_WRITE), "not sealed"},
        {"may be written", memfd(64, F_SEAL_SHRINK | F_SEAL_GROW), "not sealed"},
        {"empty", memfd(0, ALL), "request: 0 bytes"},
        {"short", memfd(15, ALL), "request: 15 bytes, not 16 to"},
        {"zeros", memfd(64, ALL), "request: wrong magic"},
        {"too large", memfd(LAUNCH_SIZE_MAX + 1, ALL), "request: 524289 bytes"},
        {"huge", memfd(1UL << 40, ALL), "request: 1099511627776 bytes"},
        {"a file", open(at("allowed/file"), O_RDONLY | O_CLOEXEC), "not sealed"},
        {"a directory", open("/", O_RDONLY | O_CLOEXEC), "not sealed"},
        {"O_PATH", open(at("allowed/file"), O_PATH | O_CLOEXEC), "not sealed"},
        {"a device", open("/dev/zero", O_RDONLY | O_CLOEXEC), "not sealed"},
        {"its own socket", fcntl(lab.sock, F_DUPFD_CLOEXEC, 3), "not sealed"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        refused(rows[i].what, 1, &rows[i].fd, 1, rows[i].text);
        (void)close(rows[i].fd);
    }
    refused("nothing", 1, NULL, 0, "request: no memfd came with it");
    refused("nothing, long", 65536, NULL, 0, "request: no memfd came with it");
    must(pipe2(pair, O_CLOEXEC), "pipe");
    refused("a pipe", 8, &pair[0], 1, "not sealed");
    refused("a pipe's other end", 8, &pair[1], 1, "not sealed");
    (void)close(pair[0]);
    (void)close(pair[1]);
    for (size_t i = 0; i < 250; i++)
        many[i] = a_request();
    refused("two", 1, many, 2, "request: more than one descriptor came with it");
    refused("five", 1, many, 5, "too many descriptors");
    refused("250", 1, many, 250, "too many descriptors");
    for (size_t i = 0; i < 250; i++)
        (void)close(many[i]);
    lab_check(&lab);
}

static int spoiled(size_t offset, unsigned char value)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    honest(&b, 0);
    CHECK_INT(launch_end(&b), 0);
    b.data[offset] = (char)value;
    return memfd_sealed("request", b.data, b.len);
}

TEST(forged_headers)
{
    const struct {
        const char *what;
        int fd;
        const char *text;
    } rows[] = {
        {"magic", spoiled(offsetof(struct launch_wire, magic), 0), "wrong magic"},
        {"version", spoiled(offsetof(struct launch_wire, version), 9), "version 9"},
        {"verb 0", spoiled(offsetof(struct launch_wire, verb), 0), "unknown verb 0"},
        {"verb", spoiled(offsetof(struct launch_wire, verb), 200), "unknown verb 200"},
        {"size", spoiled(offsetof(struct launch_wire, size) + 2, 255), "bytes, is"},
        {"count", spoiled(offsetof(struct launch_wire, record_count), 255), "255 records"},
        {"record", spoiled(sizeof(struct launch_wire), 77), "unknown record 77"},
        {"length", spoiled(sizeof(struct launch_wire) + 7, 255), "passes the end"},
        {"padding", spoiled(sizeof(struct launch_wire) + 8 + strlen(lab.id) + 1, 1), "padded"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        refused(rows[i].what, 1, &rows[i].fd, 1, rows[i].text);
        (void)close(rows[i].fd);
    }
    lab_check(&lab);
}

/* ---- what is asked for ---- */

struct forged {
    const char *what;
    enum launch_tag tag;
    const char *text; /* layer or root_dir: the name; volume: the source; below the lab unless it
                         begins with '/' */
    const char *target;
    int code;
    const char *message;
};

/* clang-format off */
static const struct forged forged[] = {
    {"root: the host's", TAG_ROOT_DIR, "/", NULL, -EPERM, "root file system: '/' is not beneath a directory that may be mounted"},
    {"root: /etc", TAG_ROOT_DIR, "/etc", NULL, -EPERM, "is not beneath"},
    {"root: /proc/self/root", TAG_ROOT_DIR, "/proc/self/root", NULL, -EPERM, "is not beneath"},
    {"root: /proc/1/root", TAG_ROOT_DIR, "/proc/1/root", NULL, -EPERM, "is not beneath"},
    {"root: beside the prefix", TAG_ROOT_DIR, "allowedx", NULL, -EPERM, "is not beneath"},
    {"root: above the prefix", TAG_ROOT_DIR, "denied", NULL, -EPERM, "is not beneath"},
    {"root: the state", TAG_ROOT_DIR, "state", NULL, -EPERM, "is not beneath"},
    {"root: ..", TAG_ROOT_DIR, "allowed/../denied", NULL, -EINVAL, "record root_dir"},
    {"root: link", TAG_ROOT_DIR, "allowed/link", NULL, -ELOOP, "allowed/link"},
    {"root: through a link", TAG_ROOT_DIR, "allowed/link/ssl", NULL, -ELOOP, "allowed/link/ssl"},
    {"root: link out", TAG_ROOT_DIR, "allowed/out", NULL, -ELOOP, "allowed/out"},
    {"root: magic link", TAG_ROOT_DIR, "allowed/magic/etc", NULL, -ELOOP, "allowed/magic/etc"},
    {"root: a file", TAG_ROOT_DIR, "allowed/file", NULL, -ENOTDIR, "is not a directory"},
    {"root: a fifo", TAG_ROOT_DIR, "allowed/fifo", NULL, -ENOTDIR, "is not a directory"},
    {"root: missing", TAG_ROOT_DIR, "allowed/nothing", NULL, -ENOENT, "No such file"},
    {"layer: missing", TAG_LAYER, "nothing", NULL, -ENOENT, "layer nothing"},
    {"layer: a link", TAG_LAYER, "evil", NULL, -ELOOP, "layer evil"},
    {"layer: a file", TAG_LAYER, "file", NULL, -ENOTDIR, "layer file"},
    {"layer: ..", TAG_LAYER, "..", NULL, -EINVAL, "record layer"},
    {"layer: path", TAG_LAYER, "../../denied", NULL, -EINVAL, "record layer"},
    {"layer: hidden", TAG_LAYER, ".tmp", NULL, -EINVAL, "record layer"},
    {"volume: the host's root", TAG_VOLUME, "/", "/v", -EINVAL, "record volume"},
    {"volume: /etc", TAG_VOLUME, "/etc", "/v", -EPERM, "volume: '/etc' is not beneath"},
    {"volume: outside", TAG_VOLUME, "denied", "/v", -EPERM, "is not beneath"},
    {"volume: /proc", TAG_VOLUME, "/proc/1", "/v", -EPERM, "is not beneath"},
    {"volume: other sandboxes", TAG_VOLUME, "state/sandboxes", "/v", -EPERM, "is not beneath"},
    {"volume: ids", TAG_VOLUME, "ids", "/v", -EPERM, "is not beneath"},
    {"volume: ..", TAG_VOLUME, "allowed/../denied", "/v", -EINVAL, "record volume"},
    {"volume: link", TAG_VOLUME, "allowed/link", "/v", -ELOOP, "allowed/link"},
    {"volume: link out", TAG_VOLUME, "allowed/out/secret", "/v", -ELOOP, "allowed/out/secret"},
    {"volume: magic link", TAG_VOLUME, "allowed/magic", "/v", -ELOOP, "allowed/magic"},
    {"volume: fifo", TAG_VOLUME, "allowed/fifo", "/v", -EINVAL, "neither a directory nor a file"},
    {"volume: socket", TAG_VOLUME, "allowed/sock", "/v", -EINVAL, "neither a directory nor a file"},
    {"volume: device", TAG_VOLUME, "allowed/null", "/v", -EINVAL, "neither a directory nor a file"},
    {"volume: missing", TAG_VOLUME, "allowed/nothing", "/v", -ENOENT, "No such file"},
    {"volume: on /", TAG_VOLUME, "allowed/dir", "/", -EINVAL, "record volume"},
    {"volume: on //", TAG_VOLUME, "allowed/dir", "//", -EINVAL, "record volume"},
    {"volume: on /proc", TAG_VOLUME, "allowed/dir", "/proc", -EINVAL, "record volume"},
    {"volume: in /proc", TAG_VOLUME, "allowed/dir", "/proc/sys/kernel", -EINVAL, "record volume"},
    {"volume: on /sys", TAG_VOLUME, "allowed/dir", "/sys", -EINVAL, "record volume"},
    {"volume: on /dev/null", TAG_VOLUME, "allowed/file", "/dev/null", -EINVAL, "record volume"},
    {"volume: /dev/..", TAG_VOLUME, "allowed/dir", "/dev/..", -EINVAL, "record volume"},
    {"volume: a directory on a file", TAG_VOLUME, "allowed/dir", "/bin/busybox", -ENOTDIR, "mount on /bin/busybox"},
};
/* clang-format on */

static const char *source_of(const struct forged *f)
{
    return f->text[0] == '/' || f->tag == TAG_LAYER ? f->text : at(f->text);
}

TEST(forged_paths)
{
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        const struct forged *f = &forged[i];
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;

        honest(&b, 0);
        if (f->tag == TAG_VOLUME)
            put_raw_volume(&b, 0, 0, 0, source_of(f), f->target);
        else
            launch_put_string(&b, f->tag, source_of(f));
        lab_ask(&lab, &b, &a);
        if (a.reply.code != f->code || strstr(a.reply.message, f->message) == NULL ||
            a.fd_count != 0)
            tap_fail("%s: %d \"%s\", want %d \"%s\"", f->what, a.reply.code, a.reply.message,
                     f->code, f->message);
        if (a.reply.code == 0)
            lab_finish(&lab, &a);
        lab_answer_done(&a);
        lab_check_clean(&lab);
    }
    lab_check(&lab);
}

/* The check of names does not see the image's links; the one inside does. */
TEST(targets_behind_the_images_links)
{
    static const char *const targets[] = {"/p",     "/p/sys", "/s",         "/s/kernel", "/d",
                                          "/d/shm", "/m",     "/d/new-dir", "/d/pts"};

    for (size_t i = 0; i < 2 * sizeof(targets) / sizeof(targets[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        const char *target = targets[i / 2];
        char want[64];
        struct lab_answer a;

        honest(&b, 0);
        launch_put_string(&b, TAG_ROOT_DIR, at("allowed/img"));
        if (i % 2 == 0)
            put_raw_volume(&b, 0, 0, 0, at("allowed/dir"), target);
        else
            launch_put_tmpfs(&b, &(struct launch_tmpfs){.target = target, .bytes = 4096});
        lab_ask(&lab, &b, &a);
        (void)snprintf(want, sizeof(want), "mount on %s: Operation not permitted", target);
        if (a.reply.code != -EPERM || strstr(a.reply.message, want) == NULL)
            tap_fail("%s: %d \"%s\"", target, a.reply.code, a.reply.message);
        if (a.reply.code == 0)
            lab_finish(&lab, &a);
        lab_answer_done(&a);
    }
    lab_check(&lab);
}

static int program(void)
{
    int fd = open("build/payload", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        tap_fail("build/payload: %s (make build/payload)", strerror(errno));
    return fd;
}

static void shell(const struct lab_answer *a, const char *user, const char *script)
{
    char sh[] = "sh", c[] = "-c", text[1024];
    char *const argv[] = {sh, c, text, NULL};

    (void)snprintf(text, sizeof(text), "%s", script);
    lab_run(a->fds[1], FD_NONE, user, argv, false, &run);
}

#define CHECK_SAYS(part)                                                                           \
    do {                                                                                           \
        if (strstr(run.output, part) == NULL)                                                      \
            tap_fail("no %s in \"%.600s\"", part, run.output);                                     \
    } while (0)

/* A filter that allows everything, every capability: the floor holds, on every ABI. */
TEST(the_floor_holds)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    auto_close int payload = program();
    char name[] = "payload", table[] = "syscalls", i386[] = "i386", x32[] = "x32";
    char tiocsti[] = "tiocsti";
    char *argv[] = {name, table, NULL};
    struct lab_answer a;

    honest(&b, WITHOUT_CAPS | WITHOUT_FLAGS);
    launch_put_number(&b, TAG_FLAGS, LAUNCH_ATTACHED);
    launch_put_number(&b, TAG_CAPABILITIES, (1ULL << 41) - 1);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    if (a.reply.code == 0 && payload >= 0) {
        lab_run(a.fds[1], payload, "", argv, false, &run);
        CHECK_SAYS("\"keyctl\":\"EPERM\"");
        CHECK_SAYS("\"add_key\":\"EPERM\"");
        CHECK_SAYS("\"request_key\":\"EPERM\"");
        CHECK_SAYS("\"io_uring_setup\":\"EPERM\"");
        CHECK_SAYS("\"io_uring_register\":\"EPERM\"");
        CHECK_SAYS("\"bpf\":\"EPERM\"");
        CHECK_SAYS("\"kexec_load\":\"EPERM\"");
        CHECK_SAYS("\"userfaultfd\":\"EPERM\"");
        CHECK_SAYS("\"perf_event_open\":\"EPERM\"");
        CHECK_SAYS("\"open_by_handle_at\":\"EPERM\"");
        CHECK_SAYS("\"finit_module\":\"EPERM\"");
        CHECK_SAYS("\"query_module\":\"EPERM\"");
        CHECK_SAYS("\"move_pages\":\"EPERM\"");
        CHECK_SAYS("\"getpid\":\"ok\"");
        argv[1] = i386;
        lab_run(a.fds[1], payload, "", argv, false, &run);
        if (has_i386()) {
            CHECK_SAYS("\"getpid\":\"ok\"");
            CHECK_SAYS("\"add_key\":\"EPERM\"");
            CHECK_SAYS("\"keyctl\":\"EPERM\"");
            CHECK_SAYS("\"bpf\":\"EPERM\"");
            CHECK_SAYS("\"io_uring_setup\":\"EPERM\"");
            CHECK_SAYS("\"vm86\":\"EPERM\"");
        } else {
            CHECK_SAYS("\"getpid\":\"SIG");
            CHECK(strstr(run.output, "\":\"ok\"") == NULL);
        }
        argv[1] = tiocsti;
        lab_run(a.fds[1], payload, "", argv, true, &run);
        CHECK_SAYS("\"sti fd0 high0\":\"EPERM\"");
        CHECK_SAYS("\"sti fd0 high1\":\"EPERM\"");
        CHECK_SAYS("\"linux fd0 high2\":\"EPERM\"");
        if (has_i386())
            CHECK_SAYS("\"sti fd0 i386\":\"EPERM\"");
        CHECK(strstr(run.output, "\":\"ok\"") == NULL);
        argv[1] = x32;
        lab_run(a.fds[1], payload, "", argv, false, &run);
        CHECK(strstr(run.output, "\":\"ok\"") == NULL);
        /* The map, and nothing of the host's uid 0 in it. */
        shell(&a, "", "cat /proc/self/uid_map /proc/self/gid_map; grep Cap /proc/self/status");
        CHECK_SAYS("CapInh:\t0000000000000000");
        CHECK_SAYS("CapAmb:\t0000000000000000");
        lab_finish(&lab, &a);
    }
    lab_answer_done(&a);
    lab_check(&lab);
}

static void check_maps(pid_t pid, unsigned base)
{
    static const char *const files[] = {"uid_map", "gid_map"};

    for (size_t i = 0; i < 2; i++) {
        char path[64];
        unsigned inside, outside, count;
        FILE *f;

        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
        f = fopen(path, "re");
        if (f == NULL || fscanf(f, "%u %u %u", &inside, &outside, &count) != 3) {
            tap_fail("%s", path);
        } else {
            CHECK_INT(inside, 0);
            CHECK_INT(outside, base);
            CHECK_INT(count, 65536);
            CHECK(outside >= 100000);
            CHECK(fscanf(f, "%u", &inside) == EOF);
        }
        if (f != NULL)
            (void)fclose(f);
    }
}

TEST(ids_are_the_launchers_choice)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct lab_answer a;

    honest(&b, 0);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    if (a.reply.code == 0) {
        check_maps(a.reply.pid, a.reply.base);
        lab_finish(&lab, &a);
    }
    lab_answer_done(&a);
    lab_check(&lab);
}

/* What the source's owner has is the user's inside, root's too, and what is made is theirs outside;
 * but no device, no set-id program, and nothing where it is read-only. */
TEST(a_volume_of_roots)
{
    static const struct {
        const char *source;
        uint32_t uid;
        uid_t want; /* owner of what is made inside, on the host */
        const char *owner;
    } rows[] = {
        {"allowed/roots", 0, 0, "0 0"},
        {"allowed/roots", 65535, 0, "65535 65535"},
        {"allowed/alice", 0, 12345, "0 0"},
        {"allowed/alice", 1000, 12345, "1000 1000"},
    };

    CHECK_INT(mkdir(at("allowed/roots"), 0755), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;
        struct stat st;
        char user[16], made[300];

        honest(&b, WITHOUT_CAPS);
        launch_put_number(&b, TAG_CAPABILITIES, ((1ULL << 41) - 1) & ~(1ULL << CAP_SYS_ADMIN));
        put_raw_volume(&b, 0, rows[i].uid, rows[i].uid, at(rows[i].source), "/v");
        put_raw_volume(&b, 1, rows[i].uid, rows[i].uid, at("allowed/dir"), "/r");
        lab_ask(&lab, &b, &a);
        CHECK_INT(a.reply.code, 0);
        if (a.reply.code == 0) {
            (void)snprintf(user, sizeof(user), "%u:%u", rows[i].uid, rows[i].uid);
            shell(&a, user,
                  "stat -c '%u %g' /v; cp /bin/busybox /v/x; echo made $?; chmod 6755 /v/x;"
                  "cat /r/roots; echo read $?; echo y > /r/new; echo wrote $?;"
                  "mknod /v/dev c 1 5; echo node $?; chown 0:0 /v; echo chown $?");
            CHECK_SAYS(rows[i].owner);
            CHECK_SAYS("made 0");
            CHECK_SAYS("read 0");
            CHECK_SAYS("wrote 1");
            CHECK_SAYS("node 1");
            (void)snprintf(made, sizeof(made), "%s/x", at(rows[i].source));
            CHECK_INT(stat(made, &st), 0);
            CHECK_INT(st.st_uid, rows[i].want);
            CHECK_INT(st.st_gid, rows[i].want);
            CHECK_INT(st.st_mode & (S_ISUID | S_ISGID), 0);
            (void)unlink(made);
            CHECK_INT(stat(at(rows[i].source), &st), 0);
            CHECK_INT(st.st_uid, rows[i].want);
            lab_finish(&lab, &a);
        }
        lab_answer_done(&a);
    }
    lab_check(&lab);
}

TEST(a_device_of_the_images)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct lab_answer a;

    honest(&b, WITHOUT_CAPS);
    launch_put_number(&b, TAG_CAPABILITIES, (1ULL << 41) - 1);
    launch_put_string(&b, TAG_ROOT_DIR, at("allowed/img"));
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    if (a.reply.code == 0) {
        shell(&a, "",
              "head -c 1 /zero >/dev/null; echo open $?; head -c 1 /dev/zero >/dev/null;"
              "echo dev $?; mount -o remount,dev /; echo remount $?; : </zero; echo again $?");
        CHECK_SAYS("open 1");
        CHECK_SAYS("dev 0");
        CHECK(strstr(run.output, "remount 0") == NULL);
        CHECK(strstr(run.output, "again 0") == NULL);
        lab_finish(&lab, &a);
    }
    lab_answer_done(&a);
    lab_check(&lab);
}

/* 64 volumes fill the array of a start to its last place. */
TEST(as_many_volumes_as_there_may_be)
{
    for (int count = LAUNCH_VOLUMES_MAX; count <= LAUNCH_VOLUMES_MAX + 1; count++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;
        char target[16];

        honest(&b, 0);
        for (int i = 0; i < count; i++) {
            (void)snprintf(target, sizeof(target), "/v%d", i);
            put_raw_volume(&b, i % 2 == 0, 0, 0, at(i % 3 == 0 ? "allowed/file" : "allowed/dir"),
                           target);
        }
        lab_ask(&lab, &b, &a);
        CHECK_INT(a.reply.code, count <= LAUNCH_VOLUMES_MAX ? 0 : -E2BIG);
        if (a.reply.code == 0) {
            shell(&a, "", "cat /v63; ls -d /v[0-9]* | wc -l");
            CHECK_SAYS("file\n64\n");
            lab_finish(&lab, &a);
        } else if (count <= LAUNCH_VOLUMES_MAX) {
            tap_fail("%s", a.reply.message);
        }
        lab_answer_done(&a);
    }
    lab_check(&lab);
}

/* Overlapping mounts, the deepest path that there may be, options in a path, masks everywhere. */
TEST(odd_mounts)
{
    static const struct {
        const char *what;
        const char *target;
        const char *script, *says;
    } rows[] = {
        {"options in a path", "/a,size=1g,mode=0", "stat -c %a '/a,size=1g,mode=0'", "1777\n"},
        {"colons and spaces", "/a:b c", "ls -d '/a:b c'", "/a:b c\n"},
        {"over the program files", "/bin", NULL, NULL},
        {"a line break", "/a\nb", "ls /", "?b\n"},
    };
    char deep[4001];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;

        honest(&b, 0);
        launch_put_tmpfs(&b, &(struct launch_tmpfs){.target = rows[i].target, .bytes = 1 << 20});
        launch_put_tmpfs(&b, &(struct launch_tmpfs){.target = rows[i].target, .bytes = 1 << 20});
        put_raw_volume(&b, 1, 0, 0, at("allowed/dir"), "/x");
        lab_ask(&lab, &b, &a);
        if (a.reply.code != 0)
            tap_fail("%s: %s", rows[i].what, a.reply.message);
        if (a.reply.code == 0 && rows[i].script != NULL) {
            shell(&a, "", rows[i].script);
            if (strstr(run.output, rows[i].says) == NULL &&
                strstr(run.output, rows[i].says + 1) == NULL)
                tap_fail("%s: \"%s\"", rows[i].what, run.output);
        }
        if (a.reply.code == 0)
            lab_finish(&lab, &a);
        lab_answer_done(&a);
    }
    for (size_t i = 0; i < sizeof(deep) - 1; i++)
        deep[i] = i % 2 == 0 ? '/' : 'a';
    deep[sizeof(deep) - 1] = '\0';
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct lab_answer a;

    honest(&b, 0);
    launch_put_tmpfs(&b, &(struct launch_tmpfs){.target = deep, .bytes = 4096});
    lab_ask(&lab, &b, &a);
    if (a.reply.code != 0)
        tap_fail("2000 levels: %s", a.reply.message);
    else
        lab_finish(&lab, &a);
    lab_answer_done(&a);
    lab_check(&lab);
}

TEST(masks_after_read_only)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct lab_answer a;

    honest(&b, 0);
    launch_put_string(&b, TAG_MASKED, "/proc/uptime");
    launch_put_string(&b, TAG_MASKED, "/proc/sys/kernel");
    launch_put_string(&b, TAG_MASKED, "/nothing/there");
    launch_put_string(&b, TAG_READONLY, "/proc/sys");
    launch_put_string(&b, TAG_READONLY, "/proc");
    launch_put_string(&b, TAG_READONLY, "/nothing");
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    if (a.reply.code == 0) {
        shell(&a, "", "cat /proc/uptime; ls /proc/sys/kernel; echo end; cat /proc/version");
        CHECK(strncmp(run.output, "end\nLinux", 9) == 0);
        lab_finish(&lab, &a);
    }
    lab_answer_done(&a);
    lab_check(&lab);
}

/* ---- numbers ---- */

TEST(numbers_out_of_range)
{
    static const struct {
        enum launch_tag tag;
        uint64_t value;
        const char *text;
    } rows[] = {
        {TAG_MEMORY, 0, "record memory"},          {TAG_MEMORY, UINT64_MAX, "record memory"},
        {TAG_MEMORY, 1ULL << 63, "record memory"}, {TAG_PIDS, 0, "record pids"},
        {TAG_PIDS, UINT64_MAX, "record pids"},     {TAG_CPU, 0, "record cpu"},
        {TAG_CPU, UINT64_MAX, "record cpu"},       {TAG_SHM, 0, "record shm"},
        {TAG_SHM, UINT64_MAX, "record shm"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;

        honest(&b, 0);
        launch_put_number(&b, rows[i].tag, rows[i].value);
        lab_ask(&lab, &b, &a);
        CHECK_INT(a.reply.code, -ERANGE);
        CHECK(strstr(a.reply.message, rows[i].text) != NULL);
        lab_answer_done(&a);
    }
    lab_check(&lab);
}

/* Limits in range that no host can give: refused by name, or given; never half. */
TEST(extreme_limits)
{
    static const struct {
        enum launch_tag tag;
        uint64_t value;
    } rows[] = {
        {TAG_MEMORY, INT64_MAX / 2},
        {TAG_MEMORY, 1 << 20},
        {TAG_PIDS, 1},
        {TAG_PIDS, 2},
        {TAG_PIDS, 1 << 22},
        {TAG_CPU, 1},
        {TAG_CPU, 1 << 20},
        {TAG_SHM, INT64_MAX / 2},
        {TAG_SHM, 4096},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;

        honest(&b, 0);
        launch_put_number(&b, rows[i].tag, rows[i].value);
        lab_ask(&lab, &b, &a);
        if (a.reply.code < 0 && a.reply.message[0] == '\0')
            tap_fail("row %zu: %d without a word", i, a.reply.code);
        if (a.reply.code == 0)
            lab_finish(&lab, &a);
        lab_answer_done(&a);
        lab_check_clean(&lab);
    }
    lab_check(&lab);
}

TEST(hard_limits_are_the_sandboxs)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct rlimit before[RLIM_NLIMITS], after;
    struct lab_answer a;

    for (int i = 0; i < (int)RLIM_NLIMITS; i++)
        CHECK_INT(prlimit(lab.pid, (__rlimit_resource_t)i, NULL, &before[i]), 0);
    honest(&b, 0);
    for (uint64_t i = 0; i < RLIM_NLIMITS; i++) {
        uint64_t hard = i == RLIMIT_RTPRIO ? 0 : i == RLIMIT_NICE ? 20 : UINT64_MAX;

        launch_put_rlimit(&b, &(struct launch_rlimit){i, hard < 100 ? 0 : 100, hard});
    }
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    for (int i = 0; i < (int)RLIM_NLIMITS; i++) {
        CHECK_INT(prlimit(lab.pid, (__rlimit_resource_t)i, NULL, &after), 0);
        CHECK(after.rlim_cur == before[i].rlim_cur && after.rlim_max == before[i].rlim_max);
    }
    if (a.reply.code == 0)
        lab_finish(&lab, &a);
    lab_answer_done(&a);
    lab_check(&lab);
}

TEST(filters_that_are_none)
{
    static const struct sock_filter odd[] = {
        BPF_STMT(0xffff, 1),                      /* no instruction */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4096), /* beyond the data */
        BPF_JUMP(BPF_JMP | BPF_JA, 100, 0, 0),    /* out of the program */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),    /* no return */
    };

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;

        honest(&b, WITHOUT_FILTER);
        launch_put(&b, TAG_FILTER, 0, &odd[i], sizeof(odd[i]));
        lab_ask(&lab, &b, &a);
        CHECK_INT(a.reply.code, 0);
        if (a.reply.code == 0) {
            shell(&a, "", "echo ran");
            CHECK_INT(run.failed_step, EXEC_STEP_SECCOMP);
            CHECK_INT(run.failed_error, EINVAL);
            CHECK_STR(run.output, "");
            lab_finish(&lab, &a);
        }
        lab_answer_done(&a);
    }
    lab_check(&lab);
}

/* ---- order ---- */

TEST(verbs_out_of_order)
{
    static const enum launch_verb all[] = {LAUNCH_KILL,    LAUNCH_STOP,  LAUNCH_FREEZE,
                                           LAUNCH_THAW,    LAUNCH_STATS, LAUNCH_REATTACH,
                                           LAUNCH_RELEASE, LAUNCH_END,   LAUNCH_PROCESSES};
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct lab_answer a, second;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        LAB_VERB(&lab, all[i], "nobody", -ENOENT, "sandbox nobody");
        LAB_VERB(&lab, all[i], "../denied", -EINVAL, "record id");
        LAB_VERB(&lab, all[i], NULL, -EINVAL, "no id");
    }
    honest(&b, 0);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    honest(&b, 0);
    lab_ask(&lab, &b, &second);
    CHECK_INT(second.reply.code, -EEXIST);
    CHECK(strstr(second.reply.message, "exists") != NULL);
    lab_answer_done(&second);
    LAB_VERB(&lab, LAUNCH_RELEASE, lab.id, -EBUSY, "is running");
    LAB_VERB(&lab, LAUNCH_STOP, lab.id, -EINVAL, "not a kept one");
    LAB_VERB(&lab, LAUNCH_REATTACH, lab.id, -EEXIST, "has its supervisor");
    shell(&a, "", "echo alive"); /* all of that did it no harm */
    CHECK_STR(run.output, "alive\n");
    lab_answer_done(&a);
    LAB_VERB(&lab, LAUNCH_END, lab.id, 0, "");
    lab_kill(&lab);
    lab_kill(&lab); /* dead already */
    LAB_VERB(&lab, LAUNCH_END, lab.id, 0, "");
    LAB_VERB(&lab, LAUNCH_RELEASE, lab.id, 0, "");
    LAB_VERB(&lab, LAUNCH_RELEASE, lab.id, -ENOENT, lab.id);
    lab_check(&lab);
}

/* Its root gives / to another id of the sandbox: the launcher still finds whose range it is. */
TEST(a_kept_sandbox_that_gave_its_root_away)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    unsigned base = 0;

    for (int round = 0; round < 2; round++) {
        struct lab_answer a;

        honest(&b, WITHOUT_FLAGS | WITHOUT_CAPS);
        launch_put_number(&b, TAG_FLAGS, LAUNCH_KEEP);
        launch_put_number(&b, TAG_CAPABILITIES, 1); /* CAP_CHOWN */
        lab_ask(&lab, &b, &a);
        if (a.reply.code != 0) {
            tap_fail("round %d: %s", round, a.reply.message);
            lab_answer_done(&a);
            break;
        }
        CHECK(round == 0 || a.reply.base == base);
        base = a.reply.base;
        shell(&a, "", "chown 65535:1 / && stat -c '%u %g' /");
        CHECK_STR(run.output, "65535 1\n");
        lab_answer_done(&a);
        lab_kill(&lab);
        lab_stop(&lab);
    }
    LAB_VERB(&lab, LAUNCH_RELEASE, lab.id, 0, "");
    lab_check(&lab);
}

/* A name that somebody else has: nothing of theirs is touched. */
TEST(a_name_that_is_taken_on_disk)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    char dir[256], file[300];
    struct lab_answer a;

    (void)snprintf(dir, sizeof(dir), "%s/sandboxes/%s", lab.state, lab.id);
    (void)snprintf(file, sizeof(file), "%s/precious", dir);
    must(mkdir(dir, 0700), dir);
    must(mkdir(file, 0700), file);
    honest(&b, 0);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, -EEXIST);
    CHECK_INT(access(file, F_OK), 0);
    lab_answer_done(&a);
    must(rmdir(file), file);
    must(rmdir(dir), dir);
    lab_check(&lab);
}

/* The same id in another state directory: the cgroups have its name. */
TEST(a_name_that_is_taken_in_another_state)
{
    static struct lab other = {.sock = FD_NONE};
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct lab_answer a, theirs;

    lab_dirs(&other);
    lab_layers(&other);
    lab_start(&other);
    honest(&b, 0);
    lab_ask(&other, &b, &theirs);
    CHECK_INT(theirs.reply.code, 0);
    honest(&b, 0);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, -EEXIST);
    lab_answer_done(&a);
    shell(&theirs, "", "echo alive"); /* needs a new cgroup of its own */
    CHECK_STR(run.output, "alive\n");
    lab_finish(&other, &theirs);
    CHECK_INT(lab_end(&other), 0);
    lab_check_clean(&other);
    lab_remove(&other);
    lab_check(&lab);
}

TEST(a_thousand_requests)
{
    for (int i = 0; i < 1000; i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;

        honest(&b, i % 4 == 0 ? WITHOUT_ID : 0);
        if (i % 4 == 1)
            launch_put_string(&b, TAG_LAYER, "..");
        if (i % 4 == 2)
            launch_put_number(&b, TAG_PIDS, 0);
        if (i % 4 == 3)
            b.data[0] = 0;
        lab_ask(&lab, &b, &a);
        if (a.reply.code >= 0 || a.reply.message[0] == '\0')
            tap_fail("%d: %d", i, a.reply.code);
        lab_answer_done(&a);
    }
    lab_check(&lab);
}

TEST(failing_starts_in_a_row)
{
    for (int i = 0; i < 25; i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;

        honest(&b, 0);
        put_raw_volume(&b, 0, 0, 0, at("allowed/dir"), "/bin/busybox/x");
        lab_ask(&lab, &b, &a);
        CHECK_INT(a.reply.code, -ENOTDIR);
        lab_answer_done(&a);
    }
    lab_check(&lab);
}

/* ---- the end ---- */

TEST(a_supervisor_that_vanishes)
{
    for (int how = 0; how < 3; how++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        auto_close int fd = FD_NONE;
        bool swept = false;

        honest(&b, 0);
        CHECK_INT(launch_end(&b), 0);
        fd = memfd_sealed("request", b.data, b.len);
        lab_send_raw(&lab, 1, &fd, 1);
        if (how == 1)
            lab_send_raw(&lab, 0, NULL, 0); /* a message of no bytes */
        if (how == 2)
            (void)shutdown(lab.sock, SHUT_RD);
        CHECK_INT(lab_end(&lab), 0);
        /* Attached: it ends with its control socket, which died unread. A next launcher sweeps what
         * is dead by then. */
        for (int i = 0; !swept && i < 500; i++) {
            lab_start(&lab);
            LAB_VERB(&lab, LAUNCH_KILL, "nobody", -ENOENT, "no sandbox nobody");
            swept = lab_entries(at("state/sandboxes")) == 0;
            CHECK_INT(lab_end(&lab), 0);
            if (!swept)
                (void)poll(NULL, 0, 20);
        }
        CHECK(swept);
        start_lab();
        lab_check(&lab);
    }
}

TEST(nothing_of_the_host_was_touched)
{
    struct stat st;

    CHECK_INT(lab_end(&lab), 0);
    lab_check_clean(&lab);
    CHECK_INT(stat(at("denied/secret"), &st), 0);
    CHECK_INT(st.st_size, 7);
    CHECK_INT(lab_entries(at("denied")), 1);
    CHECK_INT(lab_entries(at("allowed/dir")), 1);
    CHECK_INT(lab_entries(at("allowedx")), 0);
}

int main(int argc, char **argv)
{
    int r;

    tap_only = argv + (argc > 0);
    if (geteuid() != 0) {
        printf("ok 1 - hostile # SKIP needs root\n1..1\n");
        return 0;
    }
    lab_dirs(&lab);
    lab_layers(&lab);
    furnish();
    start_lab();
    r = tap_run();
    lab_remove(&lab);
    return r;
}
