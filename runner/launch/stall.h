#pragma once

/*
 * Who keeps the supervisor waiting.
 *
 * A process can sleep with the lock of its own output's or input's pipe held: splice(2) from a
 * socket that says nothing into the pipe, or from the pipe to a socket that is full. Whoever reads,
 * writes or closes the other end then waits for the lock, without regard to O_NONBLOCK and out of
 * reach of signals. The supervisor has one thread, so all sandboxes would wait for the one.
 *
 * So it says, in memory that it shares with the launcher, when it is within such a call and for
 * which sandbox; and the launcher, which never touches such a pipe, looks 20 times a second while
 * there are any whether the supervisor sleeps there. A sandbox that has made it sleep for half a
 * second in all is ended, which frees the lock; a tenth of the time is forgiven, to all sandboxes
 * together. When it looks nobody can know. While nothing happens nobody looks.
 *
 * A process may have given its pipe to one of another sandbox, which sleeps with the lock then. So
 * where the supervisor sleeps on for another half second, all sandboxes are paused for a moment of
 * which some process sleeps in a call that can hold such a lock: who is paused lets go of it
 * (stall-others.c).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct launcher;
struct sandbox;
struct stall;

enum {
    STALL_LOOK_MS = 50, /* on average */
    STALL_MOST_MS = 500,
    STALL_FORGIVE_MS = 100, /* of each second in which there are such calls */
};

/* Before the fork. */
int stall_new(struct stall **ret, struct err *err);
/* NULL is fine. */
void stall_free(struct stall *s);

/* ---- in the supervisor ---- */

/* From now on stall_begin and stall_end say what they do; without it, they do nothing. One a
 * process: there is one thread that can sleep. */
void stall_tell(struct stall *s);
/* Around one call, or a few, on what processes of a sandbox have too; id: sandbox_number. They
 * nest: the outermost counts. errno stays. */
void stall_begin(uint64_t id);
void stall_end(void);
/* Closes an end of such a pipe or terminal, if it is open: even that waits for the lock. */
void stall_close(uint64_t id, int *fd);

/* ---- in the launcher ---- */

/* supervisor: to look at. Borrows s. */
int stall_watch(struct launcher *l, struct stall *s, pid_t supervisor, struct err *err);
/* Who is blamed is paused for a moment, not ended: where nobody else waits with the supervisor, and
 * it may wait for more than locks there, as for a slow disk behind its own output. */
void stall_be_gentle(struct stall *s);
/* A descriptor that is readable when there is something to look at, or -1. */
int stall_fd(const struct launcher *l);
/* Milliseconds until stall_look is due; -1: when stall_fd is readable. */
int stall_wait(const struct launcher *l);
void stall_look(struct launcher *l);
/* Whether the supervisor sleeps in such a call, and in which; and whether that one is over. */
bool stall_waits(const struct launcher *l, uint32_t *ret_seq);
bool stall_is_over(const struct launcher *l, uint32_t seq);
/* Whether whose stat file in /proc this is sleeps as one who waits for a lock. */
bool stall_sleeps(int stat_fd);
/* stall-others.c: whoever else has the lock lets go of it; in a process of its own. name: who was
 * blamed before, for the log. */
void stall_free_lock(struct launcher *l, const char *name);
/* Whether that is still about: whom a user pauses meanwhile, it would have go on. */
bool stall_seeks(struct launcher *l);
/* A process of the launcher's has ended: perhaps that one. status: of waitpid(2). */
void stall_reaped(struct launcher *l, pid_t pid, int status);
/* The same of this one, which it waits for. */
void stall_shake(struct launcher *l, struct sandbox *s);
/* After the end of its socket: until the supervisor has ended, whose descriptors are closed then.
 * One that was killed has said nothing before; and as long as it waits, no other can begin. */
void stall_wait_end(struct launcher *l, pid_t supervisor);
