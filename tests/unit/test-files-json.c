/* Names that are bytes in JSON, and facts and events of files as the API shows them. */

#include <errno.h>
#include <jansson.h>

#include "api/native/files.h"
#include "json/parse.h"
#include "proto/file-msg.h"
#include "tap.h"

struct name_row {
    const char *bytes, *name, *encoded; /* encoded NULL: there is none */
};

TEST(names_that_are_no_text_are_encoded)
{
    static const struct name_row rows[] = {
        {"plain", "plain", NULL},
        {"", "", NULL},
        {"\xc3\xbc\n\"", "\xc3\xbc\n\"", NULL},
        {"\xff", "\xef\xbf\xbd", "%FF"},
        {"a/b\xff.c", "a/b\xef\xbf\xbd.c", "a/b%FF.c"},
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd", "%E2%82"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "%ED%A0%80"},
        {"%\xfe \xc3\xa4", "%\xef\xbf\xbd \xc3\xa4", "%25%FE%20%C3%A4"},
        {"\xf0\x9f\x98\x80\x80", "\xf0\x9f\x98\x80\xef\xbf\xbd", "%F0%9F%98%80%80"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *root = json_object();
        const char *encoded;

        CHECK_INT(file_set_name(root, "name", rows[i].bytes, strlen(rows[i].bytes)), 0);
        CHECK_STR(json_string_value(json_object_get(root, "name")), rows[i].name);
        encoded = json_string_value(json_object_get(root, "nameEncoded"));
        if ((encoded == NULL) != (rows[i].encoded == NULL))
            tap_fail("row %zu: nameEncoded is %s", i, encoded != NULL ? encoded : "missing");
        else if (encoded != NULL)
            CHECK_STR(encoded, rows[i].encoded);
        json_decref(root);
    }
}

TEST(percent_encoding)
{
    char all[256], *text;

    for (int i = 1; i < 256; i++)
        all[i - 1] = (char)i;
    text = file_percent_encode(all, 255);
    CHECK(text != NULL && strstr(text, "%2B%2C-./0123456789%3A") != NULL);
    CHECK(text != NULL && strstr(text, "XYZ%5B%5C%5D%5E_%60abc") != NULL);
    CHECK(text != NULL && strstr(text, "z%7B%7C%7D~%7F%80") != NULL);
    free(text);
}

static void info(const struct file_record *r, const char *want)
{
    json_t *root = file_encode(r);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;

    CHECK_STR(text != NULL ? text : "", want);
    free(text);
    json_decref(root);
}

TEST(what_records_become)
{
    info(&(struct file_record){.type = FRAME_TYPE_FILE,
                               .mode = 0104755,
                               .uid = 1,
                               .gid = 2,
                               .nlink = 3,
                               .size = 4,
                               .ino = 5,
                               .atime = -2,
                               .atime_ns = 500000000,
                               .mtime = 1,
                               .mtime_ns = 999999999,
                               .name = "f",
                               .name_len = 1},
         "{\"name\":\"f\",\"type\":\"file\",\"size\":4,\"mode\":\"4755\",\"uid\":1,\"gid\":2,"
         "\"links\":3,\"inode\":5,\"atimeMs\":-1500,\"mtimeMs\":1999,\"ctimeMs\":0}");
    info(
        &(struct file_record){
            .type = FRAME_TYPE_SYMLINK, .mode = 0120777, .target = "\xff", .target_len = 1},
        "{\"type\":\"symlink\",\"size\":0,\"mode\":\"0777\",\"uid\":0,\"gid\":0,\"links\":0,"
        "\"inode\":0,\"atimeMs\":0,\"mtimeMs\":0,\"ctimeMs\":0,\"target\":\"\xef\xbf\xbd\","
        "\"targetEncoded\":\"%FF\"}");
    info(&(struct file_record){.flags = FILE_FAILED, .error = EACCES, .name = "x", .name_len = 1},
         "{\"name\":\"x\",\"error\":\"EACCES\"}");
    info(&(struct file_record){.type = FRAME_TYPE_CHAR,
                               .mode = 020666,
                               .rdev_major = 1,
                               .rdev_minor = 3,
                               .size = UINT64_MAX,
                               .ino = UINT64_MAX,
                               .mtime = INT64_MAX,
                               .ctime = INT64_MIN},
         "{\"type\":\"character\",\"size\":9223372036854775807,\"mode\":\"0666\",\"uid\":0,"
         "\"gid\":0,\"links\":0,\"inode\":9223372036854775807,\"atimeMs\":0,"
         "\"mtimeMs\":9223372036854774000,\"ctimeMs\":-9223372036854774000,\"device\":[1,3]}");
    info(&(struct file_record){.type = FRAME_TYPE_DIR,
                               .mode = 040755,
                               .flags = FILE_NOT_ENTERED,
                               .name = "d",
                               .name_len = 1},
         "{\"name\":\"d\",\"type\":\"directory\",\"size\":0,\"mode\":\"0755\",\"uid\":0,\"gid\":0,"
         "\"links\":0,\"inode\":0,\"atimeMs\":0,\"mtimeMs\":0,\"ctimeMs\":0,\"entered\":false}");
}

TEST(what_events_become)
{
    const struct file_event e = {.kind = FILE_EVENT_MOVED_FROM,
                                 .directory = true,
                                 .cookie = 7,
                                 .name = "a/b",
                                 .name_len = 3};
    json_t *root = file_encode_event(&e);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;

    CHECK_STR(text != NULL ? text : "", "{\"directory\":true,\"name\":\"a/b\",\"cookie\":7}");
    CHECK_STR(file_event_name(&e), "movedFrom");
    for (int kind = FILE_EVENT_READY; kind < FILE_EVENT_MAX; kind++)
        CHECK(file_event_name(&(struct file_event){.kind = (enum file_event_kind)kind})[0] != '\0');
    free(text);
    json_decref(root);
}

TAP_MAIN
