#pragma once

/*
 * A TAP helper: TEST(name) { … } registers itself; CHECK* print both values and go on, so one run
 * shows every failure. A test program is one file with tests and TAP_MAIN at the end.
 */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tap_test {
    const char *name;
    void (*fn)(void);
    struct tap_test *next;
};

static struct tap_test *tap_first, **tap_tail = &tap_first;
static bool tap_failed;
static const char *tap_skipped;

static inline void tap_add(struct tap_test *t)
{
    *tap_tail = t;
    tap_tail = &t->next;
}

#define TEST(ident)                                                                                \
    static void test_##ident(void);                                                                \
    __attribute__((constructor)) static void tap_register_##ident(void)                            \
    {                                                                                              \
        static struct tap_test t = {#ident, test_##ident, NULL};                                   \
        tap_add(&t);                                                                               \
    }                                                                                              \
    static void test_##ident(void)

#define tap_fail(...)                                                                              \
    do {                                                                                           \
        tap_failed = true;                                                                         \
        printf("# %s:%d: ", __FILE__, __LINE__);                                                   \
        printf(__VA_ARGS__);                                                                       \
        printf("\n");                                                                              \
    } while (0)

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            tap_fail("not true: %s", #cond);                                                       \
    } while (0)

#define CHECK_INT(got, want)                                                                       \
    do {                                                                                           \
        long long got_ = (long long)(got), want_ = (long long)(want);                              \
        if (got_ != want_)                                                                         \
            tap_fail("%s is %lld, want %lld", #got, got_, want_);                                  \
    } while (0)

#define CHECK_STR(got, want)                                                                       \
    do {                                                                                           \
        const char *got_ = (got), *want_ = (want);                                                 \
        if (got_ == NULL || strcmp(got_, want_) != 0)                                              \
            tap_fail("%s is \"%s\", want \"%s\"", #got, got_ ? got_ : "(null)", want_);            \
    } while (0)

/* Marks the running test as skipped; return from it right after. RIND_MUST_WORK=1 turns it into a
 * failure. */
#define SKIP(reason)                                                                               \
    do {                                                                                           \
        tap_skipped = (reason);                                                                    \
        return;                                                                                    \
    } while (0)

/* Names of the tests to run, and NULL: a main's own arguments. None at all: every test runs. */
static char **tap_only;

static inline bool tap_is_chosen(const char *name)
{
    if (tap_only == NULL || tap_only[0] == NULL)
        return true;
    for (char **only = tap_only; *only != NULL; only++)
        if (strcmp(*only, name) == 0)
            return true;
    return false;
}

static inline int tap_run(void)
{
    int n = 0, bad = 0;

    for (struct tap_test *t = tap_first; t != NULL; t = t->next) {
        if (!tap_is_chosen(t->name))
            continue;
        tap_failed = false;
        tap_skipped = NULL;
        t->fn();
        if (tap_skipped != NULL && getenv("RIND_MUST_WORK") != NULL)
            tap_fail("skipped although RIND_MUST_WORK is set: %s", tap_skipped);
        printf("%s %d - %s", tap_failed ? "not ok" : "ok", ++n, t->name);
        if (tap_skipped != NULL && !tap_failed)
            printf(" # SKIP %s", tap_skipped);
        printf("\n");
        (void)fflush(stdout);
        bad += tap_failed;
    }
    printf("1..%d\n", n);
    return bad > 0;
}

#define TAP_MAIN                                                                                   \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        tap_only = argv + (argc > 0);                                                              \
        return tap_run();                                                                          \
    }
