/* Prints stored and following logs from the daemon's API. */

#include "cli/log-print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/number.h"
#include "cli/follow.h"
#include "cli/url.h"
#include "json/parse.h"

/* Decodes {"data","encoding"}: *ret points into chunk, or into *ret_own (owned) if decoded. */
static int data_bytes(const json_t *chunk, char **ret_own, const char **ret, size_t *ret_len,
                      struct err *err)
{
    json_t *data = json_object_get(chunk, "data");
    const char *encoding = json_string_value(json_object_get(chunk, "encoding"));
    size_t len = json_string_length(data);
    auto_free char *bytes = NULL;
    const char *text = json_string_value(data);

    if (text == NULL)
        return err_set(err, -EPROTO, "the daemon's log has no data");
    if (encoding != NULL && strcmp(encoding, "base64") == 0) {
        bytes = malloc(len + 1);
        if (bytes == NULL)
            return err_errno(err, -ENOMEM, "log");
        if (base64_decode(bytes, text, len, &len) < 0)
            return err_set(err, -EPROTO, "the daemon's log is no base64");
        text = bytes;
    }
    *ret = text;
    *ret_len = len;
    *ret_own = take(bytes);
    return 0;
}

static int write_data(int fd, const json_t *chunk, struct err *err)
{
    auto_free char *own = NULL;
    const char *bytes;
    size_t len;
    int r = data_bytes(chunk, &own, &bytes, &len, err);

    if (r < 0)
        return r;
    r = write_all(fd, bytes, len);
    return r < 0 ? err_errno(err, r, fd == STDOUT_FILENO ? "standard output" : "standard error")
                 : 0;
}

static void report_lost(const char *stream, json_int_t bytes, const char *why)
{
    if (bytes > 0)
        (void)fprintf(stderr, "rind: %lld bytes of %s are lost: %s\n", (long long)bytes, stream,
                      why);
}

/* ---- stored output ---- */

static int print_stream(int fd, const json_t *root, const char *name, struct err *err)
{
    const json_t *one = json_object_get(root, name);

    if (one == NULL)
        return 0;
    report_lost(name, json_integer_value(json_object_get(one, "lost")), "rotated away");
    report_lost(name, json_integer_value(json_object_get(one, "dropped")), "there was no space");
    return write_data(fd, one, err);
}

static int make_target(const struct log_reader *l, const char *sandbox, const char *process,
                       struct buf *url)
{
    int r = url_make(url, "/v1/sandboxes/%s/processes/%s/logs?stream=%s", sandbox, process,
                     l->out && l->errors ? "both"
                     : l->out            ? "stdout"
                                         : "stderr");

    if (r == 0 && l->out_offset != NULL)
        r = url_make(url, "&stdoutOffset=%s", l->out_offset);
    if (r == 0 && l->errors_offset != NULL)
        r = url_make(url, "&stderrOffset=%s", l->errors_offset);
    if (r == 0 && l->last_run)
        r = url_make(url, "&lastRun=%s", "true");
    return r;
}

static int get_kept(const struct log_reader *l, const char *sandbox, const char *process,
                    json_t **ret, struct err *err)
{
    auto_client struct client *c = NULL;
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = make_target(l, sandbox, process, &url);

    if (r < 0)
        return err_errno(err, r, "sandbox '%.64s'", sandbox);
    r = remote_open(l->remote, &c, err);
    return r < 0 ? r : client_json(c, "GET", url.data, NULL, ret, err);
}

/* Start of the last `lines` lines; an incomplete last line counts. */
static size_t tail_start(const char *bytes, size_t len, int64_t lines)
{
    size_t at = len;

    if (lines == 0)
        return len;
    if (at > 0 && bytes[at - 1] == '\n')
        at--;
    while (at > 0 && !(bytes[at - 1] == '\n' && --lines == 0))
        at--;
    return at;
}

/* Sets *offset to the start of a stream's last lines, as text, if the stream was requested. */
static int set_tail(const struct log_reader *l, const json_t *root, const char *stream,
                    char at[LOG_OFFSET_MAX], const char **offset, struct err *err)
{
    const json_t *one = json_object_get(root, stream);
    auto_free char *own = NULL;
    const char *bytes;
    size_t len;
    int r;

    if (one == NULL)
        return 0;
    r = data_bytes(one, &own, &bytes, &len, err);
    if (r < 0)
        return r;
    (void)snprintf(at, LOG_OFFSET_MAX, "%lld",
                   (long long)json_integer_value(json_object_get(one, "offset")) +
                       (long long)tail_start(bytes, len, number_whole(l->tail, NUMBER_DIGITS_MAX)));
    *offset = at;
    return 0;
}

/*
 * Counts lines here, as the daemon's API only knows bytes. Output that arrives meanwhile is printed
 * in addition.
 */
static int find_tail(struct log_reader *l, const char *sandbox, const char *process,
                     struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r = get_kept(l, sandbox, process, &root, err);

    if (r == 0)
        r = set_tail(l, root, "stdout", l->tail_at[0], &l->out_offset, err);
    return r < 0 ? r : set_tail(l, root, "stderr", l->tail_at[1], &l->errors_offset, err);
}

int log_print_kept(struct log_reader *l, const char *sandbox, const char *process, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r = l->tail != NULL ? find_tail(l, sandbox, process, err) : 0;

    if (r == 0)
        r = get_kept(l, sandbox, process, &root, err);
    if (r < 0)
        return r;
    if (l->remote->json) {
        print_json(json_incref(root));
        return 0;
    }
    r = print_stream(STDOUT_FILENO, root, "stdout", err);
    return r < 0 ? r : print_stream(STDERR_FILENO, root, "stderr", err);
}

/* ---- following output ---- */

static int print_json_event(const char *name, json_t *root, struct err *err)
{
    (void)json_object_set_new(root, "event", json_string(name));
    print_json_line(json_incref(root));
    return fflush(stdout) == 0 ? 0 : err_errno(err, -errno, "standard output");
}

static int on_log_event(void *data, const char *name, const char *text, size_t len, struct err *err)
{
    struct log_reader *l = data;
    auto_ptr(json_decref) json_t *root = NULL;
    int r = json_parse(text, len, EVENT_LINE_MAX, &root, err);

    if (r < 0)
        return err_wrap(err, r, "an event");
    if (l->remote->json)
        r = print_json_event(name, root, err);
    else if (strcmp(name, "stdout") == 0)
        r = write_data(STDOUT_FILENO, root, err);
    else if (strcmp(name, "stderr") == 0)
        r = write_data(STDERR_FILENO, root, err);
    else if (strcmp(name, "lost") == 0)
        report_lost(member(root, "stream"), json_integer_value(json_object_get(root, "bytes")),
                    strcmp(member(root, "reason"), "noSpace") == 0 ? "there was no space"
                                                                   : "rotated away");
    if (r == 0 && strcmp(name, "exit") == 0) {
        json_t *code = json_object_get(root, "exitCode");

        if (json_is_integer(code))
            l->exit_code = (int)json_integer_value(code);
        return FOLLOW_END;
    }
    return r < 0 || strcmp(name, "deleted") != 0 ? r : FOLLOW_END;
}

int log_print_follow(struct log_reader *l, const char *sandbox, const char *process,
                     struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = l->tail != NULL ? find_tail(l, sandbox, process, err) : 0;

    l->exit_code = -1;
    if (r < 0)
        return r;
    r = make_target(l, sandbox, process, &url);
    if (r < 0)
        return err_errno(err, r, "sandbox '%.64s'", sandbox);
    return follow(l->remote, url.data, NULL, on_log_event, l, err);
}
