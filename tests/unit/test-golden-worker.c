/* Golden vectors of the protocol between the supervisor and the worker rind-rootfs. */

#include <errno.h>

#include "golden.h"
#include "image/worker-proto.h"
#include "tap.h"

static const struct golden_part msg_parts[] = {
    {4, "magic"},    {2, "version"},  {2, "type"},   {4, "flags"},   {4, "op"},
    {4, "kind"},     {4, "code"},     {8, "bytes"},  {8, "files"},   {8, "entries"},
    {8, "packed"},   {8, "devices"},  {8, "xattrs"}, {32, "digest"}, {32, "packed_digest"},
    {2, "name_len"}, {2, "text_len"}, {4, "zero"},
};

#define DIGEST(first)                                                                              \
    {                                                                                              \
        (first), 0xaa, [WORKER_DIGEST - 1] = 0xbb                                                  \
    }

/* clang-format off */
static const struct {
    const char *name;
    struct worker_msg msg;
} rows[] = {
    {"start-unpack", {.type = WORKER_START, .op = WORKER_UNPACK, .kind = WORKER_GZIP,
                      .flags = WORKER_BOTTOM | WORKER_KEEP_OWNER, .bytes = 0x0102030405060708,
                      .files = 2, .entries = 3}},
    {"start-unpack-dir", {.type = WORKER_START, .op = WORKER_UNPACK_DIR, .kind = WORKER_PLAIN,
                      .bytes = 1, .files = 2, .entries = 3}},
    {"start-split",  {.type = WORKER_START, .op = WORKER_SPLIT, .bytes = 1, .files = 2,
                      .entries = 3}},
    {"start-pack",   {.type = WORKER_START, .op = WORKER_PACK, .kind = WORKER_ZSTD,
                      .flags = WORKER_OVERLAY | WORKER_ROOT_ENTRY, .bytes = 1, .files = 2,
                      .entries = 3, .name = "var/lib", .text = "dir/"}},
    {"start-changes", {.type = WORKER_START, .op = WORKER_CHANGES, .bytes = 1, .entries = 3}},
    {"start-size",   {.type = WORKER_START, .op = WORKER_SIZE, .entries = 3}},
    {"take",         {.type = WORKER_TAKE}},
    {"skip",         {.type = WORKER_SKIP}},
    {"progress",     {.type = WORKER_PROGRESS, .bytes = 4, .files = 5, .entries = 6, .packed = 7}},
    {"entry-file",   {.type = WORKER_ENTRY, .kind = WORKER_ENTRY_FILE, .bytes = 8,
                      .name = "./a//b"}},
    {"entry-hard-link", {.type = WORKER_ENTRY, .kind = WORKER_ENTRY_HARD_LINK, .name = "c",
                      .text = "a/b"}},
    {"entry-symbolic", {.type = WORKER_ENTRY, .kind = WORKER_ENTRY_SYMBOLIC, .name = "d",
                      .text = "../x"}},
    {"entry-directory", {.type = WORKER_ENTRY, .kind = WORKER_ENTRY_DIRECTORY, .name = "e"}},
    {"entry-other",  {.type = WORKER_ENTRY, .kind = WORKER_ENTRY_OTHER, .name = "f"}},
    {"stored",       {.type = WORKER_STORED, .bytes = 8, .digest = DIGEST(1)}},
    {"done",         {.type = WORKER_DONE, .kind = WORKER_ZSTD, .flags = WORKER_OF_PARENTS,
                      .bytes = 9, .files = 10, .entries = 11, .packed = 12, .devices = 13,
                      .xattrs = 14, .digest = DIGEST(2), .packed_digest = DIGEST(3)}},
    {"done-size",    {.type = WORKER_DONE, .flags = WORKER_PARTIAL, .files = 9, .entries = 3}},
    {"failed",       {.type = WORKER_FAILED, .code = -ENOSPC, .name = "g", .text = "disk full"}},
};
/* clang-format on */

static void check_fields(const char *name, const struct worker_msg *got,
                         const struct worker_msg *want)
{
    bool same = got->type == want->type && got->flags == want->flags && got->op == want->op &&
                got->kind == want->kind && got->code == want->code && got->bytes == want->bytes &&
                got->files == want->files && got->entries == want->entries &&
                got->packed == want->packed && got->devices == want->devices &&
                got->xattrs == want->xattrs &&
                memcmp(got->digest, want->digest, WORKER_DIGEST) == 0 &&
                memcmp(got->packed_digest, want->packed_digest, WORKER_DIGEST) == 0;

    if (!same)
        tap_fail("%s: decoded to other fields: type %d, flags %#x, op %u, kind %u, code %d", name,
                 (int)got->type, got->flags, got->op, got->kind, got->code);
    CHECK_STR(got->name, want->name);
    CHECK_STR(got->text, want->text);
}

TEST(messages)
{
    struct golden *g = golden_open("worker-msg", GOLDEN_FORMAT, "WORKER_VERSION", WORKER_VERSION);
    static uint8_t out[WORKER_MSG_MAX];
    static struct worker_msg got;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ssize_t n = worker_msg_encode(&rows[i].msg, out);
        struct err err = ERR_NONE;
        struct golden_bytes bytes;
        struct golden_part parts[20];
        const size_t count = sizeof(msg_parts) / sizeof(msg_parts[0]);

        (void)memcpy(parts, msg_parts, sizeof(msg_parts));
        parts[count] = (struct golden_part){strlen(rows[i].msg.name), "name"};
        parts[count + 1] = (struct golden_part){strlen(rows[i].msg.text), "text"};
        CHECK(n > 0);
        bytes = golden_check(g, rows[i].name, parts, count + 2, out, n > 0 ? (size_t)n : 0);
        if (worker_msg_decode(bytes.data, bytes.len, &got, &err) < 0)
            tap_fail("%s: %s", rows[i].name, err.msg);
        else
            check_fields(rows[i].name, &got, &rows[i].msg);
    }
    golden_close(g);
}

TAP_MAIN
