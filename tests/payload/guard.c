/* Set-id bits, by every way that there is to them: what each call answers, and what mode the file
 * has then. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "payload.h"

enum {
    BITS = 06755,
    SUID = 04755,
    FCHMODAT2 = 452,
    OPENAT2 = 437,
    EMPTY = 0x1000,
    NOFOLLOW = 0x100,
    TMP = 020200000
};

static char dir[256], file[512], other[512];

static void show(const char *way, long ret, const char *path)
{
    struct stat st;
    char mode[16];

    js_open(way, '{');
    js_result("result", ret);
    snprintf(mode, sizeof(mode), "%o", lstat(path, &st) < 0 ? 0 : (unsigned)st.st_mode & 07777);
    js_str("mode", mode);
    js_close('}');
    unlink(file);
    unlink(other);
    rmdir(file);
}

static void fresh(void)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd >= 0)
        close(fd);
    chmod(file, 0644);
}

/* ---- one call each; 0 or a descriptor, or -1 with errno ---- */

static long by_chmod(void *p)
{
    (void)p;
    return chmod(file, BITS);
}
static long by_suid(void *p)
{
    (void)p;
    return chmod(file, SUID);
}
static long by_fchmodat(void *p)
{
    (void)p;
    return syscall(SYS_fchmodat, AT_FDCWD, file, BITS);
}
static long by_fchmodat2(void *p)
{
    (void)p;
    return syscall(FCHMODAT2, AT_FDCWD, file, BITS, 0);
}
static long by_nofollow(void *p)
{
    (void)p;
    return syscall(FCHMODAT2, AT_FDCWD, file, BITS, NOFOLLOW);
}
static long by_bad_flags(void *p)
{
    (void)p;
    return syscall(FCHMODAT2, AT_FDCWD, file, BITS, 0x10);
}
static long by_fchmod(void *p)
{
    (void)p;
    return fchmod(open(file, O_RDONLY), BITS);
}
static long by_o_path(void *p)
{
    (void)p;
    return syscall(SYS_fchmod, open(file, O_PATH), BITS);
}
static long by_empty(void *p)
{
    (void)p;
    return syscall(FCHMODAT2, open(file, O_PATH), "", BITS, EMPTY);
}
static long by_dirfd(void *p)
{
    (void)p;
    return syscall(SYS_fchmodat, open(dir, O_RDONLY | O_DIRECTORY), "f", BITS);
}
static long by_relative(void *p)
{
    (void)p;
    return chdir(dir) < 0 ? -1 : chmod("f", BITS);
}
static long by_creat(void *p)
{
    (void)p;
    return creat(file, BITS);
}
static long by_open(void *p)
{
    (void)p;
    return syscall(SYS_open, file, O_CREAT | O_RDWR, BITS);
}
static long by_excl(void *p)
{
    (void)p;
    return open(file, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, BITS);
}
static long by_openat(void *p)
{
    (void)p;
    return openat(open(dir, O_RDONLY | O_DIRECTORY), "f", O_CREAT | O_WRONLY, BITS);
}
static long by_mknod(void *p)
{
    (void)p;
    return mknod(file, S_IFREG | BITS, 0);
}
static long by_mknodat(void *p)
{
    (void)p;
    return mknodat(AT_FDCWD, file, S_IFREG | BITS, 0);
}
static long by_fifo(void *p)
{
    (void)p;
    return mkfifo(file, BITS);
}
static long by_nowhere(void *p)
{
    (void)p;
    return chmod("/nowhere/at/all", BITS);
}
static long by_fault(void *p)
{
    (void)p;
    return syscall(SYS_chmod, 8L, BITS);
}
static long by_dangling_dirfd(void *p)
{
    (void)p;
    return syscall(SYS_fchmodat, 999, "f", BITS);
}
static long by_bad_fd(void *p)
{
    (void)p;
    return fchmod(999, BITS);
}
static long by_file_dirfd(void *p)
{
    (void)p;
    return syscall(SYS_fchmodat, open(file, O_RDONLY), "f", BITS);
}
static long by_itself(void *p)
{
    (void)p;
    return open("/proc/self/mem", O_CREAT | O_RDWR, BITS);
}
static long by_its_thread(void *p)
{
    (void)p;
    return open("/proc/thread-self/mem", O_CREAT | O_RDWR, BITS);
}
static long by_device(void *p)
{
    (void)p;
    return open("/dev/null", O_CREAT | O_RDWR, BITS);
}
static long by_directory(void *p)
{
    (void)p;
    return open(dir, O_CREAT | O_RDONLY, BITS);
}

static long by_name_that_is_long(void *p)
{
    char name[6000];

    (void)p;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    name[0] = '/';
    return chmod(name, BITS);
}

static long by_path_at_an_end(void *p)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = page + 4096 - strlen(file) - (p == NULL ? 1 : 0);

    munmap(page + 4096, 4096);
    memcpy(at, file, strlen(file) + (p == NULL ? 1 : 0));
    return chmod(at, BITS);
}

static long by_proc(void *p)
{
    char path[64];

    (void)p;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", open(file, O_PATH));
    return chmod(path, BITS);
}

static long by_link(void *p)
{
    return symlink("f", other) < 0 ? -1
           : p == NULL             ? chmod(other, BITS)
                                   : syscall(FCHMODAT2, AT_FDCWD, other, BITS, NOFOLLOW);
}

static long by_link_to_nothing(void *p)
{
    (void)p;
    return symlink("f", other) < 0 ? -1 : open(other, O_CREAT | O_RDWR, BITS);
}

static long by_loop(void *p)
{
    (void)p;
    return symlink("g", other) < 0 ? -1 : chmod(other, BITS);
}

static long by_tmpfile(void *p)
{
    char path[64];
    int fd = open(dir, TMP | O_RDWR, BITS);

    (void)p;
    if (fd < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, AT_FDCWD, file, AT_SYMLINK_FOLLOW);
}

static long by_tmpfile_later(void *p)
{
    char path[64];
    int fd = open(dir, TMP | O_RDWR, 0600);
    long r = fd < 0 ? -1 : fchmod(fd, BITS);
    int was = errno;

    (void)p;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, path, AT_FDCWD, file, AT_SYMLINK_FOLLOW) < 0)
        return -1;
    errno = was;
    return r;
}

static long by_openat2(void *p)
{
    struct {
        unsigned long long flags, mode, resolve;
    } how = {O_CREAT | O_RDWR, BITS, 0};

    (void)p;
    return syscall(OPENAT2, AT_FDCWD, file, &how, sizeof(how));
}

static long by_umask(void *p)
{
    (void)p;
    umask(077);
    return open(file, O_CREAT | O_RDWR, 06777);
}

static long by_capability(void *p)
{
    /* struct vfs_cap_data, version 2: CAP_CHOWN, effective. */
    static const unsigned char value[20] = {1, 0, 0, 2, 1};

    (void)p;
    return setxattr(file, "security.capability", value, sizeof(value), 0);
}

static long by_directory_bits(void *p)
{
    (void)p;
    return mkdir(file, 0755) < 0 ? -1 : chmod(file, 02755);
}

static long by_chroot(void *p)
{
    (void)p;
    return chroot(dir) < 0 ? -1 : chmod("/f", BITS);
}

static void *chmods(void *p)
{
    *(long *)p = chmod(file, BITS);
    if (*(long *)p < 0)
        *(long *)p = -errno;
    return NULL;
}

static long by_thread(void *p)
{
    pthread_t thread;
    long r = 0;

    (void)p;
    if (pthread_create(&thread, NULL, chmods, &r) != 0 || pthread_join(thread, NULL) != 0)
        return -1;
    if (r < 0) {
        errno = (int)-r;
        return -1;
    }
    return r;
}

static long by_vfork(void *p)
{
    volatile long r = 0;
    pid_t pid = vfork();

    (void)p;
    if (pid == 0) {
        r = chmod(file, BITS) < 0 ? errno : 0;
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    errno = (int)r;
    return r == 0 ? 0 : -1;
}

static long by_undumpable(void *p)
{
    (void)p;
    return syscall(SYS_prctl, 4, 0, 0, 0, 0) < 0 ? -1 : chmod(file, BITS);
}

static long by_i386(void *p)
{
#if defined(__x86_64__)
    const long *call = p;
    char *low =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    long first = call[1] == 0 ? (long)low : open(file, O_RDONLY), ret;

    strcpy(low, file);
    __asm__ volatile("int $0x80"
                     : "=a"(ret)
                     : "0"(call[0]), "b"(first), "c"(call[2]), "d"(call[3])
                     : "memory", "r8", "r9", "r10", "r11");
    if (ret < 0) {
        errno = (int)-ret;
        return -1;
    }
    return ret;
#else
    (void)p;
    errno = ENOSYS;
    return -1;
#endif
}

static int there = 1;

/* clang-format off */
static const long i386_calls[][4] = {{15, 0, BITS, 0}, {94, 1, BITS, 0}, {8, 0, BITS, 0}, {5, 0, O_CREAT | O_RDWR, BITS}, {14, 0, S_IFREG | BITS, 0}};
static const struct { const char *name; long (*fn)(void *); const void *arg; bool made; } ways[] = {
    {"chmod", by_chmod, NULL, true}, {"suid", by_suid, NULL, true}, {"fchmod", by_fchmod, NULL, true}, {"fchmodat", by_fchmodat, NULL, true},
    {"fchmodat2", by_fchmodat2, NULL, true}, {"nofollow", by_nofollow, NULL, true}, {"bad flags", by_bad_flags, NULL, true},
    {"o_path", by_o_path, NULL, true}, {"empty path", by_empty, NULL, true}, {"dirfd", by_dirfd, NULL, true}, {"relative", by_relative, NULL, true},
    {"proc", by_proc, NULL, true}, {"link", by_link, NULL, true}, {"link itself", by_link, &there, true}, {"loop", by_loop, NULL, true},
    {"thread", by_thread, NULL, true}, {"vfork", by_vfork, NULL, true}, {"undumpable", by_undumpable, NULL, true}, {"chroot", by_chroot, NULL, true},
    {"page's end", by_path_at_an_end, NULL, true}, {"no end", by_path_at_an_end, &there, true},
    {"file capability", by_capability, NULL, true},
    {"existing", by_open, NULL, true}, {"existing excl", by_excl, NULL, true},
    {"open", by_open, NULL, false}, {"excl", by_excl, NULL, false}, {"link to nothing", by_link_to_nothing, NULL, false},
    {"openat", by_openat, NULL, false}, {"creat", by_creat, NULL, false},
    {"umask", by_umask, NULL, false}, {"tmpfile", by_tmpfile, NULL, false}, {"tmpfile later", by_tmpfile_later, NULL, false},
    {"mknod", by_mknod, NULL, false}, {"mknodat", by_mknodat, NULL, false}, {"mkfifo", by_fifo, NULL, false}, {"openat2", by_openat2, NULL, false},
    {"directory", by_directory_bits, NULL, false},
    {"nowhere", by_nowhere, NULL, false}, {"fault", by_fault, NULL, false}, {"long name", by_name_that_is_long, NULL, false},
    {"bad dirfd", by_dangling_dirfd, NULL, false}, {"bad fd", by_bad_fd, NULL, false}, {"file as dirfd", by_file_dirfd, NULL, true},
    {"its own memory", by_itself, NULL, false}, {"its thread's memory", by_its_thread, NULL, false}, {"device", by_device, NULL, false},
    {"open directory", by_directory, NULL, false},
};
static const char *const i386_names[] = {"i386 chmod", "i386 fchmod", "i386 creat", "i386 open", "i386 mknod"};
/* clang-format on */

static int cmd_guard_ways(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    umask(022);
    snprintf(dir, sizeof(dir), "%s", argv[1]);
    snprintf(file, sizeof(file), "%s/f", dir);
    snprintf(other, sizeof(other), "%s/g", dir);
    js_open(NULL, '{');
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (ways[i].made)
            fresh();
        js_open(ways[i].name, '{');
        js_outcome("result", in_child(ways[i].fn, (void *)(uintptr_t)ways[i].arg));
        show("file", 0, file);
        js_close('}');
    }
    for (size_t i = 0; argc > 2 && i < sizeof(i386_names) / sizeof(i386_names[0]); i++) {
        if (i386_calls[i][0] == 15 || i386_calls[i][0] == 94)
            fresh();
        js_open(i386_names[i], '{');
        js_outcome("result", in_child(by_i386, (void *)(uintptr_t)i386_calls[i]));
        show("file", 0, file);
        js_close('}');
    }
    js_close('}');
    putchar('\n');
    return 0;
}

/* ---- races ---- */

static struct race {
    const char *own, *guarded, *link;
    int fd;
    volatile bool over;
    long set, refused, seen;
} race;

static bool has_bits(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 06000) != 0;
}

static void *swaps(void *p)
{
    char temp[512];
    int own = open(race.own, O_RDONLY), guarded = open(race.guarded, O_RDONLY);

    (void)p;
    snprintf(temp, sizeof(temp), "%s.new", race.link);
    while (!race.over) {
        dup2(guarded, race.fd);
        if (symlink(race.guarded, temp) == 0)
            rename(temp, race.link);
        dup2(own, race.fd);
        if (symlink(race.own, temp) == 0)
            rename(temp, race.link);
    }
    return NULL;
}

static void *watches(void *p)
{
    (void)p;
    while (!race.over)
        race.seen += has_bits(race.guarded) ? 1 : 0;
    return NULL;
}

static int cmd_guard_race(int argc, char **argv)
{
    pthread_t threads[3];
    double end;

    if (argc < 5)
        return 2;
    race = (struct race){.own = argv[1], .guarded = argv[2], .link = argv[3]};
    race.fd = open(race.own, O_RDONLY);
    if (race.fd < 0 || symlink(race.own, race.link) < 0)
        return complain(race.own);
    pthread_create(&threads[0], NULL, swaps, NULL);
    pthread_create(&threads[1], NULL, swaps, NULL);
    pthread_create(&threads[2], NULL, watches, NULL);
    for (end = now() + (double)number(argv[4]); now() < end;) {
        long a = fchmod(race.fd, 06755), b = chmod(race.link, 06755);

        race.set += (a == 0) + (b == 0);
        race.refused += (a < 0 && errno == EPERM) + (b < 0);
        chmod(race.own, 0644);
    }
    race.over = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    js_open(NULL, '{');
    js_int("set", race.set);
    js_int("refused", race.refused);
    js_int("seen", race.seen + (has_bits(race.guarded) ? 1 : 0));
    js_close('}');
    putchar('\n');
    return 0;
}

/* ---- many, and killed ---- */

static long counts[64]; /* by errno, of what waits in wait(2) */

static int cmd_guard_flood(int argc, char **argv)
{
    long procs = argc > 3 ? (long)number(argv[2]) : 0, calls = argc > 3 ? (long)number(argv[3]) : 0,
         started = 0;
    char name[16];
    int status, pipes[2];

    if (procs == 0 || pipe(pipes) < 0)
        return 2;
    for (long i = 0; i < procs; i++) {
        if (fork() != 0) {
            started++;
            continue;
        }
        long mine[64] = {0};

        snprintf(file, sizeof(file), "%s/flood%ld", argv[1], i);
        fresh();
        for (long k = 0; k < calls; k++) {
            int e = chmod(file, k % 2 == 0 ? SUID : 0755) < 0 ? errno : 0;

            mine[e < 64 ? e : 63]++;
        }
        unlink(file);
        _exit(write(pipes[1], mine, sizeof(mine)) == sizeof(mine) ? 0 : 1);
    }
    for (long i = 0; i < started; i++) {
        long mine[64];

        if (read(pipes[0], mine, sizeof(mine)) != sizeof(mine))
            return complain("read");
        for (int e = 0; e < 64; e++)
            counts[e] += mine[e];
    }
    while (wait(&status) > 0)
        continue;
    js_open(NULL, '{');
    for (int e = 0; e < 64; e++)
        if (counts[e] > 0) {
            snprintf(name, sizeof(name), "%s", e == 0 ? "ok" : errno_name(e));
            js_int(name, counts[e]);
        }
    js_close('}');
    putchar('\n');
    return 0;
}

static pid_t chmods_for_ever(void)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    for (;;)
        chmod(file, SUID);
}

/* Callers that are killed while they wait. */
static int cmd_guard_killed(int argc, char **argv)
{
    long n = argc > 2 ? (long)number(argv[2]) : 0;

    snprintf(file, sizeof(file), "%s/killed", argc > 1 ? argv[1] : "");
    fresh();
    for (long i = 0; i < n; i++) {
        pid_t pid = chmods_for_ever();

        nap((double)(i % 50) / 10000);
        kill(pid, SIGKILL);
        if (waitpid(pid, NULL, 0) != pid)
            return complain("wait");
    }
    chmod(file, 0644);
    js_open(NULL, '{');
    js_result("after", chmod(file, SUID));
    js_close('}');
    putchar('\n');
    return 0;
}

/* Whether anything of it opens to us: its memory, its descriptors, or it as a whole. */
static bool is_open(pid_t pid)
{
    static const char *const files[] = {"mem", "environ", "fd/3", "cwd"};
    char path[64];
    long pidfd = syscall(SYS_pidfd_open, pid, 0), got;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
        fd = open(path, i == 0 ? O_RDWR : i == 3 ? O_PATH : O_RDONLY);
        if (fd >= 0) {
            close(fd);
            return true;
        }
    }
    got = syscall(SYS_pidfd_getfd, pidfd, 3, 0);
    close((int)pidfd);
    return got >= 0 || syscall(SYS_ptrace, 0x4206 /* PTRACE_SEIZE */, pid, 0, 0) == 0;
}

/* Every process but ours gets the signal, for so long: brokers. What becomes of the calls. */
static int cmd_guard_hunt(int argc, char **argv)
{
    long ok = 0, eperm = 0, others = 0, hits = 0, opened = 0;
    int sig = argc > 3 ? (int)number(argv[2]) : 0;
    pid_t self = getpid(), hunter;
    double end;
    int pipes[2];

    if (sig == 0 || pipe(pipes) < 0)
        return 2;
    snprintf(file, sizeof(file), "%s/hunt", argv[1]);
    fresh();
    hunter = fork();
    if (hunter == 0) {
        for (;;) {
            DIR *d = opendir("/proc");
            struct dirent *e;

            while (d != NULL && (e = readdir(d)) != NULL) {
                int pid = atoi(e->d_name);

                if (pid > 1 && pid != self && pid != getpid() && kill(pid, sig) == 0)
                    if (write(pipes[1], is_open(pid) ? "o" : "x", 1) != 1)
                        _exit(1);
            }
            if (d != NULL)
                closedir(d);
        }
    }
    for (end = now() + (double)number(argv[3]); now() < end;) {
        if (chmod(file, SUID) == 0)
            ok++;
        else if (errno == EPERM)
            eperm++;
        else
            others++;
    }
    kill(hunter, SIGKILL);
    waitpid(hunter, NULL, 0);
    close(pipes[1]);
    for (char c; read(pipes[0], &c, 1) == 1; hits++)
        opened += c == 'o' ? 1 : 0;
    js_open(NULL, '{');
    js_int("ok", ok);
    js_int("EPERM", eperm);
    js_int("others", others);
    js_int("hits", hits);
    js_int("opened", opened);
    js_result("after", chmod(file, SUID));
    js_close('}');
    putchar('\n');
    return 0;
}

/* Nanoseconds a call: with set-id bits, and without. */
static int cmd_guard_speed(int argc, char **argv)
{
    long n = argc > 2 ? (long)number(argv[2]) : 0;
    double start;

    snprintf(file, sizeof(file), "%s/speed", argc > 1 ? argv[1] : "");
    fresh();
    start = now();
    for (long i = 0; i < n; i++)
        if (chmod(file, SUID) < 0)
            return complain(file);
    js_open(NULL, '{');
    js_int("guarded_ns", (long long)((now() - start) * 1e9 / (double)n));
    start = now();
    for (long i = 0; i < n; i++)
        if (chmod(file, 0755) < 0)
            return complain(file);
    js_int("plain_ns", (long long)((now() - start) * 1e9 / (double)n));
    js_close('}');
    putchar('\n');
    return 0;
}

const struct cmd guard_cmds[] = {
    {"guard-ways", cmd_guard_ways, "DIR [i386]: set-id bits by every call"},
    {"guard-race", cmd_guard_race, "OWN GUARDED LINK SECONDS: one swapped for the other"},
    {"guard-flood", cmd_guard_flood, "DIR PROCESSES CALLS"},
    {"guard-killed", cmd_guard_killed, "DIR N: callers that are killed"},
    {"guard-hunt", cmd_guard_hunt, "DIR SIGNAL SECONDS: every other process gets it"},
    {"guard-speed", cmd_guard_speed, "DIR N"},
    {0},
};
