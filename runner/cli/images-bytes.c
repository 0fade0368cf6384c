/* Transfers archives of images into and out of the store. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "cli/human.h"
#include "cli/images.h"
#include "cli/pack.h"
#include "cli/url.h"
#include "json/parse.h"

enum { LINE_MAX_BYTES = 64 << 10, BAR_WIDTH = 24, REDRAW_MS = 100, SHOWN_ID = 12 };

/* ---- progress ---- */

struct load_progress {
    const struct images_args *args;
    struct client *client;
    struct buf line;
    bool bar;                     /* standard error is a terminal, so a progress line is redrawn */
    bool drawn;                   /* the progress line is on the screen */
    bool head;                    /* the reply's head has been read */
    bool over;                    /* the last line of the reply has been read */
    int64_t drawn_ms, sent, size; /* bytes; size 0 = not known */
    int code;
    struct err err; /* failure reported by the daemon */
};

static void clear_bar(struct load_progress *t)
{
    if (t->drawn)
        (void)fputs("\r\033[K", stderr);
    t->drawn = false;
}

static void progress_draw(struct load_progress *t, const char *what, int64_t done, int64_t total)
{
    char a[HUMAN_MAX], b[HUMAN_MAX], bar[BAR_WIDTH + 1];
    int64_t now = clock_mono_ms();
    int full = total > 0 ? (int)((double)done / (double)total * BAR_WIDTH) : 0;

    if (!t->bar || now - t->drawn_ms < REDRAW_MS)
        return;
    t->drawn_ms = now;
    clear_bar(t);
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    if (total > 0)
        (void)fprintf(stderr, "%s [%s] %s of %s", what, bar, human_bytes((uint64_t)done, a),
                      human_bytes((uint64_t)total, b));
    else
        (void)fprintf(stderr, "%s %s", what, human_bytes((uint64_t)done, a));
    (void)fflush(stderr);
    t->drawn = true;
}

static void show_layer(struct load_progress *t, const json_t *root)
{
    const char *id = member(root, "id");
    char what[64];

    if (strncmp(id, "sha256:", 7) == 0)
        id += 7;
    (void)snprintf(what, sizeof(what), "layer %d/%d %.*s",
                   (int)json_integer_value(json_object_get(root, "layer")),
                   (int)json_integer_value(json_object_get(root, "layers")), SHOWN_ID, id);
    progress_draw(t, what, json_integer_value(json_object_get(root, "bytes")),
                  json_integer_value(json_object_get(root, "total")));
}

static void on_reply_line(struct load_progress *t, const char *text, size_t len)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *error;
    const char *stage;

    if (json_parse(text, len, LINE_MAX_BYTES, &root, NULL) < 0)
        return;
    error = json_object_get(root, "error");
    stage = member(root, "stage");
    if (error != NULL) {
        t->over = true;
        t->code = -(int)json_integer_value(json_object_get(error, "errno"));
        (void)err_set(&t->err, t->code < 0 ? t->code : -EPROTO, "%s", member(error, "message"));
        t->code = t->err.code;
    } else if (json_is_true(json_object_get(root, "done"))) {
        t->over = true;
    } else if (t->args->remote.json) {
        print_json_line(json_incref(root));
        (void)fflush(stdout);
    } else if (strcmp(stage, "image") == 0) {
        clear_bar(t);
        if (json_object_get(root, "name") != NULL)
            (void)printf("loaded %s\n", member(root, "name"));
        else
            (void)printf("loaded %s\n", member(root, "id"));
    } else if (strcmp(stage, "unpack") == 0 || strcmp(stage, "layer") == 0) {
        show_layer(t, root);
    }
}

/* Reads available data of the reply. Returns 0 at its end, else 1. */
static int read_reply(struct load_progress *t, struct err *err)
{
    char piece[4096], *end;
    ssize_t n = client_read(t->client, piece, sizeof(piece), err);

    if (n <= 0)
        return (int)n;
    if (buf_append(&t->line, piece, (size_t)n) < 0)
        return err_set(err, -EPROTO, "the daemon's answer has a line that is too long");
    while (t->line.len > 0 && (end = memchr(t->line.data, '\n', t->line.len)) != NULL) {
        size_t len = (size_t)(end - t->line.data);

        on_reply_line(t, t->line.data, len);
        buf_consume(&t->line, len + 1);
    }
    return 1;
}

static int put_chunk(void *data, const void *bytes, size_t len, struct err *err)
{
    struct load_progress *t = data;
    int r;

    while (client_wait(t->client)) {
        /* The head alone may have arrived, without a line to read. */
        r = t->head ? read_reply(t, err) : client_head(t->client, err);
        if (r < 0 || t->over || (r == 0 && t->head))
            return r < 0 ? r : 1;
        t->head = true;
    }
    r = client_put_on(t->client, bytes, len, err);
    t->sent += (int64_t)len;
    progress_draw(t, "sent", t->sent, t->size);
    return r;
}

/* ---- sending ---- */

static int from_fd(int fd, struct load_progress *t, struct err *err)
{
    char piece[CLIENT_PIECE_MAX];
    int r = 0;

    while (r == 0) {
        ssize_t n = read(fd, piece, sizeof(piece));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, -errno, "read the archive");
        if (n == 0)
            break;
        r = put_chunk(t, piece, (size_t)n, err);
    }
    return r;
}

static int send_archive(struct load_progress *t, const char *source, struct err *err)
{
    auto_close int fd = FD_NONE;
    struct stat st;
    size_t skipped = 0;

    if (strcmp(source, "-") == 0)
        return isatty(STDIN_FILENO)
                   ? err_set(err, -EINVAL,
                             "standard input is a terminal: name a file, or pass an archive in")
                   : from_fd(STDIN_FILENO, t, err);
    fd = open(source, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "'%s'", source);
    if (S_ISDIR(st.st_mode))
        return pack(source, "", 1, put_chunk, t, &skipped, err);
    if (S_ISREG(st.st_mode))
        t->size = st.st_size;
    return from_fd(fd, t, err);
}

static int transfer_archive(struct load_progress *t, const char *source, struct err *err)
{
    int r = send_archive(t, source, err);

    if (r == 0)
        r = client_put_end(t->client, err);
    if (r < 0)
        return r;
    r = client_head(t->client, err);
    while (r == 0 && !t->over && (r = read_reply(t, err)) == 1)
        r = 0;
    clear_bar(t);
    if (t->code < 0)
        *err = t->err;
    if (r == 0 && t->code == 0 && !t->over)
        return err_set(err, -ECONNRESET, "the answer has been cut off");
    return t->code < 0 ? t->code : r;
}

static int post_archive(const struct images_args *args, const char *target, const char *source,
                        struct err *err)
{
    auto_images struct images_client c = {.alone = {.fd = FD_NONE, .alive = FD_NONE}};
    struct client_request request = {
        .method = "POST", .target = target, .type = "application/x-tar", .flags = CLIENT_CHUNKED};
    struct load_progress t = {.args = args,
                              .line = BUF_INIT(LINE_MAX_BYTES),
                              .bar = !args->remote.json && isatty(STDERR_FILENO) == 1};
    int r = images_open(args, &c, err);

    if (r == 0)
        r = client_send(c.client, &request, err);
    t.client = c.client;
    if (r == 0)
        r = transfer_archive(&t, source, err);
    buf_done(&t.line);
    return r;
}

int images_load_from(const struct images_args *args, const char *source, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = args->tag != NULL ? url_make(&url, "/v1/images/load?name=%s", args->tag)
                              : url_make(&url, "/v1/images/load");

    return r < 0 ? err_errno(err, r, "load") : post_archive(args, url.data, source, err);
}

static int add_query(struct buf *url, const char *key, const char *value)
{
    int r = buf_append_str(url, strchr(url->data, '?') != NULL ? "&" : "?");

    if (r == 0)
        r = buf_append_str(url, key);
    return r < 0 ? r : url_add(url, value);
}

int images_import_from(const struct images_args *args, const char *source, const char *name,
                       struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, "/v1/images/import");

    if (r == 0 && name != NULL)
        r = add_query(&url, "name=", name);
    if (r == 0 && args->message != NULL)
        r = add_query(&url, "message=", args->message);
    for (size_t i = 0; r == 0 && i < args->change_count; i++)
        r = add_query(&url, "change=", args->changes[i]);
    return r < 0 ? err_errno(err, r, "import") : post_archive(args, url.data, source, err);
}

/* ---- receiving ---- */

static int open_output(const char *path, struct err *err)
{
    int fd;

    if (path == NULL || strcmp(path, "-") == 0)
        return isatty(STDOUT_FILENO)
                   ? err_set(err, -EINVAL,
                             "standard output is a terminal: name a file with --output")
                   : STDOUT_FILENO;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return fd < 0 ? err_errno(err, -errno, "'%s'", path) : fd;
}

static int receive_archive(struct client *c, int fd, struct err *err)
{
    char piece[CLIENT_PIECE_MAX];
    ssize_t n;

    while ((n = client_read(c, piece, sizeof(piece), err)) > 0) {
        int r = write_all(fd, piece, (size_t)n);

        if (r < 0)
            return err_errno(err, r, "write the archive");
    }
    return (int)n;
}

static int get_archive(const struct images_args *args, const char *target, struct err *err)
{
    auto_images struct images_client c = {.alone = {.fd = FD_NONE, .alive = FD_NONE}};
    const struct client_request request = {.method = "GET", .target = target};
    int r = images_open(args, &c, err), fd;

    if (r == 0)
        r = client_send(c.client, &request, err);
    if (r == 0)
        r = client_head(c.client, err);
    if (r < 0)
        return r;
    fd = open_output(args->output,
                     err); /* opened after the reply's head, so that an error creates no file */
    if (fd < 0)
        return fd;
    r = receive_archive(c.client, fd, err);
    if (fd != STDOUT_FILENO && close(fd) < 0 && r == 0)
        r = err_errno(err, -errno, "'%s'", args->output);
    return r;
}

int images_save_to(const struct images_args *args, char **names, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, "/v1/images/save");

    for (; r == 0 && *names != NULL; names++)
        r = add_query(&url, "name=", *names);
    return r < 0 ? err_errno(err, r, "save") : get_archive(args, url.data, err);
}

int images_export_to(const struct images_args *args, const char *name, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, "/v1/images/export?name=%s", name);

    return r < 0 ? err_errno(err, r, "export") : get_archive(args, url.data, err);
}
