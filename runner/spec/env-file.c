/* Environment entries "K=V" and "K" from the command line and from files. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "spec/env.h"
#include "spec/parse.h"
#include "spec/spec.h"

/* Length of the name at the start of "K=V" or "K"; 0 if invalid. */
static size_t name_length(const char *text)
{
    size_t len = strcspn(text, "=");

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return 0;
    return len;
}

int spec_add_env(struct spec *s, const char *text, struct err *err)
{
    size_t len = name_length(text);
    const char *value;

    if (len == 0)
        return err_set(err, -EINVAL,
                       "environment variable \"%.*s\": must be NAME=VALUE or NAME, and NAME must "
                       "not be empty or hold white space",
                       (int)(strcspn(text, "=") < QUOTE_MAX ? strcspn(text, "=") : QUOTE_MAX),
                       text);
    if (text[len] == '=')
        return env_put(s, text, len, text + len + 1, err);

    value = getenv(text);
    if (value == NULL)
        return 0; /* as in Docker, a name that is not set in our environment is skipped */
    return env_put(s, text, len, value, err);
}

/* Parses one line without its newline. */
static int add_line(struct spec *s, char *line, struct err *err)
{
    size_t len = strlen(line);

    if (len > 0 && line[len - 1] == '\r')
        line[--len] = '\0';
    line += strspn(line, " \t");
    if (*line == '\0' || *line == '#')
        return 0;
    return spec_add_env(s, line, err);
}

static int add_lines(struct spec *s, char *text, const char *path, struct err *err)
{
    static const char bom[] = "\xef\xbb\xbf";
    int r, number = 0;

    if (strncmp(text, bom, strlen(bom)) == 0)
        text += strlen(bom);
    while (text != NULL) {
        char *line = strsep(&text, "\n");

        number++;
        r = add_line(s, line, err);
        if (r < 0)
            return err_wrap(err, r, "%.*s: line %d", QUOTE_MAX, path, number);
    }
    return 0;
}

int spec_add_env_file(struct spec *s, const char *path, struct err *err)
{
    auto_close int fd = FD_NONE;
    auto_free char *text = NULL;
    size_t len;
    int r;

    /* Opened with the user's rights, so links and pipes are allowed. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_errno(err, -errno, "env file \"%.*s\"", QUOTE_MAX, path);
    r = file_read_fd(fd, SPEC_STRINGS_MAX, &text, &len, err);
    if (r < 0)
        return err_wrap(err, r, "env file \"%.*s\"", QUOTE_MAX, path);
    if (memchr(text, '\0', len) != NULL)
        return err_set(err, -EINVAL, "env file \"%.*s\": holds a NUL byte", QUOTE_MAX, path);
    r = add_lines(s, text, path, err);
    return r < 0 ? err_wrap(err, r, "env file") : 0;
}
