/* Any bytes into the archive reader: each entry that it gives keeps its contract, each refusal says
 * why. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "image/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

static void check_path(const char *path)
{
    char inside[TAR_NAME_MAX + 3];

    must(path[0] != '\0' && strlen(path) <= TAR_NAME_MAX);
    /* With a slash at both ends, every component is between two slashes. */
    (void)snprintf(inside, sizeof(inside), "/%s/", path);
    must(strstr(inside, "//") == NULL && strstr(inside, "/./") == NULL &&
         strstr(inside, "/../") == NULL);
}

static void check_entry(const struct tar_entry *e, const uint8_t *data, size_t size)
{
    const uint8_t *content = e->data;

    check_path(e->name);
    must((e->mode & ~(mode_t)01777) == 0);
    must(e->uid <= TAR_OWNER_MAX && e->gid <= TAR_OWNER_MAX);
    if (e->type == TAR_FILE)
        must(content >= data && e->size <= (size_t)(data + size - content));
    else
        must(e->size == 0);
    if (e->type == TAR_HARDLINK)
        check_path(e->link);
    if (e->type == TAR_SYMLINK)
        must(e->link[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tar_reader t = TAR_READER(data, size);
    struct err err = ERR_NONE;
    struct tar_entry e;
    int r;

    while ((r = tar_next(&t, &e, &err)) > 0) {
        must(t.pos <= size);
        check_entry(&e, data, size);
    }
    must(r == 0 || err.msg[0] != '\0');
    return 0;
}
