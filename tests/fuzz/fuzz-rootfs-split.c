/* Any bytes into the splitter: every entry that is wanted has as many bytes as it said, within the
 * limits; and into the decoder of the worker's messages, what is taken can be said again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "image/worker-proto.h"
#include "path.h"
#include "split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 1 << 22, ENTRIES = 64 };

struct seen {
    uint64_t left, total;
    unsigned entries;
};

static void must(int condition)
{
    if (!condition)
        abort();
}

static int on_entry(void *data, const struct entry *e, struct err *err)
{
    struct seen *s = data;
    char path[PATH_ROOM];

    (void)err;
    must(s->left == 0);
    must(strlen(e->name) <= WORKER_PATH_MAX && strlen(e->link) <= WORKER_PATH_MAX);
    must(e->kind == ENTRY_FILE || e->size == 0);
    if (path_clean(e->name, path) == 0)
        must(path[0] != '/' && strstr(path, "//") == NULL && strstr(path, "/../") == NULL &&
             strncmp(path, "../", 3) != 0 && strcmp(path, "..") != 0);
    s->entries++;
    if (e->kind != ENTRY_FILE || s->entries % 3 == 0)
        return 0;
    s->left = e->size;
    s->total += e->size;
    return 1;
}

static int on_bytes(void *data, const void *bytes, size_t len, struct err *err)
{
    struct seen *s = data;

    (void)bytes;
    (void)err;
    must(len <= s->left);
    s->left -= len;
    return 0;
}

static void fuzz_split(const uint8_t *data, size_t size)
{
    const struct split_limits limits = {.files = FILES, .entries = ENTRIES};
    struct seen seen = {.left = 0};
    const struct split_sink sink = {.data = &seen, .entry = on_entry, .bytes = on_bytes};
    char entry[PATH_ROOM];
    struct err err = ERR_NONE;
    uint64_t entries = 0;
    struct tarball t;
    int r;

    r = tarball_open_memory(&t, data, size, &err);
    if (r == 0)
        r = split(&t, &limits, &sink, &entries, entry, &err);
    must(r == 0 ? seen.left == 0 && entries == seen.entries : err.code == r && err.msg[0] != '\0');
    must(seen.entries <= ENTRIES && seen.total <= FILES);
    tarball_close(&t);
}

static void fuzz_message(const uint8_t *data, size_t size)
{
    uint8_t again[WORKER_MSG_MAX];
    struct worker_msg m;
    struct err err = ERR_NONE;
    int r = worker_msg_decode(data, size, &m, &err);

    must(r == 0 ? worker_msg_encode(&m, again) == (ssize_t)size && memcmp(again, data, size) == 0
                : err.msg[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_message(data, size);
    fuzz_split(data, size);
    return 0;
}
