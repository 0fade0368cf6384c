/* The user's terminal: raw mode, size, detach keys. */

#include "cli/terminal.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_ROWS = 24, DEFAULT_COLS = 80 };

void terminal_begin(struct terminal *t, bool typed)
{
    int fd = typed ? STDIN_FILENO : STDOUT_FILENO;
    struct termios raw;

    t->fd = -1;
    if (tcgetattr(fd, &t->before) < 0)
        return;
    raw = t->before;
    if (typed)
        cfmakeraw(&raw);
    else
        raw.c_oflag &= ~(tcflag_t)OPOST;
    if (tcsetattr(fd, TCSADRAIN, &raw) == 0)
        t->fd = fd;
}

void terminal_end(struct terminal *t)
{
    if (t->fd >= 0)
        (void)tcsetattr(t->fd, TCSADRAIN, &t->before);
    t->fd = -1;
}

void terminal_size(uint16_t *ret_rows, uint16_t *ret_cols)
{
    struct winsize size = {.ws_row = 0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        size.ws_row = 0;
    if (size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = DEFAULT_ROWS, .ws_col = DEFAULT_COLS};
    *ret_rows = size.ws_row;
    *ret_cols = size.ws_col;
}

bool terminal_has_hung_up(void)
{
    struct termios t;

    return tcgetattr(STDIN_FILENO, &t) < 0 && errno == EIO;
}

/* ---- detach keys ---- */

static int parse_key(const char *text, size_t len, unsigned char *ret)
{
    static const char ctrl[] = "ctrl-";
    size_t skip = sizeof(ctrl) - 1;
    unsigned char c;

    if (len == 1 && text[0] > 0x20 && text[0] < 0x7f) {
        *ret = (unsigned char)text[0];
        return 0;
    }
    if (len != skip + 1 || strncmp(text, ctrl, skip) != 0)
        return -EINVAL;
    c = (unsigned char)text[skip];
    if (c >= 'a' && c <= 'z')
        c = (unsigned char)(c - 0x20);
    if (c < '@' || c > '_')
        return -EINVAL;
    *ret = c & 0x1f;
    return 0;
}

int keys_parse(const char *text, struct keys *ret)
{
    struct keys k = {.count = 0};

    while (*text != '\0') {
        size_t len = strcspn(text, ",");

        if (k.count == KEYS_MAX || parse_key(text, len, &k.keys[k.count++]) < 0)
            return -EINVAL;
        text += len;
        if (*text == ',' && *++text == '\0')
            return -EINVAL;
    }
    *ret = k;
    return 0;
}

bool keys_filter(struct keys *k, const char *bytes, size_t len, char *out, size_t *ret_len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];

        while (k->matched > 0 && c != k->keys[k->matched]) {
            /*
             * Keeps the longest prefix of the keys that is also a suffix of what was held back,
             * less its first byte.
             */
            unsigned keep = k->matched - 1;

            while (keep > 0 && memcmp(k->keys, k->keys + k->matched - keep, keep) != 0)
                keep--;
            (void)memcpy(out + n, k->keys, k->matched - keep);
            n += k->matched - keep;
            k->matched = keep;
        }
        if (k->count > 0 && c == k->keys[k->matched])
            k->matched++;
        else
            out[n++] = (char)c;
        if (k->count > 0 && k->matched == k->count) {
            k->matched = 0;
            *ret_len = n;
            return true;
        }
    }
    *ret_len = n;
    return false;
}
