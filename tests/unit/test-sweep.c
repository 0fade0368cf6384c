/* What a sweep takes and what it leaves: by hand-made leftovers, and against starts that go on. */

#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "launch/cgroup.h"
#include "launch/idrange.h"
#include "launch/sandbox.h"
#include "launcher-lab.h"

static struct lab lab = {.sock = FD_NONE};
static struct launcher *l;

static void open_launcher(void)
{
    const struct launcher_config config = {.state_dir = lab.state,
                                           .ids_dir = lab.ids,
                                           .bind_prefixes = lab.prefixes,
                                           .init_image = embed_init().data,
                                           .init_size = embed_init().len};
    struct err err = ERR_NONE;

    if (launcher_open(&config, &l, &err) < 0) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
}

static struct launch_sandbox *make(const char *id, bool kept)
{
    struct launch_sandbox *s = sandbox_new(id);
    struct err err = ERR_NONE;

    if (s == NULL)
        abort();
    s->kept = kept;
    if (idrange_take(l->ids_fd, NULL, 0, &s->ids, &err) < 0 || sandbox_dir_make(l, s, -1, &err) < 0)
        tap_fail("%s", err.msg);
    return s;
}

static bool there(const char *id)
{
    return faccessat(l->sandboxes_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The hint for ext4, where it is known. */
TEST(sandboxes_are_spread_over_the_disk)
{
    int flags = 0;

    if (ioctl(l->sandboxes_fd, FS_IOC_GETFLAGS, &flags) < 0)
        SKIP("the file system has no such flags");
    flags &= ~FS_TOPDIR_FL;
    if (ioctl(l->sandboxes_fd, FS_IOC_SETFLAGS, &flags) < 0)
        SKIP("the file system's flags cannot be set");
    flags |= FS_TOPDIR_FL;
    if (ioctl(l->sandboxes_fd, FS_IOC_SETFLAGS, &flags) < 0)
        SKIP("the file system knows no such hint");
    flags &= ~FS_TOPDIR_FL;
    CHECK_INT(ioctl(l->sandboxes_fd, FS_IOC_SETFLAGS, &flags), 0);
    sandbox_dirs_spread(l->sandboxes_fd);
    CHECK_INT(ioctl(l->sandboxes_fd, FS_IOC_GETFLAGS, &flags), 0);
    CHECK((flags & FS_TOPDIR_FL) != 0);
}

TEST(made_and_removed)
{
    struct launch_sandbox *s;
    struct stat st;
    mode_t mask = umask(077);
    uid_t base;

    s = make("a", false);
    base = s->ids.base;
    (void)umask(mask);
    CHECK_INT(fstatat(s->dir_fd, "upper", &st, 0), 0);
    CHECK_INT(st.st_mode & 07777, 0755);
    CHECK(st.st_uid == base && st.st_gid == base);
    CHECK_INT(fstatat(s->dir_fd, "work", &st, 0), 0);
    CHECK(st.st_uid == 0 && (st.st_mode & 07777) == 0700);
    CHECK_INT(fstat(s->dir_fd, &st), 0);
    CHECK(st.st_uid == 0 && (st.st_mode & 07777) == 0700);
    CHECK_INT(launcher_sweep(l), 0); /* it lives: we have its lock */
    CHECK(there("a"));
    CHECK_INT(sandbox_dir_remove(l, "a", NULL), 0);
    CHECK_INT(sandbox_dir_remove(l, "a", NULL), 0); /* gone is removed */
    idrange_release(l->ids_fd, &s->ids);
    sandbox_free(s);
    lab_check_clean(&lab);
}

TEST(the_dead_go)
{
    struct launch_sandbox *s = make("dead", false);
    struct stat st;

    CHECK_INT(fstatat(s->dir_fd, "upper", &st, 0), 0);
    CHECK_INT(mkdirat(s->dir_fd, "upper/x", 0), 0);
    CHECK_INT(symlinkat("/etc/passwd", s->dir_fd, "upper/x/link"), 0);
    /* Its root had given / away. */
    CHECK_INT(fchownat(s->dir_fd, "upper", st.st_uid + 65535, st.st_gid + 1, 0), 0);
    CHECK_INT(fchmodat(s->dir_fd, "upper", 0, 0), 0);
    sandbox_free(s); /* all that a killed launcher does */
    CHECK_INT(launcher_sweep(l), 1);
    CHECK_INT(access("/etc/passwd", F_OK), 0);
    lab_check_clean(&lab);
}

TEST(the_half_made_go)
{
    static const char *const names[] = {"h1", "h2", "h3", "h4"};
    char path[64];

    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(mkdirat(l->sandboxes_fd, names[i], 0700), 0);
        (void)snprintf(path, sizeof(path), "%s/lock", names[i]);
        if (i > 0)
            CHECK_INT(mknodat(l->sandboxes_fd, path, S_IFREG | 0600, 0), 0);
        (void)snprintf(path, sizeof(path), "%s/upper", names[i]);
        if (i > 1)
            CHECK_INT(mkdirat(l->sandboxes_fd, path, 0755), 0);
        (void)snprintf(path, sizeof(path), "%s/work", names[i]);
        if (i > 2)
            CHECK_INT(mkdirat(l->sandboxes_fd, path, 0700), 0);
    }
    CHECK_INT(launcher_sweep(l), 4);
    lab_check_clean(&lab);
}

TEST(what_stays)
{
    struct launch_sandbox *kept = make("kept", true);
    auto_close int other = FD_NONE;
    uid_t base = kept->ids.base;
    struct idrange again = IDRANGE_NONE;
    char *owner = sandbox_owner(l, "kept");

    CHECK_INT(idrange_reserve(l->ids_fd, &kept->ids, owner, NULL), 0);
    sandbox_free(kept);
    CHECK_INT(mkdirat(l->sandboxes_fd, "Not-an-id", 0700), 0);
    CHECK_INT(mkdirat(l->sandboxes_fd, ".hidden", 0700), 0);
    CHECK_INT(symlinkat("/etc", l->sandboxes_fd, "link"), 0);
    CHECK_INT(mknodat(l->sandboxes_fd, "file", S_IFREG | 0600, 0), 0);
    CHECK_INT(launcher_sweep(l), 0);
    CHECK(there("kept") && there("Not-an-id") && there(".hidden") && there("link") &&
          there("file"));
    CHECK_INT(idrange_retake(l->ids_fd, base, NULL, &again, NULL), -EPERM);
    CHECK_INT(idrange_retake(l->ids_fd, base, owner, &again, NULL), 0);
    idrange_release(l->ids_fd, &again);
    free(owner);

    /* While somebody is between making a directory and locking it, nothing is swept. */
    CHECK_INT(mkdirat(l->sandboxes_fd, "young", 0700), 0);
    other = openat(l->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(flock(other, LOCK_SH), 0);
    CHECK_INT(launcher_sweep(l), 0);
    CHECK(there("young"));
    CHECK_INT(flock(other, LOCK_UN), 0);
    CHECK_INT(launcher_sweep(l), 1);

    CHECK_INT(unlinkat(l->sandboxes_fd, "Not-an-id", AT_REMOVEDIR), 0);
    CHECK_INT(unlinkat(l->sandboxes_fd, ".hidden", AT_REMOVEDIR), 0);
    CHECK_INT(unlinkat(l->sandboxes_fd, "link", 0), 0);
    CHECK_INT(unlinkat(l->sandboxes_fd, "file", 0), 0);
    CHECK_INT(sandbox_dir_remove(l, "kept", NULL), 0);
    lab_check_clean(&lab);
}

/* Its range is somebody else's by now: the files go, the range stays with who has it. */
TEST(a_range_that_has_a_new_owner)
{
    struct launch_sandbox *s = make("old", false);
    struct idrange theirs = IDRANGE_NONE;
    uid_t base = s->ids.base;

    sandbox_free(s);
    CHECK_INT(idrange_retake(l->ids_fd, base, NULL, &theirs, NULL), 0);
    CHECK_INT(launcher_sweep(l), 1);
    CHECK(!there("old"));
    CHECK_INT(lab_entries(lab.ids), 1);
    idrange_release(l->ids_fd, &theirs);
    lab_check_clean(&lab);
}

TEST(a_range_without_a_sandbox)
{
    struct idrange ids = IDRANGE_NONE;

    CHECK_INT(idrange_take(l->ids_fd, NULL, 0, &ids, NULL), 0);
    CHECK_INT(launcher_sweep(l), 0);
    CHECK_INT(lab_entries(lab.ids), 1); /* held */
    idrange_done(&ids);
    CHECK_INT(launcher_sweep(l), 0);
    CHECK_INT(lab_entries(lab.ids), 0);
}

TEST(an_id_that_exists)
{
    struct launch_sandbox *first = make("twice", false), *second = sandbox_new("twice");
    struct err err = ERR_NONE;

    CHECK_INT(sandbox_dir_make(l, second, -1, &err), -EEXIST);
    CHECK_STR(err.msg, "make the directory of sandbox twice: File exists");
    CHECK(second->dir_fd < 0 && second->lock_fd < 0 && there("twice/upper"));
    sandbox_free(second);
    CHECK_INT(sandbox_dir_remove(l, "twice", NULL), 0);
    idrange_release(l->ids_fd, &first->ids);
    sandbox_free(first);
    lab_check_clean(&lab);
}

/* One process makes and removes, another makes and dies, a third sweeps: no living one is touched,
 * no dead one stays. */
static void starter(unsigned rounds, bool dies)
{
    open_launcher(); /* its own descriptions: locks are between these */
    for (unsigned i = 0; i < rounds; i++) {
        char id[32];
        struct launch_sandbox *s;
        struct stat st;

        (void)snprintf(id, sizeof(id), "race%d-%u", (int)getpid(), i);
        s = make(id, false);
        if (fstatat(s->dir_fd, "upper", &st, 0) < 0 || st.st_uid != s->ids.base || st.st_nlink == 0)
            tap_fail("swept while it lived");
        if (!dies) {
            CHECK_INT(sandbox_dir_remove(l, id, NULL), 0);
            idrange_release(l->ids_fd, &s->ids);
        }
        sandbox_free(s);
    }
    _exit(tap_failed);
}

TEST(a_sweep_races_with_starts_harmlessly)
{
    pid_t pids[3];
    int swept = 0, status, left = 3;

    (void)fflush(stdout);
    for (int i = 0; i < 3; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            starter(150, i == 2);
    }
    while (left > 0) {
        pid_t pid = waitpid(-1, &status, WNOHANG);

        swept += launcher_sweep(l);
        if (pid > 0) {
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            left--;
        }
    }
    swept += launcher_sweep(l);
    CHECK(swept >= 150); /* one that was just being removed may be counted, too */
    lab_check_clean(&lab);
}

int main(void)
{
    int r;

    if (geteuid() != 0) {
        printf("ok 1 - sweep # SKIP needs root\n1..1\n");
        return 0;
    }
    lab_dirs(&lab);
    open_launcher();
    r = tap_run();
    launcher_free(l);
    lab_remove(&lab);
    return r;
}
