#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOG_LINE_MAX = 2048 };

static enum log_level log_level = LOG_LEVEL_WARN;

void log_set_level(enum log_level level)
{
    log_level = level;
}

void log_msg(enum log_level level, const char *component, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char line[LOG_LINE_MAX];
    size_t len;
    va_list ap;
    int n;

    if (level > log_level)
        return;

    n = snprintf(line, sizeof(line), "%s %s ", names[level], component);
    if (n < 0)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
    va_end(ap);

    len = strlen(line);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[len++] = '\n';
    (void)!write(STDERR_FILENO, line, len);
}
