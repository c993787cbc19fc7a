/*
 * quirks.c
 *		Differences of some environments from the documentation, as a table.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "wire/quirks.h"
#include "store/schema.h"

/* the delay of the full-text index, in virtual seconds */
#define FULL_TEXT_LAG 5

static const struct
{
	const char *name;
	const char *help;
}			quirk_table[SIM_QUIRKS] = {
	[SIM_QUIRK_BATCH_250] = {"batch-250", "a $batch has at most 250 parts"},
	[SIM_QUIRK_BULK_DISABLED] = {"bulk-disabled", "the organization has no bulk messages"},
	[SIM_QUIRK_FAILING_TOTAL_COUNT] = {"failing-total-count", "RetrieveTotalRecordCount fails"},
	[SIM_QUIRK_LAGGING_FULL_TEXT] = {"lagging-full-text",
	"ContainValues does not see what was written in the last five seconds"},
	[SIM_QUIRK_LAGGING_JOBS] = {"lagging-jobs",
	"a job cannot be read in the first seconds after it was started"},
	[SIM_QUIRK_LIMITED_READ] = {"limited-read",
	"the users may not read all of a table that users own, so its changes are refused"},
	[SIM_QUIRK_LINK_NAMES] = {"link-names",
	"columns of links do not come under their aliases"},
	[SIM_QUIRK_NO_APPLY_FUNCTIONS] = {"no-apply-functions",
	"query functions are refused in filter() of $apply"},
	[SIM_QUIRK_NO_COOKIES] = {"no-cookies", "pages of FetchXML come without a cookie"},
	[SIM_QUIRK_NO_IN] = {"no-in", "the functions In and NotIn are refused in filters"},
	[SIM_QUIRK_NO_METADATA_CHANGES] = {"no-metadata-changes", "RetrieveMetadataChanges is refused"},
	[SIM_QUIRK_PROPERTY_VALUES_100] = {"property-values-100",
	"PropertyValues of a query function has at most 100 values"},
};

bool
sim_quirk(const struct sim *sim, enum sim_quirk quirk)
{
	return (sim->quirks >> quirk & 1) != 0;
}

bool
sim_quirk_set(struct sim *sim, const char *name)
{
	for (int i = 0; i < SIM_QUIRKS; i++)
	{
		if (strcmp(quirk_table[i].name, name) == 0)
		{
			sim->quirks |= UINT64_C(1) << i;
			return true;
		}
	}
	return false;
}

void
sim_quirks_clear(struct sim *sim)
{
	sim->quirks = 0;
}

void
sim_quirks_help(FILE *out)
{
	for (int i = 0; i < SIM_QUIRKS; i++)
		fprintf(out, "  %-22s %s\n", quirk_table[i].name, quirk_table[i].help);
}

void
sim_quirks_print(const struct sim *sim, struct sim_buf *out)
{
	const char *separator = "";

	sim_putc(out, '[');
	for (int i = 0; i < SIM_QUIRKS; i++)
	{
		if (!sim_quirk(sim, i))
			continue;
		sim_putf(out, "%s\"%s\"", separator, quirk_table[i].name);
		separator = ",";
	}
	sim_putc(out, ']');
}

bool
sim_quirk_full_text(const struct sim *sim, struct sim_table *table, const char *alias,
					struct sim_buf *sql)
{
	if (!sim_quirk(sim, SIM_QUIRK_LAGGING_FULL_TEXT) ||
		sim_column_by_name(table, "modifiedon", strlen("modifiedon")) == NULL)
		return false;
	sim_putf(sql, "%s.\"modifiedon\"<=%lld AND (", alias,
			 (long long) (sim_unix_now(sim) - FULL_TEXT_LAG));
	return true;
}
