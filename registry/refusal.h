#pragma once

/* What a registry says when it refuses: {"errors":[{"code","message","detail"}]}, or something
 * else. Hostile text that ends on a terminal. Pure. */

#include <stddef.h>

enum { REFUSAL_TEXT_MAX = 1000 };

/* Copies text for a line on a terminal: control characters (of ASCII and C1), overrides of the
 * direction and invalid UTF-8 become \xNN; line ends and tabs blanks. Ends with "..." if it does
 * not fit. */
void text_for_terminal(const char *text, size_t len, char *ret, size_t size);

/*
 * Says why: "code: message" of the first error, as docker does ("denied: requested access to the
 * resource is denied"). Of a body that is no such JSON: its first line, or what it is (HTML). ""
 * if it is empty.
 */
void refusal_text(const char *body, size_t len, char ret[REFUSAL_TEXT_MAX + 1]);
/* True if the body is a page of HTML, as sign-in pages of networks are. */
int text_is_html(const char *body, size_t len);
