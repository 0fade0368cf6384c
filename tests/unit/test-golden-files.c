/* Golden vectors of sandbox-shim's output: frames, and the records that the commands of rind put
 * into data frames. */

#include <errno.h>
#include <stdint.h>

#include "golden.h"
#include "proto/file-msg.h"
#include "proto/frame.h"
#include "tap.h"

/* ---- frames ---- */

static const struct golden_part frame_parts[] = {
    {4, "magic"}, {1, "version"}, {1, "kind"}, {4, "payload length"}};
static const struct golden_part error_parts[] = {
    {4, "magic"}, {1, "version"}, {1, "kind"}, {4, "payload length"}, {4, "errno"}, {4, "text"}};

/* Feeds one whole frame of a stream. */
static struct frame feed(struct frame_decoder *d, enum frame_stream stream, struct golden_bytes b)
{
    struct frame f = {.kind = FRAME_SUCCESS};
    size_t used = 0;

    frame_decoder_init(d, stream, 4096);
    CHECK_INT(frame_feed(d, b.data, b.len, &used, &f), 1);
    CHECK_INT(used, b.len);
    return f;
}

static void check_frames(struct golden *g)
{
    uint8_t out[64];
    struct frame_decoder d;
    struct frame f;
    int n;

    frame_put_header(out, FRAME_SUCCESS, 0);
    f = feed(&d, FRAME_STREAM_ACK,
             golden_check(g, "success", GOLDEN_PARTS(frame_parts), out, FRAME_HEADER_SIZE));
    CHECK_INT(f.kind, FRAME_SUCCESS);
    frame_decoder_done(&d);

    n = frame_put_error(out, sizeof(out), ENOENT, "gone");
    CHECK_INT(n, FRAME_HEADER_SIZE + FRAME_CODE_SIZE + 4);
    f = feed(&d, FRAME_STREAM_ACK,
             golden_check(g, "error", GOLDEN_PARTS(error_parts), out, (size_t)n));
    CHECK(f.kind == FRAME_ERROR && f.code == ENOENT && f.text_len == 4);
    CHECK_STR(f.text, "gone");
    frame_decoder_done(&d);

    frame_put_header(out, FRAME_DATA, 3);
    (void)memcpy(out + FRAME_HEADER_SIZE, "abc", 3);
    f = feed(&d, FRAME_STREAM_DATA,
             golden_check(g, "data", GOLDEN_PARTS(frame_parts), out, FRAME_HEADER_SIZE + 3));
    CHECK(f.kind == FRAME_DATA && f.len == 3 && memcmp(f.data, "abc", 3) == 0);
    frame_decoder_done(&d);
}

/* The shim writes stat and listing payloads; other clients of its commands read them. */
static void check_stat(struct golden *g)
{
    static const struct golden_part parts[] = {{1, "type"},     {4, "mode"},    {4, "uid"},
                                               {4, "gid"},      {8, "size"},    {8, "atime_ms"},
                                               {8, "mtime_ms"}, {8, "ctime_ms"}};
    const struct frame_stat want = {.type = FRAME_TYPE_SYMLINK,
                                    .mode = 0120777,
                                    .uid = 1000,
                                    .gid = UINT32_MAX,
                                    .size = 0x0102030405060708,
                                    .atime_ms = 1,
                                    .mtime_ms = -1500,
                                    .ctime_ms = INT64_C(8640000000000000)};
    uint8_t out[FRAME_STAT_SIZE];

    frame_put_stat(out, &want);
    (void)golden_check(g, "stat", GOLDEN_PARTS(parts), out, sizeof(out));
}

static void check_listing(struct golden *g)
{
    static const struct golden_part parts[] = {{4, "count"}, {1, "type"}, {2, "name length"},
                                               {1, "name"},  {1, "type"}, {2, "name length"},
                                               {3, "name"}};
    uint8_t out[32];
    size_t n = FRAME_COUNT_SIZE;

    frame_put_count(out, 2);
    n += frame_put_entry(out + n, FRAME_TYPE_DIR, "d", 1);
    n += frame_put_entry(out + n, FRAME_TYPE_SOCKET, "s.k", 3);
    (void)golden_check(g, "listing", GOLDEN_PARTS(parts), out, n);
}

TEST(frames_match_the_golden_bytes)
{
    struct golden *g = golden_open("frame", GOLDEN_FORMAT, "FRAME_VERSION", FRAME_VERSION);

    check_frames(g);
    check_stat(g);
    check_listing(g);
    golden_close(g);
}

/* ---- records ---- */

static void check_record(struct golden *g)
{
    static const struct golden_part parts[] = {
        {1, "type"},     {1, "flags"},    {2, "error"},      {4, "mode"},       {4, "uid"},
        {4, "gid"},      {4, "nlink"},    {4, "rdev_major"}, {4, "rdev_minor"}, {8, "size"},
        {8, "ino"},      {8, "atime"},    {8, "mtime"},      {8, "ctime"},      {4, "atime_ns"},
        {4, "mtime_ns"}, {4, "ctime_ns"}, {2, "name_len"},   {2, "target_len"}, {3, "name"},
        {5, "target"}};
    const struct file_record want = {.type = FRAME_TYPE_SYMLINK,
                                     .flags = FILE_FAILED | FILE_TRUNCATED,
                                     .error = EACCES,
                                     .mode = 0120777,
                                     .uid = 1,
                                     .gid = 2,
                                     .nlink = 3,
                                     .rdev_major = 4,
                                     .rdev_minor = 5,
                                     .size = 0x0102030405060708,
                                     .ino = 7,
                                     .atime = -1,
                                     .mtime = INT64_MAX,
                                     .ctime = INT64_MIN,
                                     .atime_ns = 999999999,
                                     .mtime_ns = 8,
                                     .ctime_ns = 9,
                                     .name = "a/b",
                                     .name_len = 3,
                                     .target = "there",
                                     .target_len = 5};
    uint8_t out[FILE_RECORD_HEAD + 8];
    size_t n = file_put_record(out, &want);
    struct golden_bytes b = golden_check(g, "record", GOLDEN_PARTS(parts), out, n);
    const uint8_t *at = b.data;
    struct file_record r = {.type = FRAME_TYPE_FILE};

    CHECK_INT(file_next_record(&at, b.data + b.len, &r), 1);
    CHECK(at == b.data + b.len);
    CHECK(r.type == want.type && r.flags == want.flags && r.error == want.error);
    CHECK(r.mode == want.mode && r.uid == 1 && r.gid == 2 && r.nlink == 3);
    CHECK(r.rdev_major == 4 && r.rdev_minor == 5 && r.size == want.size && r.ino == 7);
    CHECK(r.atime == -1 && r.mtime == INT64_MAX && r.ctime == INT64_MIN);
    CHECK(r.atime_ns == 999999999 && r.mtime_ns == 8 && r.ctime_ns == 9);
    CHECK(r.name_len == 3 && memcmp(r.name, "a/b", 3) == 0);
    CHECK(r.target_len == 5 && memcmp(r.target, "there", 5) == 0);
}

static void check_event(struct golden *g, const char *name, const struct file_event *want)
{
    static const struct golden_part parts[] = {{FILE_EVENT_HEAD, "head"}, {3, "name"}};
    uint8_t out[FILE_EVENT_HEAD + 8];
    size_t n = file_put_event(out, want);
    struct golden_bytes b = golden_check(g, name, GOLDEN_PARTS(parts), out, n);
    const uint8_t *at = b.data;
    struct file_event e = {.kind = FILE_EVENT_INVALID};

    CHECK_INT(file_next_event(&at, b.data + b.len, &e), 1);
    CHECK(e.kind == want->kind && e.directory == want->directory && e.cookie == want->cookie);
    CHECK(e.name_len == want->name_len && memcmp(e.name, want->name, e.name_len) == 0);
}

static void check_events(struct golden *g)
{
    static const struct file_event renamed = {.kind = FILE_EVENT_MOVED_TO,
                                              .directory = true,
                                              .cookie = 0x01020304,
                                              .name = "new",
                                              .name_len = 3},
                                   ready = {.kind = FILE_EVENT_READY, .name = ""};

    check_event(g, "event", &renamed);
    check_event(g, "event-without-name", &ready);
}

/* clang-format off */
static const uint8_t event_numbers[] = {
    FILE_EVENT_READY, FILE_EVENT_CREATE, FILE_EVENT_MODIFY, FILE_EVENT_CLOSE,
    FILE_EVENT_ATTRIBUTES, FILE_EVENT_DELETE, FILE_EVENT_MOVED_FROM, FILE_EVENT_MOVED_TO,
    FILE_EVENT_OVERFLOW, FILE_EVENT_GONE, FILE_EVENT_MAX,
};
/* clang-format on */

TEST(records)
{
    static const struct golden_part numbers[] = {{64, "u8 each, in the order of the enum"}};
    static const struct golden_part chunk[] = {{FILE_CHUNK_HEAD, "length"}};
    struct golden *g = golden_open("file-msg", GOLDEN_FORMAT, "FRAME_VERSION", FRAME_VERSION);
    uint8_t out[FILE_CHUNK_HEAD];
    struct golden_bytes b;

    check_record(g);
    check_events(g);
    (void)golden_check(g, "file_event_kind", GOLDEN_PARTS(numbers), event_numbers,
                       sizeof(event_numbers));
    file_put_chunk(out, FILE_CHUNK_MAX);
    b = golden_check(g, "chunk", GOLDEN_PARTS(chunk), out, sizeof(out));
    CHECK_INT(b.len, FILE_CHUNK_HEAD);
    CHECK_INT(file_get_chunk(b.data), FILE_CHUNK_MAX);
    golden_close(g);
}

TAP_MAIN
