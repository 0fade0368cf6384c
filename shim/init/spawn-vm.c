/*
 * Starts a process that shares init's memory until its execve. A fork would copy the small address
 * space, fault its pages in twice and discard one copy, which doubles the cost. Only one process
 * shares the memory at a time: another one that is started meanwhile is forked.
 *
 * Why this is safe:
 * - The process has a stack of its own below a guard page. Of init's other memory it writes only
 *   to its `arena`: exec.c uses no errno and no static data.
 * - Each process has its own descriptors, ids, capabilities, limits, signal handlers and filters.
 * - The memory is used again only when the process has left it. The status pipe ends after that,
 *   with an execve as with an exit. A record in the pipe is no end: its writer still runs.
 * - init never waits for the process, which may read from a file system of the sandbox that never
 *   answers. vfork would block init meanwhile.
 * - The process is not dumpable, like init: no process inside can read or write its memory, or
 *   trace it. A signal from inside ends only this process. If a change of ids would make it
 *   dumpable, it is forked.
 * - The OOM killer kills all processes that share memory, so an exec with a large request is
 *   forked. The sandbox's root can make init a candidate that way, which ends the sandbox; other
 *   ways to end it are open to root anyway.
 */
#include <errno.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "init/exec-table.h"
#include "init/raw.h"

enum {
    SPAWN_VM_GUARD = 64 << 10,   /* bytes; at least a page of any page size */
    SPAWN_VM_STACK = 64 << 10,   /* a quarter is used; untouched pages cost nothing */
    SPAWN_VM_REQUEST = 64 << 10, /* larger requests are forked */
    SPAWN_VM_KEPT = 64 << 10,    /* bytes of the arena that stay; the rest is given back */
};

static int spawn_vm_open_memory(struct spawn_vm *w)
{
    unsigned char *map;

    if (w->stack != NULL)
        return 0;
    map = mmap(NULL, SPAWN_VM_GUARD + SPAWN_VM_STACK + EXEC_ARENA_SIZE, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return -errno;
    if (mprotect(map, SPAWN_VM_GUARD, PROT_NONE) < 0) {
        int r = -errno;

        (void)munmap(map, SPAWN_VM_GUARD + SPAWN_VM_STACK + EXEC_ARENA_SIZE);
        return r;
    }
    /* If the host gives huge pages to every process, the first would be as large as ten inits. */
    (void)madvise(map, SPAWN_VM_GUARD + SPAWN_VM_STACK + EXEC_ARENA_SIZE, MADV_NOHUGEPAGE);
    w->stack = map + SPAWN_VM_GUARD;
    w->arena.base = w->stack + SPAWN_VM_STACK;
    return 0;
}

static void spawn_vm_enter(void *data)
{
    const struct spawn_vm *w = data;

    exec_child(w->plan, &w->start);
}

/*
 * Returns whether a change of ids makes this process dumpable, as with fs.suid_dumpable = 1. Other
 * processes of these ids could then read and write its memory, until it clears the flag. A SIGSTOP
 * from inside may come before that. The host may change the setting at any time, and its files are
 * not visible here. So this function changes ids to find out, while no process inside can name this
 * one.
 */
bool spawn_vm_ids_open_memory(void)
{
    const int before = setfsgid(1);
    const bool changed = setfsgid((gid_t)before) == 1;
    const int now = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return !changed || now == 1;
}

bool spawn_vm_is_free(struct spawn_vm *w, size_t request_size)
{
    return !w->taken && request_size <= SPAWN_VM_REQUEST && !spawn_vm_ids_open_memory() &&
           spawn_vm_open_memory(w) == 0;
}

int spawn_vm_clone(struct spawn_vm *w, const struct plan *plan, const struct exec_start *start,
                   const struct clone_args *like)
{
    struct clone_args args = *like;
    int pid;

    w->plan = plan;
    w->start = *start;
    w->start.arena = &w->arena;
    w->arena.used = 0;
    args.flags |= CLONE_VM;
    args.stack = (uint64_t)(uintptr_t)w->stack;
    args.stack_size = SPAWN_VM_STACK;
    pid = (int)raw_clone3_at(&args, spawn_vm_enter, w);
    w->taken = pid > 0;
    return pid;
}

void spawn_vm_left(struct spawn_vm *w)
{
    w->taken = false;
    if (w->arena.used > SPAWN_VM_KEPT)
        (void)madvise(w->arena.base + SPAWN_VM_KEPT, w->arena.used - SPAWN_VM_KEPT, MADV_DONTNEED);
}
