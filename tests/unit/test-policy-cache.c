/* The cache of policies and their filters: what is there is used only when it is whole and of this
 * policy. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "policy/policy.h"
#include "policy/seccomp.h"
#include "proto/rmtree.h"
#include "sandbox/policy-cache.h"
#include "tap.h"

#define TEXT(caps)                                                                                 \
    "{\"name\":\"t\",\"noNewPrivileges\":true,\"network\":\"internet\",\"capabilities\":[" caps    \
    "],\"maskedPaths\":[\"/proc/kcore\",\"/sys/firmware\"],\"readonlyPaths\":[\"/proc/sys\"],"     \
    "\"limits\":{\"pids\":77},\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"soft\":5,\"hard\":6}],"   \
    "\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":"                              \
    "[{\"names\":[\"read\",\"write\"],\"action\":\"SCMP_ACT_ALLOW\"}]}}"

static const char text[] = TEXT("");

struct box {
    char dir[32];
    int fd;
    struct policy *policy;
    struct bpf want; /* compiled afresh */
    char file[64];   /* the one in the cache */
    char *data;
    size_t len;
};

static struct policy *get(const struct box *b, const char *policy_text, struct bpf *ret)
{
    struct err err = ERR_NONE;
    struct policy *p = NULL;

    *ret = (struct bpf){.insns = NULL};
    if (policy_cached(b->fd, "t", policy_text, strlen(policy_text), &p, ret, &err) < 0)
        tap_fail("%s", err.msg);
    return p;
}

static void check_lists(char *const *got, char *const *want)
{
    size_t i = 0;

    for (; got != NULL && got[i] != NULL && want[i] != NULL; i++)
        CHECK_STR(got[i], want[i]);
    CHECK(got != NULL && got[i] == NULL && want[i] == NULL);
}

static void check_policy(const struct policy *got, const struct policy *want)
{
    CHECK_STR(got->name, want->name);
    CHECK(got->seccomp == NULL);
    CHECK_INT(got->capabilities, want->capabilities);
    CHECK_INT(got->no_new_privs, want->no_new_privs);
    CHECK_INT(got->fuse, want->fuse);
    CHECK_INT(got->net_admin, want->net_admin);
    CHECK_INT(got->network, want->network);
    CHECK(memcmp(&got->limits, &want->limits, sizeof(want->limits)) == 0);
    CHECK_INT(got->rlimit_count, want->rlimit_count);
    for (size_t i = 0; i < want->rlimit_count; i++)
        CHECK(got->rlimits[i].resource == want->rlimits[i].resource &&
              got->rlimits[i].soft == want->rlimits[i].soft &&
              got->rlimits[i].hard == want->rlimits[i].hard);
    check_lists(got->masked, want->masked);
    check_lists(got->read_only, want->read_only);
}

static void check_get(const struct box *b)
{
    struct bpf got;
    struct policy *p = get(b, text, &got);

    CHECK_INT(got.count, b->want.count);
    CHECK(got.count == b->want.count && memcmp(got.insns, b->want.insns, got.count * 8) == 0);
    if (p != NULL)
        check_policy(p, b->policy);
    policy_free(p);
    bpf_done(&got);
}

static unsigned cached(struct box *b)
{
    auto_close int fd = openat(b->fd, "policies.cache", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(dup(fd));
    unsigned n = 0;

    while (d != NULL) {
        const struct dirent *e = readdir(d);

        if (e == NULL)
            break;
        if (e->d_name[0] == '.')
            continue;
        n++;
        (void)snprintf(b->file, sizeof(b->file), "policies.cache/%.40s", e->d_name);
    }
    if (d != NULL)
        (void)closedir(d);
    return n;
}

static void box_open(struct box *b)
{
    struct err err = ERR_NONE;

    *b = (struct box){.dir = "/tmp/rind-cache-XXXXXX", .fd = -1};
    if (mkdtemp(b->dir) == NULL)
        abort();
    b->fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (policy_parse(text, strlen(text), "t", &b->policy, &err) < 0 ||
        seccomp_compile(b->policy->seccomp, 0, &b->want, NULL, &err) < 0) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    check_get(b);
    CHECK_INT(cached(b), 1);
    if (file_read_at(b->fd, b->file, 1 << 20, &b->data, &b->len, &err) < 0)
        tap_fail("%s", err.msg);
}

static void box_done(struct box *b)
{
    (void)rmtree_at(AT_FDCWD, b->dir, 0);
    (void)close(b->fd);
    policy_free(b->policy);
    bpf_done(&b->want);
    free(b->data);
}

static void put(const struct box *b, const void *data, size_t len)
{
    auto_close int fd = openat(b->fd, b->file, O_WRONLY | O_TRUNC | O_CLOEXEC);

    if (fd < 0 || write_all(fd, data, len) < 0)
        abort();
}

static bool file_is(const struct box *b, const void *data, size_t len)
{
    auto_free char *now = NULL;
    size_t now_len = 0;

    return file_read_at(b->fd, b->file, 1 << 20, &now, &now_len, NULL) == 0 && now_len == len &&
           memcmp(now, data, len) == 0;
}

TEST(hit_and_miss)
{
    struct box b;
    struct stat before, after;
    struct policy *p;
    struct bpf other;

    box_open(&b);
    CHECK_INT(fstatat(b.fd, b.file, &before, 0), 0);
    CHECK_INT(before.st_mode & 07777, 0600);
    check_get(&b);
    CHECK_INT(fstatat(b.fd, b.file, &after, 0), 0);
    CHECK_INT(after.st_ino, before.st_ino); /* not written again */
    /* Another text, another file. */
    p = get(&b, TEXT("\"CAP_CHOWN\""), &other);
    CHECK_INT(p->capabilities, 1);
    policy_free(p);
    bpf_done(&other);
    CHECK_INT(cached(&b), 2);
    box_done(&b);
}

/* Bytes changed all over, and cut anywhere: never another filter than the right one, and the file
 * is mended.
 */
TEST(damaged_files)
{
    struct box b;

    box_open(&b);
    for (size_t i = 0; i < b.len; i += i < b.len - 40 ? 29 : 3) {
        b.data[i] ^= 0x10;
        put(&b, b.data, b.len);
        b.data[i] ^= 0x10;
        check_get(&b);
        if (!file_is(&b, b.data, b.len))
            tap_fail("byte %zu: not mended", i);
    }
    for (size_t len = 0; len < b.len; len += len < b.len - 40 ? 31 : 3) {
        put(&b, b.data, len);
        check_get(&b);
        if (!file_is(&b, b.data, b.len))
            tap_fail("length %zu: not mended", len);
    }
    box_done(&b);
}

/* What does not parse is told each time, and never kept. */
TEST(bad_text)
{
    struct box b;

    box_open(&b);
    for (int i = 0; i < 2; i++) {
        struct err err = ERR_NONE;
        struct policy *p = NULL;
        struct bpf bpf = {.insns = NULL};

        CHECK_INT(policy_cached(b.fd, "x.json", "{}", 2, &p, &bpf, &err), -EINVAL);
        CHECK(strstr(err.msg, "x.json") != NULL && p == NULL && bpf.insns == NULL);
        CHECK_INT(cached(&b), 1);
    }
    box_done(&b);
}

TEST(not_a_file)
{
    struct box b;

    box_open(&b);
    CHECK_INT(unlinkat(b.fd, b.file, 0), 0);
    CHECK_INT(symlinkat("/etc/passwd", b.fd, b.file), 0);
    check_get(&b);
    CHECK(file_is(&b, b.data, b.len)); /* replaced, not followed */
    CHECK_INT(unlinkat(b.fd, b.file, 0), 0);
    CHECK_INT(mkfifoat(b.fd, b.file, 0600), 0);
    check_get(&b);
    CHECK_INT(unlinkat(b.fd, b.file, 0), 0);
    CHECK_INT(mkdirat(b.fd, b.file, 0700), 0);
    check_get(&b);
    box_done(&b);
}

TEST(no_place_for_it)
{
    struct box b;

    box_open(&b);
    CHECK_INT(rmtree_at(b.fd, "policies.cache", 0), 0);
    CHECK_INT(symlinkat("/tmp", b.fd, "policies.cache"), 0); /* not through a link */
    check_get(&b);
    CHECK_INT(unlinkat(b.fd, "policies.cache", 0), 0);
    CHECK_INT(mknodat(b.fd, "policies.cache", S_IFREG | 0600, 0), 0);
    check_get(&b);
    CHECK_INT(unlinkat(b.fd, "policies.cache", 0), 0);
    (void)close(b.fd);
    b.fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* nothing can be made there */
    check_get(&b);
    box_done(&b);
}

TAP_MAIN
