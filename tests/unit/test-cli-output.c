/* Tables, sizes, times, and request targets of the command line. */

#include <errno.h>

#include "base/buf.h"
#include "cli/human.h"
#include "cli/text-table.h"
#include "cli/url.h"
#include "tap.h"

static void check_table(const char *const *cells, size_t count, const char *want)
{
    static const char *const titles[] = {"ID", "NAME", "STATUS", NULL};
    struct text_table *t = table_new(titles);
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    for (size_t i = 0; i < count; i++)
        table_add(t, cells[i]);
    CHECK_INT(table_print(t, f), 0);
    (void)fclose(f);
    CHECK_STR(text, want);
    free(text);
    table_free(t);
}

TEST(tables_are_aligned)
{
    check_table(NULL, 0, "ID  NAME  STATUS\n");
    check_table((const char *const[]){"1", "a", "ok", "22222", "b", "also ok"}, 6,
                "ID     NAME  STATUS\n"
                "1      a     ok\n"
                "22222  b     also ok\n");
    /* None, wide characters, and what would write to a terminal. */
    check_table(
        (const char *const[]){NULL, "\xc3\xa9\xc3\xa9", "x", "1", "\x1b[31mred\x7f", "\xc2\x9b"}, 6,
        "ID  NAME       STATUS\n"
        "-   \xc3\xa9\xc3\xa9         x\n"
        "1   ?[31mred?  ?\n");
    /* A row that is not full ends all the same. */
    check_table((const char *const[]){"1", "a"}, 2, "ID  NAME  STATUS\n1   a\n");
}

TEST(long_cells)
{
    static const char *const titles[] = {"X", NULL};
    struct text_table *t = table_new(titles);
    char cell[10000], *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    (void)memset(cell, 'y', sizeof(cell) - 1);
    cell[sizeof(cell) - 1] = '\0';
    table_add(t, cell);
    CHECK_INT(table_print(t, f), 0);
    (void)fclose(f);
    CHECK_INT(len, 2 + TABLE_CELL_MAX + 3 + 1);
    CHECK(strcmp(text + len - 5, "y...\n") == 0);
    free(text);
    table_free(t);
}

TEST(sizes_are_printed_for_people)
{
    static const struct {
        uint64_t n;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {UINT64_C(100) * 1024, "100 KiB"},
        {UINT64_C(5) << 20, "5.0 MiB"},
        {(UINT64_C(1) << 30) - 1, "1023 MiB"},
        {UINT64_MAX, "15.9 EiB"},
    };
    char buf[HUMAN_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_STR(human_bytes(rows[i].n, buf), rows[i].text);
}

TEST(times_are_printed_as_ages)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } rows[] = {{-5, "0 s"},   {0, "0 s"},      {59, "59 s"},   {60, "1 min"},    {3599, "59 min"},
                {3600, "1 h"}, {86399, "23 h"}, {86400, "1 d"}, {1000000, "11 d"}};
    char buf[HUMAN_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_STR(human_seconds(rows[i].seconds, buf), rows[i].text);
    CHECK_INT(human_parse_time("1970-01-01T00:00:01.500Z"), 1500);
    CHECK_INT(human_parse_time("2026-11-29T16:54:07Z"), INT64_C(1795971247000));
    CHECK_INT(human_parse_time("yesterday"), -1);
    CHECK_INT(human_parse_time(NULL), -1);
    CHECK_STR(human_ago("1970-01-01T00:00:00Z", 120000, buf), "2 min");
    CHECK_STR(human_ago("-", 120000, buf), "-");
}

TEST(a_target_splits_into_sandbox_and_path)
{
    struct buf b = BUF_INIT(64);

    CHECK_INT(url_make(&b, "/v1/sandboxes/%s/files?path=%s", "a b", "/x/\xff%.."), 0);
    CHECK_STR(b.data, "/v1/sandboxes/a%20b/files?path=%2Fx%2F%FF%25..");
    b.len = 0;
    CHECK_INT(url_make(&b, "/v1/%s", "..%2f\r\nX: y"), 0);
    CHECK_STR(b.data, "/v1/..%252f%0D%0AX%3A%20y");
    b.len = 0;
    CHECK_INT(url_make(&b, "%s", "////////////////////////////////"), -E2BIG);
    buf_done(&b);
}

TAP_MAIN
