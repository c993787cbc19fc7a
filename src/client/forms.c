/*-------------------------------------------------------------------------
 *
 * forms.c
 *		Forms of requests that the service has refused.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "client/forms.h"

/* What each form is called in messages. */
static const char *const form_names[DV_FORMS] = {
	[DV_FORM_BATCH_PARTS] = "long batches",
	[DV_FORM_CREATE_MULTIPLE] = "CreateMultiple",
	[DV_FORM_UPSERT_MULTIPLE] = "UpsertMultiple",
	[DV_FORM_UPDATE_MULTIPLE] = "UpdateMultiple",
	[DV_FORM_DELETE_MULTIPLE] = "DeleteMultiple",
	[DV_FORM_METADATA_CHANGES] = "RetrieveMetadataChanges",
	[DV_FORM_TOTAL_COUNT] = "RetrieveTotalRecordCount",
	[DV_FORM_LISTS] = "long lists of values",
	[DV_FORM_COUNTS] = "counts",
	[DV_FORM_COUNTS_OF_LISTS] = "counts of rows with listed values",
	[DV_FORM_RANGES] = "ranges of ids",
};

struct dv_refused_form
{
	struct dv_refused_form *next;
	dv_form		form;
	int			most;
	char		table[FLEXIBLE_ARRAY_MEMBER];	/* "" if the form does not depend on the table */
};

static dv_refused_form *
find(const dv_session *session, dv_form form, const char *table)
{
	dv_refused_form *f;

	for (f = *dv_session_refused_forms(session); f != NULL; f = f->next)
		if (f->form == form && strcmp(f->table, table != NULL ? table : "") == 0)
			break;
	return f;
}

int
dv_form_most(const dv_session *session, dv_form form, const char *table, int most)
{
	const dv_refused_form *refused = find(session, form, table);

	return refused != NULL ? Min(refused->most, most) : most;
}

static dv_refused_form *
add(const dv_session *session, dv_form form, const char *table)
{
	dv_refused_form **forms = dv_session_refused_forms(session);
	dv_refused_form *f = MemoryContextAlloc(dv_session_memory(session),
											offsetof(dv_refused_form, table) +
											strlen(table) + 1);

	f->form = form;
	f->most = PG_INT32_MAX;
	strcpy(f->table, table);
	f->next = *forms;
	*forms = f;
	return f;
}

void
dv_form_refused(const dv_session *session, dv_form form, const char *table, int most,
				const dv_error *error)
{
	dv_refused_form *refused = find(session, form, table);

	if (refused == NULL)
		refused = add(session, form, table != NULL ? table : "");
	/* of several requests that were under way, the first one tells */
	if (refused->most <= most)
		return;
	refused->most = most;
	ereport(DEBUG1,
			(errmsg_internal("Dataverse has refused %s%s%s: %s", form_names[form],
							 table != NULL ? " for table " : "", table != NULL ? table : "",
							 error->message),
			 errdetail_internal(most > 0 ? "No more than %d will be used in this session." :
								"Plainer requests will be used in this session.", most)));
}

bool
dv_form_blamed(const dv_error *error)
{
	return error->verdict == DV_VERDICT_REFUSED &&
		(error->status == 400 || error->status == 404 || error->status == 501);
}
