/* The description of the API, embedded in the binary. */

#include "api/native/native.h"

/* The assembler's path is relative to the top of the tree, where make runs. */
__asm__(".pushsection .rodata\n"
        ".globl native_openapi_start, native_openapi_end\n"
        ".hidden native_openapi_start, native_openapi_end\n"
        "native_openapi_start:\n"
        ".incbin \"docs/openapi.json\"\n"
        "native_openapi_end:\n"
        ".byte 0\n"
        ".popsection\n");
extern const char native_openapi_start[], native_openapi_end[];

const char *native_openapi(size_t *ret_len)
{
    /* cppcheck-suppress comparePointers; both lie in the one section above */
    *ret_len = (size_t)(native_openapi_end - native_openapi_start);
    return native_openapi_start;
}
