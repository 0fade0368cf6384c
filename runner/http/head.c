#include "http/head.h"

#include <errno.h>

#include "base/err.h"

enum {
    REQUEST_LINE_EXTRA = 64, /* method and version beside the URL */
};

/* Checks a byte within a line, not at its end. */
static int head_check_byte(const struct head_scan *s, unsigned char c, struct err *err)
{
    if ((c < 0x20 && c != '\t') || c == 0x7f)
        return err_set(err, -EBADMSG, "control byte 0x%02x in the head", c);
    if (s->pos == s->line_start && (c == ' ' || c == '\t'))
        return err_set(err, -EBADMSG, "a line of the head begins with a blank");
    return 0;
}

static int head_check_line(const struct head_scan *s, const struct head_limits *limits,
                           struct err *err)
{
    if (s->lines == 0 && s->pos - s->line_start > limits->url + REQUEST_LINE_EXTRA)
        return err_set(err, -ENAMETOOLONG, "limit maxUrlBytes: the URL is longer than %zu bytes",
                       limits->url);
    if (s->lines > limits->lines + 1)
        return err_set(err, -E2BIG, "limit maxHeaders: more than %zu headers", limits->lines);
    if (s->pos >= limits->bytes)
        return err_set(err, -E2BIG, "limit maxHeadBytes: a head of more than %zu bytes",
                       limits->bytes);
    return 0;
}

long head_scan(struct head_scan *scan, const char *data, size_t len,
               const struct head_limits *limits, struct err *err)
{
    int r;

    for (; scan->pos < len; scan->pos++) {
        r = head_check_line(scan, limits, err);
        if (r < 0)
            return r;
        if (data[scan->pos] == '\n')
            return err_set(err, -EBADMSG, "a line feed alone in the head");
        if (data[scan->pos] != '\r') {
            r = head_check_byte(scan, (unsigned char)data[scan->pos], err);
            if (r < 0)
                return r;
            continue;
        }
        if (scan->pos + 1 == len)
            return 0;
        if (data[scan->pos + 1] != '\n')
            return err_set(err, -EBADMSG, "a carriage return alone in the head");
        if (scan->pos == scan->line_start && scan->lines > 0)
            return (long)(scan->pos + 2);
        scan->lines++;
        scan->pos++;
        scan->line_start = scan->pos + 1;
    }
    return 0;
}
