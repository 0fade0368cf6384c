/* Which processors a sandbox with a limit is started on, and what it is shown of them. */

#include <errno.h>
#include <sched.h>

#include "base/auto.h"
#include "base/buf.h"
#include "launch/sandbox.h"
#include "tap.h"

/* A set from its list: "0 2 3". */
static cpu_set_t set_of(const char *list)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (const char *at = list; *at != '\0'; at++)
        if (*at != ' ') {
            char *end;

            CPU_SET((size_t)strtoul(at, &end, 10), &set);
            at = end - 1;
        }
    return set;
}

static const struct {
    const char *of;
    unsigned slot; /* of the id range */
    int64_t millis;
    const char *want; /* NULL: no choice */
} choices[] = {
    {"0 1 2 3", 0, -1, NULL},
    {"0 1 2 3", 0, 4000, NULL},
    {"0 1 2 3", 0, 3001, NULL},
    {"0 1 2 3", 0, 64000, NULL},
    {"0", 0, 500, NULL},
    {"0 1 2 3", 0, 1000, "0"},
    {"0 1 2 3", 1, 1000, "1"},
    {"0 1 2 3", 3, 1000, "3"},
    {"0 1 2 3", 4, 1000, "0"},
    {"0 1 2 3", 0, 1, "0"},
    {"0 1 2 3", 0, 1001, "0 1"},
    {"0 1 2 3", 1, 2000, "2 3"},
    {"0 1 2 3", 1, 3000, "3 0 1"},
    {"0 1 2 3", 2, 2000, "0 1"},
    {"5 9 1023", 1, 1000, "9"},
    {"5 9 1023", 2, 1500, "9 1023"},
    {"5 9 1023", 0xffff, 1000, "5"},
};

TEST(processors_are_chosen_by_slot_and_limit)
{
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        const cpu_set_t of = set_of(choices[i].of);
        cpu_set_t got;
        bool chosen = cpus_choose(&of, choices[i].slot * IDRANGE_SIZE, choices[i].millis, &got);

        if (chosen != (choices[i].want != NULL))
            tap_fail("row %zu: %s", i, chosen ? "a choice" : "no choice");
        if (chosen && choices[i].want != NULL) {
            const cpu_set_t want = set_of(choices[i].want);

            if (!CPU_EQUAL(&got, &want))
                tap_fail("row %zu: not %s", i, choices[i].want);
        }
    }
}

/* As many on each, whatever the limit. */
TEST(they_spread)
{
    const cpu_set_t of = set_of("0 1 2 3 4 5");

    for (int64_t millis = 500; millis <= 5000; millis += 500) {
        int count[6] = {0};

        for (unsigned slot = 28672; slot < 28672 + 60; slot++) {
            cpu_set_t got;

            CHECK(cpus_choose(&of, slot * IDRANGE_SIZE, millis, &got));
            for (size_t c = 0; c < 6; c++)
                count[c] += CPU_ISSET(c, &got) != 0;
        }
        for (size_t c = 1; c < 6; c++)
            if (count[c] != count[0])
                tap_fail("%lld thousandths: %d on processor %zu, %d on 0", (long long)millis,
                         count[c], c, count[0]);
    }
}

TEST(a_cpu_list_is_parsed)
{
    static const struct {
        const char *set, *want;
    } rows[] = {
        {"0", "0\n"},
        {"0 1 2 3", "0-3\n"},
        {"1 3 4 5 9", "1,3-5,9\n"},
        {"1022 1023", "1022-1023\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const cpu_set_t set = set_of(rows[i].set);
        auto_buf struct buf b = BUF_INIT(64);

        CHECK_INT(cpus_list(&set, &b), 0);
        CHECK_INT(buf_append(&b, "", 1), 0);
        CHECK_STR(b.data, rows[i].want);
    }
}

#define CPU(n) "processor\t: " #n "\nmodel name\t: x" #n "\n\n"

TEST(cpuinfo_shows_the_chosen_processors)
{
    static const struct {
        const char *text, *set, *want; /* NULL: -ENODATA */
    } rows[] = {
        {CPU(0) CPU(1) CPU(2), "1", CPU(1)},
        {CPU(0) CPU(1) CPU(2), "0 2", CPU(0) CPU(2)},
        {CPU(0) CPU(1) CPU(12), "12", CPU(12)},
        {CPU(0) "Hardware\t: board\n\n", "0", CPU(0)},
        {"processor : 3\nx\n", "3", "processor : 3\nx\n"},
        {CPU(0), "0 1", NULL},
        {CPU(0) CPU(1), "2", NULL},
        {"", "0", NULL},
        {"processor\t: \n\nprocessor\n\nprocessor\t: x\n\n", "0", NULL},
        {"processor\t: 99999999999999999999\n\n", "0", NULL},
        {"Processor\t: 0\n\n", "0", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const cpu_set_t set = set_of(rows[i].set);
        auto_buf struct buf b = BUF_INIT(4096);
        int r = cpus_info(rows[i].text, strlen(rows[i].text), &set, &b);

        if (r != (rows[i].want != NULL ? 0 : -ENODATA))
            tap_fail("row %zu: %d", i, r);
        CHECK_INT(buf_append(&b, "", 1), 0);
        if (r == 0 && rows[i].want != NULL)
            CHECK_STR(b.data, rows[i].want);
    }
    struct buf small = BUF_INIT(8);
    const cpu_set_t set = set_of("0");
    CHECK(cpus_info(CPU(0), strlen(CPU(0)), &set, &small) < 0);
    buf_done(&small);
}

TAP_MAIN
