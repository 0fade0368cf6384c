/* Bounds of the parser, and each decoder of the tables: accepted values and the text of refusals.
 */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/strtab.h"
#include "json/decode.h"
#include "json/parse.h"
#include "tap.h"

struct item {
    char *name;
    int64_t weight;
};

struct thing {
    bool on;
    int64_t count;
    char *title;
    int colour;
    struct item inner;
    struct item *items;
    size_t item_count;
    char **tags;
    struct jpair *labels;
};

static const struct strtab colours[] = {{"red", 1}, {"green", 2}, {NULL, 0}};

/* clang-format off */
static const struct jfield item_fields[] = {
    {.name = "name", .decode = j_string, .off = offsetof(struct item, name), .min = 1, .max = 8, .required = true},
    {.name = "weight", .decode = j_int64, .off = offsetof(struct item, weight), .min = -5, .max = INT64_MAX},
    {0},
};
static const struct jarray item_array = {
    .fields = item_fields, .size = sizeof(struct item), .count_off = offsetof(struct thing, item_count),
};
static const struct jfield thing_fields[] = {
    {.name = "on", .decode = j_bool, .off = offsetof(struct thing, on)},
    {.name = "count", .decode = j_int64, .off = offsetof(struct thing, count), .min = 1, .max = 4194304},
    {.name = "title", .decode = j_string, .off = offsetof(struct thing, title), .nullable = true},
    {.name = "colour", .decode = j_enum, .off = offsetof(struct thing, colour), .names = colours},
    {.name = "inner", .decode = j_object, .off = offsetof(struct thing, inner), .fields = item_fields},
    {.name = "items", .decode = j_objects, .off = offsetof(struct thing, items), .min = 1, .max = 2, .array = &item_array},
    {.name = "tags", .decode = j_strings, .off = offsetof(struct thing, tags), .max = 3},
    {.name = "labels", .decode = j_string_map, .off = offsetof(struct thing, labels), .max = 3},
    {.name = "comment", .decode = j_ignore},
    {0},
};
/* clang-format on */

static void thing_done(struct thing *t)
{
    free(t->title);
    free(t->inner.name);
    for (size_t i = 0; i < t->item_count; i++)
        free(t->items[i].name);
    free(t->items);
    json_strings_free(t->tags);
    json_pairs_free(t->labels);
}

static int decode(const char *text, struct thing *t, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r = json_parse(text, strlen(text), 4096, &root, err);

    return r < 0 ? r : json_decode(root, thing_fields, t, err);
}

TEST(every_kind_of_value)
{
    __attribute__((cleanup(thing_done))) struct thing t = {0};
    struct err err = ERR_NONE;

    CHECK_INT(decode("{\"on\":true,\"count\":4194304,\"title\":\"h\\u00e9\",\"colour\":\"green\","
                     "\"inner\":{\"name\":\"i\",\"weight\":-5},\"items\":[{\"name\":\"a\"},"
                     "{\"name\":\"b\",\"weight\":9223372036854775807}],\"tags\":[\"x\",\"y\"],"
                     "\"labels\":{\"A\":\"1\",\"a\":\"\"},\"comment\":\"none\"}",
                     &t, &err),
              0);
    CHECK_STR(err.msg, "");
    if (t.items == NULL || t.tags == NULL || t.labels == NULL)
        return;
    CHECK(t.on);
    CHECK_INT(t.count, 4194304);
    CHECK_STR(t.title, "h\xc3\xa9");
    CHECK_INT(t.colour, 2);
    CHECK_STR(t.inner.name, "i");
    CHECK_INT(t.inner.weight, -5);
    CHECK_INT(t.item_count, 2);
    CHECK_STR(t.items[1].name, "b");
    CHECK_INT(t.items[1].weight, INT64_MAX);
    CHECK_STR(t.tags[1], "y");
    CHECK(t.tags[2] == NULL);
    CHECK_STR(t.labels[0].key, "A");
    CHECK_STR(t.labels[1].key, "a");
    CHECK_STR(t.labels[1].value, "");
    CHECK(t.labels[2].key == NULL);
}

TEST(absent_and_null_leave_the_member_alone)
{
    __attribute__((cleanup(thing_done))) struct thing t = {.count = 7};
    struct err err = ERR_NONE;

    CHECK_INT(decode("{\"title\":null}", &t, &err), 0);
    CHECK_INT(t.count, 7);
    CHECK(t.title == NULL);
}

TEST(refusals_name_the_path)
{
    static const struct {
        const char *text;
        int code;
        const char *msg;
    } rows[] = {
        {"{\"on\":1}", -EINVAL, "on: must be true or false, not a number"},
        {"{\"on\":null}", -EINVAL, "on: must be true or false, not null"},
        {"{\"count\":\"5\"}", -EINVAL, "count: must be a whole number, not a string"},
        {"{\"count\":1.5}", -EINVAL, "count: must be a whole number, not a fraction"},
        {"{\"count\":1e3}", -EINVAL, "count: must be a whole number, not a fraction"},
        {"{\"count\":true}", -EINVAL, "count: must be a whole number, not true"},
        {"{\"count\":0}", -ERANGE, "count: must be between 1 and 4194304"},
        {"{\"count\":4194305}", -ERANGE, "count: must be between 1 and 4194304"},
        {"{\"title\":[]}", -EINVAL, "title: must be a string, not an array"},
        {"{\"colour\":\"blue\"}", -EINVAL, "colour: \"blue\" is not one of red, green"},
        {"{\"colour\":\"Red\"}", -EINVAL, "colour: \"Red\" is not one of red, green"},
        {"{\"colour\":1}", -EINVAL, "colour: must be a string, not a number"},
        {"{\"inner\":[]}", -EINVAL, "inner: must be an object, not an array"},
        {"{\"inner\":{}}", -EINVAL, "inner.name: missing"},
        {"{\"inner\":{\"name\":\"\"}}", -EINVAL, "inner.name: must not be empty"},
        {"{\"inner\":{\"name\":\"123456789\"}}", -ERANGE,
         "inner.name: must have between 1 and 8 bytes, has 9"},
        {"{\"items\":{}}", -EINVAL, "items: must be an array, not an object"},
        {"{\"items\":[]}", -ERANGE, "items: must have between 1 and 2 entries, has 0"},
        {"{\"items\":[{\"name\":\"a\"},5]}", -EINVAL, "items[1]: must be an object, not a number"},
        {"{\"items\":[{\"name\":\"a\"},{\"name\":\"b\",\"x\":1}]}", -EINVAL,
         "items[1].x: unknown key"},
        {"{\"items\":[{},{},{}]}", -ERANGE, "items: must have between 1 and 2 entries, has 3"},
        {"{\"tags\":\"x\"}", -EINVAL, "tags: must be an array of strings, not a string"},
        {"{\"tags\":[\"a\",3]}", -EINVAL, "tags[1]: must be a string, not a number"},
        {"{\"tags\":[\"a\",\"\"]}", -EINVAL, "tags[1]: must not be empty"},
        {"{\"tags\":[\"\",\"\",\"\",\"\"]}", -ERANGE,
         "tags: must have between 0 and 3 entries, has 4"},
        {"{\"labels\":[]}", -EINVAL, "labels: must be an object of strings, not an array"},
        {"{\"labels\":{\"a\":1}}", -EINVAL, "labels.a: must be a string, not a number"},
        {"{\"labels\":{\"\":\"1\"}}", -EINVAL, "labels: holds an empty key"},
        {"{\"comment\":1}", -EINVAL, "comment: must be a string, not a number"},
        {"{\"nope\":1}", -EINVAL, "nope: unknown key"},
        {"{\"\":1}", -EINVAL, "unknown key"},
        {"{\"Count\":1}", -EINVAL, "Count: unknown key (it is spelt \"count\")"},
        {"{\"count\":1,\"Count\":2}", -EINVAL, "keys \"count\" and \"Count\" differ only in case"},
        {"{\"inner\":{\"name\":\"a\",\"NAME\":\"b\"}}", -EINVAL,
         "inner: keys \"name\" and \"NAME\" differ only in case"},
        {"{\"a\\nb\":1}", -EINVAL, "a?b: unknown key"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        __attribute__((cleanup(thing_done))) struct thing t = {0};
        struct err err = ERR_NONE;

        CHECK_INT(decode(rows[i].text, &t, &err), rows[i].code);
        CHECK_STR(err.msg, rows[i].msg);
        CHECK_INT(err.code, rows[i].code);
    }
}

TEST(texts_that_the_parser_refuses)
{
    static const struct {
        const char *text;
        size_t len; /* 0: strlen */
        int code;
        const char *msg;
    } rows[] = {
        {"", 0, -EINVAL, "line 1, column 0: '[' or '{' expected near end of file"},
        {"[]", 0, -EINVAL, "must be a JSON object"},
        {"5", 0, -EINVAL, "line 1, column 1: '[' or '{' expected near '5'"},
        {"{\"a\":1,\"a\":2}", 0, -EINVAL, "line 1, column 10: duplicate object key near '\"a\"'"},
        {"{\"a\":{\"b\":1,\"b\":1}}", 0, -EINVAL,
         "line 1, column 15: duplicate object key near '\"b\"'"},
        {"{} x", 0, -EINVAL, "line 1, column 4: end of file expected near 'x'"},
        {"{\"a\":1,}", 0, -EINVAL, "line 1, column 8: string or '}' expected near '}'"},
        {"{\"a\0\":1}", 8, -EINVAL, "holds a NUL byte"},
        {"{\"a\":\"\\u0000\"}", 0, -EINVAL,
         "line 1, column 13: \\u0000 is not allowed without JSON_ALLOW_NUL near '\"\\u0000\"'"},
        {"{\"a\":99999999999999999999}", 0, -EINVAL,
         "line 1, column 25: too big integer near '99999999999999999999'"},
        {"{\"a\":\"\xff\"}", 0, -EINVAL, NULL},
        {"{\"a\":\"\\ud800\"}", 0, -EINVAL, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = rows[i].len > 0 ? rows[i].len : strlen(rows[i].text);
        json_t *root = NULL;
        struct err err = ERR_NONE;

        CHECK_INT(json_parse(rows[i].text, len, 4096, &root, &err), rows[i].code);
        CHECK(root == NULL && err.msg[0] != '\0');
        if (rows[i].msg != NULL)
            CHECK_STR(err.msg, rows[i].msg);
    }
}

static int parse_nested(int depth, bool in_string, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    char text[8192] = "{\"a\":";
    size_t len = strlen(text);

    if (in_string)
        text[len++] = '"';
    for (int i = 1; i < depth; i++)
        text[len++] = '[';
    if (in_string)
        text[len++] = '"';
    for (int i = 1; i < depth && !in_string; i++)
        text[len++] = ']';
    text[len++] = '}';
    return json_parse(text, len, sizeof(text), &root, err);
}

TEST(nesting_is_bounded)
{
    struct err err = ERR_NONE;

    CHECK_INT(parse_nested(JSON_DEPTH_MAX, false, &err), 0);
    CHECK_INT(parse_nested(2000, true, &err), 0);
    CHECK_INT(parse_nested(JSON_DEPTH_MAX + 1, false, &err), -EINVAL);
    CHECK_STR(err.msg, "nested more than 32 deep");
    CHECK_INT(parse_nested(4000, false, &err), -EINVAL);
}

TEST(size_is_bounded)
{
    json_t *root = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(json_parse("{\"a\":1}", 7, 6, &root, &err), -EFBIG);
    CHECK_STR(err.msg, "longer than 6 bytes");
}

TEST(folded_keys_of_a_map_only_where_asked)
{
    auto_ptr(json_decref) json_t *root = NULL;
    const struct jpath here = {.key = "HostConfig"};
    const char *text = "{\"b\":1,\"Privileged\":false,\"c\":2,\"privileged\":true}";
    struct err err = ERR_NONE;

    CHECK_INT(json_parse(text, strlen(text), 4096, &root, &err), 0);
    CHECK_INT(json_check_folded(root, &here, &err), -EINVAL);
    CHECK(strcmp(err.msg,
                 "HostConfig: keys \"Privileged\" and \"privileged\" differ only in case") == 0 ||
          strcmp(err.msg,
                 "HostConfig: keys \"privileged\" and \"Privileged\" differ only in case") == 0);
}

TEST(a_null_err_is_fine)
{
    struct thing t = {0};

    CHECK_INT(decode("{\"count\":0}", &t, NULL), -ERANGE);
    CHECK_INT(decode("{", &t, NULL), -EINVAL);
}

TAP_MAIN
