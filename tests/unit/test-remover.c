/* The process that removes the files and cgroups of sandboxes (launch/remover.c): what it is
 * handed, and what is left when it is stopped, killed, or has more to do than it is let. Root only.
 */

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
        lab->l->clients.len = 1; /* others wait for it */
    return r;
}

static bool lab_open(struct lab *lab)
{
    *lab = (struct lab){.top = "/tmp/rind-remover-XXXXXX"};
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

/* A kept sandbox that has ended and been forgotten, as launcher_release leaves it to the remover;
 * NULL after a failure. */
static struct sandbox *ended(struct lab *lab, const char *id)
{
    struct sandbox *s = sandbox_new(id);
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

/* Hands one over; whether the remover took it. */
static bool hand_over(struct lab *lab, const char *id)
{
    struct sandbox *s = ended(lab, id);
    bool taken = s != NULL && removal_start(lab->l, s, false);

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

/* Until so many sandboxes are left, and as many ranges. */
static bool settle(const struct lab *lab, size_t left)
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

TEST(it_removes_and_gives_back)
{
    pid_t pid;

    LAB(lab);
    CHECK(lab.l->remover < 0); /* not before it is needed */
    CHECK(hand_over(&lab, "one"));
    pid = lab.l->remover_pid;
    CHECK(hand_over(&lab, "two"));
    CHECK_INT(lab.l->remover_pid, pid);
    (void)settle(&lab, 0);
    /* A name that is not there any more is nothing to it. */
    CHECK(hand_over(&lab, "one"));
    (void)settle(&lab, 0);
    CHECK_INT(lab.l->removal_count, 0);
    lab_close(&lab);
    CHECK(kill(pid, 0) < 0 && errno == ESRCH);
}

/* Links, as the host would have them; the remover is another process. */
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

/* A socket that still wants to send keeps a net namespace for minutes: its link is taken away, and
 * the range, whose number the link has, is nobody else's before. */
TEST(a_link_that_stays_is_taken_away)
{
    LAB(lab);
    CHECK(links_map(&lab));
    CHECK(hand_over(&lab, "one"));
    while (entries(lab.l->sandboxes_fd) != 0)
        (void)usleep(1000);
    CHECK_INT(entries(lab.l->ids_fd), 1);
    CHECK_INT(links->erased, 0); /* the kernel has a moment's time */
    (void)settle(&lab, 0);
    CHECK_INT(links->erased, 1);
    links->asked = 0;
    CHECK(hand_over(&lab, "two")); /* one that has none, or no more */
    (void)settle(&lab, 0);
    CHECK_INT(links->asked, 1);
    CHECK_INT(links->erased, 1);
    lab_close(&lab);
    (void)munmap(links, sizeof(*links));
}

/* Whoever stops the daemon finds nothing of it, at once. */
TEST(a_link_goes_before_the_daemon)
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

/* Its upper layer is the sandbox's: links and names in it lead nowhere. */
TEST(what_the_sandbox_left_leads_nowhere)
{
    struct sandbox *s;
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
    CHECK(removal_start(lab.l, s, false));
    sandbox_free(s);
    (void)settle(&lab, 0);
    CHECK_INT(access(path, F_OK), 0);
    lab_close(&lab);
}

/* While it has not come to it, both locks are taken: nobody gets the ids, and no sweep the files.
 */
TEST(what_waits_is_locked)
{
    struct sandbox *s;
    struct idrange again = IDRANGE_NONE;
    uid_t base;

    LAB(lab);
    CHECK(hand_over(&lab, "first"));
    (void)settle(&lab, 0);
    CHECK_INT(kill(lab.l->remover_pid, SIGSTOP), 0);
    s = ended(&lab, "waits");
    base = s->ids.base;
    CHECK(removal_start(lab.l, s, false));
    sandbox_free(s);
    CHECK_INT(idrange_retake(lab.l->ids_fd, base, NULL, &again, NULL), -EBUSY);
    CHECK_INT(launcher_sweep(lab.l), 0);
    CHECK_INT(entries(lab.l->sandboxes_fd), 1);
    CHECK_INT(kill(lab.l->remover_pid, SIGCONT), 0);
    (void)settle(&lab, 0);
    lab_close(&lab);
}

/* The next removal starts another; the rest is the next launcher's, and nobody else's before. */
TEST(a_killed_one_leaves_it_to_the_next_start)
{
    pid_t pid;

    LAB(lab);
    CHECK(hand_over(&lab, "first"));
    (void)settle(&lab, 0);
    pid = lab.l->remover_pid;
    CHECK_INT(kill(pid, SIGSTOP), 0);
    for (int i = 0; i < 5; i++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "left-%d", i);
        CHECK(hand_over(&lab, id));
    }
    CHECK_INT(kill(pid, SIGKILL), 0);
    /* Not before its end of the socket is closed is it known to be gone. */
    for (int i = 0; i < DEADLINE_MS / 10 && lab.l->remover_pid == pid; i++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "next-%d", i);
        CHECK(hand_over(&lab, id));
        (void)usleep(10000);
    }
    CHECK(lab.l->remover_pid != pid);
    CHECK_INT(waitpid(pid, NULL, WNOHANG), -1); /* reaped */
    launcher_free(lab.l);                       /* and the second one has done its work */
    CHECK_INT(lab_launch(&lab), 0);
    CHECK(entries(lab.l->sandboxes_fd) >= 5);
    CHECK(launcher_sweep(lab.l) >= 5);
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK_INT(launcher_recover(lab.l, NULL), 0);
    CHECK_INT(entries(lab.l->ids_fd), 0);
    lab_close(&lab);
}

/* At any instant of its work. */
TEST(killed_at_any_instant)
{
    LAB(lab);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 4; i++) {
            char id[48];

            (void)snprintf(id, sizeof(id), "r%d-%d", round, i);
            (void)hand_over(&lab, id);
        }
        (void)usleep((useconds_t)(round * 50));
        if (lab.l->remover >= 0)
            (void)kill(lab.l->remover_pid, SIGKILL);
    }
    launcher_free(lab.l);
    CHECK_INT(lab_launch(&lab), 0);
    (void)launcher_sweep(lab.l);
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK_INT(launcher_recover(lab.l, NULL), 0);
    CHECK_INT(entries(lab.l->ids_fd), 0);
    lab_close(&lab);
}

/* It is never waited for: what finds no room has a process of its own. */
TEST(more_than_it_is_let)
{
    int count = 0;

    LAB(lab);
    CHECK(hand_over(&lab, "first"));
    (void)settle(&lab, 0);
    CHECK_INT(kill(lab.l->remover_pid, SIGSTOP), 0);
    for (; count < MANY && lab.l->removal_count == 0; count++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "m%d", count);
        CHECK(hand_over(&lab, id));
    }
    CHECK(count > 8 && count < MANY);
    CHECK_INT(lab.l->removal_count, 1);
    for (int i = 0; i < DEADLINE_MS && lab.l->removal_count > 0; i++) {
        (void)usleep(1000);
        removal_reap(lab.l);
    }
    CHECK_INT(entries(lab.l->sandboxes_fd), count - 1);
    CHECK_INT(kill(lab.l->remover_pid, SIGCONT), 0);
    (void)settle(&lab, 0);
    lab_close(&lab);
}

/* The end of a held root syncs a file system: the launcher's copy is never the last. */
static void check_root(struct lab *lab, const char *id, int files)
{
    struct pollfd p = {.events = 0};
    struct sandbox *s = ended(lab, id);
    int root[2];

    CHECK(s != NULL);
    for (int i = 0; i < files; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "upper/%d", i);
        CHECK_INT(mknodat(s->dir_fd, name, S_IFREG, 0), 0);
    }
    CHECK_INT(pipe2(root, O_CLOEXEC), 0);
    p.fd = root[0]; /* says when the last copy of the other end has gone */
    s->root_fd = root[1];
    CHECK(removal_start(lab->l, s, false));
    for (int i = 0; i < DEADLINE_MS && entries(lab->l->sandboxes_fd) > 0; i++)
        (void)usleep(1000);
    CHECK_INT(entries(lab->l->sandboxes_fd), 0);
    (void)close(take_fd(&s->root_fd));
    CHECK_INT(poll(&p, 1, 50), 0); /* who has removed the files has it still */
    sandbox_free(s);
    CHECK_INT(poll(&p, 1, DEADLINE_MS), 1);
    CHECK((p.revents & POLLHUP) != 0);
    (void)close(root[0]);
}

TEST(root_is_closed_by_who_removes)
{
    LAB(lab);
    check_root(&lab, "little", 0);
    check_root(&lab, "much", 3000);
    (void)settle(&lab, 0);
    lab_close(&lab);
}

/* Who needs the room waits for it; and goes on with another. */
TEST(settling_waits_for_what_was_handed_over)
{
    pid_t pid;

    LAB(lab);
    CHECK(!remover_settle(lab.l));
    for (int i = 0; i < 20; i++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "s%d", i);
        CHECK(hand_over(&lab, id));
    }
    pid = lab.l->remover_pid;
    CHECK(remover_settle(lab.l));
    CHECK_INT(entries(lab.l->sandboxes_fd), 0);
    CHECK(lab.l->remover >= 0 && lab.l->remover_pid != pid);
    CHECK(hand_over(&lab, "next"));
    (void)settle(&lab, 0);
    lab_close(&lab);
}

/* The launcher's end waits for what it was asked. */
TEST(the_end_of_the_launcher)
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

enum { WAITING_MAX = 64, QUIET_MS = 100 /* as in remover.c */ };

/* Unlike anybody else's on this host. */
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

/* One with a cgroup. */
static struct sandbox *ended_in_cgroup(struct lab *lab, const char *id)
{
    const struct cgroup_limits limits = {.memory_bytes = 64 << 20, .pids = 16, .cpu_millis = -1};
    struct sandbox *s = ended(lab, id);
    struct err err = ERR_NONE;

    if (s != NULL && cgroup_create(lab->l->cgroups, id, &limits, s->ids.base, &s->cgroup, &err) < 0)
        tap_fail("%s: %s", id, err.msg);
    return s;
}

static bool hand_over_cgroup(struct lab *lab, const char *kind, int i)
{
    char id[32];
    struct sandbox *s;
    bool taken;

    name_one(id, kind, i);
    s = ended_in_cgroup(lab, id);
    taken = s != NULL && removal_start(lab->l, s, true);
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

/* Files at once; the cgroups after a moment, and with them what a sweep would find them by. */
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
    (void)settle(&lab, 0);
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

/* A root that nothing was written below waits for a quiet moment, too; another does not keep the
 * blocks of removed files. */
TEST(roots_wait_where_nothing_waits_for_them)
{
    for (int written = 0; written < 2; written++) {
        char id[32], path[256];
        struct sandbox *s;
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
        CHECK(removal_start(lab.l, s, true));
        sandbox_free(s);
        (void)snprintf(path, sizeof(path), "%s/sandboxes/%s/upper", lab.state, id);
        for (int i = 0; i < DEADLINE_MS && access(path, F_OK) == 0; i++)
            (void)usleep(100);
        if (written)
            CHECK(ends(root[0]));
        CHECK_INT(kill(lab.l->remover_pid, SIGSTOP), 0);
        if (clock_mono_ms() - begun < QUIET_MS)
            CHECK(written || !has_ended(root[0]));
        CHECK_INT(kill(lab.l->remover_pid, SIGCONT), 0);
        CHECK(ends(root[0]));
        (void)settle(&lab, 0);
        (void)close(root[0]);
        lab_close(&lab);
    }
}

/* What a stop leaves is nobody else's until it is synced. */
TEST(a_stop_ends_the_root_last)
{
    struct idrange again = IDRANGE_NONE;
    auto_free char *owner = NULL;
    struct pollfd p = {.events = POLLIN};
    struct sandbox *s;
    char text[256] = "", name[16];
    int root[2], fd;

    LAB(lab);
    s = ended(&lab, "stopped");
    owner = sandbox_owner(lab.l, "stopped");
    CHECK_INT(pipe2(root, O_CLOEXEC), 0);
    s->root_fd = root[1];
    again.base = s->ids.base;
    (void)snprintf(name, sizeof(name), "%u", (unsigned)again.base);
    p.fd = settle_start(lab.l, s, owner);
    CHECK(p.fd >= 0);
    CHECK_INT(poll(&p, 1, 50), 0); /* it waits for the launcher to let the root go */
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
    removal_reap(lab.l);
    CHECK_INT((int)lab.l->removal_count, 0);
    lab_close(&lab);
}

/* While they wait nobody gets the ids, and no sweep takes them for dead. */
TEST(what_waits_for_its_cgroups_is_locked)
{
    struct idrange again = IDRANGE_NONE;
    struct sandbox *s;
    char id[32], path[256];
    uid_t base;

    LAB(lab);
    name_one(id, "l", 0);
    s = ended_in_cgroup(&lab, id);
    base = s->ids.base;
    CHECK(removal_start(lab.l, s, true));
    sandbox_free(s);
    (void)snprintf(path, sizeof(path), "%s/sandboxes/%s/upper", lab.state, id);
    for (int i = 0; i < DEADLINE_MS && access(path, F_OK) == 0; i++)
        (void)usleep(100);
    CHECK_INT(kill(lab.l->remover_pid, SIGSTOP), 0); /* 100 ms before it goes on */
    if (has_cgroup(&lab, id)) {
        CHECK_INT(idrange_retake(lab.l->ids_fd, base, NULL, &again, NULL), -EBUSY);
        CHECK_INT(launcher_sweep(lab.l), 0);
        CHECK_INT(entries(lab.l->sandboxes_fd), 1);
    }
    CHECK_INT(kill(lab.l->remover_pid, SIGCONT), 0);
    (void)settle(&lab, 0);
    CHECK(!has_cgroup(&lab, id));
    lab_close(&lab);
}

/* Who removes without a pause has the oldest of them removed. */
TEST(not_more_cgroups_wait_than_may)
{
    enum { COUNT = 3 * WAITING_MAX };
    int most = 0;

    LAB(lab);
    for (int i = 0; i < COUNT; i++) {
        CHECK(hand_over_cgroup(&lab, "m", i));
        if (i % 16 == 15) {
            /* Those that the remover has not come to yet are in its socket, not with it. */
            for (int k = 0; k < DEADLINE_MS && count_cgroups(&lab, "m", i + 1) > WAITING_MAX; k++)
                (void)usleep(1000);
            most = most > count_cgroups(&lab, "m", i + 1) ? most : count_cgroups(&lab, "m", i + 1);
        }
    }
    CHECK(most > 0 && most <= WAITING_MAX);
    (void)settle(&lab, 0);
    CHECK_INT(count_cgroups(&lab, "m", COUNT), 0);
    lab_close(&lab);
}

/* What waits holds open files: where few may be open few wait, and nothing is left. */
TEST(few_open_files)
{
    enum { COUNT = 2 * WAITING_MAX, FEW = 96 };
    struct rlimit all, few;

    CHECK_INT(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = (struct rlimit){.rlim_cur = FEW, .rlim_max = all.rlim_max};
    LAB(lab);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(hand_over_cgroup(&lab, "f", i));
    (void)settle(&lab, 0);
    CHECK_INT(count_cgroups(&lab, "f", COUNT), 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &all), 0);
    lab_close(&lab);
}

/* Neither who needs what they hold, nor the launcher's end, waits for the pause. */
TEST(nothing_waits_at_the_end)
{
    LAB(lab);
    for (int i = 0; i < 20; i++)
        CHECK(hand_over_cgroup(&lab, "s", i));
    CHECK(remover_settle(lab.l));
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

/* Those that a killed remover leaves are found by the next start. */
TEST(cgroups_of_a_killed_one_are_swept)
{
    LAB(lab);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 8; i++)
            (void)hand_over_cgroup(&lab, "k", 8 * round + i);
        (void)usleep((useconds_t)(round * 25000));
        if (lab.l->remover >= 0)
            (void)kill(lab.l->remover_pid, SIGKILL);
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
