/* init's cgroup leaves: who gets which, on a directory that looks like a cgroup. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "init/exec-table.h"
#include "proto/rmtree.h"
#include "tap.h"

struct rig {
    char dir[32];
    int saved; /* what stood at PLAN_CGROUP_FD */
    struct plan_header header;
    struct init init;
    struct table table;
};

static void rig_open(struct rig *g)
{
    int fd;

    *g = (struct rig){.dir = "/tmp/rind-leaf-XXXXXX", .header = {.flags = PLAN_HAS_CGROUP}};
    g->init.plan.header = &g->header;
    g->table.init = &g->init;
    g->saved = fcntl(PLAN_CGROUP_FD, F_DUPFD_CLOEXEC, 100);
    if (mkdtemp(g->dir) == NULL || (fd = open(g->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
        dup2(fd, PLAN_CGROUP_FD) < 0)
        abort();
    if (fd != PLAN_CGROUP_FD)
        (void)close(fd);
    exec_cgroup_prepare(&g->init);
}

static void rig_done(struct rig *g)
{
    (void)close(PLAN_CGROUP_FD);
    if (g->saved >= 0) {
        (void)dup2(g->saved, PLAN_CGROUP_FD);
        (void)close(g->saved);
    }
    CHECK_INT(rmtree_at(AT_FDCWD, g->dir, 0), 0);
}

/* The kernel's file, which a plain directory does not have. */
static void populate(const char *exec_cgroup, const char *text)
{
    auto_close int fd = FD_NONE;
    char path[64];

    (void)snprintf(path, sizeof(path), "%s/cgroup.events", exec_cgroup);
    fd = openat(PLAN_CGROUP_FD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_all(fd, text, strlen(text)) < 0)
        abort();
}

/* The leaf that a new exec gets: its number. */
static unsigned make(struct rig *g, struct slot *s, uint32_t flags)
{
    int fd;

    *s = (struct slot){.flags = flags};
    fd = exec_cgroup_make(&g->table, s);
    if (fd < 0)
        return 0;
    (void)close(fd);
    return s->exec_cgroup;
}

static bool is_there(const char *exec_cgroup)
{
    return faccessat(PLAN_CGROUP_FD, exec_cgroup, F_OK, 0) == 0;
}

TEST(an_empty_leaf_is_used_again)
{
    struct slot a, b;
    struct rig g;

    rig_open(&g);
    CHECK_INT(make(&g, &a, 0), 1);
    CHECK_INT(make(&g, &b, 0), 2); /* the first is in use */
    populate("u/1", "populated 0\nfrozen 0\n");
    exec_cgroup_release(&g.table, &a);
    CHECK_INT(a.exec_cgroup, 0);
    CHECK(is_there("u/1"));
    CHECK_INT(make(&g, &a, 0), 1);
    CHECK_INT(make(&g, &a, 0), 3); /* it was taken out of those that wait */
    rig_done(&g);
}

TEST(what_lives_on_keeps_its_leaf)
{
    struct slot a;
    struct rig g;

    rig_open(&g);
    CHECK_INT(make(&g, &a, 0), 1);
    populate("u/1", "populated 1\nfrozen 0\n");
    exec_cgroup_release(&g.table, &a);
    CHECK_INT(make(&g, &a, 0), 2);
    exec_cgroup_release(&g.table, &a); /* no file: nothing is known, so not again */
    CHECK_INT(make(&g, &a, 0), 3);
    populate("u/1", "populated 0\nfrozen 0\n");
    CHECK_INT(make(&g, &a, 0), 1);
    rig_done(&g);
}

TEST(helpers_have_their_own)
{
    struct slot a, b;
    struct rig g;

    rig_open(&g);
    CHECK_INT(make(&g, &a, IMSG_HELPER), 1);
    CHECK(is_there("h/1") && !is_there("u/1"));
    populate("h/1", "populated 0\n");
    exec_cgroup_release(&g.table, &a);
    CHECK_INT(make(&g, &b, 0), 2);
    CHECK(is_there("u/2"));
    CHECK_INT(make(&g, &a, IMSG_HELPER), 1);
    rig_done(&g);
}

TEST(not_all_wait)
{
    enum { MANY = EXEC_CGROUP_WAITING_MAX + 5 };
    static struct slot slots[MANY];
    struct rig g;
    char path[16];

    rig_open(&g);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(make(&g, &slots[i], 0), i + 1);
    for (int i = 0; i < MANY; i++)
        exec_cgroup_release(&g.table, &slots[i]);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof(path), "u/%d", i + 1);
        CHECK_INT(is_there(path), i < EXEC_CGROUP_WAITING_MAX);
    }
    rig_done(&g);
}

TEST(without_a_v2_tree)
{
    struct slot a = {.flags = 0};
    struct rig g;

    rig_open(&g);
    g.header.flags = 0;
    CHECK_INT(exec_cgroup_make(&g.table, &a), -ENODEV);
    CHECK_INT(a.exec_cgroup, 0);
    CHECK_INT(exec_cgroup_kill(&a), -ENODEV);
    rig_done(&g);
}

TAP_MAIN
