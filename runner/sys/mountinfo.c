#include "sys/mountinfo.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

void mountinfo_init(struct mountinfo *m, char *text, size_t len)
{
    assert(text[len] == '\0');
    *m = (struct mountinfo){.rest = text, .left = len, .line = 0};
}

/* Cuts off the next line and terminates it; NULL at the end of the text. */
static char *cut_line(struct mountinfo *m, size_t *ret_len)
{
    char *line = m->rest, *end;

    if (m->left == 0)
        return NULL;
    end = memchr(line, '\n', m->left);
    *ret_len = end != NULL ? (size_t)(end - line) : m->left;
    line[*ret_len] = '\0';
    m->rest += *ret_len + (end != NULL);
    m->left -= *ret_len + (end != NULL);
    m->line++;
    return line;
}

/* Cuts off the next field: a single space ends it, so that an empty source is a field, too. Returns
 * NULL at the end of the line. */
static char *cut_field(char **line)
{
    char *field = *line, *end;

    if (field == NULL)
        return NULL;
    end = strchr(field, ' ');
    *line = end != NULL ? end + 1 : NULL;
    if (end != NULL)
        *end = '\0';
    return field;
}

static bool is_octal(char c, char max)
{
    return c >= '0' && c <= max;
}

/* Decodes the kernel's \ooo escapes in place. -EINVAL for an escaped NUL, which would truncate a
 * path. */
static int unescape(char *s)
{
    char *out = s;

    while (*s != '\0') {
        if (s[0] == '\\' && is_octal(s[1], '3') && is_octal(s[2], '7') && is_octal(s[3], '7')) {
            int c = (s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0');

            if (c == 0)
                return -EINVAL;
            *out++ = (char)c;
            s += 4;
        } else {
            *out++ = *s++;
        }
    }
    *out = '\0';
    return 0;
}

/* Parses decimal digits up to `stop` (may be NUL), without sign, space or overflow. */
static int cut_number(char **s, char stop, unsigned *ret)
{
    unsigned value = 0;
    char *p = *s;

    do {
        if (*p < '0' || *p > '9')
            return -EINVAL;
        if (value > (UINT_MAX - (unsigned)(*p - '0')) / 10)
            return -EINVAL;
        value = value * 10 + (unsigned)(*p - '0');
    } while (*++p != stop);
    *s = p + (stop != '\0');
    *ret = value;
    return 0;
}

static int parse_numbers(char **line, struct mountinfo_entry *e)
{
    char *id = cut_field(line), *parent = cut_field(line), *dev = cut_field(line);

    if (dev == NULL)
        return -EINVAL;
    if (cut_number(&id, '\0', &e->id) < 0 || cut_number(&parent, '\0', &e->parent) < 0)
        return -EINVAL;
    if (cut_number(&dev, ':', &e->major) < 0 || cut_number(&dev, '\0', &e->minor) < 0)
        return -EINVAL;
    return 0;
}

static int parse_line(char *line, struct mountinfo_entry *e)
{
    char *root, *mount_point, *options, *optional, *fstype, *source, *super;

    if (parse_numbers(&line, e) < 0)
        return -EINVAL;
    root = cut_field(&line);
    mount_point = cut_field(&line);
    options = cut_field(&line);
    /* shared:N, master:N and other tags up to the lone dash are skipped. */
    do {
        optional = cut_field(&line);
    } while (optional != NULL && strcmp(optional, "-") != 0);
    fstype = cut_field(&line);
    source = cut_field(&line);
    super = line;
    if (super == NULL || mount_point[0] != '/' || fstype[0] == '\0')
        return -EINVAL;
    if (unescape(root) < 0 || unescape(mount_point) < 0 || unescape(fstype) < 0 ||
        unescape(source) < 0)
        return -EINVAL;

    e->root = root;
    e->mount_point = mount_point;
    e->options = options;
    e->fstype = fstype;
    e->source = source;
    e->super_options = super;
    return 0;
}

int mountinfo_next(struct mountinfo *m, struct mountinfo_entry *ret)
{
    struct mountinfo_entry e = {0};
    size_t len;
    char *line;

    line = cut_line(m, &len);
    if (line == NULL)
        return 0;
    if (strlen(line) != len || parse_line(line, &e) < 0)
        return -EINVAL;
    *ret = e;
    return 1;
}

bool mountinfo_has_option(const char *options, const char *name)
{
    size_t len = strlen(name);

    for (;;) {
        size_t word = strcspn(options, ",");

        if (word == len && memcmp(options, name, len) == 0)
            return true;
        if (options[word] == '\0')
            return false;
        options += word + 1;
    }
}
