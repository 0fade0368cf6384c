/* api/docker/top-columns.c: which columns ps_args asks for, and what stands in them. */
#include <errno.h>
#include <string.h>

#include "api/docker/top-columns.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "tap.h"

static const char *titles_of(const char *args, struct err *err)
{
    static char text[400];
    struct top_format f;

    text[0] = '\0';
    if (top_parse(args, &f, err) < 0)
        return err->msg;
    for (unsigned i = 0; i < f.count; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i > 0 ? " " : "",
                       top_title(f.columns[i]));
    return text;
}

TEST(arguments)
{
    static const char full[] = "UID PID PPID C STIME TTY TIME CMD";
    static const char user[] = "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND";
    static const struct {
        const char *args, *titles;
    } rows[] = {
        {"", full},
        {" ", full},
        {"-ef", full},
        {"-e -f", full},
        {"-f -A", full},
        {"aux", user},
        {"-aux", user},
        {"waux", user},
        {"auxww", user},
        {"u", user},
        {"-e", "PID TTY TIME CMD"},
        {"ax", "PID TTY STAT TIME COMMAND"},
        {"axf", "PID TTY STAT TIME COMMAND"},
        {"-o pid,cmd", "PID CMD"},
        {"-opid,cmd", "PID CMD"},
        {"-eo pid,comm", "PID COMMAND"},
        {"-e -o pid,%cpu -o rss", "PID %CPU RSS"},
        {"ao pid", "PID"},
        {"-o pid,etime,etimes,lstart,args,state", "PID ELAPSED ELAPSED STARTED COMMAND S"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;

        CHECK_STR(titles_of(rows[i].args, &err), rows[i].titles);
    }
}

TEST(what_cannot_be_shown_is_said)
{
    static const struct {
        const char *args;
        int code;
        const char *message;
    } rows[] = {
        {"-o cmd", -EINVAL, "Couldn't find PID field in ps output"},
        {"-o", -EINVAL, "ps_args: -o without columns"},
        {"-o pid,nosuch", -EOPNOTSUPP, "ps_args: no column \"nosuch\" is shown here"},
        {"-o pid,,cmd", -EOPNOTSUPP, "ps_args: no column \"\" is shown here"},
        {"-o pid=", -EOPNOTSUPP, "ps_args: no column \"pid=\" is shown here"},
        {"-o pi", -EOPNOTSUPP, "ps_args: no column \"pi\" is shown here"},
        {"--forest", -EOPNOTSUPP,
         "ps_args: \"--forest\": only -e, -f, -o, a, u, x, w and their like"},
        {"-q 1", -EOPNOTSUPP, "ps_args: \"-q\": only -e, -f, -o, a, u, x, w and their like"},
        {"-o pid,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c,c", -E2BIG,
         "ps_args: more than 24 columns"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;

        CHECK_STR(titles_of(rows[i].args, &err), rows[i].message);
        CHECK_INT(err.code, rows[i].code);
    }
}

TEST(cells)
{
    static const struct launch_process p = {.pid = 7,
                                            .parent = 1,
                                            .uid = 1000,
                                            .terminal = 3,
                                            .started_ms = INT64_C(1700000000000),
                                            .cpu_ms = 3661500,
                                            .name = "a\tb\xff",
                                            .virtual_bytes = 10 << 20,
                                            .rss_bytes = 1 << 20,
                                            .state = 'S'};
    /* 93784 s later: a day, 2 hours, 3 minutes and 4 seconds */
    static const struct top_host host = {.now_ms = INT64_C(1700000000000) + 93784000,
                                         .memory = UINT64_C(1) << 30};
    static const struct {
        const char *column, *text;
    } rows[] = {{"user", "1000"},
                {"ppid", "1"},
                {"c", "3"},
                {"pcpu", "3.9"},
                {"pmem", "0.0"},
                {"vsz", "10240"},
                {"rss", "1024"},
                {"tty", "pts/3"},
                {"stat", "S"},
                {"stime", "Nov14"},
                {"time", "01:01:01"},
                {"bsdtime", "61:01"},
                {"etime", "1-02:03:04"},
                {"etimes", "93784"},
                {"cmd", "a?b?"},
                {"lstart", "Tue Nov 14 22:13:20 2023"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;
        struct top_format f;
        char args[40], cell[TOP_CELL_MAX];

        (void)snprintf(args, sizeof(args), "-o pid,%s", rows[i].column);
        CHECK_INT(top_parse(args, &f, &err), 0);
        top_cell(f.columns[1], &p, &host, cell);
        CHECK_STR(cell, rows[i].text);
    }
}

TAP_MAIN
