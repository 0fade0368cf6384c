/* Growing lists of strings; see spec/strings.h. */

#include "spec/strings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
/* gcc 12's analyzer considers a pointer leaked when it is stored at an index unknown to it. */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

char **strings_new(void)
{
    char **list = malloc(sizeof(*list));

    if (list != NULL)
        list[0] = NULL;
    return list;
}

/* Doubles the list when it is full: when strings and NULL are a power of two. */
static int make_room(char ***list, size_t count)
{
    size_t used = count + 1;
    char **more;

    if ((used & (used - 1)) != 0)
        return 0;
    more = reallocarray(*list, used * 2, sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    *list = more;
    return 0;
}

int strings_append(char ***list, size_t count, const char *text)
{
    if (make_room(list, count) < 0)
        return -ENOMEM;
    (*list)[count + 1] = NULL;
    (*list)[count] = strdup(text);
    return (*list)[count] != NULL ? 0 : -ENOMEM;
}
