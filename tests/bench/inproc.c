/*
 * rind's own modules in one process that goes on running, as the daemon does: what a sandbox and
 * what an exec costs without the start of the command `rind`. The launcher is called directly; the
 * API's share (HTTP, JSON, the loop) is measured elsewhere.
 *
 * usage: inproc create STATE ROOTFS RUNS     create, run /bin/true, remove
 *        inproc exec STATE ROOTFS RUNS       in a running sandbox, by turns: see series[]
 * prints {"samples":[[ns,…],…]}, one list a series.
 */

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "image/embed.h"
#include "image/layer.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "proto/frame.h"
#include "sandbox/exec-request.h"
#include "sandbox/paths.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox-request.h"
#include "spec/spec.h"

enum {
    RUNS_MAX = 10000,
    READ_MAX = 65536,
    READ_BYTES = 4096, /* of /etc/4k, which the case makes */
};

static struct {
    struct launcher *launcher;
    struct ready_policy *policy;
    struct spec *spec;
    int root_fd, shim_fd;
    uint64_t next_exec;
    unsigned next_sandbox;
} host;

static struct err err = ERR_NONE;

__attribute__((noreturn)) static void die(const char *what)
{
    fprintf(stderr, "inproc: %s: %s\n", what, err.msg[0] != '\0' ? err.msg : strerror(errno));
    exit(1);
}

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            die(#call);                                                                            \
    } while (0)

static int64_t now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void open_host(const char *state, const char *rootfs)
{
    static const char *const prefixes[] = {"/", NULL};
    const struct launcher_config config = {.state_dir = state,
                                           .ids_dir = CORE_IDS_DIR,
                                           .bind_prefixes = prefixes,
                                           .init_image = embed_init().data,
                                           .init_size = embed_init().len};
    int base_fd, default_fd;

    MUST(launcher_open(&config, &host.launcher, &err));
    MUST(policy_make_ready(launcher_state_fd(host.launcher), "untrusted", false, &host.policy,
                           &err));
    MUST(image_default_layers(launcher_state_fd(host.launcher), &base_fd, &default_fd, &err));
    (void)close(base_fd);
    (void)close(default_fd);
    host.spec = spec_new();
    if (host.spec == NULL)
        die("spec");
    MUST(spec_set_rootfs(host.spec, rootfs, &err));
    MUST(host.root_fd = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC));
    MUST(host.shim_fd = memfd_program("sandbox-shim", embed_shim().data, embed_shim().len));
    MUST(fchmod(host.shim_fd, 0555));
}

/* ---- one sandbox ---- */

struct box {
    char id[32];
    struct launch_result result;
};

static void start(struct box *b)
{
    const char *layers[] = {image_builtin_name(BUILTIN_BASE), NULL};
    struct buf request = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request decoded;

    (void)snprintf(b->id, sizeof(b->id), "bench-%d-%u", (int)getpid(), host.next_sandbox++);
    MUST(sandbox_request(&request, b->id, host.spec, host.policy, NULL, layers, host.root_fd, NULL,
                         LAUNCH_ATTACHED, &err));
    MUST(launch_decode(request.data, request.len, &decoded, &err));
    MUST(launcher_start(host.launcher, &decoded, &b->result, &err));
    buf_done(&request);
}

static void finish(const struct box *b)
{
    (void)close(b->result.control);
    (void)close(b->result.pidfd);
    MUST(launcher_kill(host.launcher, b->id, &err));
    MUST(launcher_release(host.launcher, b->id, &err));
}

/* ---- one exec ---- */

static size_t drain(int fd)
{
    static char buffer[READ_MAX];
    size_t total = 0;
    ssize_t n;

    (void)fcntl(fd, F_SETFL, 0); /* there is nothing else to do */
    while ((n = read(fd, buffer, sizeof(buffer))) > 0)
        total += (size_t)n;
    (void)close(fd);
    return total;
}

/* Asks for it and follows it to its end; what it says must be `output` bytes (-1: unasked). */
static void run(const struct box *b, char *const *argv, int program_fd, uint32_t flags,
                size_t output)
{
    static char path[] = "PATH=/bin";
    char *const envp[] = {path, NULL};
    const struct exec_spec spec = {.argv = argv, .envp = envp, .user = "", .cwd = "/"};
    struct imsg msg = {.magic = IMSG_MAGIC,
                       .version = IMSG_VERSION,
                       .type = IMSG_EXEC,
                       .id = ++host.next_exec,
                       .flags = flags | (program_fd >= 0 ? IMSG_PROGRAM : 0)};
    struct stdio_sockets sockets;
    int fds[IMSG_FDS_MAX] = {exec_request(&spec, &err), program_fd}, got[IMSG_FDS_MAX], count;
    size_t said = 0;

    MUST(fds[0]);
    MUST(stdio_sockets_make(msg.flags, &sockets));
    count = stdio_sockets_add(&sockets, msg.flags, fds, program_fd >= 0 ? 2 : 1);
    MUST(channel_send(b->result.control, &msg, fds, count));
    (void)close(fds[0]);
    for (int i = 0; i < 3; i++)
        if (sockets.inits[i] >= 0)
            (void)close(sockets.inits[i]);
    do {
        if (channel_recv(b->result.control, 0, &msg, got, &count) != 1)
            die("init is gone");
        if (msg.type == IMSG_EXEC_FAILED) {
            errno = msg.error;
            die(exec_step_name(msg.step));
        }
        for (int i = 0; msg.type == IMSG_STARTED && i < 3; i++)
            if (sockets.ours[i] >= 0)
                said += drain(sockets.ours[i]);
    } while (msg.type != IMSG_EXITED);
    if (msg.value != 0 || said < output) {
        fprintf(stderr, "inproc: %s: wait status 0x%x, %zu bytes of %zu\n", argv[0], msg.value,
                said, output);
        exit(1);
    }
}

static void exec_true(const struct box *b, uint32_t flags)
{
    static char path[] = "/bin/true";
    char *const argv[] = {path, NULL};

    run(b, argv, -1, flags, 0);
}

/* ---- what is measured ---- */

static void measure_exec(const struct box *b)
{
    exec_true(b, 0);
}

/* The same program on the host, with the stdio that an exec has. */
static void measure_spawn(const struct box *b)
{
    static char path[4096];
    char *const argv[] = {path, NULL}, *envp[] = {NULL};
    int status = -1;
    pid_t pid;

    (void)b;
    (void)snprintf(path, sizeof(path), "%s/bin/true", host.spec->rootfs);
    if (posix_spawn(&pid, path, NULL, NULL, argv, envp) != 0 || waitpid(pid, &status, 0) != pid ||
        status != 0)
        die("true");
}

static void shim(const struct box *b, const char *operation, const char *path, size_t output)
{
    char words[3][64];
    char *argv[] = {words[0], words[1], words[2], NULL};

    (void)snprintf(words[0], sizeof(words[0]), "sandbox-shim");
    (void)snprintf(words[1], sizeof(words[1]), "%s", operation);
    (void)snprintf(words[2], sizeof(words[2]), "%s", path);
    run(b, argv, host.shim_fd, IMSG_HELPER, output);
}

static void measure_stat(const struct box *b)
{
    shim(b, "stat", "/bin/true", FRAME_HEADER_SIZE + FRAME_STAT_SIZE);
}

static void measure_read(const struct box *b)
{
    shim(b, "read", "/etc/4k", READ_BYTES + (size_t)2 * FRAME_HEADER_SIZE);
}

static void (*const series[])(const struct box *) = {
    measure_spawn,
    measure_exec,
    measure_stat,
    measure_read,
};
enum { SERIES = sizeof(series) / sizeof(series[0]) };

static int64_t samples[SERIES][RUNS_MAX];

static void print(int count, unsigned runs)
{
    printf("{\"samples\":[");
    for (int s = 0; s < count; s++) {
        printf("%s[", s > 0 ? "," : "");
        for (unsigned i = 0; i < runs; i++)
            printf("%s%lld", i > 0 ? "," : "", (long long)samples[s][i]);
        printf("]");
    }
    printf("]}\n");
}

static void create(unsigned runs)
{
    for (unsigned i = 0; i < runs; i++) {
        struct box b;
        int64_t t = now();

        start(&b);
        exec_true(&b, IMSG_MAIN | IMSG_MAKE_CWD);
        finish(&b);
        samples[0][i] = now() - t;
    }
    print(1, runs);
}

static void execs(unsigned runs)
{
    struct box b;

    start(&b);
    for (int s = 0; s < SERIES; s++)
        series[s](&b);
    for (unsigned i = 0; i < runs; i++)
        for (int s = 0; s < SERIES; s++) {
            int64_t t = now();

            series[s](&b);
            samples[s][i] = now() - t;
        }
    finish(&b);
    print(SERIES, runs);
}

int main(int argc, char **argv)
{
    unsigned long runs = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;

    if (runs < 1 || runs > RUNS_MAX) {
        fputs("usage: inproc create|exec STATE ROOTFS RUNS\n", stderr);
        return 2;
    }
    open_host(argv[2], argv[3]);
    if (strcmp(argv[1], "create") == 0)
        create((unsigned)runs);
    else
        execs((unsigned)runs);
    launcher_free(host.launcher);
    ready_policy_free(host.policy);
    spec_free(host.spec);
    return 0;
}
