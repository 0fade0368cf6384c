/* Base64: the RFC's own vectors both ways, every length, and what is refused. */

#include <errno.h>

#include "base/base64.h"
#include "tap.h"

TEST(the_rfcs_vectors_round_trip)
{
    static const struct {
        const char *plain, *text;
    } rows[] = {{"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[16], plain[16];
        size_t len = 99;

        CHECK_INT(base64_encode(text, rows[i].plain, strlen(rows[i].plain)), strlen(rows[i].text));
        CHECK_STR(text, rows[i].text);
        CHECK_INT(base64_encoded_size(strlen(rows[i].plain)), strlen(rows[i].text));
        CHECK_INT(base64_decode(plain, rows[i].text, strlen(rows[i].text), &len), 0);
        CHECK_INT(len, strlen(rows[i].plain));
        CHECK(memcmp(plain, rows[i].plain, strlen(rows[i].plain)) == 0);
    }
}

TEST(every_byte_and_length)
{
    unsigned char bytes[256];
    char text[400];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(255 - i);
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        size_t len = 0, size = base64_encode(text, bytes, n);

        CHECK_INT(base64_decode(text, text, size, &len), 0); /* in place */
        CHECK_INT(len, n);
        CHECK(memcmp(text, bytes, n) == 0);
    }
}

TEST(text_that_is_no_base64_is_refused)
{
    static const char *const rows[] = {"Z",    "Zg",   "Zg=",      "Zg==Zg==", "Zm9\n", "Zm 9",
                                       "====", "Z===", "Zm9v=m9v", "Zh==",     "Zm9=",  "Zm-_"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[16];
        size_t len = 7;

        CHECK_INT(base64_decode(out, rows[i], strlen(rows[i]), &len), -EILSEQ);
        CHECK_INT(len, 7);
    }
}

TAP_MAIN
