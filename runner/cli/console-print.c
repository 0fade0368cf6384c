/* Prints a console's log from Docker's API to our stdout and stderr. */

#include "cli/console-print.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "cli/frames.h"
#include "cli/log-print.h"
#include "cli/url.h"

bool has_console(const json_t *sandbox)
{
    return json_is_true(json_object_get(json_object_get(sandbox, "spec"), "console"));
}

static size_t write_piece(void *data, int stream, const char *bytes, size_t len)
{
    int *failed = data;

    if (*failed == 0)
        *failed = write_all(stream == 2 ? STDERR_FILENO : STDOUT_FILENO, bytes, len);
    return len;
}

/*
 * A terminal's log is raw bytes; others consist of Docker's frames, which have the format of exec
 * frames (frames.h).
 */
static int print_piece(struct frames *f, bool raw, const char *bytes, size_t len, struct err *err)
{
    int failed = 0, r = 0;
    size_t used;

    if (raw)
        (void)write_piece(&failed, 1, bytes, len);
    else
        r = frames_feed(f, bytes, len, write_piece, &failed, &used, err);
    if (r == 0 && f->end_type != 0)
        r = err_set(err, -EPROTO, "the daemon sent a frame of type %d, which is none", f->end_type);
    return r == 0 && failed < 0 ? err_errno(err, failed, "standard output") : r;
}

/* Times as Docker has them: seconds with decimals. */
static int console_add_times(const struct log_reader *l, struct buf *url)
{
    int r = buf_printf(url, "&timestamps=%d", (int)l->timestamps);

    if (r == 0 && l->since_ms != 0)
        r = buf_printf(url, "&since=%" PRId64 ".%03" PRId64, l->since_ms / 1000,
                       l->since_ms % 1000);
    if (r == 0 && l->until_ms != 0)
        r = buf_printf(url, "&until=%" PRId64 ".%03" PRId64, l->until_ms / 1000,
                       l->until_ms % 1000);
    return r;
}

int console_print(const struct log_reader *l, struct client *c, const json_t *sandbox, bool follow,
                  struct err *err)
{
    static char piece[CLIENT_PIECE_MAX];
    const bool raw = json_is_true(json_object_get(json_object_get(sandbox, "spec"), "tty"));
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    struct client_request request = {.method = "GET"};
    struct frames frames = {.head_len = 0};
    ssize_t n;
    int r;

    if (l->remote->json || l->out_offset != NULL || l->errors_offset != NULL || l->last_run)
        return err_set(
            err, -EOPNOTSUPP,
            "the log of this sandbox is its console's, which has lines and no offsets: it "
            "is printed as text alone, and whole");
    r = url_make(&url, "/containers/%s/logs?stdout=%s&stderr=%s&follow=%s&tail=%s",
                 member(sandbox, "id"), l->out ? "1" : "0", l->errors ? "1" : "0",
                 follow ? "1" : "0", l->tail != NULL ? l->tail : "all");
    if (r == 0)
        r = console_add_times(l, &url);
    if (r < 0)
        return err_errno(err, r, "log");
    request.target = url.data;
    r = client_send(c, &request, err);
    if (r == 0)
        r = client_head(c, err);
    while (r == 0 && (n = client_read(c, piece, sizeof(piece), err)) != 0)
        r = n < 0 ? (int)n : print_piece(&frames, raw, piece, (size_t)n, err);
    frames_done(&frames);
    return r;
}
