/* What is kept of a named volume, there and back; names; and which requests about volumes are
 * whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "launch/request.h"
#include "launch/volume.h"
#include "tap.h"
#include "volume/volumes-internal.h"

TEST(there_and_back)
{
    char one[] = "a=1", two[] = "b=", three[] = "c=\xc3\xa4\"\\ =";
    char *labels[] = {one, two, three, NULL};
    auto_buf struct buf text = BUF_INIT(LAUNCH_META_MAX + 1);
    struct volume_record r = {.created_ms = 1234567890123,
                              .creator = 4294967295,
                              .bytes = UINT64_C(1) << 40,
                              .owner = "0f"};
    struct volume_record back = {.creator = 0};
    struct err err = ERR_NONE;

    CHECK_INT(volume_record_labels(&r, labels, &err), 0);
    CHECK_INT(volume_record_encode(&r, &text, &err), 0);
    CHECK_INT(volume_record_decode(text.data, text.len, &back, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(back.created_ms, r.created_ms);
    CHECK_INT(back.creator, r.creator);
    CHECK(back.bytes == r.bytes);
    CHECK_STR(back.owner, "0f");
    for (size_t i = 0; i < 3 && back.labels != NULL; i++)
        CHECK_STR(back.labels[i], labels[i]);
    CHECK(back.labels != NULL && back.labels[3] == NULL);
    volume_record_done(&r);
    volume_record_done(&back);
}

TEST(a_long_label_comes_back)
{
    size_t size = VOLUME_LABELS_BYTES_MAX - 1;
    auto_free char *text = malloc(size + 2);
    char *labels[] = {text, NULL};
    auto_buf struct buf out = BUF_INIT(LAUNCH_META_MAX + 1);
    struct volume_record r = {.creator = -1}, back = {.creator = 0};
    struct err err = ERR_NONE;

    (void)memset(text, 'x', size + 1);
    text[1] = '=';
    text[size + 1] = '\0';
    CHECK_INT(volume_record_labels(&r, labels, &err), -E2BIG);
    CHECK_STR(err.msg, "labels: more than 65536 bytes");
    text[size] = '\0';
    CHECK_INT(volume_record_labels(&r, labels, &err), 0);
    CHECK_INT(volume_record_encode(&r, &out, &err), 0);
    CHECK_INT(volume_record_decode(out.data, out.len, &back, &err), 0);
    CHECK(back.labels != NULL && strcmp(back.labels[0], text) == 0);
    volume_record_done(&r);
    volume_record_done(&back);
    /* Escapes make it longer than a record may be. */
    (void)memset(text + 2, 1, size - 2);
    out.len = 0;
    CHECK_INT(volume_record_labels(&r, labels, &err), 0);
    CHECK_INT(volume_record_encode(&r, &out, &err), -E2BIG);
    volume_record_done(&r);
}

/* clang-format off */
static const struct { const char *text; int code; const char *message; } garbled[] = {
    {"", 0, ""},
    {"{", -EINVAL, "line 1"},
    {"[]", -EINVAL, ""},
    {"{\"createdMs\":1,\"creator\":0}", -EINVAL, "labels: missing"},
    {"{\"createdMs\":-1,\"creator\":0,\"labels\":{}}", -ERANGE, "createdMs: must be between"},
    {"{\"createdMs\":1,\"creator\":-2,\"labels\":{}}", -ERANGE, "creator: must be between"},
    {"{\"createdMs\":1,\"creator\":0,\"labels\":[]}", -EINVAL, "labels: must be an object of strings"},
    {"{\"createdMs\":1,\"creator\":0,\"labels\":{\"a\":1}}", -EINVAL, "labels: must be an object of strings"},
    {"{\"createdMs\":1,\"creator\":0,\"labels\":{\"a=b\":\"\"}}", -EINVAL, "labels: must be an object of strings"},
    {"{\"createdMs\":1,\"creator\":0,\"labels\":{\"a b\":\"\"}}", -EINVAL, "label \"a b=\""},
    {"{\"createdMs\":1,\"creator\":0,\"labels\":{},\"owner\":\"\"}", -EINVAL, "owner: "},
    {"{\"createdMs\":1,\"creator\":0,\"labels\":{},\"more\":1}", -EINVAL, "more: unknown key"},
};
/* clang-format on */

TEST(garbled_ones_are_refused)
{
    for (size_t i = 0; i < sizeof(garbled) / sizeof(garbled[0]); i++) {
        struct volume_record r = {.creator = 77};
        struct err err = ERR_NONE;

        printf("# %s\n", garbled[i].text);
        CHECK_INT(volume_record_decode(garbled[i].text, strlen(garbled[i].text), &r, &err),
                  garbled[i].code);
        CHECK(strstr(err.msg, garbled[i].message) != NULL);
        CHECK_INT(r.creator, garbled[i].code < 0 ? 77 : -1); /* untouched on failure */
        volume_record_done(&r);
    }
}

TEST(volume_names_are_checked)
{
    static const char *const good[] = {"a", "A", "0", "a.b-c_D", "workerd-snap-0f"};
    static const char *const bad[] = {"",    ".", "..",  ".a",  "-a",       "_a",
                                      "a/b", "/", "a b", "a\n", "\xc3\xa4", "a:b"};
    char name[LAUNCH_VOLUME_NAME_MAX + 2], random[65], other[65];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        CHECK(launch_volume_name_ok(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(!launch_volume_name_ok(bad[i]));
    (void)memset(name, 'n', sizeof(name));
    name[LAUNCH_VOLUME_NAME_MAX + 1] = '\0';
    CHECK(!launch_volume_name_ok(name));
    name[LAUNCH_VOLUME_NAME_MAX] = '\0';
    CHECK(launch_volume_name_ok(name));
    CHECK_INT(volume_random_name(random), 0);
    CHECK_INT(volume_random_name(other), 0);
    CHECK(launch_volume_name_ok(random) && strlen(random) == 64 && strcmp(random, other) != 0);
}

enum { NAME = 1, META = 2, VOLUME = 4, LAYER = 8, TWO = 16, PATH = 32 };

/* clang-format off */
static const struct { enum launch_verb verb; int with; const char *message; } whole[] = {
    {LAUNCH_VOLUME_MAKE,   NAME | META, ""},
    {LAUNCH_VOLUME_MAKE,   NAME, "no record"},
    {LAUNCH_VOLUME_MAKE,   META, "no volume"},
    {LAUNCH_VOLUME_WRITE,  NAME | META, ""},
    {LAUNCH_VOLUME_READ,   NAME, ""},
    {LAUNCH_VOLUME_READ,   NAME | META, "a record, and no owner to keep it for"},
    {LAUNCH_VOLUME_REMOVE, 0, "no volume"},
    {LAUNCH_VOLUME_LIST,   0, ""},
    {LAUNCH_VOLUME_LIST,   NAME, "a volume, and nothing to do with it"},
    {LAUNCH_VOLUME_FILL,   VOLUME | LAYER, ""},
    {LAUNCH_VOLUME_FILL,   VOLUME, "no root file system"},
    {LAUNCH_VOLUME_FILL,   LAYER, "not one volume to fill"},
    {LAUNCH_VOLUME_FILL,   VOLUME | TWO | LAYER, "not one volume to fill"},
    {LAUNCH_VOLUME_FILL,   PATH | LAYER, "not one volume to fill"},
};
/* clang-format on */

TEST(volume_requests_are_checked)
{
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct launch_request q;
        struct err err = ERR_NONE;
        int with = whole[i].with;

        launch_begin(&b, whole[i].verb);
        if (with & NAME)
            launch_put_string(&b, TAG_VOLUME_NAME, "v");
        if (with & META)
            launch_put(&b, TAG_META, 0, "{}", 2);
        for (int n = 0; n < ((with & VOLUME) != 0) + ((with & TWO) != 0); n++)
            launch_put_volume(
                &b, &(struct launch_volume){.source = "v", .target = "/v", .named = true});
        if (with & PATH)
            launch_put_volume(&b, &(struct launch_volume){.source = "/v", .target = "/v"});
        if (with & LAYER)
            launch_put_string(&b, TAG_LAYER, "l");
        CHECK_INT(launch_end(&b), 0);
        CHECK_INT(launch_decode(b.data, b.len, &q, &err),
                  whole[i].message[0] == '\0' ? 0 : -EINVAL);
        CHECK(strstr(err.msg, whole[i].message) != NULL);
    }
}

TAP_MAIN
