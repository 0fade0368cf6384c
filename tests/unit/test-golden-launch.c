/* Golden vectors of the protocol between supervisor and launcher: the records of requests, the
 * requests that sandbox/sandbox-request.c builds, and the reply. */

#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/auto.h"
#include "base/buf.h"
#include "golden.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox-request.h"
#include "spec/spec.h"
#include "tap.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const uint64_t filter[2] = {0x0000000400000020, 0x7fff000000000006};

/* ---- the parts of a request, for comments ---- */

/* clang-format off */
#define TAG_NAME(tag) [tag] = #tag
static const char *const tag_names[TAG_MAX] = {
    TAG_NAME(TAG_ID), TAG_NAME(TAG_HOSTNAME), TAG_NAME(TAG_FLAGS), TAG_NAME(TAG_CAPABILITIES),
    TAG_NAME(TAG_MEMORY), TAG_NAME(TAG_PIDS), TAG_NAME(TAG_CPU), TAG_NAME(TAG_SHM),
    TAG_NAME(TAG_LAYER), TAG_NAME(TAG_ROOT_DIR), TAG_NAME(TAG_VOLUME), TAG_NAME(TAG_TMPFS),
    TAG_NAME(TAG_MASKED), TAG_NAME(TAG_READONLY), TAG_NAME(TAG_RLIMIT), TAG_NAME(TAG_COUNTER),
    TAG_NAME(TAG_FILTER), TAG_NAME(TAG_FAMILY), TAG_NAME(TAG_USER), TAG_NAME(TAG_NET),
    TAG_NAME(TAG_NET_RULE), TAG_NAME(TAG_NET_PORT), TAG_NAME(TAG_NET_DNS), TAG_NAME(TAG_NET_JOIN),
    TAG_NAME(TAG_NET_NAME), TAG_NAME(TAG_NET_HOST), TAG_NAME(TAG_BIND), TAG_NAME(TAG_UDP),
    TAG_NAME(TAG_EGRESS), TAG_NAME(TAG_HANDLER), TAG_NAME(TAG_INDEX), TAG_NAME(TAG_MARK),
    TAG_NAME(TAG_IMAGE_LAYER), TAG_NAME(TAG_WORKER), TAG_NAME(TAG_SANDBOX), TAG_NAME(TAG_BYTES),
    TAG_NAME(TAG_NAMED_VOLUME), TAG_NAME(TAG_VOLUME_NAME), TAG_NAME(TAG_META), TAG_NAME(TAG_DISK),
    TAG_NAME(TAG_NET_MORE),
    TAG_NAME(TAG_COUNT), TAG_NAME(TAG_NET_ALIASES), TAG_NAME(TAG_TMPFS_ROOT),
    TAG_NAME(TAG_SWAP), TAG_NAME(TAG_RESERVATION), TAG_NAME(TAG_SHARES), TAG_NAME(TAG_CPUSET_CPUS),
    TAG_NAME(TAG_CPUSET_MEMS), TAG_NAME(TAG_OOM_SCORE), TAG_NAME(TAG_SYSCTL), TAG_NAME(TAG_NET_LAN),
    TAG_NAME(TAG_DOMAIN), TAG_NAME(TAG_NET_SEARCH), TAG_NAME(TAG_NET_OPTIONS),
    TAG_NAME(TAG_IO_WEIGHT), TAG_NAME(TAG_IO), TAG_NAME(TAG_NET_RATE),
};
/* clang-format on */

static bool seen_tags[TAG_MAX], seen_verbs[LAUNCH_VERB_MAX];

struct parts {
    struct golden_part list[GOLDEN_PARTS_MAX];
    size_t count;
};

/* Lists the parts: the header, then head, data and padding of each record. */
static void name_parts(const struct buf *b, struct parts *p)
{
    static const struct golden_part head[] = {
        {4, "magic"}, {2, "version"}, {2, "verb"}, {4, "size"}, {4, "record_count"}};
    size_t at = sizeof(struct launch_wire);
    uint16_t verb;

    (void)memcpy(&verb, b->data + offsetof(struct launch_wire, verb), sizeof(verb));
    seen_verbs[verb] = true;
    (void)memcpy(p->list, head, sizeof(head));
    p->count = sizeof(head) / sizeof(head[0]);
    while (at + 8 <= b->len && p->count + 3 <= GOLDEN_PARTS_MAX) {
        uint16_t tag;
        uint32_t len;

        (void)memcpy(&tag, b->data + at, sizeof(tag));
        (void)memcpy(&len, b->data + at + 4, sizeof(len));
        seen_tags[tag] = true;
        p->list[p->count++] = (struct golden_part){8, tag_names[tag]};
        p->list[p->count++] = (struct golden_part){len, "data"};
        if (len % 8 != 0)
            p->list[p->count++] = (struct golden_part){8 - len % 8, "padding"};
        at += 8 + ((size_t)len + 7) / 8 * 8;
    }
}

/* Compares the request with its vector, and decodes the vector. *ret points into the vector. */
static void check_request(struct golden *g, const char *name, struct buf *b,
                          struct launch_request *ret)
{
    struct golden_bytes bytes;
    struct err err = ERR_NONE;
    struct parts p;

    name_parts(b, &p);
    bytes = golden_check(g, name, p.list, p.count, b->data, b->len);
    (void)memset(ret, 0, sizeof(*ret));
    if (launch_decode(bytes.data, bytes.len, ret, &err) < 0)
        tap_fail("%s: %s", name, err.msg);
}

/* ---- the records ---- */

static void put_start(struct buf *b)
{
    const struct net_rule rule = {.bytes = {10, 1},
                                  .family = 4,
                                  .prefix = 16,
                                  .proto = NET_TCP,
                                  .deny = 1,
                                  .first = 8000,
                                  .last = 8099};
    const struct net_port port = {.port = 53, .proto = NET_UDP};
    const struct net_addr dns = {.bytes = {0x20, 0x01, 0x0d, 0xb8}, .family = 6};

    launch_begin(b, LAUNCH_START);
    launch_put_string(b, TAG_ID, "a-1");
    launch_put_string(b, TAG_HOSTNAME, "Host.x_1");
    launch_put_number(b, TAG_FLAGS, LAUNCH_READ_ONLY | LAUNCH_REAPER | LAUNCH_KEEP);
    launch_put_number(b, TAG_CAPABILITIES, 1ULL << 40);
    launch_put_number(b, TAG_MEMORY, 64 << 20);
    launch_put_number(b, TAG_PIDS, 7);
    launch_put_number(b, TAG_CPU, 500);
    launch_put_number(b, TAG_SHM, 4096);
    launch_put_number(b, TAG_DISK, 16 << 20);
    launch_put_string(b, TAG_LAYER, "base.1");
    launch_put_string(b, TAG_LAYER, "c");
    launch_put_string(b, TAG_IMAGE_LAYER, HEX64);
    launch_put_string(b, TAG_USER, "user:group");
    launch_put_volume(b,
                      &(struct launch_volume){"/srv/a", "/data", 1000, 2000, true, false, false});
    launch_put_volume(b, &(struct launch_volume){
                             .source = "Vol-1", .target = "/v", .read_only = true, .named = true});
    launch_put_tmpfs(b, &(struct launch_tmpfs){.target = "/run", .bytes = 8192});
    launch_put_string(b, TAG_MASKED, "/proc/kcore");
    launch_put_string(b, TAG_READONLY, "/proc/sys");
    launch_put_rlimit(b, &(struct launch_rlimit){7, 10, 20});
    launch_put_counter(b, &(struct launch_counter){"max_inotify_watches", INT32_MAX});
    launch_put_number(b, TAG_NET, LAUNCH_NET_LINK | LAUNCH_NET_INTERNET);
    launch_put(b, TAG_NET_RULE, 0, &rule, sizeof(rule));
    launch_put(b, TAG_NET_PORT, 0, &port, sizeof(port));
    launch_put(b, TAG_NET_DNS, 0, &dns, sizeof(dns));
    launch_put_string(b, TAG_NET_NAME, "net-1");
    launch_put_string(b, TAG_NET_ALIASES, "db Cache.x");
    launch_put_host(
        b, &(struct launch_host){.addr = {.bytes = {192, 0, 2, 1}, .family = 4}, .name = "other"});
    launch_put(b, TAG_FILTER, 0, filter, sizeof(filter));
}

static void check_start(const struct launch_request *q)
{
    CHECK_INT(q->verb, LAUNCH_START);
    CHECK_STR(q->id, "a-1");
    CHECK_STR(q->hostname, "Host.x_1");
    CHECK_INT(q->flags, LAUNCH_READ_ONLY | LAUNCH_REAPER | LAUNCH_KEEP);
    CHECK_INT(q->capabilities, 1LL << 40);
    CHECK(q->memory == 64 << 20 && q->pids == 7 && q->cpu == 500 && q->shm == 4096);
    CHECK_INT(q->disk, 16 << 20);
    CHECK(q->layer_count == 2 && q->image_layer_count == 1);
    CHECK_STR(q->layers[0], "base.1");
    CHECK_STR(q->layers[1], "c");
    CHECK_STR(q->image_layers[0], HEX64);
    CHECK_STR(q->user, "user:group");
    CHECK_INT(q->volume_count, 2);
    CHECK_STR(q->volumes[0].source, "/srv/a");
    CHECK_STR(q->volumes[0].target, "/data");
    CHECK(q->volumes[0].uid == 1000 && q->volumes[0].gid == 2000 && q->volumes[0].read_only);
    CHECK_STR(q->volumes[1].source, "Vol-1");
    CHECK(q->volumes[1].named && q->volumes[1].read_only && !q->volumes[0].named);
    CHECK_STR(q->tmpfs[0].target, "/run");
    CHECK_INT(q->tmpfs[0].bytes, 8192);
    CHECK_STR(q->masked[0], "/proc/kcore");
    CHECK_STR(q->read_only[0], "/proc/sys");
    CHECK(q->rlimits[0].resource == 7 && q->rlimits[0].soft == 10 && q->rlimits[0].hard == 20);
    CHECK_STR(q->counters[0].name, "max_inotify_watches");
    CHECK_INT(q->counters[0].limit, INT32_MAX);
    CHECK_INT(q->filter_count, 2);
    CHECK(q->filter != NULL && memcmp(q->filter, filter, sizeof(filter)) == 0);
}

static void check_start_network(const struct launch_request *q)
{
    const struct net_rule *rule = &q->net_access.rules[0];

    CHECK_INT(q->net_flags, LAUNCH_NET_LINK | LAUNCH_NET_INTERNET);
    CHECK_INT(q->net_access.rule_count, 1);
    CHECK(rule->bytes[0] == 10 && rule->bytes[1] == 1 && rule->family == 4 && rule->prefix == 16);
    CHECK(rule->proto == NET_TCP && rule->deny == 1 && rule->first == 8000 && rule->last == 8099);
    CHECK_INT(q->net_access.port_count, 1);
    CHECK(q->net_access.ports[0].port == 53 && q->net_access.ports[0].proto == NET_UDP);
    CHECK(q->net_dns_count == 1 && q->net_dns[0].family == 6 && q->net_dns[0].bytes[0] == 0x20);
    CHECK_STR(q->net_name, "net-1");
    CHECK_STR(q->net_aliases, "db Cache.x");
    CHECK(q->host_count == 1 && q->hosts[0].addr.family == 4 && q->hosts[0].addr.bytes[0] == 192);
    CHECK_STR(q->hosts[0].name, "other");
}

static void check_starts(struct golden *g)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX), c = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q;

    put_start(&b);
    CHECK_INT(launch_end(&b), 0);
    check_request(g, "start", &b, &q);
    check_start(&q);
    check_start_network(&q);

    launch_begin(&c, LAUNCH_START);
    launch_put_string(&c, TAG_ID, "b");
    launch_put_string(&c, TAG_HOSTNAME, "b");
    launch_put_string(&c, TAG_ROOT_DIR, "/srv/root");
    launch_put_string(&c, TAG_NET_JOIN, "a-1");
    launch_put(&c, TAG_FILTER, 0, filter, sizeof(filter));
    CHECK_INT(launch_end(&c), 0);
    check_request(g, "start-joined", &c, &q);
    CHECK_STR(q.root_dir, "/srv/root");
    CHECK_STR(q.net_join, "a-1");
    CHECK(q.memory == -1 && q.pids == -1 && q.cpu == -1 && q.shm == -1 && q.disk == -1);
}

/* Records of a start that came later. */
static void check_start_resources(struct golden *g)
{
    const struct net_lan_ask ask = {.prefix = 16,
                                    .range_prefix = 24,
                                    .fixed = 1,
                                    .subnet = {172, 28},
                                    .range = {172, 28, 5},
                                    .gateway = {172, 28, 0, 1},
                                    .address = {172, 28, 0, 10}};
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX), c = BUF_INIT(LAUNCH_SIZE_MAX),
                        d = BUF_INIT(LAUNCH_SIZE_MAX), io = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q, own;

    launch_begin(&b, LAUNCH_START);
    launch_put_string(&b, TAG_ID, "c");
    launch_put_string(&b, TAG_HOSTNAME, "c");
    launch_put_string(&b, TAG_ROOT_DIR, "/srv/root");
    launch_put_tmpfs(&b, &(struct launch_tmpfs){.target = "/t",
                                                .bytes = 4096,
                                                .read_only = true,
                                                .no_exec = true,
                                                .has_root = true,
                                                .root = {.mode = 0750, .uid = 1, .gid = 2}});
    launch_put(&b, TAG_FILTER, 0, filter, sizeof(filter));
    CHECK_INT(launch_end(&b), 0);
    check_request(g, "start-resources", &b, &q);
    CHECK(q.tmpfs[0].read_only && q.tmpfs[0].no_exec && q.tmpfs[0].has_root);
    CHECK(q.tmpfs[0].root.mode == 0750 && q.tmpfs[0].root.uid == 1 && q.tmpfs[0].root.gid == 2);

    launch_begin(&c, LAUNCH_LIMITS);
    launch_put_string(&c, TAG_ID, "a-1");
    launch_put_number(&c, TAG_MEMORY, 64 << 20);
    launch_put_number(&c, TAG_SWAP, LAUNCH_SWAP_UNLIMITED);
    launch_put_number(&c, TAG_RESERVATION, 32 << 20);
    launch_put_number(&c, TAG_SHARES, 512);
    launch_put_string(&c, TAG_CPUSET_CPUS, "0-3,8");
    launch_put_string(&c, TAG_CPUSET_MEMS, "0");
    launch_put_number(&c, TAG_OOM_SCORE, 1000);
    CHECK_INT(launch_end(&c), 0);
    check_request(g, "limits", &c, &q);
    launch_begin(&d, LAUNCH_START);
    launch_put_string(&d, TAG_ID, "d");
    launch_put_string(&d, TAG_HOSTNAME, "d");
    launch_put_string(&d, TAG_ROOT_DIR, "/srv/root");
    launch_put_string(&d, TAG_SYSCTL, "net.core.somaxconn=1024");
    launch_put_number(&d, TAG_NET, LAUNCH_NET_LINK);
    launch_put_string(&d, TAG_NET_NAME, "lan");
    launch_put(&d, TAG_NET_LAN, 0, &ask, sizeof(ask));
    launch_put(&d, TAG_FILTER, 0, filter, sizeof(filter));
    CHECK_INT(launch_end(&d), 0);
    check_request(g, "start-sysctls", &d, &own);
    CHECK_INT(own.sysctl_count, 1);
    CHECK(own.net_lan_count == 1 && memcmp(&own.net_lans[0], &ask, sizeof(ask)) == 0);
    CHECK_STR(own.sysctls[0], "net.core.somaxconn=1024");
    launch_begin(&io, LAUNCH_START);
    launch_put_string(&io, TAG_ID, "e");
    launch_put_string(&io, TAG_HOSTNAME, "e");
    launch_put_string(&io, TAG_ROOT_DIR, "/srv/root");
    launch_put_number(&io, TAG_IO_WEIGHT, 500);
    launch_put_io(&io, &(struct launch_io){.path = "", .rates = {1, 2, 3, 4}});
    launch_put_io(&io, &(struct launch_io){.path = "/dev/sda", .rates = {0, 1ULL << 40, 0, 0}});
    launch_put_number(&io, TAG_NET_RATE, 1 << 20);
    launch_put(&io, TAG_FILTER, 0, filter, sizeof(filter));
    CHECK_INT(launch_end(&io), 0);
    check_request(g, "start-rates", &io, &own);
    CHECK(own.io_weight == 500 && own.net_rate == 1 << 20 && own.io_count == 2);
    CHECK_STR(own.io[1].path, "/dev/sda");
    CHECK(own.io[0].rates[3] == 4 && own.io[1].rates[1] == 1ULL << 40);
    CHECK(q.swap == LAUNCH_SWAP_UNLIMITED && q.reservation == 32 << 20 && q.shares == 512);
    CHECK(q.oom_score == 1000 && q.memory == 64 << 20 && q.cpu == -1);
    CHECK_STR(q.cpus, "0-3,8");
    CHECK_STR(q.mems, "0");
}

/* A start with a domain, lines of resolv.conf, and a volume whose source is made. */
static void check_names(struct golden *g)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q;

    launch_begin(&b, LAUNCH_START);
    launch_put_string(&b, TAG_ID, "d");
    launch_put_string(&b, TAG_HOSTNAME, "d");
    launch_put_string(&b, TAG_DOMAIN, "shop.example");
    launch_put_string(&b, TAG_ROOT_DIR, "/srv/root");
    launch_put_volume(&b, &(struct launch_volume){
                              .source = "/srv/a", .target = "/a", .read_only = true, .make = true});
    launch_put_number(&b, TAG_NET, LAUNCH_NET_LINK);
    launch_put_string(&b, TAG_NET_SEARCH, "a.example b.example");
    launch_put_string(&b, TAG_NET_OPTIONS, "ndots:2");
    launch_put(&b, TAG_FILTER, 0, filter, sizeof(filter));
    CHECK_INT(launch_end(&b), 0);
    check_request(g, "start-names", &b, &q);
    CHECK_STR(q.domain, "shop.example");
    CHECK_STR(q.net_search, "a.example b.example");
    CHECK_STR(q.net_options, "ndots:2");
    CHECK(q.volumes[0].make && q.volumes[0].read_only);
}

/* These verbs take an id and nothing else, or nothing at all. */
static void check_plain(struct golden *g)
{
    static const struct {
        const char *name;
        enum launch_verb verb;
        bool has_id;
    } rows[] = {
        {"kill", LAUNCH_KILL, true},
        {"release", LAUNCH_RELEASE, true},
        {"stop", LAUNCH_STOP, true},
        {"freeze", LAUNCH_FREEZE, true},
        {"thaw", LAUNCH_THAW, true},
        {"stats", LAUNCH_STATS, true},
        {"written", LAUNCH_WRITTEN, true},
        {"adopt", LAUNCH_REATTACH, true},
        {"list", LAUNCH_LIST, false},
        {"end", LAUNCH_END, true},
        {"certificate", LAUNCH_CERTIFICATE, false},
        {"over", LAUNCH_CONN_LIMIT, false},
        {"layer-drop", LAUNCH_LAYER_DROP, true},
        {"layer-list", LAUNCH_LAYER_LIST, false},
        {"volume-list", LAUNCH_VOLUME_LIST, false},
        {"processes", LAUNCH_PROCESSES, true},
        {"closed", LAUNCH_CLOSED, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct launch_request q;

        launch_begin(&b, rows[i].verb);
        if (rows[i].has_id)
            launch_put_string(&b, TAG_ID, "a-1");
        CHECK_INT(launch_end(&b), 0);
        check_request(g, rows[i].name, &b, &q);
        CHECK_INT(q.verb, rows[i].verb);
        if (rows[i].has_id)
            CHECK_STR(q.id, "a-1");
    }
}

static void check_sockets(struct golden *g)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX), c = BUF_INIT(LAUNCH_SIZE_MAX),
                        d = BUF_INIT(LAUNCH_SIZE_MAX);
    const struct address at = {.family = 4, .bytes = {127, 0, 0, 1}, .port = 8080};
    struct launch_request q;

    launch_begin(&b, LAUNCH_CONNECT);
    launch_put_string(&b, TAG_ID, "a-1");
    launch_put_number(&b, TAG_FAMILY, 6);
    launch_put_number(&b, TAG_COUNT, 4);
    launch_put_number(&b, TAG_MARK, 1);
    CHECK_INT(launch_end(&b), 0);
    check_request(g, "connect", &b, &q);
    CHECK(q.family == 6 && q.count == 4 && q.mark && !q.udp);

    launch_begin(&c, LAUNCH_LISTEN);
    launch_put_bind(&c, &at, true);
    CHECK_INT(launch_end(&c), 0);
    check_request(g, "listen", &c, &q);
    CHECK(q.has_bind && q.udp && address_equal(&q.bind, &at));

    launch_begin(&d, LAUNCH_RESOLVER);
    launch_put_number(&d, TAG_INDEX, 2);
    launch_put_number(&d, TAG_UDP, 1);
    CHECK_INT(launch_end(&d), 0);
    check_request(g, "resolver", &d, &q);
    CHECK(q.index == 2 && q.udp);
}

static void check_networks(struct golden *g)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX), c = BUF_INIT(LAUNCH_SIZE_MAX),
                        d = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q;

    launch_begin(&b, LAUNCH_NETWORKS);
    launch_put_string(&b, TAG_ID, "a-1");
    launch_put_number(&b, TAG_NET, LAUNCH_NET_LINK | LAUNCH_NET_INTERNET);
    launch_put_string(&b, TAG_NET_NAME, "net-1");
    launch_put_net(&b, &(struct launch_net){.name = "net.2", .aliases = "db Cache.x"});
    launch_put_net(&b, &(struct launch_net){.name = "net_3", .aliases = ""});
    CHECK_INT(launch_end(&b), 0);
    check_request(g, "networks", &b, &q);
    CHECK_INT(q.net_more_count, 2);
    CHECK_STR(q.net_more[0].name, "net.2");
    CHECK_STR(q.net_more[0].aliases, "db Cache.x");
    CHECK_STR(q.net_more[1].name, "net_3");
    CHECK_STR(q.net_more[1].aliases, "");

    launch_begin(&c, LAUNCH_NAMES);
    launch_put_string(&c, TAG_ID, "a-1");
    CHECK_INT(launch_end(&c), 0);
    check_request(g, "names", &c, &q);

    launch_begin(&d, LAUNCH_ASK);
    launch_put_string(&d, TAG_ID, "a-1");
    launch_put_number(&d, TAG_INDEX, 1);
    launch_put_number(&d, TAG_UDP, 1);
    CHECK_INT(launch_end(&d), 0);
    check_request(g, "ask", &d, &q);
    CHECK(q.index == 1 && q.udp);
}

static void check_egress(struct golden *g)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX), c = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q;

    launch_begin(&b, LAUNCH_EGRESS);
    launch_put_string(&b, TAG_ID, "a-1");
    launch_put_number(&b, TAG_FAMILY, 4);
    launch_put_number(&b, TAG_EGRESS, LAUNCH_EGRESS_OPEN | LAUNCH_EGRESS_TABLE);
    CHECK_INT(launch_end(&b), 0);
    check_request(g, "egress", &b, &q);
    CHECK(q.has_egress && q.egress == (LAUNCH_EGRESS_OPEN | LAUNCH_EGRESS_TABLE) && q.family == 4);

    launch_begin(&c, LAUNCH_DIAL);
    launch_put_string(&c, TAG_ID, "a-1");
    launch_put_string(&c, TAG_HANDLER, "127.0.0.1:9000");
    CHECK_INT(launch_end(&c), 0);
    check_request(g, "dial", &c, &q);
    CHECK_STR(q.handler, "127.0.0.1:9000");
}

static void check_layers(struct golden *g)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX), c = BUF_INIT(LAUNCH_SIZE_MAX),
                        d = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q;

    launch_begin(&b, LAUNCH_WORKER);
    launch_put_string(&b, TAG_ID, "w-1");
    launch_put_number(&b, TAG_WORKER, LAUNCH_WORK_CHANGES);
    launch_put_string(&b, TAG_SANDBOX, "a-1");
    launch_put_string(&b, TAG_IMAGE_LAYER, HEX64);
    CHECK_INT(launch_end(&b), 0);
    check_request(g, "worker", &b, &q);
    CHECK(q.work == LAUNCH_WORK_CHANGES && q.image_layer_count == 1);
    CHECK_STR(q.sandbox, "a-1");

    launch_begin(&c, LAUNCH_LAYER_COMMIT);
    launch_put_string(&c, TAG_ID, "w-1");
    launch_put_string(&c, TAG_IMAGE_LAYER, HEX64);
    launch_put_number(&c, TAG_BYTES, 0x0102030405060708);
    CHECK_INT(launch_end(&c), 0);
    check_request(g, "layer-commit", &c, &q);
    CHECK_INT(q.bytes, 0x0102030405060708);

    launch_begin(&d, LAUNCH_LAYER_REMOVE);
    launch_put_string(&d, TAG_IMAGE_LAYER, HEX64);
    CHECK_INT(launch_end(&d), 0);
    check_request(g, "layer-remove", &d, &q);
    CHECK_STR(q.image_layers[0], HEX64);
}

static void check_volumes(struct golden *g)
{
    static const struct {
        const char *name;
        enum launch_verb verb;
        bool has_meta;
    } rows[] = {
        {"volume-make", LAUNCH_VOLUME_MAKE, true},
        {"volume-write", LAUNCH_VOLUME_WRITE, true},
        {"volume-read", LAUNCH_VOLUME_READ, false},
        {"volume-remove", LAUNCH_VOLUME_REMOVE, false},
    };
    auto_buf struct buf fill = BUF_INIT(LAUNCH_SIZE_MAX);
    struct launch_request q;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

        launch_begin(&b, rows[i].verb);
        launch_put_string(&b, TAG_VOLUME_NAME, "Vol-1");
        if (rows[i].has_meta)
            launch_put(&b, TAG_META, 0, "{\"a\":1}", 7);
        CHECK_INT(launch_end(&b), 0);
        check_request(g, rows[i].name, &b, &q);
        CHECK_STR(q.volume_name, "Vol-1");
        CHECK_INT(q.meta_len, rows[i].has_meta ? 7 : 0);
    }
    launch_begin(&fill, LAUNCH_VOLUME_FILL);
    launch_put_volume(&fill,
                      &(struct launch_volume){.source = "new", .target = "/v", .named = true});
    launch_put_string(&fill, TAG_VOLUME_NAME, "Vol-1");
    CHECK_INT(launch_end(&fill), 0);
    check_request(g, "volume-fill", &fill, &q);
    CHECK_STR(q.volumes[0].source, "new");
    CHECK_STR(q.volume_name, "Vol-1");
}

TEST(requests)
{
    struct golden *g =
        golden_open("launch-request", GOLDEN_FORMAT, "LAUNCH_VERSION", LAUNCH_VERSION);

    check_starts(g);
    check_start_resources(g);
    check_names(g);
    check_plain(g);
    check_sockets(g);
    check_networks(g);
    check_egress(g);
    check_layers(g);
    check_volumes(g);
    for (unsigned verb = LAUNCH_VERB_INVALID + 1; verb < LAUNCH_VERB_MAX; verb++)
        if (!seen_verbs[verb])
            tap_fail("verb %u has no vector", verb);
    for (unsigned tag = TAG_INVALID + 1; tag < TAG_MAX; tag++)
        if (!seen_tags[tag])
            tap_fail("record %u has no vector", tag);
    golden_close(g);
}

/* clang-format off */
static const uint64_t flag_numbers[] = {
    LAUNCH_READ_ONLY, LAUNCH_ATTACHED, LAUNCH_REAPER, LAUNCH_NO_NEW_PRIVS, LAUNCH_KEEP,
    LAUNCH_HOST_ROOT, LAUNCH_FUSE,
};
static const uint64_t work_numbers[] = {
    LAUNCH_WORK_STREAM, LAUNCH_WORK_LAYER, LAUNCH_WORK_IMAGE, LAUNCH_WORK_UPPER, LAUNCH_WORK_ROOT,
    LAUNCH_WORK_CHANGES, LAUNCH_WORK_SANDBOX_SIZE, LAUNCH_WORK_VOLUME_SIZE,
};
static const uint64_t net_numbers[] = {LAUNCH_NET_LINK, LAUNCH_NET_INTERNET, LAUNCH_NET_ADMIN};
static const uint64_t egress_numbers[] = {
    LAUNCH_EGRESS_OPEN, LAUNCH_EGRESS_TABLE, LAUNCH_EGRESS_NONE,
};
/* clang-format on */

TEST(numbers)
{
    const struct golden_part part[] = {{512, "u64 each, in the order of the enum"}};
    struct golden *g =
        golden_open("launch-numbers", GOLDEN_FORMAT, "LAUNCH_VERSION", LAUNCH_VERSION);

    (void)golden_check(g, "launch_flags", GOLDEN_PARTS(part), flag_numbers, sizeof(flag_numbers));
    (void)golden_check(g, "launch_work", GOLDEN_PARTS(part), work_numbers, sizeof(work_numbers));
    (void)golden_check(g, "launch_net_flags", GOLDEN_PARTS(part), net_numbers, sizeof(net_numbers));
    (void)golden_check(g, "launch_egress", GOLDEN_PARTS(part), egress_numbers,
                       sizeof(egress_numbers));
    golden_close(g);
}

/* ---- requests of sandbox/sandbox-request.c ---- */

static void must(int r, const struct err *err)
{
    if (r < 0)
        tap_fail("%s", err->msg);
}

static void fill_spec(struct spec *s)
{
    struct err err = ERR_NONE;

    must(spec_set_name(s, "golden", &err), &err);
    must(spec_set_memory(s, "128m", &err), &err);
    must(spec_set_cpus(s, "0.5", &err), &err);
    must(spec_set_pids(s, "100", &err), &err);
    must(spec_set_shm_size(s, "1m", &err), &err);
    must(spec_set_disk(s, "64m", &err), &err);
    must(spec_add_ulimit(s, "nofile=512:1024", &err), &err);
    must(spec_set_user(s, "1000:1000", &err), &err);
    must(spec_put_volume(s, "/srv/data", "/data", true, &err), &err);
    must(spec_put_named_volume(s, "Vol-1", "/v", false, false, &err), &err);
    must(spec_put_tmpfs(s, "/scratch", &(struct tmpfs){.bytes = 1 << 20, .mode = 01777}, &err),
         &err);
    must(spec_set_network(s, "net-1", &err), &err);
    must(spec_add_net_alias(s, "db", &err), &err);
    must(spec_add_allow_net(s, "10.1.0.0/16:443/tcp", &err), &err);
    must(spec_add_deny_net(s, "10.2.0.0/16", &err), &err);
    must(spec_add_host_port(s, "8080", &err), &err);
    must(spec_add_dns(s, "192.0.2.53", &err), &err);
    must(spec_add_host(s, "other:192.0.2.1", &err), &err);
    must(spec_add_cap_drop(s, "CAP_NET_RAW", &err), &err);
    s->read_only = true;
    s->init = true;
}

static void build(struct golden *g, const char *name, const struct spec *s,
                  const struct network_join *join, unsigned long flags, struct launch_request *ret)
{
    static char kcore[] = "/proc/kcore", sys[] = "/proc/sys";
    static const char *const layers[] = {"base", "default", NULL};
    char *masked[] = {kcore, NULL}, *read_only[] = {sys, NULL};
    struct policy policy = {
        .name = "golden",
        .capabilities = 1U << CAP_CHOWN | 1U << CAP_NET_RAW,
        .no_new_privs = true,
        .network = NET_NONE,
        .limits = limits_unset(),
        .rlimits = {{.resource = 7, .soft = 1, .hard = 2}, {.resource = 4, .soft = 0, .hard = 0}},
        .rlimit_count = 2};
    struct ready_policy ready = {.policy = &policy, .masked = masked, .read_only = read_only};
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct err err = ERR_NONE;

    policy.limits.user_namespaces = 16;
    policy.limits.memory_bytes = 1 << 30;
    ready.filter.count = 2;
    ready.filter.insns = (void *)(uintptr_t)filter;
    must(sandbox_request(&b, "a-1", s, &ready, NULL, layers, FD_NONE, join, flags, &err), &err);
    check_request(g, name, &b, ret);
}

TEST(requests_that_are_built)
{
    struct golden *g =
        golden_open("launch-built", GOLDEN_CONTENT, "LAUNCH_VERSION", LAUNCH_VERSION);
    const struct network_join join = {.id = "b-2", .owner = "b-2", .hostname = "box"};
    struct spec *small = spec_new(), *full = spec_new();
    struct launch_request q;

    if (small == NULL || full == NULL)
        abort();
    build(g, "smallest", small, NULL, LAUNCH_ATTACHED, &q);
    CHECK_STR(q.hostname, "a-1");
    CHECK_INT(q.flags, LAUNCH_ATTACHED | LAUNCH_NO_NEW_PRIVS);
    CHECK(q.memory == 1 << 30 && q.net_flags == 0);

    build(g, "joined", small, &join, LAUNCH_KEEP, &q);
    CHECK_STR(q.hostname, "box");
    CHECK_STR(q.net_join, "b-2");

    fill_spec(full);
    build(g, "largest", full, NULL, LAUNCH_KEEP, &q);
    CHECK_INT(q.flags, LAUNCH_KEEP | LAUNCH_NO_NEW_PRIVS | LAUNCH_READ_ONLY | LAUNCH_REAPER);
    CHECK_INT(q.capabilities, 1 << CAP_CHOWN);
    CHECK(q.memory == 128 << 20 && q.cpu == 500 && q.pids == 100 && q.disk == 64 << 20);
    CHECK(q.volume_count == 2 && q.rlimit_count == 2 && q.tmpfs_count == 1);
    CHECK_STR(q.net_name, "net-1");
    CHECK(q.net_access.rule_count == 2 && q.net_access.port_count == 1 && q.host_count == 1);
    spec_free(small);
    spec_free(full);
    golden_close(g);
}

/* ---- the reply ---- */

/* Supervisor and launcher are one program, so the reply is sent as the bytes of the struct. */
static const struct golden_part reply_parts[] = {
    {4, "code"},
    {4, "pid"},
    {4, "base"},
    {4, "frozen"},
    {4, "remains"},
    {4, "padding"},
    {8, "oom_kills"},
    {8, "memory_bytes"},
    {8, "memory_peak_bytes"},
    {8, "cpu_usec"},
    {8, "pids"},
    {16, "disk: limit, allocated"},
    {32, "disk: size, used, inodes, inodes_used"},
    {17, "net: gateway4, its family"},
    {17, "net: box4"},
    {17, "net: gateway6"},
    {17, "net: box6"},
    {96, "net: lan, eight times prefix, reserved, address, gateway"},
    {64, "net_owner"},
    {480, "message"},
};

TEST(reply)
{
    struct golden *g = golden_open("launch-reply", GOLDEN_FORMAT, "LAUNCH_VERSION", LAUNCH_VERSION);
    struct launch_reply reply, got;
    struct golden_bytes bytes;

    (void)memset(&reply, 0, sizeof(reply)); /* the padding, too */
    reply.code = -ENOENT;
    reply.pid = 4321;
    reply.base = 0x01000000;
    reply.frozen = 1;
    reply.remains = 1;
    reply.oom_kills = 2;
    reply.memory_bytes = 3;
    reply.memory_peak_bytes = 4;
    reply.cpu_usec = 5;
    reply.pids = 6;
    reply.disk = (struct launch_disk){7, 8, 9, 10, 11, 12};
    reply.net.gateway4 = (struct net_addr){.bytes = {10, 0, 0, 1}, .family = 4};
    reply.net.sandbox6 = (struct net_addr){.bytes = {0xfd}, .family = 6};
    reply.net.lan[1] =
        (struct net_lan){.prefix = 16, .address = {172, 28, 0, 10}, .gateway = {172, 28, 0, 1}};
    (void)snprintf(reply.net_owner, sizeof(reply.net_owner), "a-1");
    (void)snprintf(reply.message, sizeof(reply.message), "no such sandbox");
    bytes = golden_check(g, "all", GOLDEN_PARTS(reply_parts), &reply, sizeof(reply));
    CHECK_INT(bytes.len, sizeof(got));
    (void)memset(&got, 0, sizeof(got));
    (void)memcpy(&got, bytes.data, bytes.len < sizeof(got) ? bytes.len : sizeof(got));
    CHECK(got.code == -ENOENT && got.pid == 4321 && got.base == 0x01000000);
    CHECK(got.frozen == 1 && got.remains == 1 && got.oom_kills == 2 && got.memory_bytes == 3);
    CHECK(got.memory_peak_bytes == 4 && got.cpu_usec == 5 && got.pids == 6);
    CHECK(got.disk.limit == 7 && got.disk.allocated == 8 && got.disk.inodes_used == 12);
    CHECK(got.net.gateway4.family == 4 && got.net.sandbox6.bytes[0] == 0xfd);
    CHECK(got.net.lan[1].prefix == 16 && got.net.lan[1].address[3] == 10);
    CHECK_STR(got.net_owner, "a-1");
    CHECK_STR(got.message, "no such sandbox");
    golden_close(g);
}

static const struct golden_part process_parts[] = {
    {8, "pid, parent"}, {4, "uid"},
    {4, "terminal"},    {16, "started_ms, cpu_ms"},
    {32, "name"},       {16, "virtual_bytes, rss_bytes"},
    {8, "state"}};

TEST(process)
{
    struct golden *g =
        golden_open("launch-process", GOLDEN_FORMAT, "LAUNCH_VERSION", LAUNCH_VERSION);
    struct launch_process p, got;
    struct golden_bytes bytes;

    (void)memset(&p, 0, sizeof(p));
    p = (struct launch_process){.pid = 2,
                                .parent = 1,
                                .uid = 1000,
                                .terminal = -1,
                                .started_ms = 0x0102030405060708,
                                .cpu_ms = 9,
                                .name = "sleep",
                                .virtual_bytes = 0x1112131415161718,
                                .rss_bytes = 4096,
                                .state = 'S'};
    bytes = golden_check(g, "all", GOLDEN_PARTS(process_parts), &p, sizeof(p));
    CHECK_INT(bytes.len, sizeof(got));
    (void)memset(&got, 0, sizeof(got));
    (void)memcpy(&got, bytes.data, bytes.len < sizeof(got) ? bytes.len : sizeof(got));
    CHECK(got.pid == 2 && got.parent == 1 && got.uid == 1000 && got.terminal == -1);
    CHECK(got.started_ms == 0x0102030405060708 && got.cpu_ms == 9);
    CHECK_STR(got.name, "sleep");
    CHECK(got.virtual_bytes == 0x1112131415161718 && got.rss_bytes == 4096 && got.state == 'S');
    golden_close(g);
}

TAP_MAIN
