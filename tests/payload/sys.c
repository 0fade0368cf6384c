/* Single system calls, by every table this processor has, and the sweeps that need loops. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "payload.h"

long raw_call(void *arg)
{
    const struct raw *r = arg;

    return syscall(r->nr, r->a[0], r->a[1], r->a[2], r->a[3], r->a[4], r->a[5]);
}

#if defined(__x86_64__)
long i386_call(void *arg)
{
    const struct raw *r = arg;
    long ret;

    /* Four arguments do: no sixth through %ebp. */
    __asm__ volatile("int $0x80"
                     : "=a"(ret)
                     : "a"(r->nr), "b"(r->a[0]), "c"(r->a[1]), "d"(r->a[2]), "S"(r->a[3])
                     : "memory", "r8", "r9", "r10", "r11");
    if ((int)ret < 0) {
        errno = -(int)ret;
        return -1;
    }
    return ret;
}
#endif

/* sys NR ARG…: one call; an argument "s:text" is a string. */
static int cmd_sys(int argc, char **argv)
{
    struct raw r = {0};

    if (argc < 2)
        return 2;
    r.nr = number(argv[1]);
    for (int i = 2; i < argc && i < 8; i++) {
        const char *s = argv[i];

        r.a[i - 2] = strncmp(s, "s:", 2) == 0 ? (long)(s + 2) : (long)number(s);
    }
    js_open(NULL, '{');
    js_outcome("result", in_child(raw_call, &r));
    js_close('}');
    putchar('\n');
    return 0;
}

/*
 * calls TABLE:NR[:ARG…]…: each call in a child of its own, with arguments that do nothing when the
 * call is let through. TABLE is 64, 32 (int 0x80) or x32. What the calls are is the test's to say.
 */
static int cmd_calls(int argc, char **argv)
{
    js_open(NULL, '{');
    for (int i = 1; i < argc; i++) {
        char text[160], *at = text, *field;
        struct raw r = {0};
        bool i386;
        int n = 0;

        snprintf(text, sizeof(text), "%s", argv[i]);
        field = strsep(&at, ":");
        i386 = strcmp(field, "32") == 0;
        r.nr = at != NULL ? (long)number(strsep(&at, ":")) : -1;
        if (strcmp(field, "x32") == 0)
            r.nr |= 0x40000000;
        while (at != NULL && n < 6)
            r.a[n++] = (long)number(strsep(&at, ":"));
        js_outcome(argv[i], in_child(i386 ? i386_call : raw_call, &r));
    }
    js_close('}');
    putchar('\n');
    return 0;
}

#if defined(__x86_64__)
/* clang-format off */
static const struct { const char *name; struct raw call; } i386_calls[] = {
    {"getpid", {20, {0}}},
    {"mount", {21, {0, 0, 0, 0}}},
    {"ptrace", {26, {0, 0, 0, 0}}},
    {"umount", {22, {0}}},
    {"ioctl", {54, {-1, 0x5401, 0}}},
    {"tiocsti", {54, {0, 0x5412, 0}}},
    {"chroot", {61, {0}}},
    {"reboot", {88, {1, 2, 3, 0}}},
    {"socketcall_vsock", {102, {1, 0}}}, /* the argument block is filled in below */
    {"socketcall_unix", {102, {1, 0}}},
    {"clone_newuser", {120, {0x10000000 | 17, 0}}},
    {"init_module", {128, {0, 0, 0}}},
    {"unshare", {310, {0x10000000}}},
    {"add_key", {286, {0, 0, 0, 0}}},
    {"keyctl", {288, {-1, 0}}},
    {"setns", {346, {-1, 0}}},
    {"perf_event_open", {336, {0, 0, -1, -1}}},
    {"bpf", {357, {-1, 0, 0}}},
    {"userfaultfd", {374, {-1}}},
    {"socket_vsock", {359, {40, 1, 0}}},
    {"socket_packet", {359, {17, 3, 0}}},
    {"open_by_handle_at", {342, {-1, 0, 0}}},
    {"clone3", {435, {0, 0}}},
    {"io_uring_setup", {425, {8, 0}}},
    {"vm86", {166, {0, 0}}},
    {"modify_ldt", {123, {99, 0, 0}}},
};
/* The same numbers with the x32 bit, and the calls that only that table has (512 up). */
static const struct { const char *name; struct raw call; } x32_calls[] = {
    {"getpid", {39, {0}}},
    {"unshare", {272, {0x10000000}}},
    {"mount", {165, {0, 0, 0, 0}}},
    {"ptrace", {521, {0, 0, 0, 0}}},
    {"keyctl", {250, {-1, 0}}},
    {"bpf", {321, {-1, 0, 0}}},
    {"ioctl_tiocsti", {514, {0, 0x5412, 0}}},
    {"kexec_load", {528, {0, 0, 0, -1}}},
    {"socket_vsock", {41, {40, 1, 0}}},
};
/* clang-format on */
enum { X32_BIT = 0x40000000 };

/* The one call that every host answers that has the table at all; harmless outside of a sandbox. */
static int cmd_int80(int argc, char **argv)
{
    struct raw r = {20, {0}};

    (void)argc;
    (void)argv;
    js_open(NULL, '{');
    js_outcome("getpid", in_child(i386_call, &r));
    js_close('}');
    putchar('\n');
    return 0;
}

/* Calls through int 0x80. */
static int cmd_i386(int argc, char **argv)
{
    unsigned *block =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

    (void)argc;
    (void)argv;
    if (block == MAP_FAILED)
        return complain("mmap");
    js_open(NULL, '{');
    for (size_t i = 0; i < sizeof(i386_calls) / sizeof(i386_calls[0]); i++) {
        struct raw r = i386_calls[i].call;

        if (r.nr == 102) {
            block[0] = strcmp(i386_calls[i].name, "socketcall_vsock") == 0 ? 40 : AF_UNIX;
            block[1] = SOCK_STREAM;
            block[2] = 0;
            r.a[1] = (long)block;
        }
        js_outcome(i386_calls[i].name, in_child(i386_call, &r));
    }
    js_close('}');
    putchar('\n');
    return 0;
}

/* clang-format off */
static const struct { const char *name; bool i386; int pointer; struct raw call; } hugepage_calls[] = {
    /* pointer: the argument that is a name; -1: none */
    {"memfd",            false, 0,  {319, {0, 4}}},
    {"memfd 2M",         false, 0,  {319, {0, 4 | 21 << 26}}},
    {"memfd high",       false, 0,  {319, {0, 4 | 1L << 32}}},
    {"memfd sealing",    false, 0,  {319, {0, 4 | 1 | 2}}},
    {"memfd i386",       true,  0,  {356, {0, 4}}},
    {"mmap",             false, -1, {9, {0, 2 << 20, 3, 0x22 | 0x40000, -1, 0}}},
    {"mmap 1G",          false, -1, {9, {0, 1 << 30, 3, 0x22 | 0x40000 | 30L << 26, -1, 0}}},
    {"mmap high",        false, -1, {9, {0, 2 << 20, 3, 0x22 | 0x40000 | 1L << 32, -1, 0}}},
    {"mmap2 i386",       true,  -1, {192, {0, 2 << 20, 3, 0x22 | 0x40000}}},
    {"old mmap i386",    true,  0,  {90, {0}}},
    {"shmget",           false, -1, {29, {0, 2 << 20, 0x800 | 01000 | 0600}}},
    {"shmget i386",      true,  -1, {395, {0, 2 << 20, 0x800 | 01000 | 0600}}},
    {"ipc i386",         true,  -1, {117, {23, 0, 2 << 20, 0x800 | 01000 | 0600}}},
    {"ipc version i386", true,  -1, {117, {23 | 1 << 16, 0, 2 << 20, 0x800 | 01000 | 0600}}},
    {"small memfd",      false, 0,  {319, {0, 3}}},
    {"small memfd i386", true,  0,  {356, {0, 3}}},
    {"small mmap",       false, -1, {9, {0, 2 << 20, 3, 0x22, -1, 0}}},
    {"small shmget",     false, -1, {29, {0, 4096, 01000 | 0600}}},
};
/* clang-format on */

/* Huge pages by every call that makes some, and the same calls without. */
static int cmd_hugepages(int argc, char **argv)
{
    char *block =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

    (void)argc;
    (void)argv;
    if (block == MAP_FAILED)
        return complain("mmap");
    js_open(NULL, '{');
    for (size_t i = 0; i < sizeof(hugepage_calls) / sizeof(hugepage_calls[0]); i++) {
        struct raw r = hugepage_calls[i].call;

        if (hugepage_calls[i].pointer >= 0)
            r.a[hugepage_calls[i].pointer] = (long)block;
        js_outcome(hugepage_calls[i].name,
                   in_child(hugepage_calls[i].i386 ? i386_call : raw_call, &r));
    }
    js_close('}');
    putchar('\n');
    return 0;
}

static int cmd_x32(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    js_open(NULL, '{');
    for (size_t i = 0; i < sizeof(x32_calls) / sizeof(x32_calls[0]); i++) {
        struct raw r = x32_calls[i].call;

        r.nr |= X32_BIT;
        js_outcome(x32_calls[i].name, in_child(raw_call, &r));
    }
    js_close('}');
    putchar('\n');
    return 0;
}
#else
long i386_call(void *arg)
{
    (void)arg;
    errno = ENOSYS;
    return -1;
}

static int cmd_i386(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("{}");
    return 0;
}
#define cmd_int80     cmd_i386
#define cmd_x32       cmd_i386
#define cmd_hugepages cmd_i386
#endif

/* socket(DOMAIN, TYPE, 0) for every domain; "DOMAIN TYPE" -> result. With `high`, bit 32 is set in
 * the domain: the kernel looks at the low half only, and so must the filter. */
static int cmd_sockets(int argc, char **argv)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
    long high = argc > 1 && strcmp(argv[1], "high") == 0 ? 1L << 32 : 0;

    js_open(NULL, '{');
    for (long domain = 0; domain <= 48; domain++) {
        for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
            char key[32];
            long fd = syscall(SYS_socket, high | domain, (long)types[t] | SOCK_CLOEXEC, 0L);

            snprintf(key, sizeof(key), "%ld %d", domain, types[t]);
            js_result(key, fd);
            if (fd >= 0)
                close((int)fd);
        }
    }
    for (long protocol = 0; protocol <= 22; protocol++) {
        char key[32];
        long fd = syscall(SYS_socket, high | AF_NETLINK, (long)SOCK_RAW | SOCK_CLOEXEC, protocol);

        snprintf(key, sizeof(key), "netlink %ld", protocol);
        js_result(key, fd);
        if (fd >= 0)
            close((int)fd);
    }
    {
        long fd = syscall(SYS_socket, (long)AF_INET, (long)SOCK_RAW | SOCK_CLOEXEC, 1L);

        js_result("icmp raw", fd);
        fd = syscall(SYS_socket, (long)AF_INET, (long)SOCK_DGRAM | SOCK_CLOEXEC, 1L);
        js_result("icmp ping", fd);
    }
    js_close('}');
    putchar('\n');
    return 0;
}

/* clang-format off */
static const struct { const char *name; long flag; } clone_flags[] = {
    {"newuser", CLONE_NEWUSER}, {"newns", CLONE_NEWNS}, {"newpid", CLONE_NEWPID}, {"newnet", CLONE_NEWNET},
    {"newuts", CLONE_NEWUTS}, {"newipc", CLONE_NEWIPC}, {"newcgroup", 0x02000000}, {"newtime", 0x00000080},
};
/* clang-format on */

static long try_clone(void *arg)
{
    long pid = syscall(SYS_clone, *(const long *)arg | SIGCHLD, 0L, 0L, 0L, 0L);

    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return pid;
}

static long try_unshare(void *arg)
{
    return syscall(SYS_unshare, *(const long *)arg);
}

static long try_clone3(void *arg)
{
    unsigned long long args[11] = {0};
    long pid;

    args[0] = (unsigned long long)*(const long *)arg;
    args[4] = SIGCHLD;
    pid = syscall(SYS_clone3, args, sizeof(args));
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return pid;
}

/* New namespaces by clone, clone3 and unshare; plain clone and clone3. */
static int cmd_clones(int argc, char **argv)
{
    long none = 0;

    (void)argc;
    (void)argv;
    js_open(NULL, '{');
    js_outcome("clone plain", in_child(try_clone, &none));
    js_outcome("clone3 plain", in_child(try_clone3, &none));
    js_outcome("unshare nothing", in_child(try_unshare, &none));
    for (size_t i = 0; i < sizeof(clone_flags) / sizeof(clone_flags[0]); i++) {
        long flag = clone_flags[i].flag, high = flag | (1L << 32);
        char key[48];

        snprintf(key, sizeof(key), "clone %s", clone_flags[i].name);
        if (flag != 0x80) /* clone takes the low byte as the exit signal */
            js_outcome(key, in_child(try_clone, &flag));
        snprintf(key, sizeof(key), "clone3 %s", clone_flags[i].name);
        js_outcome(key, in_child(try_clone3, &flag));
        snprintf(key, sizeof(key), "unshare %s", clone_flags[i].name);
        js_outcome(key, in_child(try_unshare, &flag));
        snprintf(key, sizeof(key), "clone %s high", clone_flags[i].name);
        if (flag != 0x80)
            js_outcome(key, in_child(try_clone, &high));
    }
    js_close('}');
    putchar('\n');
    return 0;
}

static long try_into(void *arg)
{
    unsigned long long args[11] = {0};
    int fd = open(arg, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long pid;

    if (fd < 0)
        return -errno;
    args[0] = 0x200000000ULL; /* CLONE_INTO_CGROUP */
    args[4] = SIGCHLD;
    args[10] = (unsigned long long)fd;
    pid = syscall(SYS_clone3, args, sizeof(args));
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return pid < 0 ? -errno : pid;
}

/* A process in each of the cgroups. */
static int cmd_into(int argc, char **argv)
{
    js_open(NULL, '{');
    for (int i = 1; i < argc; i++)
        js_outcome(argv[i], in_child(try_into, argv[i]));
    js_close('}');
    putchar('\n');
    return 0;
}

const struct cmd sys_cmds[] = {
    {"intocgroup", cmd_into, "DIR…: clone3 into each"},
    {"sys", cmd_sys, "NR ARG…: one call"},
    {"int80", cmd_int80, ": getpid through int 0x80"},
    {"calls", cmd_calls, "TABLE:NR[:ARG...]...: calls by number; TABLE is 64, 32 or x32"},
    {"i386", cmd_i386, ": calls through int 0x80"},
    {"x32", cmd_x32, ": calls with the x32 bit"},
    {"hugepages", cmd_hugepages, ": huge pages by every call that makes some"},
    {"sockets", cmd_sockets, "[high]: every domain and type"},
    {"clones", cmd_clones, ": new namespaces in every spelling"},
    {0},
};
