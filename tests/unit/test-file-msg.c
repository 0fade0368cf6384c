/* Records and events of rind's own shim commands: round trips, and each way to break one. */

#include <errno.h>
#include <stdint.h>

#include "proto/file-msg.h"
#include "tap.h"

static uint8_t buf[FILE_BATCH_MAX];

static struct file_record sample(void)
{
    return (struct file_record){.type = FRAME_TYPE_SYMLINK,
                                .flags = FILE_SIZE_EXACT,
                                .mode = 0120777,
                                .uid = 1,
                                .gid = 2,
                                .nlink = 3,
                                .rdev_major = 4,
                                .rdev_minor = 5,
                                .size = UINT64_C(1) << 40,
                                .ino = 7,
                                .atime = -1,
                                .mtime = INT64_MAX,
                                .ctime = INT64_MIN,
                                .atime_ns = 999999999,
                                .name = "a/b\xff",
                                .name_len = 4,
                                .target = "there",
                                .target_len = 5};
}

TEST(records_round_trip)
{
    const struct file_record want = sample();
    size_t n = file_put_record(buf, &want);
    const uint8_t *at = buf;
    struct file_record got;

    CHECK_INT(n, FILE_RECORD_HEAD + 9);
    n += file_put_record(buf + n, &want);
    CHECK_INT(file_next_record(&at, buf + n, &got), 1);
    CHECK_INT(got.type, want.type);
    CHECK_INT(got.flags, want.flags);
    CHECK_INT(got.mode, want.mode);
    CHECK_INT(got.uid, 1);
    CHECK_INT(got.gid, 2);
    CHECK_INT(got.nlink, 3);
    CHECK_INT(got.rdev_major, 4);
    CHECK_INT(got.rdev_minor, 5);
    CHECK_INT(got.size, want.size);
    CHECK_INT(got.ino, 7);
    CHECK_INT(got.atime, -1);
    CHECK_INT(got.mtime, INT64_MAX);
    CHECK_INT(got.ctime, INT64_MIN);
    CHECK_INT(got.atime_ns, 999999999);
    CHECK(got.name_len == 4 && memcmp(got.name, "a/b\xff", 4) == 0);
    CHECK(got.target_len == 5 && memcmp(got.target, "there", 5) == 0);
    CHECK_INT(file_next_record(&at, buf + n, &got), 1);
    CHECK_INT(file_next_record(&at, buf + n, &got), 0);
}

/* offset, value: one byte changed makes the whole record unacceptable. */
TEST(broken_records)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *what;
    } rows[] = {
        {0, 7, "type"},
        {1, FILE_FAILED, "failed without an errno"},
        {2, 1, "errno without failed"},
        {71, 0xff, "atime ns"},
        {75, 0xff, "mtime ns"},
        {79, 0xff, "ctime ns"},
        {81, 0xff, "name length"},
        {83, 0xff, "target length"},
        {84, 0, "NUL in the name"},
        {88, 0, "NUL in the target"},
    };
    const struct file_record want = sample();
    struct file_record got;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = file_put_record(buf, &want);
        const uint8_t *at = buf;

        buf[rows[i].at] = rows[i].value;
        if (file_next_record(&at, buf + n, &got) != -EPROTO)
            tap_fail("%s: taken", rows[i].what);
    }
    for (size_t len = 1; len < FILE_RECORD_HEAD + 9; len++) {
        const uint8_t *at = buf;

        (void)file_put_record(buf, &want);
        CHECK_INT(file_next_record(&at, buf + len, &got), -EPROTO);
    }
}

TEST(events_round_trip)
{
    const struct file_event want = {.kind = FILE_EVENT_MOVED_TO,
                                    .directory = true,
                                    .cookie = 0xdeadbeef,
                                    .name = "x/y",
                                    .name_len = 3};
    size_t n = file_put_event(buf, &want);
    const uint8_t *at = buf;
    struct file_event got;

    CHECK_INT(file_next_event(&at, buf + n, &got), 1);
    CHECK_INT(got.kind, FILE_EVENT_MOVED_TO);
    CHECK(got.directory);
    CHECK_INT(got.cookie, 0xdeadbeef);
    CHECK(got.name_len == 3 && memcmp(got.name, "x/y", 3) == 0);
    CHECK_INT(file_next_event(&at, buf + n, &got), 0);
    for (size_t len = 1; len < n; len++) {
        at = buf;
        CHECK_INT(file_next_event(&at, buf + len, &got), -EPROTO);
    }
    for (size_t i = 0; i < 4; i++) {
        static const struct {
            size_t at;
            uint8_t value;
        } rows[] = {{0, 0}, {0, FILE_EVENT_MAX}, {1, 2}, {8, 1}};

        (void)file_put_event(buf, &want);
        buf[rows[i].at] = rows[i].value;
        at = buf;
        CHECK_INT(file_next_event(&at, buf + n, &got), -EPROTO);
    }
}

TEST(records_come_in_pieces)
{
    uint8_t head[FILE_CHUNK_HEAD];

    file_put_chunk(head, 0x01020304);
    CHECK_INT(head[0], 4);
    CHECK_INT(file_get_chunk(head), 0x01020304);
}

TAP_MAIN
