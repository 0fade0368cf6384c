#pragma once

/* Signals by name, as clients write them. */

struct err;

enum { SIGNAL_TEXT_MAX = 16 }; /* bytes of a name, with its NUL */

/* "SIGTERM", "TERM", "term", "15", "SIGRTMIN+3", "RTMAX-1". -EINVAL with a message that begins with
 * `what`. */
int signal_parse(const char *what, const char *text, int *ret, struct err *err);
/* "SIGTERM", "SIGRTMIN+3"; the number for one without a name. */
void signal_format(int signo, char text[SIGNAL_TEXT_MAX]);
