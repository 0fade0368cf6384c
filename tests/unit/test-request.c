/* The request to the launcher: what goes in comes out, and every record is refused in every way. */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/request.h"
#include "request-util.h"
#include "tap.h"

static const char *const layers[] = {"aa", "bb.c-d_e", NULL};

TEST(round_trip)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q;
    struct err err = ERR_NONE;
    struct sock_filter filter[2] = {BPF_STMT(BPF_RET, 1), BPF_STMT(BPF_RET, 2)};

    launch_begin(&b, LAUNCH_START);
    launch_put_string(&b, TAG_ID, "a-1");
    launch_put_string(&b, TAG_HOSTNAME, "Host.x_1");
    launch_put_number(&b, TAG_FLAGS, LAUNCH_READ_ONLY | LAUNCH_REAPER);
    launch_put_number(&b, TAG_CAPABILITIES, 1ULL << 40);
    launch_put_number(&b, TAG_MEMORY, 1 << 20);
    launch_put_number(&b, TAG_PIDS, 7);
    launch_put_number(&b, TAG_CPU, 500);
    launch_put_number(&b, TAG_SHM, 4096);
    launch_put_string(&b, TAG_LAYER, layers[0]);
    launch_put_string(&b, TAG_LAYER, layers[1]);
    launch_put_string(&b, TAG_ROOT_DIR, "/srv/root");
    launch_put_volume(&b,
                      &(struct launch_volume){"/srv/a", "/data", 1000, 2000, true, false, false});
    launch_put_volume(&b, &(struct launch_volume){"/srv/b", "/b", 0, 65535, false, false, true});
    launch_put_volume(&b, &(struct launch_volume){
                              .source = "Vol-1", .target = "/v", .read_only = true, .named = true});
    launch_put_number(&b, TAG_DISK, 16 << 20);
    launch_put_tmpfs(&b, &(struct launch_tmpfs){.target = "/run", .bytes = 8192});
    launch_put_string(&b, TAG_MASKED, "/proc/kcore");
    launch_put_string(&b, TAG_READONLY, "/proc/sys");
    launch_put_rlimit(&b, &(struct launch_rlimit){7, 10, 20});
    launch_put_counter(&b, &(struct launch_counter){"max_inotify_watches", INT32_MAX});
    launch_put(&b, TAG_FILTER, 0, filter, sizeof(filter));
    CHECK_INT(launch_end(&b), 0);

    if (launch_decode(b.data, b.len, &q, &err) < 0) {
        tap_fail("%s", err.msg);
        return;
    }
    CHECK_INT(q.verb, LAUNCH_START);
    CHECK_STR(q.id, "a-1");
    CHECK_STR(q.hostname, "Host.x_1");
    CHECK_INT(q.flags, LAUNCH_READ_ONLY | LAUNCH_REAPER);
    CHECK_INT(q.capabilities, 1LL << 40);
    CHECK_INT(q.memory, 1 << 20);
    CHECK_INT(q.pids, 7);
    CHECK_INT(q.cpu, 500);
    CHECK_INT(q.shm, 4096);
    CHECK_INT(q.layer_count, 2);
    CHECK_STR(q.layers[1], "bb.c-d_e");
    CHECK_STR(q.root_dir, "/srv/root");
    CHECK_INT(q.volume_count, 3);
    CHECK_STR(q.volumes[2].source, "Vol-1");
    CHECK_STR(q.volumes[2].target, "/v");
    CHECK(q.volumes[2].named && q.volumes[2].read_only && !q.volumes[0].named);
    CHECK_INT(q.disk, 16 << 20);
    CHECK_STR(q.volumes[0].source, "/srv/a");
    CHECK_STR(q.volumes[0].target, "/data");
    CHECK_INT(q.volumes[0].uid, 1000);
    CHECK_INT(q.volumes[0].gid, 2000);
    CHECK(q.volumes[0].read_only && !q.volumes[1].read_only);
    CHECK(!q.volumes[0].make && q.volumes[1].make);
    CHECK_INT(q.volumes[1].gid, 65535);
    CHECK_STR(q.tmpfs[0].target, "/run");
    CHECK_INT(q.tmpfs[0].bytes, 8192);
    CHECK_STR(q.masked[0], "/proc/kcore");
    CHECK_STR(q.read_only[0], "/proc/sys");
    CHECK_INT(q.rlimits[0].hard, 20);
    CHECK_STR(q.counters[0].name, "max_inotify_watches");
    CHECK_INT(q.filter_count, 2);
    CHECK(memcmp(q.filter, filter, sizeof(filter)) == 0);
}

TEST(limits_that_are_not_given)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q;

    honest_begin(&b, "x", layers, WITHOUT_FLAGS | WITHOUT_CAPS);
    CHECK_INT(launch_end(&b), 0);
    CHECK_INT(launch_decode(b.data, b.len, &q, NULL), 0);
    CHECK(q.memory == -1 && q.pids == -1 && q.cpu == -1 && q.shm == -1);
    CHECK(q.flags == 0 && q.capabilities == 0);
}

/* ---- one record, refused ---- */

struct bytes {
    const char *data;
    size_t len;
};
#define B(text)                                                                                    \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    } /* as written: the NUL only where it is spelled */
#define ZERO8 "\0\0\0\0\0\0\0\0"
#define FF8   "\377\377\377\377\377\377\377\377"
#define K4    "\0\20\0\0\0\0\0\0" /* 4096 */

static char long_text[5000];

/* clang-format off */
static const struct refused {
    enum launch_tag tag;
    uint16_t flags;
    struct bytes data;
    int code;
    const char *text;
} refused[] = {
    {TAG_ID, 0, B(""), -EPROTO, "request: record id: Protocol error"},
    {TAG_ID, 0, B("\0"), -EPROTO, "record id"},
    {TAG_ID, 0, B("abc"), -EPROTO, "record id"},
    {TAG_ID, 0, B("a\0b\0"), -EPROTO, "record id"},
    {TAG_ID, 0, B("A\0"), -EINVAL, "record id: Invalid argument"},
    {TAG_ID, 0, B("-a\0"), -EINVAL, "record id"},
    {TAG_ID, 0, B("..\0"), -EINVAL, "record id"},
    {TAG_ID, 0, B("../x\0"), -EINVAL, "record id"},
    {TAG_ID, 0, B("a/b\0"), -EINVAL, "record id"},
    {TAG_ID, 0, B("a.b\0"), -EINVAL, "record id"},
    {TAG_ID, 0, B("a_b\0"), -EINVAL, "record id"},
    {TAG_ID, 0, B("a b\0"), -EINVAL, "record id"},
    {TAG_ID, 0, B("\303\244\0"), -EINVAL, "record id"},
    {TAG_ID, 0, B("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\0"), -EPROTO, "record id"},
    {TAG_ID, 1, B("a\0"), -EPROTO, "request: record id: unknown flags 0x1"},
    {TAG_HOSTNAME, 0, B("\0"), -EPROTO, "record hostname"},
    {TAG_HOSTNAME, 0, B("a\nb\0"), -EINVAL, "record hostname"},
    {TAG_HOSTNAME, 0, B("a b\0"), -EINVAL, "record hostname"},
    {TAG_HOSTNAME, 0, B("\33[2J\0"), -EINVAL, "record hostname"},
    {TAG_FLAGS, 0, B("\0\0\0\0"), -EPROTO, "record flags"},
    {TAG_FLAGS, 0, B("\0\2\0\0\0\0\0\0"), -EINVAL, "record flags"},
    {TAG_FLAGS, 0, B(FF8), -EINVAL, "record flags"},
    {TAG_CAPABILITIES, 0, B("\0\0\0\0\0\2\0\0"), -ERANGE, "record capabilities"},
    {TAG_CAPABILITIES, 0, B(FF8), -ERANGE, "record capabilities"},
    {TAG_CAPABILITIES, 0, B(ZERO8 "\0"), -EPROTO, "record capabilities"},
    {TAG_MEMORY, 0, B("\377\377\17\0\0\0\0\0"), -ERANGE, "record memory"},
    {TAG_MEMORY, 0, B(FF8), -ERANGE, "record memory"},
    {TAG_MEMORY, 0, B(""), -EPROTO, "record memory"},
    {TAG_PIDS, 0, B(ZERO8), -ERANGE, "record pids"},
    {TAG_PIDS, 0, B(FF8), -ERANGE, "record pids"},
    {TAG_PIDS, 0, B("\1\0\100\0\0\0\0\0"), -ERANGE, "record pids"},
    {TAG_CPU, 0, B(ZERO8), -ERANGE, "record cpu"},
    {TAG_CPU, 0, B(FF8), -ERANGE, "record cpu"},
    {TAG_SHM, 0, B("\377\17\0\0\0\0\0\0"), -ERANGE, "record shm"},
    {TAG_SHM, 0, B(FF8), -ERANGE, "record shm"},
    {TAG_LAYER, 0, B("..\0"), -EINVAL, "record layer"},
    {TAG_LAYER, 0, B("../x\0"), -EINVAL, "record layer"},
    {TAG_LAYER, 0, B("/etc\0"), -EINVAL, "record layer"},
    {TAG_LAYER, 0, B("a/b\0"), -EINVAL, "record layer"},
    {TAG_LAYER, 0, B(".tmp\0"), -EINVAL, "record layer"},
    {TAG_LAYER, 0, B("-x\0"), -EINVAL, "record layer"},
    {TAG_LAYER, 0, B("A\0"), -EINVAL, "record layer"},
    {TAG_LAYER, 0, B("a:b\0"), -EINVAL, "record layer"},
    {TAG_LAYER, 0, B("a,b\0"), -EINVAL, "record layer"},
    {TAG_LAYER, 0, B("\0"), -EPROTO, "record layer"},
    {TAG_LAYER, 0, {long_text, 130}, -EPROTO, "record layer"},
    {TAG_ROOT_DIR, 0, B("srv\0"), -EINVAL, "record root_dir"},
    {TAG_ROOT_DIR, 0, B("//\0"), -EINVAL, "record root_dir"},
    {TAG_ROOT_DIR, 0, B("/srv/\0"), -EINVAL, "record root_dir"},
    {TAG_ROOT_DIR, 0, B("/srv/../etc\0"), -EINVAL, "record root_dir"},
    {TAG_ROOT_DIR, 0, B("/srv/.\0"), -EINVAL, "record root_dir"},
    {TAG_ROOT_DIR, 0, B("/srv//x\0"), -EINVAL, "record root_dir"},
    {TAG_ROOT_DIR, 0, B("/srv"), -EPROTO, "record root_dir"},
    {TAG_ROOT_DIR, 0, {long_text, 4098}, -EPROTO, "record root_dir"},
    {TAG_DISK, 0, B(K4), -ERANGE, "record disk"},
    {TAG_IO_WEIGHT, 0, B("\11\0\0\0\0\0\0\0"), -ERANGE, "record io_weight"},
    {TAG_IO_WEIGHT, 0, B("\0\4\0\0\0\0\0\0"), -ERANGE, "record io_weight"},
    {TAG_NET_RATE, 0, B(ZERO8), -ERANGE, "record net_rate"},
    {TAG_NET_RATE, 0, B(FF8), -ERANGE, "record net_rate"},
    {TAG_IO, 0, B(ZERO8 ZERO8 ZERO8 ZERO8), -EPROTO, "record io"},
    {TAG_IO, 0, B(ZERO8 ZERO8 ZERO8 ZERO8 "/dev/sda"), -EPROTO, "record io"},
    {TAG_IO, 0, B(ZERO8 ZERO8 ZERO8 ZERO8 "/dev/a\0b\0"), -EPROTO, "record io"},
    {TAG_IO, 0, B(ZERO8 ZERO8 ZERO8 FF8 "/dev/sda\0"), -ERANGE, "record io"},
    {TAG_IO, 0, B(ZERO8 ZERO8 ZERO8 ZERO8 "/etc/passwd\0"), -EINVAL, "record io"},
    {TAG_IO, 0, B(ZERO8 ZERO8 ZERO8 ZERO8 "/dev/../etc/passwd\0"), -EINVAL, "record io"},
    {TAG_IO, 0, B(ZERO8 ZERO8 ZERO8 ZERO8 "/dev/\0"), -EINVAL, "record io"},
    {TAG_DISK, 0, B(FF8), -ERANGE, "record disk"},
    {TAG_DISK, 0, B("\0\0\0\1"), -EPROTO, "record disk"},
    {TAG_NAMED_VOLUME, 2, B("v\0/b\0"), -EPROTO, "record named_volume: unknown flags 0x2"},
    {TAG_NAMED_VOLUME, 0, B("v\0/b"), -EPROTO, "record named_volume"},
    {TAG_NAMED_VOLUME, 0, B("v\0/b\0/c\0"), -EPROTO, "record named_volume"},
    {TAG_NAMED_VOLUME, 0, B("vvvv\0"), -EPROTO, "record named_volume"},
    {TAG_NAMED_VOLUME, 0, B("v\0"), -EPROTO, "record named_volume"},
    {TAG_NAMED_VOLUME, 0, B(""), -EPROTO, "record named_volume"},
    {TAG_NAMED_VOLUME, 0, B("../v\0/b\0"), -EINVAL, "record named_volume"},
    {TAG_NAMED_VOLUME, 0, B(".v\0/b\0"), -EINVAL, "record named_volume"},
    {TAG_NAMED_VOLUME, 0, B("\0/b/c\0"), -EINVAL, "record named_volume"},
    {TAG_NAMED_VOLUME, 0, B("v\0/../b\0"), -EINVAL, "record named_volume"},
    {TAG_NAMED_VOLUME, 0, B("v\0/sys\0"), -EINVAL, "record named_volume"},
    {TAG_VOLUME_NAME, 0, B("a/b\0"), -EINVAL, "record volume_name"},
    {TAG_VOLUME_NAME, 0, B("..\0"), -EINVAL, "record volume_name"},
    {TAG_VOLUME_NAME, 0, B("\0"), -EPROTO, "record volume_name"},
    {TAG_VOLUME, 4, B(ZERO8 "/a\0/b\0"), -EPROTO, "record volume: unknown flags 0x4"},
    {TAG_DOMAIN, 0, B("a\nb\0"), -EINVAL, "record domain"},
    {TAG_DOMAIN, 0, B("a b\0"), -EINVAL, "record domain"},
    {TAG_DOMAIN, 0, B("a"), -EPROTO, "record domain"},
    {TAG_NET_SEARCH, 0, B("a\nnameserver 1.2.3.4\0"), -EINVAL, "record net_search"},
    {TAG_NET_OPTIONS, 0, B("a\177\0"), -EINVAL, "record net_options"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0"), -EPROTO, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/b"), -EPROTO, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/b\0/c\0"), -EPROTO, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8), -EPROTO, "record volume"},
    {TAG_VOLUME, 0, B(""), -EPROTO, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "\0\0\0\0"), -EPROTO, "record volume"},
    {TAG_VOLUME, 0, B("\0\0\1\0\0\0\0\0" "/a\0/b\0"), -ERANGE, "record volume"},
    {TAG_VOLUME, 0, B("\0\0\0\0\0\0\1\0" "/a\0/b\0"), -ERANGE, "record volume"},
    {TAG_VOLUME, 0, B(FF8 "/a\0/b\0"), -ERANGE, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "a\0/b\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/\0/b\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a/../b\0/b\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0b\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0//\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/proc\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/proc/sys\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/sys/fs\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/dev/..\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/dev/../x\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/x/../proc\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0//proc\0"), -EINVAL, "record volume"},
    {TAG_VOLUME, 0, B(ZERO8 "/a\0/./proc\0"), -EINVAL, "record volume"},
    {TAG_TMPFS, 0, B(K4), -EPROTO, "record tmpfs"},
    {TAG_TMPFS, 0, B(K4 "\0"), -EPROTO, "record tmpfs"},
    {TAG_TMPFS, 0, B(K4 "/r"), -EPROTO, "record tmpfs"},
    {TAG_TMPFS, 0, B(K4 "/r\0x\0"), -EPROTO, "record tmpfs"},
    {TAG_TMPFS, 0, B(ZERO8 "/r\0"), -ERANGE, "record tmpfs"},
    {TAG_TMPFS, 0, B(FF8 "/r\0"), -ERANGE, "record tmpfs"},
    {TAG_TMPFS, 0, B(K4 "/\0"), -EINVAL, "record tmpfs"},
    {TAG_TMPFS, 0, B(K4 "/dev\0"), -EINVAL, "record tmpfs"},
    {TAG_TMPFS, 0, B(K4 "/proc/1\0"), -EINVAL, "record tmpfs"},
    {TAG_TMPFS, 4, B(K4 "/r\0"), -EPROTO, "record tmpfs"},
    {TAG_TMPFS_ROOT, 0, B(ZERO8 ZERO8), -EPROTO, "record tmpfs_root"}, /* of no tmpfs */
    {TAG_SWAP, 0, B(ZERO8), -ERANGE, "record swap"},
    {TAG_SWAP, 0, B(FF8), -ERANGE, "record swap"},
    {TAG_RESERVATION, 0, B(ZERO8), -ERANGE, "record reservation"},
    {TAG_SHARES, 0, B(ZERO8), -ERANGE, "record shares"},
    {TAG_SHARES, 0, B(FF8), -ERANGE, "record shares"},
    {TAG_CPUSET_CPUS, 0, B("0/..\0"), -EINVAL, "record cpuset_cpus"},
    {TAG_CPUSET_MEMS, 0, B("all\0"), -EINVAL, "record cpuset_mems"},
    {TAG_OOM_SCORE, 0, B(FF8), -ERANGE, "record oom_score"},
    {TAG_SYSCTL, 0, B("kernel.core_pattern=1\0"), -EPERM, "record sysctl"},
    {TAG_SYSCTL, 0, B("net.core.somaxconn=\0"), -EPERM, "record sysctl"},
    {TAG_SYSCTL, 0, B("net.core.somaxconn=1\n2\0"), -EPERM, "record sysctl"},
    {TAG_SYSCTL, 0, B("net/core/somaxconn=1\0"), -EPERM, "record sysctl"},
    {TAG_SYSCTL, 0, B("net.core.somaxconn\0"), -EPERM, "record sysctl"},
    {TAG_SYSCTL, 0, B("../net.core.somaxconn=1\0"), -EPERM, "record sysctl"},
    {TAG_COUNT, 0, B(ZERO8), -ERANGE, "record count"},
    {TAG_COUNT, 0, B("\21\0\0\0\0\0\0\0"), -ERANGE, "record count"},
    {TAG_COUNT, 0, B(FF8), -ERANGE, "record count"},
    {TAG_COUNT, 0, B("\1\0\0\0"), -EPROTO, "record count"},
    {TAG_MASKED, 0, B("/\0"), -EINVAL, "record masked"},
    {TAG_MASKED, 0, B("..\0"), -EINVAL, "record masked"},
    {TAG_MASKED, 0, B("/..\0"), -EINVAL, "record masked"},
    {TAG_MASKED, 0, B("/proc/..\0"), -EINVAL, "record masked"},
    {TAG_MASKED, 0, B("\0"), -EPROTO, "record masked"},
    {TAG_READONLY, 0, B("/\0"), -EINVAL, "record read_only"},
    {TAG_READONLY, 0, B("proc\0"), -EINVAL, "record read_only"},
    {TAG_RLIMIT, 0, B(ZERO8 ZERO8), -EPROTO, "record rlimit"},
    {TAG_RLIMIT, 0, B("\20\0\0\0\0\0\0\0" ZERO8 ZERO8), -ERANGE, "record rlimit"},
    {TAG_RLIMIT, 0, B(FF8 ZERO8 ZERO8), -ERANGE, "record rlimit"},
    {TAG_RLIMIT, 0, B(ZERO8 "\1\0\0\0\0\0\0\0" ZERO8), -ERANGE, "record rlimit"},
    {TAG_RLIMIT, 0, B("\16\0\0\0\0\0\0\0" ZERO8 "\1\0\0\0\0\0\0\0"), -EPERM, "record rlimit"},
    {TAG_RLIMIT, 0, B("\15\0\0\0\0\0\0\0" ZERO8 "\25\0\0\0\0\0\0\0"), -EPERM, "record rlimit"},
    {TAG_COUNTER, 0, B(ZERO8 "max_nothing\0"), -EINVAL, "record counter"},
    {TAG_COUNTER, 0, B(ZERO8 "../../kernel/core_pattern\0"), -EINVAL, "record counter"},
    {TAG_COUNTER, 0, B(ZERO8 "max_user_namespaces"), -EPROTO, "record counter"},
    {TAG_COUNTER, 0, B("\0\0\0\200\0\0\0\0" "max_user_namespaces\0"), -ERANGE, "record counter"},
    {TAG_FILTER, 0, B(""), -EPROTO, "record filter"},
    {TAG_FILTER, 0, B("\6\0\0\0"), -EPROTO, "record filter"},
    {TAG_FAMILY, 0, B("\4\0\0\0"), -EPROTO, "record family"},
    {TAG_FAMILY, 0, B(ZERO8), -ERANGE, "record family"},
    {TAG_FAMILY, 0, B("\5\0\0\0\0\0\0\0"), -EINVAL, "record family"},
    {TAG_FAMILY, 0, B("\7\0\0\0\0\0\0\0"), -ERANGE, "record family"},
    {TAG_FAMILY, 0, B("\4\0\0\0\0\0\0\0"), -EINVAL, "a family, and nothing to connect"},
    {TAG_USER, 0, B("app"), -EPROTO, "record user"},
    {TAG_USER, 0, B("\0"), -EPROTO, "record user"},
    {TAG_USER, 0, B("a\0b\0"), -EPROTO, "record user"},
};
/* clang-format on */

TEST(each_record_refused)
{
    (void)memset(long_text, 'a', sizeof(long_text) - 1);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const struct refused *r = &refused[i];
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        unsigned without = r->tag == TAG_ID             ? WITHOUT_ID
                           : r->tag == TAG_HOSTNAME     ? WITHOUT_HOSTNAME
                           : r->tag == TAG_FLAGS        ? WITHOUT_FLAGS
                           : r->tag == TAG_CAPABILITIES ? WITHOUT_CAPS
                           : r->tag == TAG_FILTER       ? WITHOUT_FILTER
                                                        : 0;
        struct launch_request q = {.verb = LAUNCH_VERB_INVALID};
        struct err err = ERR_NONE;
        int code;

        honest_begin(&b, "x", layers, without);
        launch_put(&b, r->tag, r->flags, r->data.data, r->data.len);
        CHECK_INT(launch_end(&b), 0);
        code = launch_decode(b.data, b.len, &q, &err);
        if (code != r->code || strstr(err.msg, r->text) == NULL)
            tap_fail("row %zu (tag %d): %d \"%s\", want %d \"%s\"", i, (int)r->tag, code, err.msg,
                     r->code, r->text);
        CHECK_INT(q.verb, LAUNCH_VERB_INVALID); /* untouched */
    }
}

/* ---- the whole ---- */

static int decode(const struct buf *b, struct err *err)
{
    struct launch_request q;

    err->msg[0] = '\0';
    return launch_decode(b->data, b->len, &q, err);
}

#define CHECK_REFUSED(b, want_code, want_text)                                                     \
    do {                                                                                           \
        struct err err_ = ERR_NONE;                                                                \
        CHECK_INT(decode(b, &err_), want_code);                                                    \
        CHECK_STR(err_.msg, want_text);                                                            \
    } while (0)

TEST(a_connect_request_is_checked)
{
    static const uint64_t families[] = {4, 6};
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        struct launch_request q;
        struct err err = ERR_NONE;

        launch_begin(&b, LAUNCH_CONNECT);
        launch_put_string(&b, TAG_ID, "x");
        launch_put_number(&b, TAG_FAMILY, families[i]);
        CHECK_INT(launch_end(&b), 0);
        CHECK_INT(launch_decode(b.data, b.len, &q, &err), 0);
        CHECK_INT(q.family, families[i]);
        CHECK_INT(q.count, 1);
        buf_done(&b);
    }
    launch_begin(&b, LAUNCH_CONNECT);
    launch_put_string(&b, TAG_ID, "x");
    CHECK_INT(launch_end(&b), 0);
    CHECK_REFUSED(&b, -EINVAL, "request: no family");
    buf_done(&b);
    launch_begin(&b, LAUNCH_KILL);
    launch_put_string(&b, TAG_ID, "x");
    launch_put_number(&b, TAG_COUNT, 2);
    CHECK_INT(launch_end(&b), 0);
    CHECK_REFUSED(&b, -EINVAL, "request: a count, and nothing to connect");
}

TEST(a_bad_header_is_refused)
{
    static const struct {
        size_t offset;
        unsigned char value;
        int code;
        const char *text;
    } rows[] = {
        {offsetof(struct launch_wire, magic), 0, -EPROTO, "request: wrong magic"},
        {offsetof(struct launch_wire, version), 3, -EPROTO,
         "request: version 3, this launcher speaks 2"},
        {offsetof(struct launch_wire, verb), 0, -EPROTO, "request: unknown verb 0"},
        {offsetof(struct launch_wire, verb), LAUNCH_VERB_MAX, -EPROTO, NULL},
        {offsetof(struct launch_wire, verb) + 1, 1, -EPROTO, NULL},
        {offsetof(struct launch_wire, size), 1, -EPROTO, NULL},
        {offsetof(struct launch_wire, size) + 3, 255, -EPROTO, NULL},
        {offsetof(struct launch_wire, record_count), 0, -EPROTO, "request: says 0 records, has 7"},
        {offsetof(struct launch_wire, record_count) + 3, 1, -EPROTO,
         "request: says 16777223 records, has 7"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct err err = ERR_NONE;

        honest_begin(&b, "x", layers, 0);
        CHECK_INT(launch_end(&b), 0);
        b.data[rows[i].offset] = (char)rows[i].value;
        CHECK_INT(decode(&b, &err), rows[i].code);
        CHECK(strncmp(err.msg, "request: ", 9) == 0);
        if (rows[i].text != NULL)
            CHECK_STR(err.msg, rows[i].text);
    }
}

TEST(every_cut_is_refused)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    honest_begin(&b, "x", layers, 0);
    CHECK_INT(launch_end(&b), 0);
    for (size_t len = 0; len < b.len; len++) {
        struct launch_request q;
        struct err err = ERR_NONE;
        uint32_t size = (uint32_t)len;

        if (len >= sizeof(struct launch_wire)) /* also when the header agrees with the cut */
            (void)memcpy(b.data + offsetof(struct launch_wire, size), &size, sizeof(size));
        CHECK(launch_decode(b.data, len, &q, &err) < 0);
        CHECK(err.msg[0] != '\0');
    }
}

TEST(sockets_of_the_host)
{
    const struct address four = {.family = 4, .port = 80, .bytes = {127, 0, 0, 1}},
                         six = {.family = 6, .port = 0, .bytes = {[15] = 1}},
                         odd = {.family = 5, .port = 1};
    struct launch_request q;
    struct err err = ERR_NONE;

    for (int k = 0; k < 4; k++) {
        const struct address *a = k < 2 ? &four : &six;
        struct buf b = BUF_INIT(0);

        launch_begin(&b, LAUNCH_LISTEN);
        launch_put_bind(&b, a, k % 2 == 1);
        CHECK_INT(launch_end(&b), 0);
        CHECK_INT(launch_decode(b.data, b.len, &q, &err), 0);
        CHECK(address_equal(&q.bind, a));
        CHECK_INT(q.udp, k % 2 == 1);
        buf_done(&b);
    }
    for (int k = 0; k < 5; k++) {
        static const char *const why[] = {
            "request: record bind: Invalid argument", "request: no address",
            "request: an address, and nothing to listen for",
            "request: a protocol, and nothing to connect", "request: record bind: Protocol error"};
        struct buf b = BUF_INIT(0);

        launch_begin(&b, k == 2 || k == 3 ? LAUNCH_KILL : LAUNCH_LISTEN);
        launch_put_string(&b, TAG_ID, "x");
        if (k == 0)
            launch_put_bind(&b, &odd, false);
        if (k == 2)
            launch_put_bind(&b, &four, false);
        if (k == 3)
            launch_put_number(&b, TAG_UDP, 1);
        if (k == 4)
            launch_put(&b, TAG_BIND, 0, "short", 5);
        CHECK_INT(launch_end(&b), 0);
        CHECK(launch_decode(b.data, b.len, &q, &err) < 0);
        if (strncmp(err.msg, why[k], strlen(why[k])) != 0)
            tap_fail("%d: %s", k, err.msg);
        buf_done(&b);
    }
}

TEST(records_that_lie)
{
    char unknown[64];
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    uint32_t huge = UINT32_MAX;

    honest_begin(&b, "x", layers, 0);
    CHECK_INT(launch_end(&b), 0);
    (void)memcpy(b.data + 16 + 4, &huge, sizeof(huge));
    CHECK_REFUSED(&b, -EPROTO, "request: a record of 4294967295 bytes passes the end");
    buf_done(&b);

    honest_begin(&b, "x", layers, 0);
    CHECK_INT(launch_end(&b), 0);
    b.data[16 + 8 + 2] = 1; /* behind "x\0" */
    CHECK_REFUSED(&b, -EPROTO, "request: record padded with something");
    buf_done(&b);

    honest_begin(&b, "x", layers, 0);
    launch_put_number(&b, TAG_MAX, 1);
    CHECK_INT(launch_end(&b), 0);
    (void)snprintf(unknown, sizeof(unknown), "request: unknown record %d", TAG_MAX);
    CHECK_REFUSED(&b, -EPROTO, unknown);
    buf_done(&b);

    honest_begin(&b, "x", layers, 0);
    launch_put_number(&b, TAG_INVALID, 1);
    CHECK_INT(launch_end(&b), 0);
    CHECK_REFUSED(&b, -EPROTO, "request: unknown record 0");
}

TEST(missing_and_double)
{
    static const struct {
        unsigned without;
        const char *text;
    } missing[] = {
        {WITHOUT_ID, "request: no id"},
        {WITHOUT_HOSTNAME, "request: no hostname"},
        {WITHOUT_LAYERS, "request: no root file system"},
        {WITHOUT_FILTER, "request: no seccomp filter"},
    };
    static const struct {
        enum launch_tag tag;
        const char *text;
    } once[] = {
        {TAG_FLAGS, "request: record flags twice"},
        {TAG_CAPABILITIES, "request: record capabilities twice"},
        {TAG_ID, "request: record id twice"},
        {TAG_FILTER, "request: record filter twice"},
    };

    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

        honest_begin(&b, "x", layers, missing[i].without);
        CHECK_INT(launch_end(&b), 0);
        CHECK_REFUSED(&b, -EINVAL, missing[i].text);
    }
    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

        honest_begin(&b, "x", layers, 0);
        launch_put_number(&b, once[i].tag, 0);
        CHECK_INT(launch_end(&b), 0);
        CHECK_REFUSED(&b, -EPROTO, once[i].text);
    }
}

TEST(too_many)
{
    static const struct {
        enum launch_tag tag;
        size_t max;
        struct bytes data;
        const char *name;
    } rows[] = {
        {TAG_LAYER, LAUNCH_LAYERS_MAX, B("aa\0"), "layer"},
        {TAG_VOLUME, LAUNCH_VOLUMES_MAX, B(ZERO8 "/a\0/b\0"), "volume"},
        {TAG_TMPFS, LAUNCH_TMPFS_MAX, B(K4 "/r\0"), "tmpfs"},
        {TAG_MASKED, LAUNCH_PATHS_MAX, B("/a\0"), "masked"},
        {TAG_READONLY, LAUNCH_PATHS_MAX, B("/a\0"), "read_only"},
        {TAG_RLIMIT, LAUNCH_RLIMITS_MAX, B(ZERO8 ZERO8 ZERO8), "rlimit"},
        {TAG_COUNTER, 16, B(ZERO8 "max_user_namespaces\0"), "counter"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t extra = 0; extra < 2; extra++) {
            auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
            struct err err = ERR_NONE;
            size_t count = rows[i].max + extra - (rows[i].tag == TAG_LAYER ? 2 : 0);

            honest_begin(&b, "x", layers, 0);
            for (size_t k = 0; k < count; k++)
                launch_put(&b, rows[i].tag, 0, rows[i].data.data, rows[i].data.len);
            CHECK_INT(launch_end(&b), 0);
            CHECK_INT(decode(&b, &err), extra != 0 ? -E2BIG : 0);
            if (extra != 0)
                CHECK(strstr(err.msg, rows[i].name) != NULL);
        }
    }
}

TEST(filter_sizes)
{
    static char insns[(LAUNCH_BPF_MAX + 1) * 8];
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct err err = ERR_NONE;

    honest_begin(&b, "x", layers, WITHOUT_FILTER);
    launch_put(&b, TAG_FILTER, 0, insns, sizeof(insns) - 8);
    CHECK_INT(launch_end(&b), 0);
    CHECK_INT(decode(&b, &err), 0);
    buf_done(&b);

    honest_begin(&b, "x", layers, WITHOUT_FILTER);
    launch_put(&b, TAG_FILTER, 0, insns, sizeof(insns));
    CHECK_INT(launch_end(&b), 0);
    CHECK_INT(decode(&b, &err), -EPROTO);
}

TEST(building_too_much)
{
    static char big[LAUNCH_SIZE_MAX];
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    honest_begin(&b, "x", layers, 0);
    launch_put(&b, TAG_FILTER, 0, big, sizeof(big));
    launch_put_string(&b, TAG_MASKED, "/a"); /* after a failure too */
    CHECK_INT(launch_end(&b), -E2BIG);
}

/* ---- networks ---- */

TEST(a_network_round_trip)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q;
    struct net_rule rule;
    const struct net_port port = {.port = 5556, .proto = NET_TCP};
    struct net_addr dns = {.family = 4, .bytes = {9, 9, 9, 9}};
    struct launch_host host = {.name = "host.docker.internal"};

    CHECK_INT(net_rule_parse("10.0.0.0/8:80", true, &rule, NULL), 0);
    honest_begin(&b, "x", layers, 0);
    launch_put_number(&b, TAG_NET, LAUNCH_NET_LINK | LAUNCH_NET_INTERNET);
    launch_put(&b, TAG_NET_RULE, 0, &rule, sizeof(rule));
    launch_put(&b, TAG_NET_PORT, 0, &port, sizeof(port));
    launch_put(&b, TAG_NET_DNS, 0, &dns, sizeof(dns));
    launch_put_string(&b, TAG_NET_NAME, "back");
    launch_put_string(&b, TAG_NET_ALIASES, "web db-1");
    launch_put_host(&b, &host);
    CHECK_INT(launch_end(&b), 0);
    CHECK_INT(launch_decode(b.data, b.len, &q, NULL), 0);
    CHECK_INT(q.net_flags, LAUNCH_NET_LINK | LAUNCH_NET_INTERNET);
    CHECK_INT(q.net_access.rule_count, 1);
    CHECK(memcmp(&q.net_access.rules[0], &rule, sizeof(rule)) == 0);
    CHECK_INT(q.net_access.ports[0].port, 5556);
    CHECK_INT(q.net_dns_count, 1);
    CHECK_STR(q.net_name, "back");
    CHECK_STR(q.net_aliases, "web db-1");
    CHECK_STR(q.hosts[0].name, "host.docker.internal");
    CHECK_INT(q.hosts[0].addr.family, 0);
}

TEST(networks_refused)
{
    static const struct net_rule bad_rules[] = {
        {.family = 5, .prefix = 8},
        {.family = 4, .prefix = 33},
        {.family = 4, .prefix = 8, .bytes = {10, 1}},
        {.family = 4, .prefix = 8, .bytes = {10}, .proto = 1},
        {.family = 4, .prefix = 8, .bytes = {10}, .first = 9, .last = 8},
        {.family = 4, .prefix = 8, .bytes = {10}, .deny = 2},
        {.family = 6, .prefix = 128, .bytes = {[10] = 0xff, [11] = 0xff, [15] = 1}},
    };
    static const struct net_port bad_ports[] = {{.port = 0, .proto = NET_TCP},
                                                {.port = 1, .proto = 0},
                                                {.port = 1, .proto = NET_UDP, .reserved = 1}};
    static const char *const names[] = {"", "A", "a b", "a/b", NULL};

    for (size_t i = 0; i < sizeof(bad_rules) / sizeof(bad_rules[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

        honest_begin(&b, "x", layers, 0);
        launch_put(&b, TAG_NET_RULE, 0, &bad_rules[i], sizeof(bad_rules[i]));
        CHECK_INT(launch_end(&b), 0);
        CHECK_REFUSED(&b, -EINVAL, "request: record net_rule: Invalid argument");
    }
    for (size_t i = 0; i < sizeof(bad_ports) / sizeof(bad_ports[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

        honest_begin(&b, "x", layers, 0);
        launch_put(&b, TAG_NET_PORT, 0, &bad_ports[i], sizeof(bad_ports[i]));
        CHECK_INT(launch_end(&b), 0);
        CHECK_REFUSED(&b, -EINVAL, "request: record net_port: Invalid argument");
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct launch_host host = {.addr = {.family = 4}};
        struct err err = ERR_NONE;

        honest_begin(&b, "x", layers, 0);
        (void)snprintf(host.name, sizeof(host.name), "%s", i == 1 ? "a\nb" : names[i]);
        launch_put_host(&b, &host);
        CHECK_INT(launch_end(&b), 0);
        CHECK(decode(&b, &err) < 0);
    }
}

TEST(tables_of_egress)
{
    static const struct {
        uint64_t flags;
        bool ok;
    } rows[] = {
        {0, true},
        {LAUNCH_EGRESS_TABLE | LAUNCH_EGRESS_OPEN, true},
        {LAUNCH_EGRESS_NONE, true},
        {LAUNCH_EGRESS_NONE | LAUNCH_EGRESS_OPEN, false},
        {LAUNCH_EGRESS_NONE | LAUNCH_EGRESS_TABLE, false},
        {8, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct err err = ERR_NONE;

        launch_begin(&b, LAUNCH_EGRESS);
        launch_put_string(&b, TAG_ID, "0123456789abcdef");
        launch_put_number(&b, TAG_FAMILY, 4);
        launch_put_number(&b, TAG_EGRESS, rows[i].flags);
        CHECK(launch_end(&b) == 0);
        CHECK_INT(decode(&b, &err) == 0, rows[i].ok);
    }
}

/* Further networks of a start, and of a change. */
TEST(several_networks)
{
    static const struct {
        const char *name, *data;
        size_t len;
        const char *msg;
        int code;
    } rows[] = {
        {"a", "b\0x y", 6, NULL, 0},
        {"a", "b\0", 3, NULL, 0},
        {"a", "a\0", 3, "request: network a twice", -EINVAL},
        {"a", "b\0x", 3, "request: record net_more: Protocol error", -EPROTO},
        {"a", "bcd", 4, "request: record net_more: Protocol error", -EPROTO},
        {"a", "\0x", 3, "request: record net_more: Invalid argument", -EINVAL},
        {"a", "B\0x", 4, "request: record net_more: Invalid argument", -EINVAL},
        {"a", "b\0x  y", 7, "request: record net_more: Invalid argument", -EINVAL},
        {"a", "b\0x\ny", 6, "request: record net_more: Invalid argument", -EINVAL},
        {"a", "b\0x\0y", 6, "request: record net_more: Protocol error", -EPROTO},
        {NULL, "b\0", 3, "request: names, and no network to have them in", -EINVAL},
    };
    auto_buf struct buf many = BUF_INIT(LAUNCH_SIZE_MAX);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct launch_request q;
        struct err err = ERR_NONE;

        launch_begin(&b, LAUNCH_NETWORKS);
        launch_put_string(&b, TAG_ID, "x");
        launch_put_number(&b, TAG_NET, LAUNCH_NET_LINK);
        if (rows[i].name != NULL)
            launch_put_string(&b, TAG_NET_NAME, rows[i].name);
        launch_put(&b, TAG_NET_MORE, 0, rows[i].data, rows[i].len);
        CHECK_INT(launch_end(&b), 0);
        CHECK_INT(launch_decode(b.data, b.len, &q, &err), rows[i].code);
        if (rows[i].msg != NULL)
            CHECK_STR(err.msg, rows[i].msg);
    }
    launch_begin(&many, LAUNCH_NETWORKS);
    launch_put_string(&many, TAG_ID, "x");
    launch_put_number(&many, TAG_NET, LAUNCH_NET_LINK);
    launch_put_string(&many, TAG_NET_NAME, "first");
    for (int i = 0; i <= NET_MORE_MAX; i++) {
        const char name[] = {(char)('a' + i), '\0'};

        launch_put_net(&many, &(struct launch_net){.name = name, .aliases = ""});
    }
    CHECK_INT(launch_end(&many), 0);
    CHECK_REFUSED(&many, -E2BIG, "request: record net_more: Argument list too long");
}

TEST(networks_that_make_no_sense)
{
    static const struct {
        uint64_t flags;
        const char *join, *name, *msg;
    } rows[] = {
        {LAUNCH_NET_INTERNET, NULL, NULL, "request: record net: Invalid argument"},
        {8, NULL, NULL, "request: record net: Invalid argument"},
        {LAUNCH_NET_ADMIN, "other", NULL, "request: both a network of its own and another's"},
        {LAUNCH_NET_ADMIN, NULL, "back", "request: a named network, and no link"},
        {LAUNCH_NET_LINK, "other", NULL, "request: both a network of its own and another's"},
        {0, "other", "back", "request: both a network of its own and another's"},
        {0, NULL, "back", "request: a named network, and no link"},
        {0, "../x", NULL, "request: record net_join: Invalid argument"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

        honest_begin(&b, "x", layers, 0);
        if (rows[i].flags != 0)
            launch_put_number(&b, TAG_NET, rows[i].flags);
        if (rows[i].join != NULL)
            launch_put_string(&b, TAG_NET_JOIN, rows[i].join);
        if (rows[i].name != NULL)
            launch_put_string(&b, TAG_NET_NAME, rows[i].name);
        CHECK_INT(launch_end(&b), 0);
        CHECK_REFUSED(&b, -EINVAL, rows[i].msg);
    }
}

TEST(names_in_a_network_refused)
{
    static const char *const bad[] = {" ", "a ", " a", "a  b", "a\tb", "a\n6.6.6.6 evil"};

    for (size_t i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        bool last = i == sizeof(bad) / sizeof(bad[0]);

        honest_begin(&b, "x", layers, 0);
        launch_put_number(&b, TAG_NET, LAUNCH_NET_LINK);
        if (!last)
            launch_put_string(&b, TAG_NET_NAME, "back");
        launch_put_string(&b, TAG_NET_ALIASES, last ? "a" : bad[i]);
        CHECK_INT(launch_end(&b), 0);
        CHECK_REFUSED(&b, -EINVAL,
                      last ? "request: names, and no network to have them in"
                           : "request: record net_aliases: Invalid argument");
    }
}

TEST(too_many_of_a_network)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    const struct net_rule rule = {.family = 4};

    honest_begin(&b, "x", layers, 0);
    for (int i = 0; i < NET_RULES_MAX + 1; i++)
        launch_put(&b, TAG_NET_RULE, 0, &rule, sizeof(rule));
    CHECK_INT(launch_end(&b), 0);
    CHECK_REFUSED(&b, -E2BIG, "request: record net_rule: Argument list too long");
}

/* Else the fuzzer's search begins at the refusal of an old form. */
TEST(seeds_of_the_fuzzer)
{
    static const char *const names[] = {"connect", "dial",         "egress",        "kill",
                                        "list",    "layer-commit", "listen",        "resolver",
                                        "start",   "start-joined", "start-network", "volume-make",
                                        "worker"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        auto_free char *text = NULL;
        struct launch_request q;
        struct err err = ERR_NONE;
        char path[80];
        size_t len = 0;

        (void)snprintf(path, sizeof(path), "tests/fuzz/seeds/request/%s", names[i]);
        CHECK_INT(file_read_at(AT_FDCWD, path, LAUNCH_SIZE_MAX, &text, &len, &err), 0);
        if (text == NULL || launch_decode(text, len, &q, &err) < 0)
            tap_fail("%s: %s", path, err.msg);
    }
}

TEST(kept_or_attached)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    honest_begin(&b, "x", layers, WITHOUT_FLAGS);
    launch_put_number(&b, TAG_FLAGS, LAUNCH_KEEP | LAUNCH_ATTACHED);
    CHECK_INT(launch_end(&b), 0);
    CHECK_REFUSED(&b, -EINVAL, "request: both kept and attached");
}

TAP_MAIN
