/* Texts of `changes`: where an instruction ends, and what is none. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/docker/change-lines.h"
#include "json/decode.h"
#include "tap.h"

static const char *joined(const char *const *texts, size_t count)
{
    static char text[256];
    char **lines = NULL;
    size_t len = 0;

    text[0] = '\0';
    CHECK_INT(change_lines(texts, count, &lines), 0);
    for (char **l = lines; l != NULL && *l != NULL; l++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s|", *l);
    json_strings_free(lines);
    return text;
}

static const char *split(const char *text)
{
    const char *const texts[] = {text};

    return joined(texts, 1);
}

TEST(lines)
{
    CHECK_STR(split("ENV A=b"), "ENV A=b|");
    CHECK_STR(split("ENV A=b\nCMD x\r\n\n  LABEL k=v \n"), "ENV A=b|CMD x|LABEL k=v|");
    CHECK_STR(split("ENV A=b \\\n  C=d\nUSER x"), "ENV A=b   C=d|USER x|");
    CHECK_STR(split("# a comment\nUSER x # no comment"), "USER x # no comment|");
    CHECK_STR(split("USER x\\"), "USER x\\|");
    CHECK_STR(split("\\\n\\\n"), "");
    CHECK_STR(split(""), "");
    CHECK_STR(split("\n \n"), "");
    CHECK_STR(split("CMD [\"a\\nb\"]"), "CMD [\"a\\nb\"]|");
}

TEST(texts)
{
    static const char *const two[] = {"USER a\\", "USER b\nUSER c"};
    char many[2 * CHANGE_LINES_MAX + 8];
    const char *const one[] = {many};
    char **lines = NULL;

    CHECK_STR(joined(two, 2), "USER a\\|USER b|USER c|");
    for (size_t i = 0; i <= CHANGE_LINES_MAX; i++)
        (void)memcpy(many + 2 * i, "x\n", 3);
    CHECK_INT(change_lines(one, 1, &lines), -E2BIG);
    json_strings_free(lines);
}

TAP_MAIN
