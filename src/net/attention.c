/*
 * attention.c
 *		The time during which a backend attends to its exchanges.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "net/attention.h"

void
dv_attention_look(dv_attention *attention, bool waited, bool found, int64_t now)
{
	int64_t		absence = now - attention->looked_at;
	int64_t		part = absence < DV_SHORT_ABSENCE ? absence : DV_SHORT_ABSENCE;
	int64_t		attended = waited || !found ? absence : part;

	attention->attended += attended;
	attention->missed += absence - attended;
	attention->present += waited || now <= attention->expected_at ? absence : part;
	attention->unseen = waited ? 0 : absence;
	attention->looked_at = now;
	attention->expected_at = 0;
}

void
dv_attention_expect(dv_attention *attention, int64_t until)
{
	attention->expected_at = until + DV_SHORT_ABSENCE;
}

int64_t
dv_attention_due(const dv_attention *attention, int64_t deadline)
{
	return attention->looked_at + deadline - attention->attended;
}
