/*
 * forms.c
 *		Forms of requests that the service has refused, or that have proved to work.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "client/forms.h"

/* The name of each form in messages. */
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
	[DV_FORM_FETCH_RANGES] = "ranges of ids in FetchXML",
	[DV_FORM_JOINS] = "joins",
};

struct dv_noted_form
{
	struct dv_noted_form *next;
	dv_form		form;
	int			most;
	bool		proven;
	char		table[FLEXIBLE_ARRAY_MEMBER];	/* "" if the form does not depend on the table */
};

static dv_noted_form *
find(const dv_session *session, dv_form form, const char *table)
{
	dv_noted_form *f;

	for (f = *dv_session_noted_forms(session); f != NULL; f = f->next)
		if (f->form == form && strcmp(f->table, table != NULL ? table : "") == 0)
			break;
	return f;
}

bool
dv_form_noted(const dv_session *session, dv_form form)
{
	const		dv_noted_form *f = *dv_session_noted_forms(session);

	while (f != NULL && f->form != form)
		f = f->next;
	return f != NULL;
}

int
dv_form_most(const dv_session *session, dv_form form, const char *table, int most)
{
	const		dv_noted_form *refused = find(session, form, table);

	return refused != NULL ? Min(refused->most, most) : most;
}

static dv_noted_form *
add(const dv_session *session, dv_form form, const char *table)
{
	dv_noted_form **forms = dv_session_noted_forms(session);
	dv_noted_form *f = MemoryContextAlloc(dv_session_memory(session),
										  offsetof(dv_noted_form, table) + strlen(table) + 1);

	f->form = form;
	f->most = PG_INT32_MAX;
	f->proven = false;
	strcpy(f->table, table);
	f->next = *forms;
	*forms = f;
	return f;
}

static dv_noted_form *
find_or_add(const dv_session *session, dv_form form, const char *table)
{
	dv_noted_form *f = find(session, form, table);

	return f != NULL ? f : add(session, form, table != NULL ? table : "");
}

void
dv_form_refused(const dv_session *session, dv_form form, const char *table, int most,
				const dv_error *error)
{
	dv_noted_form *f = find_or_add(session, form, table);

	/* of several requests that were under way, the first one reports it */
	if (f->most <= most)
		return;
	f->most = most;
	ereport(DEBUG1,
			(errmsg_internal("Dataverse has refused %s%s%s: %s", form_names[form],
							 table != NULL ? " for table " : "", table != NULL ? table : "",
							 error->message),
			 errdetail_internal(most > 0 ? "No more than %d will be used in this session." :
								"Simpler requests will be used in this session.", most)));
}

bool
dv_form_proven(const dv_session *session, dv_form form, const char *table)
{
	const		dv_noted_form *f = find(session, form, table);

	return f != NULL && f->proven;
}

void
dv_form_prove(const dv_session *session, dv_form form, const char *table)
{
	find_or_add(session, form, table)->proven = true;
}

bool
dv_form_blamed(const dv_error *error)
{
	return error->verdict == DV_VERDICT_REFUSED &&
		(error->status == 400 || error->status == 404 || error->status == 501);
}
