#pragma once

/* What WWW-Authenticate asks for (RFC 9110, section 11.6.1): one or more challenges, in one header
 * or several. Hostile text. Pure. */

#include <stdbool.h>

enum { CHALLENGE_TEXT_MAX = 2047 };

enum challenge_scheme {
    CHALLENGE_NONE = 0, /* only schemes that are not spoken, such as Negotiate */
    CHALLENGE_BASIC,
    CHALLENGE_BEARER,
};

/* All zero: nothing asked yet. */
struct challenge {
    enum challenge_scheme scheme;
    /* of Bearer; "" = missing */
    char realm[CHALLENGE_TEXT_MAX + 1], service[CHALLENGE_TEXT_MAX + 1],
        scope[CHALLENGE_TEXT_MAX + 1];
};

/* Reads one header's value. The best of all challenges so far stays: Bearer, else Basic. Of two of
 * a kind the first. A challenge with a text that is too long, or a Bearer without realm, is none.
 */
void challenge_add(struct challenge *c, const char *value);
