/* SPDX-License-Identifier: MIT */
/* The intrusive list and the counters of one writer, both header-only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/counter.h"
#include "base/list.h"

struct entry {
    int number;
    struct prazo_list link;
};

static void assert_order(struct prazo_list *head, const int *numbers, size_t count)
{
    struct prazo_list *node = head->next;

    for (size_t i = 0; i < count; i++, node = node->next) {
        assert_true(node != head);
        assert_ptr_equal(node->next->prev, node);
        assert_int_equal(PRAZO_CONTAINER(node, struct entry, link)->number, numbers[i]);
    }
    assert_ptr_equal(node, head);
}

static void test_push_and_del(void **state)
{
    struct entry e[4];
    struct prazo_list head;

    (void)state;
    prazo_list_init(&head);
    assert_true(prazo_list_is_empty(&head));
    for (int i = 0; i < 4; i++)
        e[i].number = i;
    prazo_list_push_back(&head, &e[1].link);
    prazo_list_push_back(&head, &e[2].link);
    prazo_list_push_front(&head, &e[0].link);
    prazo_list_push_back(&head, &e[3].link);
    assert_order(&head, (int[]){ 0, 1, 2, 3 }, 4);
    prazo_list_del(&e[1].link);
    prazo_list_del(&e[1].link); /* in no list: changes nothing */
    assert_order(&head, (int[]){ 0, 2, 3 }, 3);
    prazo_list_del(&e[0].link);
    prazo_list_del(&e[3].link);
    assert_order(&head, (int[]){ 2 }, 1);
    prazo_list_del(&e[2].link);
    assert_true(prazo_list_is_empty(&head));
    assert_true(prazo_list_is_empty(&e[2].link));
}

static void test_counters(void **state)
{
    prazo_counter counter = 0;
    int64_t gauge = 0;

    (void)state;
    prazo_counter_inc(&counter);
    prazo_counter_add(&counter, UINT64_MAX - 1);
    assert_true(prazo_counter_read(&counter) == UINT64_MAX);
    prazo_gauge_add(&gauge, 3);
    prazo_gauge_add(&gauge, -5);
    assert_int_equal(prazo_gauge_read(&gauge), -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_and_del),
        cmocka_unit_test(test_counters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
