#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/idrange.h"
#include "tap.h"

#define OWNER "/var/lib/rind\nabc\n"

static char registry_path[64];

static int registry_open(void)
{
    (void)snprintf(registry_path, sizeof(registry_path), "/tmp/rind-idrange-XXXXXX");
    if (mkdtemp(registry_path) == NULL)
        exit(1);
    return open(registry_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Removes what the test has left and says how many files that were. */
static int registry_close(int fd)
{
    int left = 0;

    for (unsigned i = 0; i < IDRANGE_COUNT; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "%u", IDRANGE_FIRST + i * IDRANGE_SIZE);
        left += unlinkat(fd, name, 0) == 0;
    }
    (void)close(fd);
    if (rmdir(registry_path) < 0)
        tap_fail("%s: not empty", registry_path);
    return left;
}

/* All but the ranges first..first+count-1, so that a test has a small pool. */
struct pool {
    struct idrange_avoid avoid[2];
};

static uint32_t base_of(unsigned slot)
{
    return IDRANGE_FIRST + slot * IDRANGE_SIZE;
}

static struct pool only(unsigned first, unsigned count)
{
    return (struct pool){{{0, base_of(first) - 1}, {base_of(first + count), UINT32_MAX}}};
}

static int take_from(int fd, const struct pool *p, struct idrange *ret, struct err *err)
{
    return idrange_take(fd, p->avoid, 2, ret, err);
}

TEST(take_and_release)
{
    struct idrange a = IDRANGE_NONE, b = IDRANGE_NONE;
    struct err err = ERR_NONE;
    int fd = registry_open();

    CHECK_INT(idrange_take(fd, NULL, 0, &a, &err), 0);
    CHECK_INT(idrange_take(fd, NULL, 0, &b, &err), 0);
    CHECK(a.base != b.base);
    CHECK(a.base >= IDRANGE_FIRST && (a.base - IDRANGE_FIRST) % IDRANGE_SIZE == 0);
    CHECK((a.base - IDRANGE_FIRST) / IDRANGE_SIZE < IDRANGE_COUNT);
    CHECK_INT(fcntl(a.lock_fd, F_GETFD), FD_CLOEXEC);
    CHECK_INT(fcntl(a.lock_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    idrange_release(fd, &a);
    idrange_release(fd, &b);
    CHECK_INT(a.lock_fd, -1);
    idrange_release(fd, &a); /* once more is nothing */
    CHECK_INT(registry_close(fd), 0);
}

/* By the content alone, held or not; what only begins with it is another's. */
TEST(found_by_its_owner)
{
    struct idrange a = IDRANGE_NONE, b = IDRANGE_NONE;
    struct err err = ERR_NONE;
    int fd = registry_open();
    uid_t base = 1;

    CHECK_INT(idrange_take(fd, NULL, 0, &a, &err), 0);
    CHECK_INT(idrange_take(fd, NULL, 0, &b, &err), 0);
    CHECK_INT(idrange_find(fd, OWNER, &base, &err), -ENOENT);
    CHECK_INT(base, 1);
    CHECK_INT(idrange_claim(fd, &a, OWNER "x\n", &err), 0);
    CHECK_INT(idrange_find(fd, OWNER, &base, &err), -ENOENT);
    CHECK_INT(idrange_claim(fd, &b, OWNER, &err), 0);
    CHECK_INT(idrange_find(fd, OWNER, &base, &err), 0);
    CHECK_INT(base, b.base);
    idrange_done(&b);
    CHECK_INT(idrange_find(fd, OWNER, &base, &err), 0);
    idrange_release(fd, &a);
    CHECK_INT(registry_close(fd), 1);
}

/* Others may be about to close their copy: the launcher, when the remover is faster. */
TEST(given_back_by_the_last)
{
    struct idrange a = IDRANGE_NONE;
    struct err err = ERR_NONE;
    int fd = registry_open();
    pid_t pid;

    CHECK_INT(idrange_take(fd, NULL, 0, &a, &err), 0);
    pid = fork();
    if (pid == 0) {
        (void)usleep(30000);
        _exit(0);
    }
    idrange_give_back(fd, &a);
    CHECK_INT(a.lock_fd, -1);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK_INT(registry_close(fd), 0); /* empty */
}

TEST(avoids_and_runs_out)
{
    struct idrange r[3] = {IDRANGE_NONE, IDRANGE_NONE, IDRANGE_NONE};
    struct pool two = only(40, 2);
    struct err err = ERR_NONE;
    int fd = registry_open();

    CHECK_INT(take_from(fd, &two, &r[0], &err), 0);
    CHECK_INT(take_from(fd, &two, &r[1], &err), 0);
    CHECK_INT(r[0].base + r[1].base, base_of(40) + base_of(41));
    CHECK_INT(take_from(fd, &two, &r[2], &err), -ENOSPC);
    CHECK_STR(err.msg, "no free range of 65536 user ids: all 3069 of the pool are in use, kept by "
                       "stopped sandboxes or given to users in /etc/subuid; remove sandboxes");
    CHECK_INT(r[2].lock_fd, -1);
    idrange_release(fd, &r[1]);
    CHECK_INT(take_from(fd, &two, &r[2], &err), 0);
    idrange_release(fd, &r[0]);
    idrange_release(fd, &r[2]);
    CHECK_INT(registry_close(fd), 0);
}

/* Those of sandboxes with a guard are apart. */
TEST(guarded_ones_are_apart)
{
    const struct idrange_avoid not_guarded = {IDRANGE_FIRST,
                                              base_of(IDRANGE_COUNT - IDRANGE_GUARDED) - 1};
    const struct idrange_avoid guarded = {base_of(IDRANGE_COUNT - IDRANGE_GUARDED),
                                          base_of(IDRANGE_COUNT) - 1};
    struct idrange r = IDRANGE_NONE, none = IDRANGE_NONE;
    struct err err = ERR_NONE;
    int fd = registry_open();

    CHECK_INT(idrange_take(fd, &not_guarded, 1, &none, &err), -ENOSPC);
    CHECK_INT(idrange_take_guarded(fd, &guarded, 1, &none, &err), -ENOSPC);
    CHECK_INT(idrange_take_guarded(fd, &not_guarded, 1, &r, &err), 0);
    CHECK(r.base >= guarded.first && r.base < guarded.last);
    idrange_release(fd, &r);
    CHECK_INT(registry_close(fd), 0);
}

TEST(one_shared_id_is_enough_to_avoid)
{
    /* All ranges but 7, by single ids at their ends: the first of 8, the last of 6. */
    struct idrange_avoid avoid[] = {{IDRANGE_FIRST, base_of(6)},
                                    {base_of(7) - 1, base_of(7) - 1},
                                    {base_of(8), base_of(8)},
                                    {base_of(8) + 5, base_of(IDRANGE_COUNT - 1)}};
    struct idrange r = IDRANGE_NONE, none = IDRANGE_NONE;
    struct err err = ERR_NONE;
    int fd = registry_open();

    CHECK_INT(idrange_take(fd, avoid, 4, &r, &err), 0);
    CHECK_INT(r.base, base_of(7));
    CHECK_INT(idrange_take(fd, avoid, 4, &none, &err), -ENOSPC);
    idrange_release(fd, &r);
    CHECK_INT(registry_close(fd), 0);
}

TEST(a_reserved_range_stays_its_owners)
{
    struct idrange r = IDRANGE_NONE, none = IDRANGE_NONE;
    struct pool one = only(3, 1);
    struct err err = ERR_NONE;
    int fd = registry_open();

    CHECK_INT(take_from(fd, &one, &r, &err), 0);
    CHECK_INT(idrange_reserve(fd, &r, OWNER, &err), 0);
    CHECK_INT(idrange_retake(fd, base_of(3), OWNER, &none, &err), -EBUSY);
    CHECK_STR(err.msg, "id range 1879244800 is in use");
    idrange_done(&r);

    /* Nobody holds it, but it is kept, for its owner alone. */
    CHECK_INT(take_from(fd, &one, &none, &err), -ENOSPC);
    CHECK_INT(idrange_retake(fd, base_of(3), "/var/lib/rind\nabd\n", &none, &err), -EPERM);
    CHECK_STR(err.msg, "id range 1879244800 is kept for another sandbox");
    CHECK_INT(idrange_retake(fd, base_of(3), "/var/lib/rind\nab", &none, &err), -EPERM);
    CHECK_INT(idrange_retake(fd, base_of(3), OWNER "x", &none, &err), -EPERM);
    CHECK_INT(idrange_retake(fd, base_of(3), NULL, &none, &err), -EPERM);
    CHECK_INT(none.lock_fd, -1);
    CHECK_INT(idrange_retake(fd, base_of(3), OWNER, &r, &err), 0);
    CHECK_INT(r.base, base_of(3));

    /* A shorter owner leaves nothing of the longer one. */
    CHECK_INT(idrange_reserve(fd, &r, "/x\ny\n", &err), 0);
    idrange_done(&r);
    CHECK_INT(idrange_retake(fd, base_of(3), "/x\ny\n", &r, &err), 0);
    CHECK_INT(idrange_reserve(fd, &r, NULL, &err), 0);
    idrange_done(&r);
    CHECK_INT(idrange_retake(fd, base_of(3), NULL, &r, &err), 0);

    CHECK_INT(idrange_reserve(fd, &r, OWNER, &err), 0);
    idrange_release(fd, &r);
    CHECK_INT(take_from(fd, &one, &r, &err), 0);
    idrange_release(fd, &r);
    CHECK_INT(registry_close(fd), 0);
}

TEST(bad_requests)
{
    static const uid_t bases[] = {0,
                                  1000,
                                  IDRANGE_FIRST - IDRANGE_SIZE,
                                  IDRANGE_FIRST + 1,
                                  (uid_t)IDRANGE_FIRST + (uid_t)IDRANGE_COUNT * IDRANGE_SIZE,
                                  (uid_t)-1};
    struct idrange r = IDRANGE_NONE;
    struct err err = ERR_NONE;
    int fd = registry_open();
    char owner[IDRANGE_OWNER_MAX + 2];

    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
        CHECK_INT(idrange_retake(fd, bases[i], OWNER, &r, &err), -EINVAL);
    CHECK_STR(err.msg, "4294967295 does not start an id range");

    CHECK_INT(idrange_take(fd, NULL, 0, &r, &err), 0);
    (void)memset(owner, 'x', sizeof(owner));
    owner[sizeof(owner) - 1] = '\0';
    CHECK_INT(idrange_reserve(fd, &r, owner, &err), -EINVAL);
    CHECK_INT(idrange_reserve(fd, &r, "", &err), -EINVAL);
    owner[IDRANGE_OWNER_MAX] = '\0';
    CHECK_INT(idrange_reserve(fd, &r, owner, &err), 0);
    idrange_release(fd, &r);
    CHECK_INT(registry_close(fd), 0);
}

/* What no rind puts there is refused, not followed and not waited for. */
TEST(planted_files)
{
    struct idrange r = IDRANGE_NONE;
    struct pool one = only(3, 1);
    struct err err = ERR_NONE;
    int fd = registry_open();
    const char *name = "1879244800";

    CHECK_INT(symlinkat("/etc/passwd", fd, name), 0);
    CHECK_INT(take_from(fd, &one, &r, &err), -ELOOP);
    CHECK_INT(unlinkat(fd, name, 0), 0);
    CHECK_INT(mkfifoat(fd, name, 0600), 0);
    CHECK_INT(take_from(fd, &one, &r, &err), -EINVAL);
    CHECK_STR(err.msg, "id range 1879244800: not a regular file");
    CHECK_INT(registry_close(fd), 1);
}

/* The name leads to another file than the one we hold: nothing is written into that one. */
TEST(swapped_file)
{
    struct idrange r = IDRANGE_NONE;
    struct pool one = only(3, 1);
    struct err err = ERR_NONE;
    int fd = registry_open();
    struct stat st;

    CHECK_INT(take_from(fd, &one, &r, &err), 0);
    CHECK_INT(unlinkat(fd, "1879244800", 0), 0);
    (void)close(openat(fd, "1879244800", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    CHECK_INT(idrange_reserve(fd, &r, OWNER, &err), -ESTALE);
    CHECK_INT(fstatat(fd, "1879244800", &st, 0), 0);
    CHECK_INT(st.st_size, 0);
    idrange_done(&r);
    CHECK_INT(registry_close(fd), 1);
}

/* A child that holds a range; it says so on the pipe and waits to be killed. */
static pid_t holder(int fd, const struct pool *p)
{
    int ready[2];
    char byte = 0;
    pid_t pid;

    if (pipe2(ready, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        struct idrange r = IDRANGE_NONE;

        if (take_from(fd, p, &r, NULL) < 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        tap_fail("the child did not get the range");
    (void)close(ready[0]);
    return pid;
}

static void kill_and_reap(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

TEST(killed_holder_frees)
{
    struct idrange r = IDRANGE_NONE;
    struct pool one = only(9, 1);
    struct err err = ERR_NONE;
    int fd = registry_open();
    pid_t pid = holder(fd, &one);

    CHECK_INT(take_from(fd, &one, &r, &err), -ENOSPC);
    kill_and_reap(pid);
    CHECK_INT(take_from(fd, &one, &r, &err), 0);
    idrange_release(fd, &r);
    CHECK_INT(registry_close(fd), 0);
}

/* init inherits the description: the range stays taken when the launcher lets go of it, even by
 * idrange_release. */
TEST(inherited_lock_holds)
{
    for (int release = 0; release < 2; release++) {
        struct idrange r = IDRANGE_NONE, other = IDRANGE_NONE;
        struct pool one = only(9, 1);
        struct err err = ERR_NONE;
        int fd = registry_open();
        pid_t pid;

        CHECK_INT(take_from(fd, &one, &r, &err), 0);
        CHECK_INT(idrange_reserve(fd, &r, OWNER, &err), 0);
        pid = fork();
        if (pid == 0)
            for (;;)
                (void)pause();
        if (release)
            idrange_release(fd, &r);
        else
            idrange_done(&r);
        CHECK_INT(take_from(fd, &one, &other, &err), -ENOSPC);
        CHECK_INT(idrange_retake(fd, base_of(9), OWNER, &other, &err), -EBUSY);
        kill_and_reap(pid);
        CHECK_INT(take_from(fd, &one, &other, &err), release ? 0 : -ENOSPC);
        if (!release)
            CHECK_INT(idrange_retake(fd, base_of(9), OWNER, &other, &err), 0);
        idrange_release(fd, &other);
        CHECK_INT(registry_close(fd), 0);
    }
}

enum { WORKERS = 8, TAKES = 100 };

/* Takes and releases; holders[slot] counts who has it. Returns the number of collisions. */
static int worker(int fd, unsigned pool_size, int *holders)
{
    struct pool p = only(0, pool_size);
    int collisions = 0;

    for (int i = 0; i < TAKES; i++) {
        struct idrange r = IDRANGE_NONE;
        unsigned slot;
        int e;

        do {
            e = take_from(fd, &p, &r, NULL);
        } while (e == -ENOSPC); /* the small pool is full for a moment */
        if (e < 0)
            return 100;
        slot = (r.base - IDRANGE_FIRST) / IDRANGE_SIZE;
        collisions += __atomic_add_fetch(&holders[slot], 1, __ATOMIC_SEQ_CST) != 1;
        (void)sched_yield();
        (void)__atomic_sub_fetch(&holders[slot], 1, __ATOMIC_SEQ_CST);
        idrange_release(fd, &r);
    }
    return collisions;
}

static void collide(unsigned pool_size)
{
    size_t size = IDRANGE_COUNT * sizeof(int);
    int fd = registry_open();
    pid_t pids[WORKERS];
    int *holders;

    holders = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (holders == MAP_FAILED)
        exit(1);
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(worker(fd, pool_size, holders));
    }
    for (int i = 0; i < WORKERS; i++) {
        int status = 0;

        CHECK_INT(waitpid(pids[i], &status, 0), pids[i]);
        CHECK_INT(status, 0);
    }
    CHECK_INT(registry_close(fd), 0);
    (void)munmap(holders, size);
}

TEST(concurrent_takes)
{
    collide(IDRANGE_COUNT);
}

/* Fewer ranges than processes: every take runs into others' locks and unlinks. */
TEST(concurrent_takes_of_few)
{
    collide(6);
}

static bool keep_abc(void *arg, const char *id)
{
    int *asked = arg;

    (*asked)++;
    return strcmp(id, "abc") == 0;
}

static void plant(int fd, unsigned slot, const char *text, size_t len)
{
    char name[16];
    int file;

    (void)snprintf(name, sizeof(name), "%u", base_of(slot));
    file = openat(fd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    CHECK_INT(write(file, text, len), len);
    (void)close(file);
}

TEST(a_sweep_frees_the_ranges_of_the_dead)
{
    /* clang-format off */
    static const struct {
        const char *text;
        bool stays;
    } rows[] = {
        { "/s\nabc\n", true },   { "/s\nabd\n", false }, { "/s\nabce\n", false },
        { "/t\nabd\n", true },   { "/s/\nabd\n", true }, { "/s\nabd", true },
        { "/s\nab\nd\n", true }, { "/s\n\n", true },     { "/s", true },
        { "", false },
    };
    /* clang-format on */
    enum { N = sizeof(rows) / sizeof(rows[0]) };
    struct idrange held = IDRANGE_NONE;
    struct err err = ERR_NONE;
    int fd = registry_open(), asked = 0, left = 0;

    for (unsigned i = 0; i < N; i++) {
        plant(fd, i, rows[i].text, strlen(rows[i].text));
        left += rows[i].stays;
    }
    plant(fd, N, "/s\nab\0d\n", 8); /* a NUL */
    CHECK_INT(idrange_retake(fd, base_of(N + 1), "/s\nheld\n", &held, &err), 0);
    CHECK_INT(idrange_reserve(fd, &held, "/s\nheld\n", &err), 0);

    CHECK_INT(idrange_sweep(fd, "/s", keep_abc, &asked, &err), 2);
    CHECK_INT(asked, 3);
    for (unsigned i = 0; i < N; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "%u", base_of(i));
        if ((faccessat(fd, name, F_OK, 0) == 0) != rows[i].stays)
            tap_fail("after the sweep, row %u", i);
    }
    CHECK_INT(registry_close(fd), left + 2);
    idrange_done(&held);
}

/* Another rind's sweep locks each file for a moment: what is ours can be had all the same. */
TEST(retake_beside_sweeps)
{
    enum { RETAKES = 300 };
    struct idrange r = IDRANGE_NONE;
    struct err err = ERR_NONE;
    int fd = registry_open(), failed = 0;
    pid_t pid;

    CHECK_INT(idrange_retake(fd, base_of(2), OWNER, &r, &err), 0);
    CHECK_INT(idrange_reserve(fd, &r, OWNER, &err), 0);
    idrange_done(&r);
    pid = fork();
    if (pid == 0)
        for (;;)
            (void)idrange_sweep(fd, "/elsewhere", keep_abc, &failed, NULL);
    for (int i = 0; i < RETAKES; i++) {
        failed += idrange_retake(fd, base_of(2), OWNER, &r, &err) < 0;
        idrange_done(&r);
    }
    kill_and_reap(pid);
    CHECK_INT(failed, 0);
    CHECK_INT(registry_close(fd), 1);
}

struct subid_row {
    const char *text;
    int code;
    struct idrange_avoid want[4];
    size_t count;
};

TEST(subid_files_are_avoided)
{
    /* clang-format off */
    static const struct subid_row rows[] = {
        { "", 0, {{0, 0}}, 0 },
        { "\n\n# a comment: 1:2\n", 0, {{0, 0}}, 0 },
        { "a:100000:65536\n", 0, {{100000, 165535}}, 1 },
        { "a:100000:65536", 0, {{100000, 165535}}, 1 },
        /* unsorted; overlapping, touching and contained ones are joined */
        { "b:300:100\na:0:10\nc:10:5\nd:350:100\ne:310:1\n", 0, {{0, 14}, {300, 449}}, 2 },
        { "a:5:0\nb:7:1\n", 0, {{7, 7}}, 1 },
        { "a:4294967295:1\nb:0:1\n", 0, {{0, 0}, {4294967295U, 4294967295U}}, 2 },
        /* past the last id: all of the rest, and joining at the very end does not wrap */
        { "a:4000000000:999999999999999999999999\nb:4294967295:1\nc:4294967290:1\n", 0,
          {{4000000000U, 4294967295U}}, 1 },
        { "a\n", -EINVAL, {{0, 0}}, 0 },
        { "a:1\n", -EINVAL, {{0, 0}}, 0 },
        { "a:1:\n", -EINVAL, {{0, 0}}, 0 },
        { "a::1\n", -EINVAL, {{0, 0}}, 0 },
        { ":1:1\n", -EINVAL, {{0, 0}}, 0 },
        { "a:1:1:1\n", -EINVAL, {{0, 0}}, 0 },
        { "a:-1:1\n", -EINVAL, {{0, 0}}, 0 },
        { "a:1:+1\n", -EINVAL, {{0, 0}}, 0 },
        { "a: 1:1\n", -EINVAL, {{0, 0}}, 0 },
        { "a:1:1 \n", -EINVAL, {{0, 0}}, 0 },
        { "a:0x10:1\n", -EINVAL, {{0, 0}}, 0 },
        { "a:1:1\r\n", -EINVAL, {{0, 0}}, 0 },
        { "a:4294967296:1\n", -EINVAL, {{0, 0}}, 0 },
        { "a:1:1\nb:x:1\n", -EINVAL, {{0, 0}}, 0 },
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_free struct idrange_avoid *got = NULL;
        size_t count = 99;
        int r = idrange_parse_subids(rows[i].text, strlen(rows[i].text), &got, &count);

        if (r != rows[i].code)
            tap_fail("row %zu: %d, want %d", i, r, rows[i].code);
        CHECK_INT(count, r < 0 ? 99 : rows[i].count);
        for (size_t k = 0; r == 0 && k < count && k < rows[i].count; k++) {
            CHECK_INT(got[k].first, rows[i].want[k].first);
            CHECK_INT(got[k].last, rows[i].want[k].last);
        }
    }
}

TEST(subids_bounds)
{
    auto_free struct idrange_avoid *got = NULL;
    size_t count = 0, size = IDRANGE_SUBIDS_MAX + 1;
    auto_free char *lines = malloc(size);

    if (lines == NULL)
        exit(1);
    (void)memset(lines, '\n', size);
    CHECK_INT(idrange_parse_subids(lines, size, &got, &count), -E2BIG);
    CHECK_INT(idrange_parse_subids(lines, IDRANGE_SUBIDS_MAX - 1, &got, &count), 0);
    CHECK_INT(idrange_parse_subids("a:1:1\0:2\n", 9, &got, &count), -EINVAL);
}

TAP_MAIN
