#pragma once

/*
 * Intrusive doubly linked lists. An entry has two members, and is in one list at a time:
 *
 *     struct entry {
 *         struct entry *next, **link;
 *         …
 *     };
 *
 * `next` is the following entry or NULL. `link` is the address of the pointer that points to this
 * entry, or NULL after its removal. So a removal needs no search and no list. The macros are typed:
 * an entry of another type does not compile. They evaluate each argument once, and allocate and
 * free nothing.
 *
 * A list is a pointer to its first entry, NULL when it is empty. A queue also knows its end, where
 * entries are added; all zero is an empty one. Both are walked by hand:
 *
 *     for (struct entry *e = list, *next; e != NULL; e = next) {
 *         next = e->next; // needed only if the body may remove e
 *         …
 *     }
 */

#include <stddef.h>

/* Puts the entry in front. list is the address of the pointer to the first entry. */
#define list_add(list, entry)                                                                      \
    do {                                                                                           \
        __typeof__(entry) entry_ = (entry);                                                        \
        __typeof__(&entry_->next) list_ = (list);                                                  \
        entry_->next = *list_;                                                                     \
        entry_->link = list_;                                                                      \
        if (entry_->next != NULL)                                                                  \
            entry_->next->link = &entry_->next;                                                    \
        *list_ = entry_;                                                                           \
    } while (0)

/* Takes the entry out of the list that it is in. For a queue, see queue_remove. */
#define list_remove(entry)                                                                         \
    do {                                                                                           \
        __typeof__(entry) entry_ = (entry);                                                        \
        *entry_->link = entry_->next;                                                              \
        if (entry_->next != NULL)                                                                  \
            entry_->next->link = entry_->link;                                                     \
        entry_->link = NULL;                                                                       \
    } while (0)

/* The type of a queue of `type`: `QUEUE(struct entry) waiting;`. */
#define QUEUE(type)                                                                                \
    struct {                                                                                       \
        type *first, **last; /* last: the `next` of the last entry; NULL before the first one */   \
    }

/* Puts the entry at the end. */
#define queue_add(queue, entry)                                                                    \
    do {                                                                                           \
        __typeof__(queue) queue_ = (queue);                                                        \
        __typeof__(queue_->first) entry_ = (entry);                                                \
        if (queue_->last == NULL)                                                                  \
            queue_->last = &queue_->first;                                                         \
        entry_->next = NULL;                                                                       \
        entry_->link = queue_->last;                                                               \
        *queue_->last = entry_;                                                                    \
        queue_->last = &entry_->next;                                                              \
    } while (0)

/* Takes the entry out of this queue. */
#define queue_remove(queue, entry)                                                                 \
    do {                                                                                           \
        __typeof__(queue) queue_ = (queue);                                                        \
        __typeof__(queue_->first) entry_ = (entry);                                                \
        *entry_->link = entry_->next;                                                              \
        if (entry_->next != NULL)                                                                  \
            entry_->next->link = entry_->link;                                                     \
        else                                                                                       \
            queue_->last = entry_->link;                                                           \
        entry_->link = NULL;                                                                       \
    } while (0)
