/*
 * A process that shares init's memory until its execve. To copy even so small an address space, to
 * fault its pages in twice and to throw one of them away costs as much as the rest of a fork. One
 * at a time: a second one that is started meanwhile is a plain fork, with a copy.
 *
 * What makes it safe:
 * - It has a stack of its own below a page that nothing may touch, and nothing else of init's
 *   memory is written by it but its twin's `arena`: exec.c knows no errno and no static data.
 * - Descriptors, ids, capabilities, limits, signals' handlers and filters are a process's own.
 * - Its memory is used again only when it has left it: the status pipe ends after the old memory is
 *   gone, with execve as with a death. A record in the pipe is no end: who wrote it still runs.
 * - init never waits for it. What it reads may be a file system of the sandbox's own that never
 *   answers; vfork would hold init up with it.
 * - It is not dumpable, as init is not: nobody inside reads or writes its memory, or traces it. A
 *   signal from inside ends it alone. Where a change of ids would make it dumpable, it is a fork.
 * - The OOM killer ends with it all that share its memory, so a large request is a fork's, too. The
 *   sandbox's root can make init a candidate through it, which ends the sandbox: that he can do
 *   otherwise.
 */
#include <errno.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "init/exec-table.h"
#include "init/raw.h"

enum {
    SPAWN_VM_GUARD = 64 << 10,   /* bytes; a page, of whatever size pages are */
    SPAWN_VM_STACK = 64 << 10,   /* a quarter is used; what is not touched costs nothing */
    SPAWN_VM_REQUEST = 64 << 10, /* larger ones are a fork's */
    SPAWN_VM_KEPT = 64 << 10,    /* of what was read; the rest is given back */
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
    /* On a host that gives huge pages to every process, the first would be as large as ten inits.
     */
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
 * With fs.suid_dumpable = 1, a change of ids makes the memory of the process readable and writable
 * to others of these ids until it says otherwise; and a stop from inside can come before that. The
 * host may set it at any time, and none of its files are to be seen here: so ids are changed, while
 * nobody inside can name a process with this memory.
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
