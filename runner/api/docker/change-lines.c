#include "api/docker/change-lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Appends the next instruction of *text to ret and moves *text behind it. */
static void text_take_line(const char **text, char *ret)
{
    size_t len = strlen(ret);

    for (;;) {
        size_t n = strcspn(*text, "\n");
        const bool has_end = (*text)[n] == '\n';
        size_t body = n;

        while (body > 0 && strchr(" \t\r", (*text)[body - 1]) != NULL)
            body--;
        const bool goes_on = has_end && body > 0 && (*text)[body - 1] == '\\';

        (void)memcpy(ret + len, *text, goes_on ? body - 1 : n);
        len += goes_on ? body - 1 : n;
        *text += n + has_end;
        if (!goes_on)
            break;
    }
    while (len > 0 && strchr(" \t\r", ret[len - 1]) != NULL)
        len--;
    ret[len] = '\0';
}

static int list_add_text(char **list, size_t *count, const char *text)
{
    while (*text != '\0') {
        char *line = calloc(1, strlen(text) + 1);
        const char *first;

        if (line == NULL)
            return -ENOMEM;
        text_take_line(&text, line);
        first = line + strspn(line, " \t");
        if (*first == '\0' || *first == '#') {
            free(line);
            continue;
        }
        if (*count >= CHANGE_LINES_MAX) {
            free(line);
            return -E2BIG;
        }
        (void)memmove(line, first, strlen(first) + 1);
        list[(*count)++] = line;
    }
    return 0;
}

int change_lines(const char *const *texts, size_t count, char ***ret)
{
    size_t found = 0;
    int r = 0;

    *ret = calloc(CHANGE_LINES_MAX + 1, sizeof(**ret));
    if (*ret == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count && r == 0; i++)
        r = list_add_text(*ret, &found, texts[i]);
    return r;
}
