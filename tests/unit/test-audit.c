/* The audit record: what is recorded, in which bytes, and its files. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "api/audit.h"
#include "api/rights-table.h"
#include "base/err.h"
#include "tap.h"

/* ---- what ---- */

TEST(changes_are_recorded)
{
    CHECK(audit_wants("POST", "/v1/sandboxes"));
    CHECK(audit_wants("DELETE", "/containers/{id}"));
    CHECK(audit_wants("PUT", "/v1/sandboxes/{id}/files"));
    CHECK(!audit_wants("GET", "/v1/sandboxes"));
    CHECK(!audit_wants("HEAD", "/containers/{id}/archive"));
    CHECK(!audit_wants("POST", "/containers/{id}/wait"));
    CHECK(!audit_wants("DELETE", "/v1/sandboxes/{id}/http/{port}/{path*}"));
}

TEST(what_changes_nothing_is_a_route)
{
    for (const struct audit_quiet *q = audit_quiet; q->method != NULL; q++) {
        bool found = false;

        for (const struct rights_row *r = rights_table; r->method != NULL; r++)
            found |= strcmp(r->method, q->method) == 0 && strcmp(r->pattern, q->pattern) == 0;
        if (!found)
            tap_fail("%s %s is no route", q->method, q->pattern);
    }
}

TEST(hostile_names_are_escaped)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"", "\"\""},
        {"web-1", "\"web-1\""},
        {"a\"b\\c", "\"a\\u0022b\\u005cc\""},
        {"a\nb\033[31m\177", "\"a\\u000ab\\u001b[31m\\u007f\""},
        {"h\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"h\\u00e4\\u20ac\\ud83d\\ude00\""},
        {"\xff\xc3", "\"\\u00ff\\u00c3\""}, /* no UTF-8: the bytes */
        {"\xc0\x80\xf5", "\"\\u00c0\\u0080\\u00f5\""},
    };
    char longer[400];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(1024);

        CHECK_INT(audit_quote(&b, rows[i].in), 0);
        CHECK_STR(b.data, rows[i].out);
    }
    auto_buf struct buf b = BUF_INIT(2048);

    (void)memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    CHECK_INT(audit_quote(&b, longer), 0);
    CHECK(b.len < 110 && strstr(b.data, "x...\"") != NULL);
}

/* ---- the files ---- */

struct lab {
    uv_loop_t loop;
    char dir[64];
    int fd;
    struct audit_log *log;
    unsigned woken;
};

static bool lab_open(struct lab *l, size_t bytes)
{
    struct audit_config config = {.loop = &l->loop, .dir_fd = l->fd, .bytes = bytes};
    struct err err = ERR_NONE;

    if (audit_log_open(&config, &l->log, &err) == 0)
        return true;
    tap_fail("open: %s", err.msg);
    return false;
}

static bool lab_make(struct lab *l, size_t bytes)
{
    *l = (struct lab){.fd = -1};
    (void)snprintf(l->dir, sizeof(l->dir), "/tmp/rind-audit-XXXXXX");
    if (mkdtemp(l->dir) == NULL || uv_loop_init(&l->loop) < 0)
        return false;
    l->fd = open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return l->fd >= 0 && lab_open(l, bytes);
}

static void lab_close_log(struct lab *l)
{
    audit_log_close(l->log);
    l->log = NULL;
    (void)uv_run(&l->loop, UV_RUN_DEFAULT);
}

static void lab_done(struct lab *l)
{
    char command[128];

    if (l->log != NULL)
        lab_close_log(l);
    CHECK_INT(uv_loop_close(&l->loop), 0);
    (void)close(l->fd);
    (void)snprintf(command, sizeof(command), "rm -r %s", l->dir);
    CHECK_INT(system(command), 0);
}

/* The number of files, and the bytes of all. */
static size_t lab_files(const struct lab *l, int64_t *ret_bytes)
{
    char path[96];
    struct dirent *e;
    struct stat st;
    size_t n = 0;
    DIR *d;

    (void)snprintf(path, sizeof(path), "%s/audit", l->dir);
    d = opendir(path);
    *ret_bytes = 0;
    while (d != NULL && (e = readdir(d)) != NULL)
        if (e->d_name[0] != '.' && fstatat(dirfd(d), e->d_name, &st, 0) == 0) {
            n++;
            *ret_bytes += st.st_size;
        }
    if (d != NULL)
        (void)closedir(d);
    return n;
}

static void lab_add(struct lab *l, unsigned n)
{
    char line[128];
    int len = snprintf(line, sizeof(line), "{\"id\":%llu,\"n\":%u}\n",
                       (unsigned long long)audit_log_id(l->log), n);

    audit_log_add(l->log, line, (size_t)len);
}

TEST(the_files_are_bounded)
{
    struct lab l;
    int64_t bytes;

    if (!lab_make(&l, 2 * AUDIT_FILE_MIN))
        return;
    for (unsigned i = 0; i < 5000; i++)
        lab_add(&l, i);
    lab_close_log(&l);
    CHECK_INT(lab_files(&l, &bytes), 2);
    CHECK(bytes > AUDIT_FILE_MIN && bytes <= 2 * AUDIT_FILE_MIN);
    lab_done(&l);
}

static void on_more(struct audit_reader *r)
{
    (void)r;
}

/* Reads to the end of what is written: number of lines; *ret_last: n of the last one. */
static unsigned read_all(struct lab *l, struct audit_reader *r, unsigned *ret_last)
{
    char text[4096], whole[1 << 17];
    size_t len = 0;
    unsigned lines = 0;

    do {
        ssize_t n;

        while ((n = pread(r->fd, text, sizeof(text), r->at)) > 0 &&
               len + (size_t)n < sizeof(whole)) {
            (void)memcpy(whole + len, text, (size_t)n);
            len += (size_t)n;
            r->at += n;
        }
    } while (audit_reader_more(l->log, r));
    whole[len] = '\0';
    for (char *at = whole, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        const char *n = strstr(at, "\"n\":");

        lines++;
        if (n != NULL)
            *ret_last = (unsigned)strtoul(n + 4, NULL, 10);
    }
    return lines;
}

TEST(readers_see_the_kept_and_the_new)
{
    struct audit_reader all = {.on_more = on_more}, now = {.on_more = on_more};
    struct lab l;
    unsigned last = 0;

    if (!lab_make(&l, 2 * AUDIT_FILE_MIN))
        return;
    for (unsigned i = 0; i < 1000; i++)
        lab_add(&l, i);
    audit_log_save(l.log);
    CHECK_INT(audit_reader_open(l.log, &all, false), 0);
    CHECK_INT(audit_reader_open(l.log, &now, true), 0);
    CHECK(read_all(&l, &all, &last) > 100);
    CHECK_INT(last, 999);
    CHECK_INT(read_all(&l, &now, &last), 0);
    CHECK(all.link != NULL && now.link != NULL); /* they wait */
    /* Enough to rotate past the file that they have open. */
    for (unsigned i = 1000; i < 4000; i++)
        lab_add(&l, i);
    (void)uv_run(&l.loop, UV_RUN_DEFAULT);
    CHECK(all.link == NULL && now.link == NULL);
    CHECK(read_all(&l, &now, &last) > 100);
    CHECK_INT(last, 3999);
    audit_reader_close(&all);
    audit_reader_close(&now);
    lab_done(&l);
}

TEST(a_part_of_a_line_stays_alone)
{
    struct audit_reader all = {.on_more = on_more};
    struct lab l;
    unsigned last = 0;
    int fd;

    if (!lab_make(&l, 2 * AUDIT_FILE_MIN))
        return;
    lab_add(&l, 1);
    lab_close_log(&l);
    fd = openat(l.fd, "audit/1", O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "{\"id\":7,\"n", 10) == 10);
    (void)close(fd);
    if (lab_open(&l, 2 * AUDIT_FILE_MIN)) {
        lab_add(&l, 2);
        audit_log_save(l.log);
        CHECK_INT(audit_reader_open(l.log, &all, false), 0);
        CHECK_INT(read_all(&l, &all, &last), 3);
        CHECK_INT(last, 2);
        audit_reader_close(&all);
    }
    lab_done(&l);
}

/* Its timer's handle may be closed before the job has ended, or after it. */
TEST(closed_while_a_job_writes)
{
    for (unsigned round = 0; round < 10; round++) {
        struct lab l;
        int64_t bytes;

        if (!lab_make(&l, 2 * AUDIT_FILE_MIN))
            return;
        for (unsigned i = 0; i < 100; i++)
            lab_add(&l, i);
        (void)usleep(25000);                  /* the time of a write has come */
        (void)uv_run(&l.loop, UV_RUN_NOWAIT); /* starts the job, which mostly still runs */
        lab_add(&l, 100);
        if (round % 2 == 0) /* the job has ended; the loop has not seen it */
            (void)usleep(2000);
        lab_close_log(&l);
        CHECK_INT(lab_files(&l, &bytes), 1);
        CHECK(bytes > 101 * 20);
        lab_done(&l);
    }
}

/* The directory is gone, as a full disk: lines are counted, and the count is the first new record.
 */
TEST(what_cannot_be_written_is_counted)
{
    struct audit_reader all = {.on_more = on_more};
    struct lab l;
    unsigned last = 0;

    if (!lab_make(&l, 2 * AUDIT_FILE_MIN))
        return;
    CHECK_INT(renameat(l.fd, "audit", l.fd, "away"), 0);
    CHECK_INT(unlinkat(l.fd, "away/1", 0), 0);
    CHECK_INT(unlinkat(l.fd, "away", AT_REMOVEDIR), 0);
    for (unsigned i = 0; i < 2000; i++)
        lab_add(&l, i);
    audit_log_save(l.log); /* needs a second file */
    CHECK(audit_reader_open(l.log, &all, false) < 0);
    (void)last;
    lab_done(&l);
}

TAP_MAIN
