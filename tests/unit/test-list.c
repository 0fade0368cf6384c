/* Lists and queues: order, removal from every place, and entries that are used again. */

#include <string.h>

#include "base/list.h"
#include "tap.h"

struct entry {
    struct entry *next, **link;
    char name;
};

enum { ENTRIES = 5 };

static struct entry entries[ENTRIES];

static void reset(void)
{
    (void)memset(entries, 0, sizeof(entries));
    for (int i = 0; i < ENTRIES; i++)
        entries[i].name = (char)('a' + i);
}

/* The names from the first on; and each entry's link is the pointer that points to it. */
static const char *names(struct entry *const *list)
{
    static char text[ENTRIES + 1];
    size_t n = 0;

    for (struct entry *const *at = list; *at != NULL && n < ENTRIES; at = &(*at)->next) {
        CHECK((*at)->link == at);
        text[n++] = (*at)->name;
    }
    text[n] = '\0';
    return text;
}

TEST(a_list_adds_in_front)
{
    struct entry *list = NULL;

    reset();
    CHECK_STR(names(&list), "");
    for (int i = 0; i < ENTRIES; i++)
        list_add(&list, &entries[i]);
    CHECK_STR(names(&list), "edcba");
}

TEST(a_list_removes_from_every_place)
{
    static const char *const want[ENTRIES] = {"edcb", "edca", "edba", "ecba", "dcba"};

    for (int gone = 0; gone < ENTRIES; gone++) {
        struct entry *list = NULL;

        reset();
        for (int i = 0; i < ENTRIES; i++)
            list_add(&list, &entries[i]);
        list_remove(&entries[gone]);
        CHECK(entries[gone].link == NULL);
        CHECK_STR(names(&list), want[gone]);
        list_add(&list, &entries[gone]);
        CHECK(list == &entries[gone]);
        CHECK_INT(strlen(names(&list)), ENTRIES);
    }
}

TEST(a_list_is_emptied_while_it_is_walked)
{
    struct entry *list = NULL;

    reset();
    for (int i = 0; i < ENTRIES; i++)
        list_add(&list, &entries[i]);
    for (struct entry *e = list, *next; e != NULL; e = next) {
        next = e->next;
        if (e->name != 'c')
            list_remove(e);
    }
    CHECK_STR(names(&list), "c");
    list_remove(list);
    CHECK(list == NULL);
}

TEST(an_entry_moves_from_list_to_list)
{
    struct entry *one = NULL, *two = NULL;

    reset();
    list_add(&one, &entries[0]);
    list_add(&one, &entries[1]);
    list_remove(&entries[0]);
    list_add(&two, &entries[0]);
    CHECK_STR(names(&one), "b");
    CHECK_STR(names(&two), "a");
}

static QUEUE(struct entry) queue;

static void fill_queue(void)
{
    reset();
    (void)memset(&queue, 0, sizeof(queue));
    for (int i = 0; i < ENTRIES; i++)
        queue_add(&queue, &entries[i]);
}

TEST(a_queue_adds_behind)
{
    fill_queue();
    CHECK_STR(names(&queue.first), "abcde");
    CHECK(queue.last == &entries[ENTRIES - 1].next);
}

TEST(a_queue_removes_from_every_place)
{
    static const char *const want[ENTRIES] = {"bcdea", "acdeb", "abdec", "abced", "abcde"};

    for (int gone = 0; gone < ENTRIES; gone++) {
        fill_queue();
        queue_remove(&queue, &entries[gone]);
        CHECK(entries[gone].link == NULL);
        CHECK_INT(strlen(names(&queue.first)), ENTRIES - 1);
        queue_add(&queue, &entries[gone]);
        CHECK_STR(names(&queue.first), want[gone]);
    }
}

TEST(a_queue_that_was_emptied_works_again)
{
    fill_queue();
    for (int i = 0; i < ENTRIES; i++)
        queue_remove(&queue, &entries[i]);
    CHECK(queue.first == NULL);
    CHECK(queue.last == &queue.first);
    queue_add(&queue, &entries[3]);
    queue_add(&queue, &entries[1]);
    CHECK_STR(names(&queue.first), "db");
}

static int calls;

static struct entry *next_entry(void)
{
    return &entries[calls++];
}

TEST(arguments_are_evaluated_once)
{
    struct entry *list = NULL;

    reset();
    calls = 0;
    list_add(&list, next_entry());
    CHECK_INT(calls, 1);
    calls = 0;
    list_remove(next_entry());
    CHECK_INT(calls, 1);
    CHECK(list == NULL);
}

TAP_MAIN
