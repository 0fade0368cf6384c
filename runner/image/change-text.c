/* Changes of an image's configuration as text. Pure functions; called by images/snapshot-config.c
 * and the façade's commit. */
#include "image/change-text.h"

#include <errno.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/buf.h"

enum { CHANGE_TEXT_MAX = 1 << 20 };

int image_change_word(const char *instruction, const char *word, char **ret)
{
    auto_buf struct buf b = BUF_INIT(CHANGE_TEXT_MAX);
    size_t unused;
    int r = buf_printf(&b, "%s \"", instruction);

    for (; r == 0 && *word != '\0'; word++) {
        if (*word == '"' || *word == '\\')
            r = buf_append(&b, "\\", 1);
        if (r == 0)
            r = buf_append(&b, word, 1);
    }
    if (r == 0)
        r = buf_append(&b, "\"", 1);
    if (r < 0)
        return r;
    *ret = buf_take(&b, &unused);
    return *ret != NULL ? 0 : -ENOMEM;
}

int image_change_list(const char *instruction, const json_t *list, char **ret)
{
    auto_free char *json = json_dumps(list, JSON_COMPACT);

    if (json == NULL || asprintf(ret, "%s %s", instruction, json) < 0) {
        *ret = NULL;
        return -ENOMEM;
    }
    return 0;
}
