/* Golden vectors of the protocol between the supervisor and rind-registry. */

#include <errno.h>

#include "golden.h"
#include "image/registry-proto.h"
#include "tap.h"

#define DIGEST "sha256:0123456789012345678901234567890123456789012345678901234567890123"

static const struct golden_part msg_parts[] = {
    {4, "magic"},    {2, "version"},  {2, "type"},   {4, "id"},         {4, "flags"},
    {4, "kind"},     {4, "code"},     {4, "status"}, {2, "digest_len"}, {2, "media_type_len"},
    {2, "name_len"}, {2, "text_len"}, {4, "zero"},   {8, "size"},       {8, "offset"},
};

/* clang-format off */
static const struct {
    const char *name;
    struct registry_msg msg;
} rows[] = {
    {"job",           {.type = REGISTRY_JOB}},
    {"resolve",       {.type = REGISTRY_RESOLVE, .id = 1, .flags = REGISTRY_TOP_ONLY | REGISTRY_HEAD, .name = "latest", .digest = DIGEST}},
    {"fetch",         {.type = REGISTRY_FETCH, .id = 2, .flags = REGISTRY_NO_MIRRORS, .digest = DIGEST, .size = 0x0102030405060708, .offset = 5}},
    {"push-blob",     {.type = REGISTRY_PUSH_BLOB, .id = 3, .digest = DIGEST, .size = 7, .name = "me/other"}},
    {"push-manifest", {.type = REGISTRY_PUSH_MANIFEST, .id = 4, .digest = DIGEST, .size = 7, .name = "1", .media_type = "a/b+json"}},
    {"login",         {.type = REGISTRY_LOGIN, .id = 5, .flags = REGISTRY_IDENTITY}},
    {"tags",          {.type = REGISTRY_TAGS, .id = 6}},
    {"cancel",        {.type = REGISTRY_CANCEL, .id = 6}},
    {"ready",         {.type = REGISTRY_READY}},
    {"document",      {.type = REGISTRY_DOCUMENT, .id = 1, .kind = REGISTRY_DOCUMENT_CONFIG, .digest = DIGEST, .size = 7, .media_type = "a/b"}},
    {"progress",      {.type = REGISTRY_PROGRESS, .id = 2, .offset = 0x0807060504030201}},
    {"retrying",      {.type = REGISTRY_RETRYING, .id = 2, .size = 3, .text = "busy"}},
    {"done",          {.type = REGISTRY_DONE, .id = 1, .flags = REGISTRY_UNCHANGED | REGISTRY_EXISTS | REGISTRY_MOUNTED, .digest = DIGEST}},
    {"failed",        {.type = REGISTRY_FAILED, .id = 1, .kind = REGISTRY_CANCELED, .code = -ECANCELED, .status = 404, .text = "gone"}},
};
/* clang-format on */

static void check_fields(const char *name, const struct registry_msg *got,
                         const struct registry_msg *want)
{
    if (got->type != want->type || got->id != want->id || got->flags != want->flags ||
        got->kind != want->kind || got->code != want->code || got->status != want->status ||
        got->size != want->size || got->offset != want->offset)
        tap_fail("%s: decoded to other fields: type %d, id %u, flags %#x, kind %u, code %d", name,
                 (int)got->type, got->id, got->flags, got->kind, got->code);
    CHECK_STR(got->digest, want->digest);
    CHECK_STR(got->media_type, want->media_type);
    CHECK_STR(got->name, want->name);
    CHECK_STR(got->text, want->text);
}

TEST(messages_have_the_bytes_that_they_had)
{
    struct golden *g =
        golden_open("registry-msg", GOLDEN_FORMAT, "REGISTRY_VERSION", REGISTRY_VERSION);
    static uint8_t out[REGISTRY_MSG_MAX];
    static struct registry_msg got;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct registry_msg *m = &rows[i].msg;
        const size_t count = sizeof(msg_parts) / sizeof(msg_parts[0]);
        ssize_t n = registry_msg_encode(m, out);
        struct err err = ERR_NONE;
        struct golden_bytes bytes;
        struct golden_part parts[20];

        (void)memcpy(parts, msg_parts, sizeof(msg_parts));
        parts[count] = (struct golden_part){strlen(m->digest), "digest"};
        parts[count + 1] = (struct golden_part){strlen(m->media_type), "media_type"};
        parts[count + 2] = (struct golden_part){strlen(m->name), "name"};
        parts[count + 3] = (struct golden_part){strlen(m->text), "text"};
        CHECK(n > 0);
        bytes = golden_check(g, rows[i].name, parts, count + 4, out, n > 0 ? (size_t)n : 0);
        if (registry_msg_decode(bytes.data, bytes.len, &got, &err) < 0)
            tap_fail("%s: %s", rows[i].name, err.msg);
        else
            check_fields(rows[i].name, &got, m);
    }
    golden_close(g);
}

TEST(what_the_peer_must_not_say_is_refused)
{
    static const struct {
        const char *about;
        struct registry_msg msg;
    } bad[] = {
        {"no type", {.type = REGISTRY_INVALID, .id = 1}},
        {"a type between", {.type = 63, .id = 1}},
        {"a job with an id", {.type = REGISTRY_JOB, .id = 1}},
        {"a request without an id", {.type = REGISTRY_LOGIN}},
        {"an unknown flag", {.type = REGISTRY_LOGIN, .id = 1, .flags = 1U << 31}},
        {"a negative size", {.type = REGISTRY_PROGRESS, .id = 1, .size = -1}},
        {"a digest that is none", {.type = REGISTRY_FETCH, .id = 1, .digest = "sha256:../x"}},
        {"a blob without a digest", {.type = REGISTRY_FETCH, .id = 1}},
        {"an offset behind the end",
         {.type = REGISTRY_FETCH, .id = 1, .digest = DIGEST, .size = 1, .offset = 2}},
        {"a document of no kind", {.type = REGISTRY_DOCUMENT, .id = 1, .digest = DIGEST}},
        {"a failure that is none",
         {.type = REGISTRY_FAILED, .id = 1, .kind = REGISTRY_TLS, .text = "x"}},
        {"a failure without words",
         {.type = REGISTRY_FAILED, .id = 1, .kind = REGISTRY_TLS, .code = -1}},
        {"control characters", {.type = REGISTRY_RETRYING, .id = 1, .text = "a\x1b[31m"}},
    };
    static uint8_t out[REGISTRY_MSG_MAX];
    static struct registry_msg got;
    const struct registry_msg good = {.type = REGISTRY_PROGRESS, .id = 1, .offset = 2};
    ssize_t n;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (registry_msg_encode(&bad[i].msg, out) != -EINVAL)
            tap_fail("%s: taken", bad[i].about);
    n = registry_msg_encode(&good, out);
    CHECK(n > 0 && registry_msg_decode(out, (size_t)n, &got, NULL) == 0);
    CHECK_INT(registry_msg_decode(out, (size_t)n - 1, &got, NULL), -EPROTO);
    CHECK_INT(registry_msg_decode(out, (size_t)n + 1, &got, NULL), -EPROTO);
    out[0] ^= 1;
    CHECK_INT(registry_msg_decode(out, (size_t)n, &got, NULL), -EPROTO);
}

TAP_MAIN
