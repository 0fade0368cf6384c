/*
 * Anything that a starting init may say: each message is a byte of its length, then its bytes.
 * Every refusal has words, READY comes only after the last stage, and there is an end.
 */

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "launch/sandbox.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct boot b = BOOT_INIT(-1);
    unsigned count = 0;

    while (size > 0) {
        struct err err = ERR_NONE;
        size_t len = data[0];
        int r;

        data++;
        size--;
        if (len > size)
            len = size;
        r = boot_feed(&b, data, len, &err);
        assert(boot_stage_name(b.stage)[0] != '\0' && b.stage > 0 && b.stage < INIT_STAGE_MAX);
        if (r < 0) {
            assert(strncmp(err.msg, "start sandbox: ", 15) == 0 && r > -4096);
            return 0;
        }
        assert(r == BOOT_MORE || r == BOOT_READY);
        assert(r != BOOT_READY || b.stage == INIT_STAGE_INNER_LOCK);
        if (r == BOOT_READY)
            return 0;
        assert(++count < 1000);
        data += len;
        size -= len;
    }
    return 0;
}
