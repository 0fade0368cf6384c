/* The parsers behind spec/parse.h. Pure, except for getcwd. */

#include "spec/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "policy/tables.h"
#include "spec/spec.h"

/* ---- names ---- */

bool parse_is_name(const char *text, size_t max)
{
    static const char accepted[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t len = strlen(text);

    return len > 0 && len <= max && strspn(text, accepted) == len && strchr("_.-", text[0]) == NULL;
}

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses leading digits. Returns their number; 0: none, an error; -ERANGE: exceeds int64_t. */
static int leading_number(const char *text, size_t len, int64_t *ret)
{
    int64_t n = 0;
    size_t i;

    for (i = 0; i < len && is_digit(text[i]); i++)
        if (__builtin_mul_overflow(n, INT64_C(10), &n) ||
            __builtin_add_overflow(n, (int64_t)(text[i] - '0'), &n) || i == INT8_MAX)
            return -ERANGE;
    *ret = n;
    return (int)i;
}

int parse_number(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret,
                 struct err *err)
{
    size_t len = strlen(text);
    int64_t n = 0;
    int digits;

    digits = leading_number(text, len, &n);
    if (digits >= 0 && (digits == 0 || (size_t)digits != len))
        return err_set(err, -EINVAL,
                       "%s \"%.*s\": must be a number between %" PRId64 " and %" PRId64, what,
                       QUOTE_MAX, text, min, max);
    if (digits < 0 || n < min || n > max)
        return err_set(err, -ERANGE, "%s \"%.*s\": must be between %" PRId64 " and %" PRId64, what,
                       QUOTE_MAX, text, min, max);
    *ret = n;
    return 0;
}

/* Formats a size with the largest unit that divides it. */
static void format_bytes(int64_t n, char *text, size_t size)
{
    static const char units[] = " kmgt";
    size_t unit = 0;

    while (n >= 1024 && n % 1024 == 0 && unit < 4) {
        n /= 1024;
        unit++;
    }
    (void)snprintf(text, size, "%" PRId64 "%.*s", n, unit > 0 ? 1 : 0, units + unit);
}

/* Returns log2 of a size unit's factor, or -EINVAL. */
static int size_shift(const char *suffix)
{
    static const char units[] = "kmgt";
    const char *unit;

    if (suffix[0] == '\0' || strcasecmp(suffix, "b") == 0)
        return 0;
    unit = strchr(units, suffix[0] | 0x20);
    if (unit == NULL)
        return -EINVAL;
    if (suffix[1] != '\0' && strcasecmp(suffix + 1, "b") != 0 && strcasecmp(suffix + 1, "ib") != 0)
        return -EINVAL;
    return 10 * (int)(unit - units + 1);
}

int parse_bytes(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret,
                struct err *err)
{
    char least[32], most[32];
    int64_t n = 0;
    int digits, shift;

    digits = leading_number(text, strlen(text), &n);
    shift = digits > 0 ? size_shift(text + digits) : 0;
    if (digits == 0 || shift < 0)
        return err_set(err, -EINVAL,
                       "%s \"%.*s\": must be a number of bytes, or one with k, m, g or t behind it",
                       what, QUOTE_MAX, text);
    if (digits > 0 && n <= max >> shift && n << shift >= min) {
        *ret = n << shift;
        return 0;
    }
    format_bytes(min, least, sizeof(least));
    format_bytes(max, most, sizeof(most));
    return err_set(err, -ERANGE, "%s \"%.*s\": must be between %s and %s", what, QUOTE_MAX, text,
                   least, most);
}

int parse_millis(const char *text, size_t len, int64_t *ret)
{
    int64_t whole = 0, part = 0;
    int digits, decimals = 0;

    digits = leading_number(text, len, &whole);
    if (digits <= 0)
        return digits < 0 ? digits : -EINVAL;
    text += digits;
    len -= (size_t)digits;
    if (len > 0) {
        if (text[0] != '.')
            return -EINVAL;
        decimals = leading_number(text + 1, len - 1, &part);
        if (decimals < 1 || decimals > 3 || (size_t)decimals != len - 1)
            return -EINVAL;
    }
    for (; decimals < 3; decimals++)
        part *= 10;
    if (whole > INT64_MAX / 1000 - 1)
        return -ERANGE;
    *ret = whole * 1000 + part;
    return 0;
}

int parse_duration(const char *what, const char *text, int64_t *ret, struct err *err)
{
    static const struct {
        const char *suffix;
        int64_t factor, divisor; /* factor from 1/1000 of the number to milliseconds */
    } units[] = {{"", 1, 1}, {"ms", 1, 1000}, {"s", 1, 1}, {"m", 60, 1}, {"h", 3600, 1}};
    size_t len = strspn(text, "0123456789.");
    int64_t millis = 0;
    int r;

    r = parse_millis(text, len, &millis);
    for (size_t i = 0; r == 0 && i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text + len, units[i].suffix) != 0)
            continue;
        if (millis % units[i].divisor != 0)
            break; /* finer than a millisecond */
        if (__builtin_mul_overflow(millis / units[i].divisor, units[i].factor, &millis) ||
            millis < 1 || millis > SPEC_TIME_MAX_MS)
            r = -ERANGE;
        else
            *ret = millis;
        if (r == 0)
            return 0;
    }
    if (r == -ERANGE)
        return err_set(err, r, "%s \"%.*s\": must be between 1ms and 8784h", what, QUOTE_MAX, text);
    return err_set(err, -EINVAL,
                   "%s \"%.*s\": must be a number of seconds, or one with ms, s, m or h behind it",
                   what, QUOTE_MAX, text);
}

/* ---- ulimits ---- */

static int ulimit_value(const char *text, size_t len, uint64_t *ret)
{
    int64_t n = 0;
    int digits;

    if ((len == 9 && memcmp(text, "unlimited", 9) == 0) ||
        (len == 2 && memcmp(text, "-1", 2) == 0)) {
        *ret = RLIM_INFINITY;
        return 0;
    }
    digits = leading_number(text, len, &n);
    if (digits <= 0 || (size_t)digits != len)
        return -EINVAL;
    *ret = (uint64_t)n;
    return 0;
}

int parse_ulimit(const char *text, struct rlimit_value *ret, struct err *err)
{
    const char *equals = strchr(text, '='), *soft, *hard;
    struct rlimit_value v;
    char name[16] = "";
    size_t len = equals != NULL ? (size_t)(equals - text) : 0;

    if (len > 0 && len < sizeof(name))
        (void)memcpy(name, text, len);
    v.resource = rlimit_by_option(name);
    if (equals == NULL || v.resource < 0)
        return err_set(
            err, -EINVAL,
            "ulimit \"%.*s\": must be NAME=SOFT[:HARD], NAME one of as, core, cpu, data, "
            "fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, "
            "sigpending, stack",
            QUOTE_MAX, text);
    soft = equals + 1;
    len = strcspn(soft, ":");
    hard = soft[len] == ':' ? soft + len + 1 : soft;
    if (ulimit_value(soft, len, &v.soft) < 0 ||
        ulimit_value(hard, hard == soft ? len : strlen(hard), &v.hard) < 0)
        return err_set(err, -EINVAL, "ulimit \"%.*s\": SOFT and HARD must be numbers, or unlimited",
                       QUOTE_MAX, text);
    if (v.soft > v.hard)
        return err_set(err, -ERANGE, "ulimit \"%.*s\": SOFT must not be above HARD", QUOTE_MAX,
                       text);
    if (!rlimit_grantable((uint64_t)v.resource, v.hard))
        return err_set(err, -EPERM, "ulimit \"%.*s\": a sandbox gets no priority above others'",
                       QUOTE_MAX, text);
    *ret = v;
    return 0;
}

/* ---- paths ---- */

/*
 * Appends the components of `path` to out (SPEC_PATH_MAX + 1 bytes), dropping "" and ".". -EINVAL:
 * a ".."; -ENAMETOOLONG.
 */
static int append_components(char *out, size_t *out_len, const char *path)
{
    while (*path != '\0') {
        size_t len = strcspn(path, "/");

        if (len == 2 && memcmp(path, "..", 2) == 0)
            return -EINVAL;
        if (len > 0 && !(len == 1 && *path == '.')) {
            if (*out_len + 1 + len > SPEC_PATH_MAX)
                return -ENAMETOOLONG;
            out[(*out_len)++] = '/';
            (void)memcpy(out + *out_len, path, len);
            *out_len += len;
        }
        path += len + (path[len] == '/' ? 1 : 0);
    }
    out[*out_len] = '\0';
    return 0;
}

static int finish_path(const char *what, const char *text, const char *out, size_t len, int r,
                       char **ret, struct err *err)
{
    char *copy;

    if (r == -ENAMETOOLONG)
        return err_set(err, r, "%s \"%.*s...\": longer than %d bytes", what, QUOTE_MAX, text,
                       SPEC_PATH_MAX);
    if (r < 0)
        return err_set(err, r, "%s \"%.*s\": must not hold \"..\"", what, QUOTE_MAX, text);
    copy = strdup(len > 0 ? out : "/");
    if (copy == NULL)
        return err_errno(err, -ENOMEM, "%s", what);
    *ret = copy;
    return 0;
}

int parse_inside_path(const char *what, const char *text, char **ret, struct err *err)
{
    char out[SPEC_PATH_MAX + 1];
    size_t len = 0;
    int r;

    if (text[0] != '/')
        return err_set(err, -EINVAL, "%s \"%.*s\": must be an absolute path in the sandbox", what,
                       QUOTE_MAX, text);
    r = append_components(out, &len, text);
    return finish_path(what, text, out, len, r, ret, err);
}

/* Cuts a leading "./" or "../" off *path; for "../" also removes the last component of out. */
static bool cut_dots(const char **path, char *out, size_t *len)
{
    size_t dots = strspn(*path, ".");

    if (dots < 1 || dots > 2 || ((*path)[dots] != '/' && (*path)[dots] != '\0'))
        return false;
    if (dots == 2) {
        while (*len > 0 && out[*len - 1] != '/')
            (*len)--;
        if (*len > 0)
            (*len)--;
    }
    *path += dots;
    *path += strspn(*path, "/");
    return true;
}

int parse_host_path(const char *what, const char *text, char **ret, struct err *err)
{
    char out[SPEC_PATH_MAX + 1] = "";
    const char *rest = text;
    size_t len = 0;
    int r;

    if (text[0] == '\0')
        return err_set(err, -EINVAL, "%s: must not be empty", what);
    if (text[0] != '/') {
        if (getcwd(out, sizeof(out)) == NULL)
            return err_errno(err, -errno, "%s \"%.*s\": working directory", what, QUOTE_MAX, text);
        if (out[0] != '/')
            return err_set(err, -ENOENT, "%s \"%.*s\": the working directory is unreachable", what,
                           QUOTE_MAX, text);
        len = strlen(out);
        if (len == 1)
            len = 0; /* "/" */
        while (cut_dots(&rest, out, &len))
            ;
    }
    r = append_components(out, &len, rest);
    return finish_path(what, text, out, len, r, ret, err);
}
