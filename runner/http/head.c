#include "http/head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/number.h"

enum {
    REQUEST_LINE_EXTRA = 64, /* method and version beside the URL */
};

/* ---- scanning ---- */

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

/* ---- splitting ---- */

static int header_split(char *line, struct http_header *ret, struct err *err)
{
    char *colon = strchr(line, ':'), *value, *end;

    if (colon == NULL || colon == line)
        return err_set(err, -EBADMSG, "a header without a name");
    *colon = '\0';
    value = colon + 1 + strspn(colon + 1, " \t");
    for (end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t');)
        *--end = '\0';
    *ret = (struct http_header){.name = line, .value = value};
    return 0;
}

int head_split(char *text, struct http_header *headers, size_t max, size_t *ret_count,
               struct err *err)
{
    char *line = text, *end;
    size_t n = 0;
    int r;

    /* The scan has seen a line feed behind each carriage return. */
    for (; (end = strchr(line, '\r')) != NULL && end != line; line = end + 2) {
        *end = '\0';
        if (line == text)
            continue;
        if (n == max)
            return err_set(err, -EBADMSG, "more headers than lines");
        r = header_split(line, &headers[n++], err);
        if (r < 0)
            return r;
    }
    if (line == text)
        return err_set(err, -EBADMSG, "an empty head");
    *ret_count = n;
    return 0;
}

const char *header_value(const struct http_header *headers, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(headers[i].name, name) == 0)
            return headers[i].value;
    return NULL;
}

/* ---- first lines ---- */

/* A token of RFC 9110: a method, or the name of a header. */
static bool is_token(const char *text)
{
    static const bool others[128] = {
        ['!'] = true,  ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true,
        ['\''] = true, ['*'] = true, ['+'] = true, ['-'] = true, ['.'] = true,
        ['^'] = true,  ['_'] = true, ['`'] = true, ['|'] = true, ['~'] = true,
    };
    const char *p = text;

    for (unsigned char c; (c = (unsigned char)*p) != '\0'; p++) {
        bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';

        if (!letter && !(c >= '0' && c <= '9') && (c >= 128 || !others[c]))
            return false;
    }
    return p != text;
}

static int head_version(const char *text, bool *ret_http10, struct err *err)
{
    if (strcmp(text, "HTTP/1.0") != 0 && strcmp(text, "HTTP/1.1") != 0)
        return err_set(err, strncmp(text, "HTTP/", 5) == 0 ? -EPROTONOSUPPORT : -EBADMSG,
                       "only HTTP/1.1 and HTTP/1.0 are spoken");
    *ret_http10 = text[7] == '0';
    return 0;
}

bool head_split_request(char *line, char **ret_target, char **ret_version)
{
    char *target = strchr(line, ' '), *version;

    if (target == NULL || (version = strchr(target + 1, ' ')) == NULL)
        return false;
    *target = *version = '\0';
    *ret_target = target + 1;
    *ret_version = version + 1;
    return true;
}

int head_request_line(char *line, char **ret_target, bool *ret_http10, struct err *err)
{
    char *version;
    int r;

    if (!head_split_request(line, ret_target, &version))
        return err_set(err, -EBADMSG, "malformed request line");
    r = head_version(version, ret_http10, err);
    if (r < 0)
        return r;
    if (!is_token(line) || **ret_target == '\0')
        return err_set(err, -EBADMSG, "malformed request line");
    for (const char *p = *ret_target; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || *p == '#')
            return err_set(err, -EBADMSG, "the target holds what no target can");
    return 0;
}

int head_status_line(char *line, int *ret_status, const char **ret_reason, bool *ret_http10,
                     struct err *err)
{
    char *status = strchr(line, ' ');
    int64_t code;
    int r;

    if (status == NULL)
        return err_set(err, -EBADMSG, "malformed status line");
    *status++ = '\0';
    r = head_version(line, ret_http10, err);
    if (r < 0)
        return r;
    *ret_reason = status;
    code = number_take(ret_reason, 3);
    if (code < 100 || (**ret_reason != ' ' && **ret_reason != '\0'))
        return err_set(err, -EBADMSG, "malformed status line");
    *ret_reason += **ret_reason == ' ';
    *ret_status = (int)code;
    return 0;
}

/* ---- headers ---- */

bool header_lists(const char *list, const char *token)
{
    size_t want = strlen(token);

    while (*list != '\0') {
        size_t len;

        list += strspn(list, " \t,");
        len = strcspn(list, " \t,");
        if (len == want && strncasecmp(list, token, len) == 0)
            return true;
        list += len;
    }
    return false;
}

enum head_field {
    FIELD_LENGTH,
    FIELD_CODING,
    FIELD_HOST,
    FIELD_EXPECT,
    FIELD_CONNECTION,
    FIELD_UPGRADE,
    FIELD_COUNT
};

static const struct {
    const char *name;
    bool once;         /* a second one is refused */
    bool request_only; /* means nothing in a reply */
} field_rules[FIELD_COUNT] = {
    [FIELD_LENGTH] = {"Content-Length", .once = true},
    [FIELD_CODING] = {"Transfer-Encoding", .once = true},
    [FIELD_HOST] = {"Host", .once = true, .request_only = true},
    [FIELD_EXPECT] = {"Expect", .once = true, .request_only = true},
    [FIELD_CONNECTION] = {"Connection"},
    [FIELD_UPGRADE] = {"Upgrade"},
};

static enum head_field head_field_of(const char *name, bool response)
{
    for (unsigned k = 0; k < FIELD_COUNT; k++)
        if ((name[0] | 0x20) == (field_rules[k].name[0] | 0x20) && /* saves most calls */
            strcasecmp(name, field_rules[k].name) == 0)
            return response && field_rules[k].request_only ? FIELD_COUNT : (enum head_field)k;
    return FIELD_COUNT;
}

static int head_take_field(struct head_fields *f, enum head_field field, const char *value,
                           bool http10, int *status, struct err *err)
{
    int64_t length;

    switch (field) {
    case FIELD_LENGTH:
        length = number_whole(value, NUMBER_DIGITS_MAX);
        if (length < 0)
            return err_set(err, -EBADMSG, "Content-Length is no number");
        f->has_length = true;
        f->length = (uint64_t)length;
        return 0;
    case FIELD_CODING:
        f->chunked = true;
        return !http10 && strcasecmp(value, "chunked") == 0
                   ? 0
                   : err_set(err, -EBADMSG,
                             "Transfer-Encoding must be 'chunked', once, and in HTTP/1.1");
    case FIELD_HOST:
        f->host = value;
        return 0;
    case FIELD_EXPECT:
        f->expect_continue = !http10;
        if (strcasecmp(value, "100-continue") == 0)
            return 0;
        *status = 417;
        return err_set(err, -EINVAL, "Expect can only be '100-continue'");
    case FIELD_CONNECTION:
        f->close = f->close || header_lists(value, "close");
        f->keep_alive = f->keep_alive || header_lists(value, "keep-alive");
        f->names_upgrade = f->names_upgrade || header_lists(value, "upgrade");
        return 0;
    case FIELD_UPGRADE:
        f->upgrade = f->upgrade == NULL ? value : "";
        return 0;
    case FIELD_COUNT:
    default:
        return 0;
    }
}

int head_fields(const struct http_header *headers, size_t count, bool response, bool http10,
                struct head_fields *ret, int *status, struct err *err)
{
    unsigned seen = 0;
    int r;

    *ret = (struct head_fields){.host = NULL};
    for (size_t i = 0; i < count; i++) {
        enum head_field k = head_field_of(headers[i].name, response);

        if (!is_token(headers[i].name))
            return err_set(err, -EBADMSG, "a header's name holds what no name can");
        if (k < FIELD_COUNT && field_rules[k].once && (seen & 1U << k) != 0)
            return err_set(err, -EBADMSG, "%s is there twice: it can be there once",
                           field_rules[k].name);
        seen |= 1U << k;
        r = head_take_field(ret, k, headers[i].value, http10, status, err);
        if (r < 0)
            return r;
    }
    return ret->chunked && ret->has_length
               ? err_set(err, -EBADMSG, "Content-Length beside Transfer-Encoding")
               : 0;
}
