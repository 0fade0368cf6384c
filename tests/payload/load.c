/* Load: memory, processes, threads, CPU, kernel objects with per-user counters, zombies. */

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "payload.h"

/* Touches BYTES of anonymous memory, and says how far it came. */
static int cmd_memhog(int argc, char **argv)
{
    size_t want = (size_t)number(argc > 1 ? argv[1] : "0");
    char *p = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return complain("mmap");
    for (size_t i = 0; i < want; i += 4096)
        p[i] = 1;
    puts("survived");
    return 0;
}

/* Memory in another shape: shm (SysV-free: a shared anonymous mapping), memfd. */
static int cmd_memshared(int argc, char **argv)
{
    size_t want = (size_t)number(argc > 1 ? argv[1] : "0");
    int fd = memfd_create("hog", MFD_CLOEXEC);
    char *p;

    if (fd < 0 || ftruncate(fd, (off_t)want) < 0)
        return complain("memfd");
    p = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return complain("mmap");
    for (size_t i = 0; i < want; i += 4096)
        p[i] = 1;
    puts("survived");
    return 0;
}

/* Forks children that wait, until fork fails or MAX are alive. */
static int cmd_forks(int argc, char **argv)
{
    long long max = number(argc > 1 ? argv[1] : "100000"), n = 0;
    pid_t pid = 0;

    fflush(stdout);
    while (n < max && (pid = fork()) > 0)
        n++;
    if (pid == 0 && n < max) {
        for (;;)
            pause();
    }
    js_open(NULL, '{');
    js_int("children", n);
    js_result("result", pid);
    js_close('}');
    putchar('\n');
    return 0;
}

/* A real bomb: everybody forks all the time. Ends only by being killed. */
static int cmd_forkbomb(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("ready");
    fflush(stdout);
    while (fork() != -2)
        continue;
    return 0;
}

static void *spin_until(void *arg)
{
    double end = *(const double *)arg;

    while (now() < end)
        continue;
    return NULL;
}

/* PROCS processes burn CPU for SECONDS; seconds of CPU used and of the clock. */
static int cmd_spin(int argc, char **argv)
{
    double start = now(), end = start + atof(argc > 1 ? argv[1] : "1");
    long long procs = number(argc > 2 ? argv[2] : "1");
    struct rusage r;

    fflush(stdout);
    for (long long i = 0; i < procs; i++) {
        if (fork() == 0) {
            spin_until(&end);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        continue;
    getrusage(RUSAGE_CHILDREN, &r);
    js_open(NULL, '{');
    js_int("cpu_ms", (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000 +
                         (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1000);
    js_int("wall_ms", (long long)((now() - start) * 1000));
    js_close('}');
    putchar('\n');
    return 0;
}

static void *thread_body(void *arg)
{
    pthread_barrier_wait(arg);
    return arg;
}

/* N threads that are all alive at once. */
static int cmd_threads(int argc, char **argv)
{
    static pthread_barrier_t all;
    unsigned n = (unsigned)number(argc > 1 ? argv[1] : "50");
    pthread_t *t = calloc(n, sizeof(*t));
    int r = pthread_barrier_init(&all, NULL, n + 1);

    for (unsigned i = 0; r == 0 && i < n; i++) {
        r = pthread_create(&t[i], NULL, thread_body, &all);
        if (r != 0) {
            errno = r;
            return complain("pthread_create");
        }
    }
    pthread_barrier_wait(&all);
    for (unsigned i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    free(t);
    puts("ok");
    return 0;
}

/* Makes inotify instances until it fails or MAX exist, says how many, holds them until stdin ends.
 */
static int cmd_inotify(int argc, char **argv)
{
    long long max = number(argc > 1 ? argv[1] : "10"), n = 0;
    int fd = 0;
    char c;

    while (n < max && (fd = inotify_init1(IN_CLOEXEC)) >= 0)
        n++;
    js_open(NULL, '{');
    js_int("instances", n);
    js_result("result", fd);
    js_close('}');
    putchar('\n');
    fflush(stdout);
    while (read(0, &c, 1) > 0)
        continue;
    return 0;
}

static int count_zombies(void)
{
    DIR *d = opendir("/proc");
    const struct dirent *e;
    int n = 0;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[64], stat[512];
        const char *close_paren;

        if (strspn(e->d_name, "0123456789") != strlen(e->d_name))
            continue;
        snprintf(path, sizeof(path), "/proc/%.10s/stat", e->d_name);
        if (slurp(path, stat, sizeof(stat)) <= 0)
            continue;
        close_paren = strrchr(stat, ')');
        n += close_paren != NULL && close_paren[2] == 'Z';
    }
    if (d != NULL)
        closedir(d);
    return n;
}

/* N orphans die at the same time; how many zombies are left within a second. */
static int cmd_zombies(int argc, char **argv)
{
    long long n = number(argc > 1 ? argv[1] : "10");
    double end;
    int left;

    fflush(stdout);
    for (long long i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid < 0)
            return complain("fork");
        if (pid == 0) {
            fork();
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    end = now() + 1;
    while ((left = count_zombies()) > 0 && now() < end)
        nap(0.01);
    js_open(NULL, '{');
    js_int("zombies", left);
    js_close('}');
    putchar('\n');
    return 0;
}

static int set_number(const char *path, int value)
{
    FILE *f = fopen(path, "we");
    int r = -1;

    if (f == NULL)
        return -1;
    if (fprintf(f, "%d\n", value) > 0 && fflush(f) == 0)
        r = 0;
    fclose(f);
    return r;
}

/* Ways up in priority. */
static int cmd_priority(int argc, char **argv)
{
    struct sched_param one = {.sched_priority = 1};

    (void)argc;
    (void)argv;
    js_open(NULL, '{');
    js_result("oom_minus", set_number("/proc/self/oom_score_adj", -1));
    js_result("oom_minus_1000", set_number("/proc/self/oom_score_adj", -1000));
    js_result("nice", setpriority(PRIO_PROCESS, 0, -5));
    js_result("fifo", syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &one));
    js_result("rr", syscall(SYS_sched_setscheduler, 0, SCHED_RR, &one));
    js_result("ioprio_rt", syscall(SYS_ioprio_set, 1, 0, (1 << 13) | 0));
    js_close('}');
    putchar('\n');
    return 0;
}

/* Dies of a signal in the way that even PID 1 of a namespace does. */
static int cmd_segv(int argc, char **argv)
{
    volatile int *nowhere = NULL;

    (void)argc;
    (void)argv;
    signal(SIGSEGV, SIG_DFL);
    return *nowhere; /* NOLINT(clang-analyzer-core.NullDereference): it is what is asked for */
}

static int cmd_raise(int argc, char **argv)
{
    int sig = (int)number(argc > 1 ? argv[1] : "15");

    signal(sig, SIG_DFL);
    kill(getpid(), sig);
    nap(0.2);
    return 0;
}

static int cmd_stay(int argc, char **argv)
{
    puts("ready");
    fflush(stdout);
    (void)argc;
    (void)argv;
    while (pause() < 0)
        continue;
    return 0;
}

const struct cmd load_cmds[] = {
    {"memhog", cmd_memhog, "BYTES"},
    {"memshared", cmd_memshared, "BYTES"},
    {"forks", cmd_forks, "MAX"},
    {"forkbomb", cmd_forkbomb, ""},
    {"spin", cmd_spin, "SECONDS PROCESSES"},
    {"threads", cmd_threads, "N"},
    {"inotify", cmd_inotify, "MAX: holds them until stdin ends"},
    {"zombies", cmd_zombies, "N"},
    {"priority", cmd_priority, ": ways up"},
    {"segv", cmd_segv, ""},
    {"raise", cmd_raise, "SIGNAL"},
    {"stay", cmd_stay, ": says ready, waits for ever"},
    {0},
};
