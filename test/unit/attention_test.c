/*
 * attention_test.c
 *		The time during which a backend attends to its exchanges.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/attention.h"

#define NOW (1000 * DV_SECOND)

static dv_attention attention;

static int
setup(void **state)
{
	(void) state;
	attention = (dv_attention)
	{
		.looked_at = NOW
	};
	return 0;
}

static void
waiting_counts(void **state)
{
	(void) state;
	dv_attention_look(&attention, true, true, NOW + 5 * DV_SECOND);
	assert_int_equal(attention.attended, 5 * DV_SECOND);
	assert_int_equal(attention.present, 5 * DV_SECOND);
	assert_int_equal(attention.missed, 0);
	assert_int_equal(attention.unseen, 0);
}

static void
an_absence_with_an_answer_is_short(void **state)
{
	(void) state;
	dv_attention_look(&attention, false, true, NOW + 5 * DV_SECOND);
	assert_int_equal(attention.attended, DV_SHORT_ABSENCE);
	assert_int_equal(attention.present, DV_SHORT_ABSENCE);
	assert_int_equal(attention.missed, 5 * DV_SECOND - DV_SHORT_ABSENCE);
	assert_int_equal(attention.unseen, 5 * DV_SECOND);
}

static void
a_silent_absence_is_the_service_s(void **state)
{
	(void) state;
	dv_attention_look(&attention, false, false, NOW + 5 * DV_SECOND);
	assert_int_equal(attention.attended, 5 * DV_SECOND);
	assert_int_equal(attention.present, DV_SHORT_ABSENCE);
	assert_int_equal(attention.missed, 0);
}

static void
short_absences_count(void **state)
{
	int			i;

	(void) state;
	for (i = 1; i <= 100; i++)
		dv_attention_look(&attention, false, true, NOW + i * DV_SHORT_ABSENCE / 2);
	assert_int_equal(attention.attended, 50 * DV_SHORT_ABSENCE);
	assert_int_equal(attention.present, 50 * DV_SHORT_ABSENCE);
	assert_int_equal(attention.unseen, DV_SHORT_ABSENCE / 2);
}

static void
an_expected_wait_counts(void **state)
{
	(void) state;
	dv_attention_expect(&attention, NOW + 5 * DV_SECOND);
	dv_attention_look(&attention, false, false, NOW + 5 * DV_SECOND + 1);
	assert_int_equal(attention.present, 5 * DV_SECOND + 1);
	/* it is expected once, and only until then */
	dv_attention_look(&attention, false, false, NOW + 6 * DV_SECOND);
	assert_int_equal(attention.present, 5 * DV_SECOND + 1 + DV_SHORT_ABSENCE);
	dv_attention_expect(&attention, NOW + 7 * DV_SECOND);
	dv_attention_look(&attention, false, false, NOW + 60 * DV_SECOND);
	assert_int_equal(attention.present, 5 * DV_SECOND + 1 + 2 * DV_SHORT_ABSENCE);
}

static void
a_deadline_is_due_by_the_clock_on_the_wall(void **state)
{
	int64_t		deadline = attention.attended + 10 * DV_SECOND;

	(void) state;
	assert_int_equal(dv_attention_due(&attention, deadline), NOW + 10 * DV_SECOND);
	dv_attention_look(&attention, false, true, NOW + 5 * DV_SECOND);
	assert_int_equal(dv_attention_due(&attention, deadline),
					 NOW + 15 * DV_SECOND - DV_SHORT_ABSENCE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(waiting_counts, setup),
		cmocka_unit_test_setup(an_absence_with_an_answer_is_short, setup),
		cmocka_unit_test_setup(a_silent_absence_is_the_service_s, setup),
		cmocka_unit_test_setup(short_absences_count, setup),
		cmocka_unit_test_setup(an_expected_wait_counts, setup),
		cmocka_unit_test_setup(a_deadline_is_due_by_the_clock_on_the_wall, setup),
	};

	return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
