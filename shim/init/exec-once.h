#pragma once

/*
 * The filter behind `noExec`: a process that init starts executes the one program that was asked
 * for, and after that neither it nor its children execute any other. Pure.
 *
 * A filter is inherited and cannot be removed, so it has to let init's own execve through. init
 * passes a random number in the sixth argument, which the kernel ignores for execve and execveat.
 * The new program has neither the number nor the memory and registers that held it.
 */

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

enum { EXEC_ONCE_MAX = 24 };

/* Writes the program; returns its length. */
size_t exec_once_build(struct sock_filter out[EXEC_ONCE_MAX], uint64_t secret);
