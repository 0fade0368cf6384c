#include <errno.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "tap.h"

/* ---- the parser ---- */

enum { LOG_MAX = 256 };

struct target {
    bool tty, interactive, help;
    const char *memory;
    char log[LOG_MAX]; /* values of --volume, each behind a space */
};

static int on_volume(void *target, const struct opt *o, const char *text, struct err *err)
{
    struct target *t = target;
    size_t len = strlen(t->log);

    (void)o;
    if (strchr(text, ':') == NULL)
        return err_set(err, -ERANGE, "%s'%s': must be SRC:DST", text[0] == 'n' ? "volume " : "",
                       text);
    (void)snprintf(t->log + len, sizeof(t->log) - len, " %s", text);
    return 0;
}

/* clang-format off */
static const struct opt first[] = {
    { .name = "tty",         .letter = 't', .set = opt_flag, .off = offsetof(struct target, tty) },
    { .name = "interactive", .letter = 'i', .set = opt_flag,
      .off = offsetof(struct target, interactive) },
    { .name = "memory",      .letter = 'm', .arg = "SIZE", .set = opt_text,
      .off = offsetof(struct target, memory) },
    {0},
};
static const struct opt second[] = {
    { .name = "volume", .letter = 'v', .arg = "SRC:DST", .set = on_volume, .flags = OPT_REPEAT },
    { .name = "secret", .arg = "X", .set = opt_text, .off = offsetof(struct target, memory),
      .flags = OPT_HIDDEN },
    { .name = "name",   .letter = 'h', .arg = "NAME", .set = opt_text,
      .off = offsetof(struct target, memory), .flags = OPT_SHARED_LETTER },
    { .name = "help",   .letter = 'h', .set = opt_flag, .off = offsetof(struct target, help),
      .flags = OPT_STOP },
    {0},
};
static const struct opt foreign[] = {
    { .name = "gpus",   .letter = 'g', .help = "there are none", .flags = OPT_FOREIGN },
    { .name = "memory", .letter = 'V', .help = "never found", .flags = OPT_FOREIGN },
    {0},
};
static const struct opt_group groups[] = {
    {"One", first}, {"Two", second}, {NULL, foreign}, {0}};

#define ARGV(...) (const char *const[]){__VA_ARGS__, NULL}

/* What is accepted: t, i, h are the flags; operand is the first one. */
static const struct {
    const char *const *argv;
    const char *flags, *memory, *log, *operand;
    bool dashes;
} good[] = {
    { ARGV(NULL),                              "",   NULL,   "",            NULL,     false },
    { ARGV("cmd", "-t", "--help"),             "",   NULL,   "",            "cmd",    false },
    { ARGV("--tty", "cmd"),                    "t",  NULL,   "",            "cmd",    false },
    { ARGV("--tty=true", "cmd"),               "t",  NULL,   "",            "cmd",    false },
    { ARGV("--tty=false", "cmd"),              "",   NULL,   "",            "cmd",    false },
    { ARGV("-it", "cmd"),                      "ti", NULL,   "",            "cmd",    false },
    { ARGV("-tim", "5", "cmd"),                "ti", "5",    "",            "cmd",    false },
    { ARGV("-tm5", "cmd"),                     "t",  "5",    "",            "cmd",    false },
    { ARGV("-m=5", "cmd"),                     "",   "5",    "",            "cmd",    false },
    { ARGV("-m", "5", "cmd"),                  "",   "5",    "",            "cmd",    false },
    { ARGV("--memory", "5", "cmd"),            "",   "5",    "",            "cmd",    false },
    { ARGV("--memory=5", "cmd"),               "",   "5",    "",            "cmd",    false },
    { ARGV("--memory=a=b", "cmd"),             "",   "a=b",  "",            "cmd",    false },
    { ARGV("--memory", "1", "--memory", "2"),  "",   "2",    "",            NULL,     false },
    { ARGV("--memory", "--tty", "cmd"),        "",   "--tty", "",           "cmd",    false },
    { ARGV("-v", "a:b", "--volume=c:d"),       "",   NULL,   " a:b c:d",    NULL,     false },
    { ARGV("--", "--tty"),                     "",   NULL,   "",            "--tty",  true  },
    { ARGV("-t", "--", "--", "x"),             "t",  NULL,   "",            "--",     true  },
    { ARGV("--"),                              "",   NULL,   "",            NULL,     true  },
    { ARGV("-", "-t"),                         "",   NULL,   "",            "-",      false },
    { ARGV("cmd", "--", "x"),                  "",   NULL,   "",            "cmd",    false },
    { ARGV("", "x"),                           "",   NULL,   "",            "",       false },
    { ARGV("-h", "box", "cmd"),                "",   "box",  "",            "cmd",    false },
    { ARGV("-hbox", "cmd"),                    "",   "box",  "",            "cmd",    false },
    { ARGV("-h=box", "cmd"),                   "",   "box",  "",            "cmd",    false },
    { ARGV("-th", "box"),                      "t",  "box",  "",            NULL,     false },
    { ARGV("-h"),                              "h",  NULL,   "",            NULL,     false },
    { ARGV("-h", "--"),                        "h",  NULL,   "",            "--",     false },
    { ARGV("--memory", "1"),                   "",   "1",    "",            NULL,     false },
    { ARGV("-h", "--nonsense"),                "h",  NULL,   "",            "--nonsense", false },
    { ARGV("-th", "--nonsense"),               "th", NULL,   "",            "--nonsense", false },
    { ARGV("--secret", "x"),                   "",   "x",    "",            NULL,     false },
};

static const struct {
    const char *const *argv;
    int code;
    const char *message;
} bad[] = {
    { ARGV("--memroy", "5"), -EINVAL, "--memroy: unknown option; the nearest is --memory" },
    { ARGV("--memroy=5"),    -EINVAL, "--memroy: unknown option; the nearest is --memory" },
    { ARGV("--mem=5"),       -EINVAL, "--mem: unknown option; the nearest is --memory" },
    { ARGV("--hlep"),        -EINVAL, "--hlep: unknown option; the nearest is --help" },
    { ARGV("--zebra"),       -EINVAL, "--zebra: unknown option; --help lists them" },
    { ARGV("--secre"),       -EINVAL, "--secre: unknown option; --help lists them" },
    { ARGV("--=x"),          -EINVAL, "--: unknown option; --help lists them" },
    { ARGV("--a\nb"),        -EINVAL, "--a?b: unknown option; --help lists them" },
    { ARGV("-Z"),            -EINVAL, "-Z: unknown option; --help lists them" },
    { ARGV("-V"),            -EINVAL, "-V: never found" },
    { ARGV("-T"),            -EINVAL, "-T: unknown option; the nearest is -t, --tty" },
    { ARGV("-G"),            -EINVAL, "-G: unknown option; --help lists them" },
    { ARGV("--gpus"),        -EINVAL, "--gpus: there are none" },
    { ARGV("--gpus", "all"), -EINVAL, "--gpus: there are none" },
    { ARGV("--gpus=all"),    -EINVAL, "--gpus: there are none" },
    { ARGV("-tg"),           -EINVAL, "-g: there are none" },
    { ARGV("--gpsu"),        -EINVAL, "--gpsu: unknown option; --help lists them" },
    { ARGV("-tZ"),           -EINVAL, "-Z: unknown option; --help lists them" },
    { ARGV("--memory"),      -EINVAL, "--memory: needs a value; write --memory SIZE" },
    { ARGV("-m"),            -EINVAL, "-m: needs a value; write -m SIZE" },
    { ARGV("-tm"),           -EINVAL, "-m: needs a value; write -m SIZE" },
    { ARGV("--tty=yes"),     -EINVAL, "--tty: takes no value; write --tty alone" },
    { ARGV("-t=yes"),        -EINVAL, "-t: takes no value; write -t alone" },
    { ARGV("--memory="),     -EINVAL, "--memory: must not be empty" },
    { ARGV("--memory", ""),  -EINVAL, "--memory: must not be empty" },
    { ARGV("-v", "x"),       -ERANGE, "--volume: 'x': must be SRC:DST" },
    { ARGV("-v", "named"),   -ERANGE, "--volume 'named': must be SRC:DST" },
    { ARGV("--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), -EINVAL,
      "--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...: unknown option; "
      "--help lists them" },
};
/* clang-format on */

enum { ARGV_MAX = 16 };

static int parse(const char *const *argv, struct target *t, struct opt_rest *rest, struct err *err)
{
    static char words[ARGV_MAX][128];
    static char *copy[ARGV_MAX + 1];
    size_t n = 0;

    for (; argv[n] != NULL && n < ARGV_MAX; n++) {
        (void)snprintf(words[n], sizeof(words[n]), "%s", argv[n]);
        copy[n] = words[n];
    }
    copy[n] = NULL;
    return opts_parse(groups, t, copy, rest, err);
}

TEST(valid_options_are_accepted)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct target t = {.tty = false};
        struct opt_rest rest = {.operands = NULL};
        struct err err = ERR_NONE;
        char flags[8];

        CHECK_INT(parse(good[i].argv, &t, &rest, &err), 0);
        (void)snprintf(flags, sizeof(flags), "%s%s%s", t.tty ? "t" : "", t.interactive ? "i" : "",
                       t.help ? "h" : "");
        CHECK_STR(flags, good[i].flags);
        CHECK((t.memory == NULL) == (good[i].memory == NULL));
        if (good[i].memory != NULL)
            CHECK_STR(t.memory, good[i].memory);
        CHECK_STR(t.log, good[i].log);
        CHECK(rest.operands != NULL && (rest.operands[0] == NULL) == (good[i].operand == NULL));
        if (good[i].operand != NULL && rest.operands != NULL)
            CHECK_STR(rest.operands[0], good[i].operand);
        CHECK_INT(rest.dashes, good[i].dashes);
        CHECK((rest.stop != NULL) == t.help);
        if (tap_failed)
            printf("# in row %zu\n", i);
    }
}

TEST(bad_options_are_refused)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct target t = {.tty = false};
        struct opt_rest rest = {.dashes = true};
        struct err err = ERR_NONE;

        CHECK_INT(parse(bad[i].argv, &t, &rest, &err), bad[i].code);
        CHECK_STR(err.msg, bad[i].message);
        CHECK(rest.operands == NULL && rest.dashes); /* untouched */
        CHECK_INT(parse(bad[i].argv, &t, &rest, NULL), bad[i].code);
    }
}

TEST(a_mistyped_option_names_the_nearest)
{
    static const struct {
        const char *text, *candidate;
        bool near;
    } rows[] = {
        {"rnu", "run", true},       {"doctro", "doctor", true}, {"run", "run", true},
        {"x", "run", false},        {"", "run", false},         {"ru", "run", true},
        {"cpu", "cpus", true},      {"user", "help", false},    {"versoin", "version", true},
        {"network", "name", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct nearest n = {.name = NULL};

        nearest_offer(&n, rows[i].text, rows[i].candidate);
        CHECK_INT(n.name != NULL, rows[i].near);
        if (tap_failed)
            printf("# %s, %s\n", rows[i].text, rows[i].candidate);
    }
}

/* ---- the tables of the verbs ---- */

static void check_row(const struct opt *o)
{
    CHECK((o->set != NULL) == ((o->flags & OPT_FOREIGN) == 0));
    CHECK((o->flags & OPT_HIDDEN) != 0 || (o->help != NULL && o->help[0] != '\0'));
    if (o->help != NULL)
        CHECK(o->help[strlen(o->help) - 1] != '.');
    CHECK(strspn(o->name, "abcdefghijklmnopqrstuvwxyz-016") == strlen(o->name));
    CHECK(o->arg == NULL || (o->arg[0] >= 'A' && o->arg[0] <= 'Z'));
    if (tap_failed)
        printf("# --%s\n", o->name);
}

enum { ROWS_MAX = 256 };

/* An option of rind may have the name of another program's; its row is the one that is found. */
static bool may_share(const struct opt *a, const struct opt *b)
{
    return ((a->flags | b->flags) & OPT_FOREIGN) != 0 ||
           ((a->flags | b->flags) & OPT_SHARED_LETTER) != 0;
}

/* All rows of a verb, the global ones included. */
static size_t rows_of(const struct verb *v, const struct opt **ret, size_t max)
{
    size_t n = 0;

    for (const struct opt_group *g = v->groups; g != NULL && g->rows != NULL; g++) {
        CHECK((g->title != NULL) == ((g->rows[0].flags & OPT_FOREIGN) == 0));
        for (const struct opt *o = g->rows; o->name != NULL && n < max; o++)
            ret[n++] = o;
    }
    for (const struct opt *o = global_options; o->name != NULL && n < max; o++)
        ret[n++] = o;
    return n;
}

TEST(verb_tables)
{
    for (size_t i = 0; verbs[i] != NULL; i++) {
        const struct opt *rows[ROWS_MAX];
        size_t n = rows_of(verbs[i], rows, ROWS_MAX);

        CHECK(n < ROWS_MAX);
        CHECK(verbs[i]->summary != NULL && verbs[i]->main != NULL && verbs[i]->operands != NULL);
        CHECK(verb_find(verbs[i]->name) == verbs[i]);
        for (size_t a = 0; a < n; a++) {
            check_row(rows[a]);
            for (size_t b = 0; b < a; b++) {
                CHECK(strcmp(rows[a]->name, rows[b]->name) != 0 || may_share(rows[a], rows[b]));
                CHECK(rows[a]->letter == 0 || rows[a]->letter != rows[b]->letter ||
                      may_share(rows[a], rows[b]));
            }
        }
    }
    CHECK(verb_find("rnu") == NULL);
}

/* What the help says is what the parser takes: each text is found by its own name and letter. */
TEST(help_holds_every_option)
{
    for (size_t i = 0; verbs[i] != NULL; i++) {
        const struct opt *rows[ROWS_MAX];
        size_t n = rows_of(verbs[i], rows, ROWS_MAX), len = 0;
        char *text = NULL, word[160];
        FILE *f = open_memstream(&text, &len);

        CHECK(f != NULL);
        if (f == NULL)
            return;
        help_verb(f, verbs[i]);
        (void)fclose(f);
        for (size_t a = 0; a < n; a++) {
            (void)snprintf(word, sizeof(word), "--%s%s%s\n", rows[a]->name,
                           rows[a]->arg != NULL ? " " : "",
                           rows[a]->arg != NULL ? rows[a]->arg : "");
            /* A long one stands on a line of its own, a short one before its text. */
            if (strstr(text, word) == NULL)
                word[strlen(word) - 1] = ' ';
            if (opt_is_shown(rows[a]) && strstr(text, word) == NULL)
                tap_fail("help of %s has no '%s'", verbs[i]->name, word);
        }
        free(text);
    }
}

TAP_MAIN
