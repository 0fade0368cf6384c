/* The janitor (launch/janitor.c): its jobs, and what remains when it is stopped, killed, or has
 * more jobs than its bounds allow. Needs root. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "image/embed.h"
#include "launch/janitor.h"
#include "launch/launcher.h"
#include "launch/net-ops.h"
#include "launch/sandbox.h"
#include "proto/rmtree.h"
#include "tap.h"

enum { DEADLINE_MS = 60000, MANY = 2000 };

struct lab {
    char top[64], state[96], ids[96];
    struct launcher *l;
};

static const char *const nowhere[] = {NULL};

static int lab_launch(struct lab *lab)
{
    const struct launcher_config config = {.state_dir = lab->state,
                                           .ids_dir = lab->ids,
                                           .bind_prefixes = nowhere,
                                           .init_image = embed_init().data,
                                           .init_size = embed_init().len};
    struct err err = ERR_NONE;
    int r = launcher_open(&config, &lab->l, &err);

    if (r < 0)
        tap_fail("launcher: %s", err.msg);
    else
        lab->l->clients.len = 1; /* jobs go to other processes */
    return r;
}

static bool lab_open(struct lab *lab)
{
    *lab = (struct lab){.top = "/tmp/rind-janitor-XXXXXX"};
    if (geteuid() != 0 || mkdtemp(lab->top) == NULL)
        return false;
    (void)snprintf(lab->state, sizeof(lab->state), "%s/state", lab->top);
    (void)snprintf(lab->ids, sizeof(lab->ids), "%s/ids", lab->top);
    return lab_launch(lab) == 0;
}

static void lab_close(struct lab *lab)
{
    launcher_free(lab->l);
    (void)rmtree_at(AT_FDCWD, lab->top, 0);
}

#define LAB(lab)                                                                                   \
    struct lab lab;                                                                                \
    if (!lab_open(&(lab)))                                                                         \
    SKIP("needs root")

/* A kept sandbox that has ended and been forgotten, as launcher_release gives it to the janitor;
 * NULL after a failure. */
static struct launch_sandbox *ended(struct lab *lab, const char *id)
{
    struct launch_sandbox *s = sandbox_new(id);
    auto_free char *owner = sandbox_owner(lab->l, id);
    struct err err = ERR_NONE;
    int r;

    s->kept = true;
    s->creator->kind = CREATOR_OWNER;
    r = idrange_take(lab->l->ids_fd, NULL, 0, &s->ids, &err);
    if (r == 0)
        r = sandbox_dir_make(lab->l, s, -1, &err);
    if (r == 0)
        r = idrange_claim(lab->l->ids_fd, &s->ids, owner, &err);
    if (r == 0)
        r = sandbox_dir_forget(s, &err);
    if (r == 0)
        return s;
    tap_fail("%s: %s", id, err.msg);
    sandbox_free(s);
    return NULL;
}

/* Makes an ended sandbox and removes it. Returns true if another process does that. */
static bool hand_over(struct lab *lab, const char *id)
{
    struct launch_sandbox *s = ended(lab, id);
    bool taken = s != NULL && janitor_remove_sandbox(lab->l, s, false);

    if (s != NULL && !taken) { /* as sandbox_remove_traces does it */
        CHECK_INT(sandbox_dir_remove(lab->l, id, NULL), 0);
        idrange_release(lab->l->ids_fd, &s->ids);
    }
    sandbox_free(s);
    return taken;
}

static size_t entries(int at)
{
    int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fdopendir(fd);
    size_t n = 0;

    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    (void)closedir(d);
    return n;
}

/* Waits until so many sandboxes remain, and as many ranges. */
static bool wait_remain(const struct lab *lab, size_t left)
{
    for (int i = 0; i < DEADLINE_MS / 10; i++) {
        if (entries(lab->l->sandboxes_fd) == left && entries(lab->l->ids_fd) == left)
            return true;
        (void)usleep(10000);
    }
    tap_fail("%zu sandboxes and %zu ranges are left", entries(lab->l->sandboxes_fd),
             entries(lab->l->ids_fd));
    return false;
}

static void put(const struct lab *lab, const char *id, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/sandboxes/%s/upper/%s", lab->state, id, name);
    CHECK_INT(symlink(lab->top, path), 0);
}

TEST(janitor_removes_files_and_frees_the_range)
{
    pid_t pid;

    LAB(lab);
    CHECK(lab.l->janitor < 0); /* it starts with the first job */
    CHECK(hand_over(&lab, "one"));
    pid = lab.l->janitor_pid;
    CHECK(hand_over(&lab, "two"));
    CHECK_INT(lab.l->janitor_pid, pid);
    (void)wait_remain(&lab, 0);
    /* A removal of a missing directory is no error. */
    CHECK(hand_over(&lab, "one"));
    (void)wait_remain(&lab, 0);
    CHECK_INT(lab.l->children.count, 0);
    lab_close(&lab);
    CHECK(kill(pid, 0) < 0 && errno == ESRCH);
}

/* A fake link of the host, in memory that the janitor shares. */
static struct links {
    _Atomic bool there;
    _Atomic unsigned asked, erased;
} * links;

static bool fake_lingers(uint32_t slot)
{
    (void)slot;
    links->asked++;
    return links->there;
}

static int fake_erase(uint32_t slot, struct err *err)
{
    (void)slot;
    (void)err;
    links->there = false;
    links->erased++;
    return 0;
}

static const struct launch_net_ops fake_net = {.lingers = fake_lingers, .erase = fake_erase};

static bool links_map(struct lab *lab)
{
    links = mmap(NULL, sizeof(*links), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (links == MAP_FAILED)
        return false;
    *links = (struct links){.there = true};
    lab->l->net = &fake_net;
    return true;
}

/* A socket with unsent data keeps a net namespace for minutes. The link has the number of the
 * range.
 */
TEST(lingering_link_is_erased_before_the_range_is_free)
{
    LAB(lab);
    CHECK(links_map(&lab));
    CHECK(hand_over(&lab, "one"));
    while (entries(lab.l->sandboxes_fd) != 0)
        (void)usleep(1000);
    CHECK_INT(entries(lab.l->ids_fd), 1);
    CHECK_INT(links->erased, 0); /* the kernel has 1 s for it */
    (void)wait_remain(&lab, 0);
    CHECK_INT(links->erased, 1);
    links->asked = 0;
    CHECK(hand_over(&lab, "two")); /* its link is gone already */
    (void)wait_remain(&lab, 0);
    CHECK_INT(links->asked, 1);
    CHECK_INT(links->erased, 1);
    lab_close(&lab);
    (void)munmap(links, sizeof(*links));
}

TEST(lingering_link_is_erased_before_the_launcher_ends)
{
    int ids;

    LAB(lab);
    CHECK(links_map(&lab));
    CHECK(hand_over(&lab, "one"));
    ids = dup(lab.l->ids_fd);
    launcher_free(lab.l);
    CHECK_INT(links->erased, 1);
    CHECK_INT(entries(ids), 0);
    (void)close(ids);
    (void)rmtree_at(AT_FDCWD, lab.top, 0);
    (void)munmap(links, sizeof(*links));
}

TEST(links_and_names_of_a_hostile_upper_are_not_followed)
{
    struct launch_sandbox *s;
    char path[256];

    LAB(lab);
    (void)snprintf(path, sizeof(path), "%s/outside", lab.top);
    CHECK_INT(mkdir(path, 0700), 0);
    s = ended(&lab, "hostile");
    put(&lab, "hostile", "link");
    put(&lab, "hostile", "lock");
    put(&lab, "hostile", "-rf \n");
    CHECK_INT(fchownat(s->dir_fd, "upper", s->ids.base + 65535, 7, 0), 0);
    CHECK_INT(fchmodat(s->dir_fd, "upper", 0, 0), 0);
    CHECK(janitor_remove_sandbox(lab.l, s, false));
    sandbox_free(s);
    (void)wait_remain(&lab, 0);
    CHECK_INT(access(path, F_OK), 0);
    lab_close(&lab);
}

TEST(job_in_the_socket_holds_both_locks)
{
    struct launch_sandbox *s;
    struct idrange again = IDRANGE_NONE;
    uid_t base;

    LAB(lab);
    CHECK(hand_over(&lab, "first"));
    (void)wait_remain(&lab, 0);
    CHECK_INT(kill(lab.l->janitor_pid, SIGSTOP), 0);
    s = ended(&lab, "waits");
    base = s->ids.base;
    CHECK(janitor_remove_sandbox(lab.l, s, false));
    sandbox_free(s);
    CHECK_INT(idrange_retake(lab.l->ids_fd, base, NULL, &again, NULL), -EBUSY);
    CHECK_INT(launcher_sweep(lab.l), 0);
    CHECK_INT(entries(lab.l->sandboxes_fd), 1);
    CHECK_INT(kill(lab.l->janitor_pid, SIGCONT), 0);
    (void)wait_remain(&lab, 0);
    lab_close(&lab);
}

TEST(next_job_starts_another_janitor_and_the_next_launcher_sweeps_the_rest)
{
    pid_t pid;

    LAB(lab);
    CHECK(hand_over(&lab, "first"));
    (void)wait_remain(&lab, 0);
    pid = lab.l->janitor_pid;
    CHECK_INT(kill(pid, SIGSTOP), 0);
    for (int i = 0; i < 5; i++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "left-%d", i);
        CHECK(hand_over(&lab, id));
    }
    CHECK_INT(kill(pid, SIGKILL), 0);
    /* The launcher learns of the death when the other end of the socket is closed. */
    for (int i = 0; i < DEADLINE_MS / 10 && lab.l->janitor_pid == pid; i++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "next-%d", i);
        CHECK(hand_over(&lab, id));
        (void)usleep(10000);
    }
    CHECK(lab.l->janitor_pid != pid);
    CHECK_INT(waitpid(pid, NULL, WNOHANG), -1); /* reaped */
    launcher_free(lab.l);                       /* the second janitor has done its jobs */
    CHECK_INT(lab_launch(&lab), 0);
    CHECK(entries(lab.l->sandboxes_fd) >= 5);
    CHECK(launcher_sweep(lab.l) >= 5);
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK_INT(launcher_recover(lab.l, NULL), 0);
    CHECK_INT(entries(lab.l->ids_fd), 0);
    lab_close(&lab);
}

TEST(janitor_killed_at_any_instant_leaves_nothing_after_a_sweep)
{
    LAB(lab);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 4; i++) {
            char id[48];

            (void)snprintf(id, sizeof(id), "r%d-%d", round, i);
            (void)hand_over(&lab, id);
        }
        (void)usleep((useconds_t)(round * 50));
        if (lab.l->janitor >= 0)
            (void)kill(lab.l->janitor_pid, SIGKILL);
    }
    launcher_free(lab.l);
    CHECK_INT(lab_launch(&lab), 0);
    (void)launcher_sweep(lab.l);
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK_INT(launcher_recover(lab.l, NULL), 0);
    CHECK_INT(entries(lab.l->ids_fd), 0);
    lab_close(&lab);
}

/* Returns the pid of a child of this process, or 0 after the deadline. */
static pid_t child_of(pid_t parent)
{
    char path[64], text[64] = "";

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
    for (int i = 0; i < DEADLINE_MS * 10; i++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, text, sizeof(text) - 1);

        (void)close(fd);
        if (n > 0)
            return (pid_t)strtol(text, NULL, 10);
        (void)usleep(100);
    }
    return 0;
}

/* Waits until the janitor's socket is readable, and handles that. */
static bool janitor_event(struct lab *lab)
{
    struct pollfd p = {.fd = lab->l->janitor, .events = POLLIN};

    if (poll(&p, 1, DEADLINE_MS) != 1)
        return false;
    janitor_on_event(lab->l);
    return true;
}

static struct launch_sandbox *ended_large(struct lab *lab)
{
    enum { FILES = 40000 };
    struct launch_sandbox *s = ended(lab, "large");

    for (int i = 0; s != NULL && i < FILES; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "upper/%d", i);
        CHECK_INT(mknodat(s->dir_fd, name, S_IFREG, 0), 0);
    }
    return s;
}

TEST(large_tree_has_a_child_of_the_janitor_and_a_sweep_if_that_is_killed)
{
    struct launch_sandbox *s;
    pid_t pid;

    LAB(lab);
    s = ended_large(&lab);
    CHECK(janitor_remove_sandbox(lab.l, s, false));
    sandbox_free(s);
    CHECK_INT(lab.l->children.count, 0);
    pid = child_of(lab.l->janitor_pid);
    CHECK(pid > 0);
    CHECK_INT(kill(pid, SIGSTOP), 0);
    CHECK(hand_over(&lab, "small"));
    (void)wait_remain(&lab, 1); /* the small one does not wait for the large one */
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(sweep_wait(lab.l), -1);
    CHECK(janitor_event(&lab));
    CHECK(sweep_wait(lab.l) >= 0);
    CHECK(lab.l->janitor >= 0);
    for (int i = 0; i < DEADLINE_MS / 10 && entries(lab.l->sandboxes_fd) > 0; i++) {
        sweep_due(lab.l);
        child_table_reap(&lab.l->children);
        (void)usleep(10000);
    }
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    lab_close(&lab);
}

TEST(killed_janitor_is_noticed_without_a_job_and_swept_after)
{
    pid_t pid;

    LAB(lab);
    CHECK(hand_over(&lab, "first"));
    (void)wait_remain(&lab, 0);
    pid = lab.l->janitor_pid;
    CHECK_INT(kill(pid, SIGSTOP), 0);
    CHECK(hand_over(&lab, "left"));
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK(janitor_event(&lab));
    CHECK(lab.l->janitor < 0);
    CHECK_INT(waitpid(pid, NULL, WNOHANG), -1); /* reaped */
    for (int i = 0; i < DEADLINE_MS / 10 && entries(lab.l->sandboxes_fd) > 0; i++) {
        sweep_due(lab.l);
        (void)usleep(10000);
    }
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK(hand_over(&lab, "next"));
    CHECK(lab.l->janitor >= 0 && lab.l->janitor_pid != pid);
    lab_close(&lab);
}

/* An flock belongs to the open file description: a copy of the launcher's fd would keep it. */
TEST(janitor_holds_no_lock_of_the_launcher)
{
    char path[64];

    LAB(lab);
    CHECK(hand_over(&lab, "first"));
    (void)wait_remain(&lab, 0);
    const int fds[] = {lab.l->sandboxes_fd, lab.l->ids_fd, lab.l->volumes_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        CHECK_INT(flock(fds[i], LOCK_EX | LOCK_NB), 0);
    for (int fd = 0; fd < 64; fd++) {
        char text[1024] = "";
        int info;

        (void)snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)lab.l->janitor_pid, fd);
        info = open(path, O_RDONLY | O_CLOEXEC);
        if (info < 0)
            continue;
        CHECK(read(info, text, sizeof(text) - 1) > 0);
        CHECK(strstr(text, "lock:") == NULL);
        (void)close(info);
    }
    lab_close(&lab);
}

TEST(job_that_finds_the_socket_full_gets_a_process_of_its_own)
{
    int count = 0;

    LAB(lab);
    CHECK(hand_over(&lab, "first"));
    (void)wait_remain(&lab, 0);
    CHECK_INT(kill(lab.l->janitor_pid, SIGSTOP), 0);
    for (; count < MANY && lab.l->children.count == 0; count++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "m%d", count);
        CHECK(hand_over(&lab, id));
    }
    CHECK(count > 8 && count < MANY);
    CHECK_INT(lab.l->children.count, 1);
    for (int i = 0; i < DEADLINE_MS && lab.l->children.count > 0; i++) {
        (void)usleep(1000);
        child_table_reap(&lab.l->children);
    }
    CHECK_INT(entries(lab.l->sandboxes_fd), count - 1);
    CHECK_INT(kill(lab.l->janitor_pid, SIGCONT), 0);
    (void)wait_remain(&lab, 0);
    lab_close(&lab);
}

/* Closing the last fd of a root syncs a file system, so it must not be the launcher's. */
static void check_root(struct lab *lab, const char *id, int files)
{
    struct pollfd p = {.events = 0};
    struct launch_sandbox *s = ended(lab, id);
    int root[2];

    CHECK(s != NULL);
    for (int i = 0; i < files; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "upper/%d", i);
        CHECK_INT(mknodat(s->dir_fd, name, S_IFREG, 0), 0);
    }
    CHECK_INT(pipe2(root, O_CLOEXEC), 0);
    p.fd = root[0]; /* POLLHUP: the last copy of the other end is closed */
    s->root_fd = root[1];
    CHECK(janitor_remove_sandbox(lab->l, s, false));
    for (int i = 0; i < DEADLINE_MS && entries(lab->l->sandboxes_fd) > 0; i++)
        (void)usleep(1000);
    CHECK_INT(entries(lab->l->sandboxes_fd), 0);
    (void)close(take_fd(&s->root_fd));
    CHECK_INT(poll(&p, 1, 50), 0); /* the process that removed the files still has it */
    sandbox_free(s);
    CHECK_INT(poll(&p, 1, DEADLINE_MS), 1);
    CHECK((p.revents & POLLHUP) != 0);
    (void)close(root[0]);
}

TEST(root_is_closed_last_by_the_process_that_removes)
{
    LAB(lab);
    check_root(&lab, "little", 0);
    check_root(&lab, "much", 3000);
    (void)wait_remain(&lab, 0);
    lab_close(&lab);
}

TEST(flush_finishes_all_jobs_and_starts_another_janitor)
{
    pid_t pid;

    LAB(lab);
    CHECK(!janitor_flush(lab.l));
    for (int i = 0; i < 20; i++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "s%d", i);
        CHECK(hand_over(&lab, id));
    }
    pid = lab.l->janitor_pid;
    CHECK(janitor_flush(lab.l));
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK(lab.l->janitor >= 0 && lab.l->janitor_pid != pid);
    CHECK(hand_over(&lab, "next"));
    (void)wait_remain(&lab, 0);
    lab_close(&lab);
}

TEST(end_of_the_launcher_waits_for_queued_jobs)
{
    char path[160];
    int fd;

    LAB(lab);
    for (int i = 0; i < 20; i++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "e%d", i);
        CHECK(hand_over(&lab, id));
    }
    launcher_free(lab.l);
    (void)snprintf(path, sizeof(path), "%s/sandboxes", lab.state);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(entries(fd), 0);
    (void)close(fd);
    (void)rmtree_at(AT_FDCWD, lab.top, 0);
}

/* ---- cgroups ---- */

enum { CGROUPS_MAX = 64, QUIET_MS = 100 /* as in janitor.c */ };

/* The id is unique on this host. */
static void name_one(char id[32], const char *kind, int i)
{
    (void)snprintf(id, 32, "rmtest%d-%s%d", (int)getpid(), kind, i);
}

static bool has_cgroup(const struct lab *lab, const char *id)
{
    struct cgroup *c = NULL;
    int r = cgroup_open(lab->l->cgroups, id, &c, NULL);

    cgroup_free(c);
    return r == 0;
}

static struct launch_sandbox *ended_in_cgroup(struct lab *lab, const char *id)
{
    const struct cgroup_limits limits = {.memory_bytes = 64 << 20, .pids = 16, .cpu_millis = -1};
    struct launch_sandbox *s = ended(lab, id);
    struct err err = ERR_NONE;

    if (s != NULL && cgroup_create(lab->l->cgroups, id, &limits, s->ids.base, &s->cgroup, &err) < 0)
        tap_fail("%s: %s", id, err.msg);
    return s;
}

static bool hand_over_cgroup(struct lab *lab, const char *kind, int i)
{
    char id[32];
    struct launch_sandbox *s;
    bool taken;

    name_one(id, kind, i);
    s = ended_in_cgroup(lab, id);
    taken = s != NULL && janitor_remove_sandbox(lab->l, s, true);
    sandbox_free(s);
    return taken;
}

static int count_cgroups(const struct lab *lab, const char *kind, int count)
{
    int found = 0;

    for (int i = 0; i < count; i++) {
        char id[32];

        name_one(id, kind, i);
        found += has_cgroup(lab, id);
    }
    return found;
}

/* The directory stays until the cgroups are gone: a sweep finds them by it. */
TEST(cgroups_follow_the_files)
{
    enum { COUNT = 12 };
    char path[256], id[32];

    LAB(lab);
    for (int i = 0; i < COUNT; i++)
        CHECK(hand_over_cgroup(&lab, "f", i));
    name_one(id, "f", COUNT - 1);
    (void)snprintf(path, sizeof(path), "%s/sandboxes/%s/upper", lab.state, id);
    for (int i = 0; i < DEADLINE_MS && access(path, F_OK) == 0; i++)
        (void)usleep(1000);
    CHECK(access(path, F_OK) < 0);
    (void)wait_remain(&lab, 0);
    CHECK_INT(count_cgroups(&lab, "f", COUNT), 0);
    lab_close(&lab);
}

static bool has_ended(int pipe_fd)
{
    struct pollfd p = {.fd = pipe_fd};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0;
}

static bool ends(int pipe_fd)
{
    struct pollfd p = {.fd = pipe_fd};

    return poll(&p, 1, DEADLINE_MS) == 1 && (p.revents & POLLHUP) != 0;
}

static bool is_in_state(pid_t pid, const char *state)
{
    char path[64], text[128] = "";
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    (void)!read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    return strstr(text, state) != NULL;
}

static bool is_zombie(pid_t pid)
{
    return is_in_state(pid, ") Z ");
}

/* The child is a fork of the janitor, so it has a copy of the queue in its memory. */
TEST(child_of_the_janitor_leaves_the_queue_alone)
{
    enum { COUNT = 40 };
    struct launch_sandbox *s;
    int queued;
    pid_t pid;

    LAB(lab);
    s = ended_large(&lab);
    for (int i = 0; i < COUNT; i++)
        CHECK(hand_over_cgroup(&lab, "c", i));
    CHECK(janitor_remove_sandbox(lab.l, s, false));
    sandbox_free(s);
    pid = child_of(lab.l->janitor_pid);
    CHECK(pid > 0);
    /* Until it sleeps it may still have its own copy of the job's lock, which keeps the range. */
    for (int i = 0; i < DEADLINE_MS && !is_in_state(lab.l->janitor_pid, ") S "); i++)
        (void)usleep(100);
    CHECK_INT(kill(lab.l->janitor_pid, SIGSTOP), 0);
    CHECK_INT(waitpid(lab.l->janitor_pid, NULL, WUNTRACED), lab.l->janitor_pid);
    queued = count_cgroups(&lab, "c", COUNT);
    CHECK(queued > 0);
    for (int i = 0; i < DEADLINE_MS && !is_zombie(pid); i++)
        (void)usleep(1000);
    CHECK(is_zombie(pid));
    CHECK_INT(count_cgroups(&lab, "c", COUNT), queued);
    CHECK_INT(kill(lab.l->janitor_pid, SIGCONT), 0);
    (void)wait_remain(&lab, 0);
    lab_close(&lab);
}

/* A root over written files is closed at once: it keeps their blocks. */
TEST(root_without_written_files_is_closed_with_the_cgroups)
{
    for (int written = 0; written < 2; written++) {
        char id[32], path[256];
        struct launch_sandbox *s;
        int64_t begun;
        int root[2];

        LAB(lab);
        name_one(id, "w", written);
        s = ended_in_cgroup(&lab, id);
        CHECK_INT(pipe2(root, O_CLOEXEC), 0);
        s->root_fd = root[1];
        if (written)
            put(&lab, id, "file");
        begun = clock_mono_ms();
        CHECK(janitor_remove_sandbox(lab.l, s, true));
        sandbox_free(s);
        (void)snprintf(path, sizeof(path), "%s/sandboxes/%s/upper", lab.state, id);
        for (int i = 0; i < DEADLINE_MS && access(path, F_OK) == 0; i++)
            (void)usleep(100);
        if (written)
            CHECK(ends(root[0]));
        CHECK_INT(kill(lab.l->janitor_pid, SIGSTOP), 0);
        if (clock_mono_ms() - begun < QUIET_MS)
            CHECK(written || !has_ended(root[0]));
        CHECK_INT(kill(lab.l->janitor_pid, SIGCONT), 0);
        CHECK(ends(root[0]));
        (void)wait_remain(&lab, 0);
        (void)close(root[0]);
        lab_close(&lab);
    }
}

TEST(stop_holds_both_locks_until_the_root_is_closed)
{
    struct idrange again = IDRANGE_NONE;
    auto_free char *owner = NULL;
    struct pollfd p = {.events = POLLIN};
    struct launch_sandbox *s;
    char text[256] = "", name[16];
    int root[2], fd;

    LAB(lab);
    s = ended(&lab, "stopped");
    owner = sandbox_owner(lab.l, "stopped");
    CHECK_INT(pipe2(root, O_CLOEXEC), 0);
    s->root_fd = root[1];
    again.base = s->ids.base;
    (void)snprintf(name, sizeof(name), "%u", (unsigned)again.base);
    p.fd = janitor_stop_sandbox(lab.l, s);
    CHECK(p.fd >= 0);
    CHECK_INT(poll(&p, 1, 50), 0); /* it waits until the launcher has closed the root */
    CHECK(!has_ended(root[0]));
    sandbox_free(s);
    CHECK_INT(poll(&p, 1, DEADLINE_MS), 1);
    CHECK(has_ended(root[0]));
    fd = openat(lab.l->ids_fd, name, O_RDONLY | O_CLOEXEC);
    CHECK_INT(read(fd, text, sizeof(text) - 1), (ssize_t)strlen(owner));
    CHECK_STR(text, owner);
    (void)close(fd);
    CHECK_INT(idrange_retake(lab.l->ids_fd, again.base, owner, &again, NULL), 0);
    idrange_done(&again);
    (void)close(p.fd);
    (void)close(root[0]);
    child_table_reap(&lab.l->children);
    CHECK_INT((int)lab.l->children.count, 0);
    lab_close(&lab);
}

TEST(job_that_waits_for_its_cgroups_holds_both_locks)
{
    struct idrange again = IDRANGE_NONE;
    struct launch_sandbox *s;
    char id[32], path[256];
    uid_t base;

    LAB(lab);
    name_one(id, "l", 0);
    s = ended_in_cgroup(&lab, id);
    base = s->ids.base;
    CHECK(janitor_remove_sandbox(lab.l, s, true));
    sandbox_free(s);
    (void)snprintf(path, sizeof(path), "%s/sandboxes/%s/upper", lab.state, id);
    for (int i = 0; i < DEADLINE_MS && access(path, F_OK) == 0; i++)
        (void)usleep(100);
    CHECK_INT(kill(lab.l->janitor_pid, SIGSTOP), 0); /* within the 100 ms before the next step */
    if (has_cgroup(&lab, id)) {
        CHECK_INT(idrange_retake(lab.l->ids_fd, base, NULL, &again, NULL), -EBUSY);
        CHECK_INT(launcher_sweep(lab.l), 0);
        CHECK_INT(entries(lab.l->sandboxes_fd), 1);
    }
    CHECK_INT(kill(lab.l->janitor_pid, SIGCONT), 0);
    (void)wait_remain(&lab, 0);
    CHECK(!has_cgroup(&lab, id));
    lab_close(&lab);
}

TEST(removals_without_a_pause_keep_at_most_64_cgroups)
{
    enum { COUNT = 3 * CGROUPS_MAX };
    int most = 0;

    LAB(lab);
    for (int i = 0; i < COUNT; i++) {
        CHECK(hand_over_cgroup(&lab, "m", i));
        if (i % 16 == 15) {
            /* Jobs that are still in the socket do not count. */
            for (int k = 0; k < DEADLINE_MS && count_cgroups(&lab, "m", i + 1) > CGROUPS_MAX; k++)
                (void)usleep(1000);
            most = most > count_cgroups(&lab, "m", i + 1) ? most : count_cgroups(&lab, "m", i + 1);
        }
    }
    CHECK(most > 0 && most <= CGROUPS_MAX);
    (void)wait_remain(&lab, 0);
    CHECK_INT(count_cgroups(&lab, "m", COUNT), 0);
    lab_close(&lab);
}

TEST(few_open_files_shorten_the_queue)
{
    enum { COUNT = 2 * CGROUPS_MAX, FEW = 96 };
    struct rlimit all, few;

    CHECK_INT(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = (struct rlimit){.rlim_cur = FEW, .rlim_max = all.rlim_max};
    LAB(lab);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(hand_over_cgroup(&lab, "f", i));
    (void)wait_remain(&lab, 0);
    CHECK_INT(count_cgroups(&lab, "f", COUNT), 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &all), 0);
    lab_close(&lab);
}

TEST(flush_and_end_do_not_wait_for_a_quiet_moment)
{
    LAB(lab);
    for (int i = 0; i < 20; i++)
        CHECK(hand_over_cgroup(&lab, "s", i));
    CHECK(janitor_flush(lab.l));
    CHECK_INT(count_cgroups(&lab, "s", 20), 0);
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK_INT(entries(lab.l->ids_fd), 0);
    for (int i = 0; i < 20; i++)
        CHECK(hand_over_cgroup(&lab, "e", i));
    launcher_free(lab.l);
    CHECK_INT(lab_launch(&lab), 0);
    CHECK_INT(count_cgroups(&lab, "e", 20), 0);
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK_INT(entries(lab.l->ids_fd), 0);
    lab_close(&lab);
}

TEST(cgroups_of_a_killed_janitor_are_swept)
{
    LAB(lab);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 8; i++)
            (void)hand_over_cgroup(&lab, "k", 8 * round + i);
        (void)usleep((useconds_t)(round * 25000));
        if (lab.l->janitor >= 0)
            (void)kill(lab.l->janitor_pid, SIGKILL);
    }
    launcher_free(lab.l);
    CHECK_INT(lab_launch(&lab), 0);
    CHECK(launcher_sweep(lab.l) > 0);
    CHECK_INT(count_cgroups(&lab, "k", 80), 0);
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK_INT(launcher_recover(lab.l, NULL), 0);
    CHECK_INT(entries(lab.l->ids_fd), 0);
    lab_close(&lab);
}

TAP_MAIN
