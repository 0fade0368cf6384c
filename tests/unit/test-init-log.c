/* Init's side of a log: where it goes on in the segments of earlier runs, whatever they hold. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/exec-table.h"
#include "tap.h"

enum { SIZE = LOG_SIZE_MIN };

/* Two segments that outlive their logs. */
struct files {
    int fds[2];
};

static void files_open(struct files *f)
{
    for (int i = 0; i < 2; i++) {
        char name[] = "/tmp/rind-log-XXXXXX";

        f->fds[i] = mkostemp(name, O_CLOEXEC);
        if (f->fds[i] < 0 || unlink(name) < 0)
            abort();
    }
}

static void files_close(struct files *f)
{
    for (int i = 0; i < 2; i++)
        (void)close(f->fds[i]);
}

static void put(struct files *f, int i, uint64_t start, uint64_t dropped, size_t used)
{
    const struct log_header h = {.magic = LOG_MAGIC, .start = start, .dropped = dropped};
    char *data = calloc(1, used + 1);

    if (data == NULL || ftruncate(f->fds[i], 0) < 0 ||
        pwrite(f->fds[i], &h, sizeof(h), 0) != (ssize_t)sizeof(h) ||
        pwrite(f->fds[i], memset(data, 'o', used), used, sizeof(h)) != (ssize_t)used)
        abort();
    free(data);
}

/* The log of a run; *ret_to: what the process writes to. Returns what log_open does. */
static int run(const struct files *f, struct log *ret, int *ret_to)
{
    int pipe_fds[2], segments[2];

    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
        abort();
    for (int i = 0; i < 2; i++)
        segments[i] = fcntl(f->fds[i], F_DUPFD_CLOEXEC, 3);
    *ret_to = pipe_fds[1];
    return log_open(ret, pipe_fds[0], segments, SIZE);
}

/* The process says n bytes and ends, and so does the run. */
static void say(struct log *l, int to, size_t n)
{
    char text[1024];

    (void)memset(text, 'n', sizeof(text));
    while (n > 0) {
        size_t piece = n < sizeof(text) ? n : sizeof(text);

        CHECK_INT(write(to, text, piece), piece);
        CHECK(log_move(l));
        if (l->used == l->size)
            (void)log_move(l); /* what is left of it, behind a rotation */
        n -= piece;
    }
    (void)close(to);
    while (log_move(l))
        ;
    log_close(l);
}

static struct log_header header(const struct files *f, int i)
{
    struct log_header h = {0};

    if (pread(f->fds[i], &h, sizeof(h), 0) != (ssize_t)sizeof(h))
        h.magic = 0;
    return h;
}

static size_t used(const struct files *f, int i)
{
    struct stat st;

    return fstat(f->fds[i], &st) == 0 && st.st_size >= (off_t)sizeof(struct log_header)
               ? (size_t)st.st_size - sizeof(struct log_header)
               : 0;
}

TEST(goes_on_where_the_run_before_ended)
{
    struct files f;
    struct log l;
    int to;

    files_open(&f);
    CHECK_INT(run(&f, &l, &to), 0); /* the first: of empty files */
    say(&l, to, 100);
    CHECK_INT(run(&f, &l, &to), 0);
    CHECK_INT(log_total(&l), 100);
    say(&l, to, 50);
    CHECK_INT(used(&f, 0), 150);
    CHECK_INT(header(&f, 0).start, 0);
    CHECK_INT(header(&f, 1).magic, 0);
    /* Over the end of the segment, in the middle of a run. */
    CHECK_INT(run(&f, &l, &to), 0);
    say(&l, to, SIZE);
    CHECK_INT(used(&f, 0), SIZE);
    CHECK_INT(header(&f, 1).start, SIZE);
    CHECK_INT(used(&f, 1), 150);
    /* And in the other from there on. */
    CHECK_INT(run(&f, &l, &to), 0);
    CHECK_INT(log_total(&l), SIZE + 150);
    say(&l, to, 10);
    CHECK_INT(used(&f, 0), SIZE);
    CHECK_INT(used(&f, 1), 160);
    files_close(&f);
}

TEST(killed_between_the_steps_of_a_rotation)
{
    struct files f;
    struct log l;
    int to;

    files_open(&f);
    put(&f, 0, 3 * SIZE, 7, SIZE); /* full, and the other just emptied */
    CHECK_INT(run(&f, &l, &to), 0);
    CHECK_INT(log_total(&l), 4 * SIZE + 7);
    say(&l, to, 5);
    CHECK_INT(header(&f, 1).start, 4 * SIZE);
    CHECK_INT(header(&f, 1).dropped, 7);
    CHECK_INT(used(&f, 1), 5);
    CHECK_INT(used(&f, 0), SIZE);
    /* The header is there, and nothing behind it. */
    put(&f, 0, 5 * SIZE, 7, 0);
    CHECK_INT(run(&f, &l, &to), 0);
    say(&l, to, 5);
    CHECK_INT(used(&f, 0), 5);
    CHECK_INT(used(&f, 1), 5);
    files_close(&f);
}

TEST(of_another_size)
{
    struct files f;
    struct log l;
    int to;

    files_open(&f);
    put(&f, 0, 0, 0, 10 * SIZE); /* the limit was larger */
    CHECK_INT(run(&f, &l, &to), 0);
    say(&l, to, 20);
    CHECK_INT(header(&f, 1).start, 10 * SIZE);
    CHECK_INT(used(&f, 1), 20);
    CHECK_INT(run(&f, &l, &to), 0);
    say(&l, to, SIZE);
    CHECK_INT(header(&f, 0).start, 11 * SIZE);
    CHECK_INT(used(&f, 0), 20);
    files_close(&f);
}

TEST(what_cannot_be_placed)
{
    const struct {
        struct log_header header;
        size_t size;
    } bad[] = {
        {{0}, sizeof(struct log_header)},
        {{.magic = LOG_MAGIC}, sizeof(struct log_header) - 1},
        {{.magic = LOG_MAGIC, .start = LOG_START_MAX + 1}, sizeof(struct log_header)},
        {{.magic = LOG_MAGIC, .start = UINT64_MAX}, sizeof(struct log_header)},
        {{.magic = 1, .start = 9}, sizeof(struct log_header)},
    };
    struct files f;
    struct log l;
    int to;

    files_open(&f);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        /* In both: it begins, and nothing of what was there is taken for what was said. */
        for (int k = 0; k < 2; k++) {
            put(&f, k, 0, 0, 500);
            CHECK_INT(pwrite(f.fds[k], &bad[i].header, bad[i].size, 0), bad[i].size);
            if (bad[i].size < sizeof(struct log_header))
                CHECK_INT(ftruncate(f.fds[k], (off_t)bad[i].size), 0);
        }
        CHECK_INT(run(&f, &l, &to), 0);
        CHECK_INT(log_total(&l), 0);
        say(&l, to, 3);
        CHECK_INT(used(&f, 0), 3);
        CHECK_INT(header(&f, 0).start, 0);
        /* In one: the other goes on. */
        put(&f, 1, 40, 0, 60);
        CHECK_INT(pwrite(f.fds[0], &bad[i].header, bad[i].size, 0), bad[i].size);
        if (bad[i].size < sizeof(struct log_header))
            CHECK_INT(ftruncate(f.fds[0], (off_t)bad[i].size), 0);
        CHECK_INT(run(&f, &l, &to), 0);
        say(&l, to, 3);
        CHECK_INT(used(&f, 1), 63);
    }
    files_close(&f);
}

TAP_MAIN
