/*
 * Times whole commands from a small process: posix_spawn to the end of the process, stdio on
 * /dev/null. Commands take turns, one start each a round, so that what disturbs the machine
 * disturbs all alike.
 *
 * usage: spawn ROUNDS ARG… [";" ARG…]…       one after another; a command may have steps: ARG… ","
 * ARG… spawn -p COUNT ARG…                 COUNT at the same time, the time of the whole prints
 * {"samples":[[ns,…],…]}, one list a command.
 */

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

enum { COMMANDS_MAX = 16, STEP_WORDS_MAX = 64, COUNT_MAX = 100000 };

static int64_t now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static pid_t start(char **argv)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int r;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (r != 0) {
        fprintf(stderr, "spawn: %s: %s\n", argv[0], strerror(r));
        exit(1);
    }
    return pid;
}

static void finish(pid_t pid, const char *name)
{
    int status;

    if (waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "spawn: %s: wait status 0x%x\n", name, (unsigned)status);
        exit(1);
    }
}

/* The words of each command end with a NULL in place of the ';'. */
static int split(char **words, char **commands[COMMANDS_MAX])
{
    int count = 0;

    commands[count++] = words;
    for (char **w = words; *w != NULL; w++) {
        if (strcmp(*w, ";") != 0)
            continue;
        *w = NULL;
        if (count == COMMANDS_MAX)
            exit(2);
        commands[count++] = w + 1;
    }
    return count;
}

static void print(int64_t *const lists[], int count, long n)
{
    printf("{\"samples\":[");
    for (int c = 0; c < count; c++) {
        printf("%s[", c > 0 ? "," : "");
        for (long i = 0; i < n; i++)
            printf("%s%lld", i > 0 ? "," : "", (long long)lists[c][i]);
        printf("]");
    }
    printf("]}\n");
}

/* All steps of a command. */
static void run(char **words)
{
    char *step[STEP_WORDS_MAX + 1];
    int n = 0;

    for (;; words++) {
        if (*words != NULL && strcmp(*words, ",") != 0) {
            if (n == STEP_WORDS_MAX)
                exit(2);
            step[n++] = *words;
            continue;
        }
        step[n] = NULL;
        if (n > 0)
            finish(start(step), step[0]);
        n = 0;
        if (*words == NULL)
            return;
    }
}

static void take_turns(char **words, long rounds)
{
    char **commands[COMMANDS_MAX];
    int64_t *lists[COMMANDS_MAX];
    int count = split(words, commands);

    for (int c = 0; c < count; c++)
        if ((lists[c] = calloc((size_t)rounds, sizeof(int64_t))) == NULL)
            exit(1);
    for (long i = 0; i < rounds; i++)
        for (int c = 0; c < count; c++) {
            int64_t t = now();
            run(commands[c]);
            lists[c][i] = now() - t;
        }
    print(lists, count, rounds);
}

static void at_once(char **argv, long count)
{
    pid_t *pids = calloc((size_t)count, sizeof(*pids));
    int64_t total, *lists[1] = {&total};

    if (pids == NULL)
        exit(1);
    total = now();
    for (long i = 0; i < count; i++)
        pids[i] = start(argv);
    for (long i = 0; i < count; i++)
        finish(pids[i], argv[0]);
    total = now() - total;
    print(lists, 1, 1);
}

int main(int argc, char **argv)
{
    int parallel = argc > 1 && strcmp(argv[1], "-p") == 0;
    long count;

    if (argc < 3 + parallel)
        return 2;
    count = strtol(argv[1 + parallel], NULL, 10);
    if (count < 1 || count > COUNT_MAX)
        return 2;
    if (parallel)
        at_once(argv + 3, count);
    else
        take_turns(argv + 2, count);
    return 0;
}
