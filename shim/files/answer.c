/* Answer frames and fatal errors of the shim (shim.h). */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "files/shim.h"

enum { LINE_BYTES = 256, DATA_TOGETHER = 256 };

/* A line of text, built without stdio: printf would double the program's size. Text that does not
 * fit is cut off. */
struct line {
    size_t len;
    char text[LINE_BYTES];
};

static void line_add(struct line *l, const char *s)
{
    size_t n = strlen(s);

    if (n > sizeof(l->text) - 1 - l->len)
        n = sizeof(l->text) - 1 - l->len;
    memcpy(l->text + l->len, s, n);
    l->len += n;
    l->text[l->len] = '\0';
}

static void line_add_number(struct line *l, unsigned n)
{
    char digits[3 * sizeof(n) + 1], *p = digits + sizeof(digits) - 1;

    *p = '\0';
    do
        *--p = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    line_add(l, p);
}

/* "No such file or directory (os error 2)" */
static void line_add_errno(struct line *l, int code)
{
    line_add(l, strerror(-code));
    line_add(l, " (os error ");
    line_add_number(l, (unsigned)-code);
    line_add(l, ")");
}

static void frame_send(int fd, const void *data, size_t len)
{
    int r = shim_write(fd, data, len);

    if (r < 0)
        shim_die_errno(r);
}

int shim_answer_success(int fd)
{
    uint8_t frame[FRAME_HEADER_SIZE];

    frame_put_header(frame, FRAME_SUCCESS, 0);
    frame_send(fd, frame, sizeof(frame));
    return EXIT_ANSWERED;
}

int shim_answer_error(int fd, int code)
{
    uint8_t frame[FRAME_HEADER_SIZE + FRAME_CODE_SIZE + LINE_BYTES];
    struct line text = {.len = 0};
    int n;

    line_add_errno(&text, code);
    n = frame_put_error(frame, sizeof(frame), -code, text.text);
    if (n < 0)
        shim_die_errno(n);
    frame_send(fd, frame, (size_t)n);
    return EXIT_ANSWERED;
}

int shim_answer_data(int fd, const void *payload, uint32_t len)
{
    uint8_t frame[FRAME_HEADER_SIZE + DATA_TOGETHER];

    frame_put_header(frame, FRAME_DATA, len);
    if (len <= DATA_TOGETHER) {
        memcpy(frame + FRAME_HEADER_SIZE, payload, len);
        frame_send(fd, frame, FRAME_HEADER_SIZE + len);
    } else {
        frame_send(fd, frame, FRAME_HEADER_SIZE);
        frame_send(fd, payload, len);
    }
    return EXIT_ANSWERED;
}

int shim_answer(int fd, int code)
{
    return code < 0 ? shim_answer_error(fd, code) : shim_answer_success(fd);
}

static _Noreturn void line_die(struct line *l)
{
    line_add(l, "\n");
    /* if stderr is unusable, no error can be reported */
    (void)shim_write(STDERR_FILENO, l->text, l->len);
    _exit(EXIT_BROKEN);
}

void shim_die(const char *message)
{
    struct line l = {.len = 0};

    line_add(&l, "sandbox-shim: ");
    line_add(&l, message);
    line_die(&l);
}

void shim_die_errno(int code)
{
    struct line l = {.len = 0};

    line_add(&l, "sandbox-shim: ");
    line_add_errno(&l, code);
    line_die(&l);
}
