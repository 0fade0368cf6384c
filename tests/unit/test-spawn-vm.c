/* A process that shares its starter's memory until its execve. */

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sanitizer/asan_interface.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "init/exec-table.h"
#include "policy/policy.h"
#include "sandbox/exec-request.h"
#include "tap.h"

enum { MEBIBYTE = 1 << 20, MARK = 77 };

static struct plan_header header;
static const struct plan plan = {.header = &header};

/* What capset may ask for. */
static uint64_t own_capabilities(void)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    if (syscall(SYS_capget, &h, data) < 0)
        abort();
    return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

struct running {
    int pid;
    int status_fd; /* the reader's */
};

/* Both are read only. */
static struct running start(struct spawn_vm *w, const char *const *argv, const char *const *envp)
{
    const struct exec_spec spec = {.argv = (char *const *)(uintptr_t)argv,
                                   .envp = (char *const *)(uintptr_t)envp,
                                   .user = "",
                                   .cwd = "/"};
    const struct clone_args args = {.exit_signal = SIGCHLD};
    auto_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct running r = {.pid = -1};
    struct err err = ERR_NONE;
    int status[2];

    header.capabilities = own_capabilities();
    auto_close int request = exec_request(&spec, &err);
    if (null < 0 || request < 0 || pipe2(status, O_CLOEXEC) < 0)
        abort();

    const struct exec_start s = {.request_fd = request,
                                 .request_size = (size_t)lseek(request, 0, SEEK_END),
                                 .program_fd = -1,
                                 .stdio = {null, null, null},
                                 .status_fd = status[1]};

    /* ASan has marked where the frames of the one before lay, which nobody has returned from. */
    ASAN_UNPOISON_MEMORY_REGION(w->stack, (size_t)(w->arena.base - w->stack));
    r.pid = spawn_vm_clone(w, &plan, &s, &args);
    r.status_fd = status[0];
    (void)close(status[1]);
    return r;
}

/* To the end of the status pipe, and of the process: what waitpid says. *ret has size 0 without a
 * record. */
static int end(struct running r, struct exec_failure *ret, ssize_t *ret_size)
{
    int status = -1;

    *ret_size = read(r.status_fd, ret, sizeof(*ret));
    (void)close(r.status_fd);
    if (waitpid(r.pid, &status, 0) != r.pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static size_t resident(const unsigned char *at, size_t len)
{
    static unsigned char pages[EXEC_ARENA_SIZE / 4096 + 1];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;

    if (mincore((void *)(uintptr_t)at, len, pages) < 0)
        abort();
    for (size_t i = 0; i < (len + page - 1) / page; i++)
        count += pages[i] & 1;
    return count * page;
}

/* NULL: they can run here. */
static const char *why_not(void)
{
#ifdef __SANITIZE_THREAD__
    return "TSan knows no process that shares our memory and is no thread";
#else
    return geteuid() == 0 ? NULL : "needs root";
#endif
}

static struct spawn_vm *spawn_vm(void)
{
    static struct spawn_vm w;

    return &w;
}

TEST(runs_and_leaves)
{
    const char *argv[] = {"/bin/sh", "-c", "exit $CODE", NULL}, *envp[] = {"CODE=7", NULL};
    struct exec_failure failure;
    struct running r;
    ssize_t n;

    if (why_not() != NULL)
        SKIP(why_not());
    CHECK(spawn_vm_is_free(spawn_vm(), 0));
    for (int i = 0; i < 20; i++) {
        r = start(spawn_vm(), argv, envp);
        CHECK(r.pid > 0);
        CHECK(!spawn_vm_is_free(spawn_vm(), 0)); /* until somebody has seen it leave */
        CHECK_INT(end(r, &failure, &n), 7);
        CHECK_INT(n, 0);
        spawn_vm_left(spawn_vm());
        CHECK(spawn_vm_is_free(spawn_vm(), 0));
    }
}

/* What a process before its execve finds wrong it says; nothing of it shows here. */
TEST(fails_beside_us)
{
    const char *argv[] = {"/does/not/exist", NULL}, *envp[] = {NULL};
    struct exec_failure failure = {0};
    struct running r;
    ssize_t n;
    int code, seen;

    if (why_not() != NULL)
        SKIP(why_not());
    CHECK(spawn_vm_is_free(spawn_vm(), 0));
    r = start(spawn_vm(), argv, envp);
    errno = MARK;
    code = end(r, &failure, &n);
    seen = errno;
    CHECK_INT(code, 127);
    CHECK_INT(seen, MARK);
    CHECK_INT(n, sizeof(failure));
    CHECK_INT(failure.step, EXEC_STEP_EXECVE);
    CHECK_INT(failure.error, ENOENT);
    spawn_vm_left(spawn_vm());
}

/* A large request does not stay here. */
TEST(gives_back_what_it_read)
{
    enum { COUNT = 16 };
    static char big[COUNT][64 << 10];
    const char *envp[COUNT + 1], *argv[] = {"/bin/true", NULL};
    struct exec_failure failure;
    ssize_t n;

    if (why_not() != NULL)
        SKIP(why_not());
    for (int i = 0; i < COUNT; i++) {
        (void)memset(big[i], 'x', sizeof(big[i]) - 1);
        (void)memcpy(big[i], "A=", 2);
        envp[i] = big[i];
    }
    envp[COUNT] = NULL;
    CHECK(spawn_vm_is_free(spawn_vm(), 0));
    CHECK_INT(end(start(spawn_vm(), argv, envp), &failure, &n), 0);
    CHECK_INT(n, 0);
    CHECK(spawn_vm()->arena.used > MEBIBYTE);
    CHECK(resident(spawn_vm()->arena.base, EXEC_ARENA_SIZE) > MEBIBYTE);
    spawn_vm_left(spawn_vm());
    CHECK(resident(spawn_vm()->arena.base, EXEC_ARENA_SIZE) <= 64 << 10);
}

/* Killed on the way, or its program is: the same to us. */
TEST(is_killed)
{
    const char *argv[] = {"/bin/sleep", "1000", NULL}, *envp[] = {NULL};
    struct exec_failure failure;
    ssize_t n;

    if (why_not() != NULL)
        SKIP(why_not());
    for (int i = 0; i < 20; i++) {
        struct running r;

        CHECK(spawn_vm_is_free(spawn_vm(), 0));
        r = start(spawn_vm(), argv, envp);
        (void)usleep((useconds_t)(i * 20));
        (void)kill(r.pid, SIGKILL);
        CHECK_INT(end(r, &failure, &n), 1000 + SIGKILL);
        CHECK_INT(n, 0);
        spawn_vm_left(spawn_vm());
    }
}

TAP_MAIN
