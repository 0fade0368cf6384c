#pragma once

/* Signals by name. */

struct err;

enum { SIGNAL_TEXT_MAX = 16 }; /* bytes of a name, including the NUL */

/*
 * Parses "SIGTERM", "TERM", "term", "15", "SIGRTMIN+3", "RTMAX-1". -EINVAL; the message begins with
 * `what`.
 */
int signal_parse(const char *what, const char *text, int *ret, struct err *err);
/* Formats "SIGTERM", "SIGRTMIN+3"; the number of a signal without a name. */
void signal_format(int signo, char text[SIGNAL_TEXT_MAX]);
