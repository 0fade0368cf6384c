#pragma once

/*
 * A real launcher behind a socket, with a state directory, an id registry and an allowed prefix of
 * its own, and the test in the place of its supervisor. `lab_check` is the audit: the launcher
 * lives and answers, and holds and has left nothing.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "image/embed.h"
#include "image/layer.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "proto/init-msg.h"
#include "proto/rmtree.h"
#include "request-util.h"
#include "sandbox/exec-request.h"
#include "tap.h"

enum {
    LAB_ANSWER_MS = 60000,
    LAB_FDS_MAX = LAUNCH_REPLY_FDS_MAX,
    LAB_FD_NUMBERS = 256,
    LAB_OUTPUT_MAX = 1 << 20,
};

struct lab {
    char top[64], state[96], ids[96], allowed[96];
    const char *prefixes[2];
    const char *layers[3]; /* names: root, base */
    char id[32];           /* of this test's sandbox; all begin alike */
    pid_t pid;             /* the launcher */
    int sock;
    int fds;                          /* that the launcher has open while it has no sandbox */
    size_t mounts;                    /* lines of its mountinfo */
    const struct host_rootfs *host;   /* borrowed; NULL = none */
    const struct launch_net_ops *net; /* borrowed; NULL = none */
    void (*inside)(void);             /* runs in the launcher before it serves, or NULL */
};

struct lab_answer {
    struct launch_reply reply;
    int fds[LAB_FDS_MAX]; /* owned */
    int fd_count;
};

static inline void lab_die(const char *what)
{
    printf("Bail out! %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- files ---- */

static inline void lab_path(char out[256], const struct lab *lab, const char *rest)
{
    (void)snprintf(out, 256, "%s/%s", lab->top, rest);
}

static inline size_t lab_entries(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);

    while (d != NULL) {
        const struct dirent *e = readdir(d);

        if (e == NULL)
            break;
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    if (d != NULL)
        (void)closedir(d);
    return n;
}

static inline size_t lab_lines(const char *path)
{
    size_t n = 0;
    int c;
    FILE *f = fopen(path, "re");

    while (f != NULL && (c = fgetc(f)) != EOF)
        n += c == '\n';
    if (f != NULL)
        (void)fclose(f);
    return n;
}

/* Without fusectl, which is kept from its first use on. */
static inline size_t lab_open_fds(const struct lab *lab)
{
    enum { FUSECTL = 0x65735543 };
    char path[64];
    size_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)lab->pid);
    n = lab_entries(path);
    for (int fd = 0; fd < LAB_FD_NUMBERS; fd++) {
        struct statfs st;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)lab->pid, fd);
        n -= statfs(path, &st) == 0 && st.f_type == FUSECTL;
    }
    return n;
}

static inline size_t lab_mount_count(const struct lab *lab)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)lab->pid);
    return lab_lines(path);
}

/* ---- the launcher ---- */

static inline _Noreturn void lab_serve(const struct lab *lab, int sock)
{
    const struct launcher_config config = {.state_dir = lab->state,
                                           .ids_dir = lab->ids,
                                           .bind_prefixes = lab->prefixes,
                                           .host = lab->host,
                                           .net = lab->net,
                                           .init_image = embed_init().data,
                                           .init_size = embed_init().len};
    struct launcher *l = NULL;
    struct err err = ERR_NONE;

    if (launcher_open(&config, &l, &err) < 0) {
        printf("# launcher: %s\n", err.msg);
        (void)fflush(stdout);
        _exit(1);
    }
    (void)launcher_sweep(l);
    if (lab->inside != NULL)
        lab->inside();
    int r = launcher_serve(l, sock, &err);

    if (r < 0)
        printf("# launcher: %s\n", err.msg);
    (void)fflush(stdout);
    launcher_free(l);
    if (lab->inside != NULL)
        _exit(r < 0 ? 2 : 0);
    exit(r < 0 ? 2 : 0); /* a sanitizer looks for leaks here */
}

static inline void lab_start(struct lab *lab)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        lab_die("socketpair");
    (void)fflush(stdout);
    lab->pid = fork();
    if (lab->pid < 0)
        lab_die("fork");
    if (lab->pid == 0) {
        (void)close(pair[0]);
        lab_serve(lab, pair[1]);
    }
    (void)close(pair[1]);
    lab->sock = pair[0];
}

/* Its exit status, after the end of its socket; -1 when it does not end. */
static inline int lab_end(struct lab *lab)
{
    int status = -1;

    if (lab->sock >= 0)
        (void)close(lab->sock);
    lab->sock = -1;
    for (int ms = 0; ms < LAB_ANSWER_MS; ms += 10) {
        if (waitpid(lab->pid, &status, WNOHANG) == lab->pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        (void)poll(NULL, 0, 10);
    }
    (void)kill(lab->pid, SIGKILL);
    (void)waitpid(lab->pid, &status, 0);
    return -1;
}

/* In a mount namespace of its own, in which only the launcher's mounts are counted. */
static inline void lab_dirs(struct lab *lab)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        lab_die("mount namespace");
    (void)snprintf(lab->top, sizeof(lab->top), "/tmp/rind-lab-XXXXXX");
    if (mkdtemp(lab->top) == NULL)
        lab_die("mkdtemp");
    (void)snprintf(lab->state, sizeof(lab->state), "%s/state", lab->top);
    (void)snprintf(lab->ids, sizeof(lab->ids), "%s/ids", lab->top);
    (void)snprintf(lab->allowed, sizeof(lab->allowed), "%s/allowed", lab->top);
    if (chmod(lab->top, 0755) < 0 || mkdir(lab->state, 0700) < 0 || mkdir(lab->allowed, 0755) < 0)
        lab_die("mkdir");
    lab->prefixes[0] = lab->allowed;
    (void)snprintf(lab->id, sizeof(lab->id), "lab%07d", (int)getpid());
}

static inline void lab_layers(struct lab *lab)
{
    auto_close int state = open(lab->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_close int base = FD_NONE;
    auto_close int root = FD_NONE;
    struct err err = ERR_NONE;

    if (image_default_layers(state, &base, &root, &err) < 0) {
        printf("Bail out! layers: %s\n", err.msg);
        exit(1);
    }
    lab->layers[0] = image_builtin_name(BUILTIN_ROOT);
    lab->layers[1] = image_builtin_name(BUILTIN_BASE);
}

static inline void lab_remove(struct lab *lab)
{
    (void)rmtree_at(AT_FDCWD, lab->top, RMTREE_ONE_MOUNT);
}

/* ---- messages ---- */

static inline void lab_send_raw(const struct lab *lab, size_t len, const int *fds, int fd_count)
{
    static char body[65536];
    static union {
        char bytes[CMSG_SPACE(sizeof(int) * 253)];
        struct cmsghdr first;
    } control;
    struct iovec iov = {.iov_base = body, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd_count > 0) {
        (void)memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fd_count);
        control.first.cmsg_level = SOL_SOCKET;
        control.first.cmsg_type = SCM_RIGHTS;
        control.first.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fd_count);
        (void)memcpy(CMSG_DATA(&control.first), fds, sizeof(int) * (size_t)fd_count);
    }
    if (sendmsg(lab->sock, &msg, MSG_NOSIGNAL) < 0)
        tap_fail("send: %s", strerror(errno));
}

static inline void lab_receive(const struct lab *lab, struct lab_answer *a)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * LAB_FDS_MAX)];
        struct cmsghdr first;
    } control;
    struct iovec iov = {.iov_base = &a->reply, .iov_len = sizeof(a->reply)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct pollfd p = {.fd = lab->sock, .events = POLLIN};
    const struct cmsghdr *c;

    *a = (struct lab_answer){.fd_count = 0};
    a->reply.code = -EXFULL; /* what no launcher answers */
    if (poll(&p, 1, LAB_ANSWER_MS) <= 0 ||
        recvmsg(lab->sock, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(a->reply)) {
        tap_fail("no answer from the launcher");
        return;
    }
    c = CMSG_FIRSTHDR(&msg);
    if (c == NULL)
        return;
    a->fd_count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    (void)memcpy(a->fds, CMSG_DATA(c), sizeof(int) * (size_t)a->fd_count);
}

static inline void lab_answer_done(struct lab_answer *a)
{
    for (int i = 0; i < a->fd_count; i++)
        (void)close(a->fds[i]);
    a->fd_count = 0;
}

/* Ends the request and asks. */
static inline void lab_ask(const struct lab *lab, struct buf *b, struct lab_answer *a)
{
    auto_close int fd = FD_NONE;

    CHECK_INT(launch_end(b), 0);
    fd = memfd_sealed("request", b->data, b->len);
    if (fd < 0)
        tap_fail("memfd: %s", strerror(-fd));
    lab_send_raw(lab, 1, &fd, 1);
    lab_receive(lab, a);
    buf_done(b);
}

static inline int lab_verb(const struct lab *lab, enum launch_verb verb, const char *id,
                           struct lab_answer *a)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    launch_begin(&b, verb);
    if (id != NULL)
        launch_put_string(&b, TAG_ID, id);
    lab_ask(lab, &b, a);
    return a->reply.code;
}

#define LAB_VERB(lab, verb, id, want, text)                                                        \
    do {                                                                                           \
        struct lab_answer a_;                                                                      \
        CHECK_INT(lab_verb(lab, verb, id, &a_), want);                                             \
        if (strstr(a_.reply.message, text) == NULL)                                                \
            tap_fail("\"%s\", want \"%s\"", a_.reply.message, text);                               \
        lab_answer_done(&a_);                                                                      \
    } while (0)

/* A verb whose answer brings a pidfd, and the end of that process. */
static inline void lab_verb_to_end(const struct lab *lab, enum launch_verb verb)
{
    struct pollfd p = {.events = POLLIN};
    struct lab_answer a;

    CHECK_INT(lab_verb(lab, verb, lab->id, &a), 0);
    CHECK_INT(a.fd_count, 1);
    p.fd = a.fds[0];
    CHECK_INT(poll(&p, 1, LAB_ANSWER_MS), 1);
    lab_answer_done(&a);
}

/* Kills it, and waits for its end. */
static inline void lab_kill(const struct lab *lab)
{
    lab_verb_to_end(lab, LAUNCH_KILL);
}

/* Stops it, and waits until its files are synced and the launcher has reaped who did that. */
static inline void lab_stop(const struct lab *lab)
{
    lab_verb_to_end(lab, LAUNCH_STOP);
    LAB_VERB(lab, LAUNCH_END, "nobody", -ENOENT, "nobody");
}

/* Kills and removes the sandbox that was started. */
static inline void lab_finish(const struct lab *lab, struct lab_answer *a)
{
    lab_answer_done(a);
    lab_kill(lab);
    LAB_VERB(lab, LAUNCH_RELEASE, lab->id, 0, "");
}

/* ---- the audit ---- */

static inline void lab_check_clean(const struct lab *lab)
{
    char path[160], pattern[256];
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char line[4096];

    (void)snprintf(path, sizeof(path), "%s/sandboxes", lab->state);
    CHECK_INT(lab_entries(path), 0);
    CHECK_INT(lab_entries(lab->ids), 0);
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        char point[512];
        glob_t found;

        if (strstr(line, " - cgroup") == NULL || sscanf(line, "%*s %*s %*s %*s %511s", point) != 1)
            continue;
        (void)snprintf(pattern, sizeof(pattern), "%.200s/rind/%s*", point, lab->id);
        if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
            tap_fail("left: %s", found.gl_pathv[0]);
        globfree(&found);
    }
    if (f != NULL)
        (void)fclose(f);
}

static inline void lab_check(const struct lab *lab)
{
    char path[96];

    LAB_VERB(lab, LAUNCH_KILL, "nobody", -ENOENT, "no sandbox nobody");
    lab_check_clean(lab);
    CHECK_INT(lab_open_fds(lab), lab->fds);
    CHECK_INT(lab_mount_count(lab), lab->mounts);
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)lab->pid, (int)lab->pid);
    /* Those that nobody waits for are reaped when they have ended. */
    for (int left = LAB_ANSWER_MS; left >= 0; left--) {
        FILE *f = fopen(path, "re");
        bool any = f != NULL && fgetc(f) != EOF;

        if (f != NULL)
            (void)fclose(f);
        if (!any)
            return;
        (void)usleep(1000);
    }
    tap_fail("the launcher has children left");
}

/* ---- a process inside ---- */

struct lab_run {
    int failed_step, failed_error; /* EXEC_FAILED */
    int status;                    /* of wait(2); -1 = it did not end */
    char output[LAB_OUTPUT_MAX];   /* of stdout, or of the terminal */
};

static inline void lab_read_all(int fd, char *out, size_t size)
{
    size_t len = 0;

    while (len < size - 1) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (poll(&p, 1, LAB_ANSWER_MS) <= 0)
            break;
        n = read(fd, out + len, size - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
}

/* Runs argv (or the program, when it is a descriptor) as `user` over the sandbox's control socket.
 */
static inline void lab_run(int control, int program, const char *user, char *const *argv, bool tty,
                           struct lab_run *r)
{
    static char path[] = "PATH=/bin";
    char *const env[] = {path, NULL};
    const struct exec_spec spec = {.argv = argv, .envp = env, .user = user, .cwd = "/"};
    static uint64_t next_id = 1;
    struct imsg msg = {.magic = IMSG_MAGIC,
                       .version = IMSG_VERSION,
                       .type = IMSG_EXEC,
                       .id = next_id++,
                       .rows = 24,
                       .cols = 80,
                       .flags = (program >= 0 ? IMSG_PROGRAM : 0) | (tty ? IMSG_TTY : 0)};
    struct err err = ERR_NONE;
    struct stdio_sockets sockets = STDIO_SOCKETS_NONE;
    int fds[IMSG_FDS_MAX], count = 0, send[IMSG_FDS_MAX];
    auto_close int request = exec_request(&spec, &err);

    *r = (struct lab_run){.status = -1};
    if (request < 0 || stdio_sockets_make(msg.flags, &sockets) < 0) {
        tap_fail("%s", err.msg);
        return;
    }
    send[count++] = request;
    if (program >= 0)
        send[count++] = program;
    count = stdio_sockets_add(&sockets, msg.flags, send, count);
    if (channel_send(control, &msg, send, count) < 0) {
        tap_fail("init is gone");
        stdio_sockets_close(&sockets);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (sockets.inits[i] >= 0)
            (void)close(take_fd(&sockets.inits[i]));
    for (;;) {
        struct pollfd p = {.fd = control, .events = POLLIN};

        count = 0;
        if (poll(&p, 1, LAB_ANSWER_MS) <= 0 || channel_recv(control, 0, &msg, fds, &count) <= 0) {
            tap_fail("init says nothing more");
            break;
        }
        if (msg.type == IMSG_STARTED)
            lab_read_all(sockets.ours[tty ? 0 : 1], r->output, sizeof(r->output));
        for (int i = 0; i < count; i++)
            (void)close(fds[i]);
        if (msg.type == IMSG_EXEC_FAILED) {
            r->failed_step = (int)msg.step;
            r->failed_error = msg.error;
        }
        if (msg.type == IMSG_EXITED) {
            r->status = msg.value;
            break;
        }
    }
    stdio_sockets_close(&sockets);
}

/* Whether int 0x80 is a system call for a process of this host; where it is none, it ends the
 * process by a signal, and unit/test-floor judges the floor of that table. */
static inline bool has_i386(void)
{
#if defined(__x86_64__)
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        long ret;

        __asm__ volatile("int $0x80" : "=a"(ret) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
        _exit(ret > 0 ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
#else
    return false;
#endif
}
