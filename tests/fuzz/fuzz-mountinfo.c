/* Any text: no crash, every entry whole, and the parser gets to the end of it in bounded steps. */

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sys/mountinfo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct mountinfo_entry e;
    unsigned lines = 0;
    struct mountinfo m;
    int r;

    if (text == NULL)
        return 0;
    if (size > 0)
        (void)memcpy(text, data, size);
    text[size] = '\0';
    mountinfo_init(&m, text, size);
    while ((r = mountinfo_next(&m, &e)) != 0) {
        assert(r == 1 || r == -EINVAL);
        assert(m.line == ++lines && lines <= size);
        if (r < 0)
            continue;
        assert(e.mount_point[0] == '/' && e.fstype[0] != '\0');
        /* Every string ends inside of the text. */
        assert(strlen(e.root) + strlen(e.options) + strlen(e.source) <= size);
        assert(e.super_options + strlen(e.super_options) <= text + size);
        (void)mountinfo_has_option(e.super_options, "cpu");
        (void)mountinfo_has_option(e.options, "");
    }
    assert(m.left == 0);
    free(text);
    return 0;
}
