/* SPDX-License-Identifier: MIT */
/* Intrusive doubly linked list with a sentinel. A node that is in no list points to itself after
 * prazo_list_init() or prazo_list_del(). */
#ifndef PRAZO_BASE_LIST_H
#define PRAZO_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct prazo_list {
    struct prazo_list *next, *prev;
};

#define PRAZO_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void prazo_list_init(struct prazo_list *l)
{
    l->next = l->prev = l;
}

static inline bool prazo_list_is_empty(const struct prazo_list *l)
{
    return l->next == l;
}

/* Behind `head`: the first element when head is the sentinel. */
static inline void prazo_list_push_front(struct prazo_list *head, struct prazo_list *node)
{
    node->next = head->next;
    node->prev = head;
    head->next->prev = node;
    head->next = node;
}

static inline void prazo_list_push_back(struct prazo_list *head, struct prazo_list *node)
{
    prazo_list_push_front(head->prev, node);
}

static inline void prazo_list_del(struct prazo_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    prazo_list_init(node);
}

#endif
