/*
 * proof.c
 *		Decides whether a job has created or changed a row.
 *
 * An id that we have generated is random, so a row that has it is ours.  A row
 * with an id that the user supplied may have existed before, or another session
 * may create it at the same time.  Such a row is
 *
 * - not ours if it was created before its first attempt, by the clock of the
 *   service, or if this statement has created it as another of its rows;
 * - ours if it has the values that were sent;
 * - unclear otherwise: logic in the service may have changed the values, or
 *   somebody else may have written the row.
 *
 * A bulk message of a standard table, and a change set, are carried out as a
 * whole.  If one row of an undivided request existed before, no attempt can have
 * been carried out, so none of the other rows is ours.  (That a row is absent
 * proves less: it may have been deleted since, or an attempt may still be carried
 * out.)
 *
 * An update of a row with a certain version is carried out once at most, since
 * it makes a new version.  If a later attempt finds another version, the reason
 * may be the first attempt, or somebody else's change.  The row
 *
 * - was changed by us if it has the values that were sent, and was last changed
 *   since the first attempt;
 * - was changed by somebody else if it has other values, and was last changed
 *   before the first attempt;
 * - is unclear otherwise: if it has other values now, somebody may have replaced
 *   ours; and if it was last changed before, it had the values that were sent
 *   already, or it belongs to one of the few tables that do not note every change.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "client/proof.h"
#include "dataverse/address.h"
#include "dataverse/header.h"
#include "dataverse/json_cursor.h"
#include "dataverse/payload.h"
#include "net/date.h"

/* The service reports whole seconds, and creation times may be slightly early. */
#define CLOCK_SLACK (2 * DV_SECOND)
/* Seconds from 1970 to 2000 */
#define EPOCH_SECONDS INT64CONST(946684800)
/* The most bytes that names of columns take in the URL; further columns are not compared. */
#define NAMES_MAX 12000

/* The first properties that are read; those of the columns follow. */
enum
{
	READ_ID,
	READ_CREATED,				/* of a row to be updated: the time of the last change */
	READ_OVERRIDDEN,
	READ_PARTITION,
	READ_COLUMNS
};

/* Returns true if the job changes rows, as opposed to creating them. */
static bool
is_of_changes(const dv_job *job)
{
	return job->batch->operation == DV_UPDATE;
}

/*
 * Returns true if we have generated the id.  Among rows to be created, only those with supplied
 * ids have keys.
 */
static bool
is_made(const dv_job *job, const dv_batch_row *row)
{
	return job->spec->ids_made || row->key == 0;
}

static const char overridden[] = "overriddencreatedon";

/*
 * Returns true if rows set overriddencreatedon, which then changes places with
 * createdon (see src/dataverse/README.md, State).  The search does not find
 * the name in values, where backslashes would precede the quotes.
 */
static bool
sets_birth(const dv_job *job)
{
	return strstr(job->batch->bytes.data, ",\"overriddencreatedon\":") != NULL;
}

/*
 * Returns the columns whose values are read.  Others cannot be compared, or would make the URL
 * too long.
 */
static int
columns_read(const dv_job *job)
{
	const dv_writer_spec *spec = job->spec;
	size_t		len = 0;
	int			i;

	for (i = 0; i < spec->ncolumns; i++)
	{
		len += strlen(spec->columns[i].read) + 1;
		if (len > NAMES_MAX)
			break;
	}
	return i;
}

/* Returns where a column's value is read: members of a lookup share the place of the first one. */
static int
place_of(const dv_writer_spec *spec, int column)
{
	while (column > 0 && spec->columns[column - 1].read == spec->columns[column].read)
		column--;
	return READ_COLUMNS + column;
}

/* Returns the time that is compared with that of the first attempt. */
static const char *
moment_property(const dv_job *job)
{
	if (!is_of_changes(job))
		return "createdon";
	return job->spec->modified != NULL ? job->spec->modified : "@unused.modified";
}

const char **
dv_proof_properties(const dv_job *job, int *n)
{
	const dv_writer_spec *spec = job->spec;
	const char **names;
	int			i;

	*n = 1;
	if (spec->ids_made)
	{
		names = palloc(sizeof(char *));
		names[READ_ID] = spec->destination.primary_id;
		return names;
	}
	*n = READ_COLUMNS + columns_read(job);
	names = palloc(sizeof(char *) * *n);
	names[READ_ID] = spec->destination.primary_id;
	names[READ_CREATED] = moment_property(job);
	/* names that are not wanted keep their places: dv_names takes each name once */
	names[READ_OVERRIDDEN] = !is_of_changes(job) && sets_birth(job) ? overridden : "@unused.overridden";
	names[READ_PARTITION] = spec->partition != NULL ? spec->partition : "@unused.partition";
	for (i = READ_COLUMNS; i < *n; i++)
		names[i] = i > place_of(spec, i - READ_COLUMNS) ? psprintf("@unused.%d", i) :
			spec->columns[i - READ_COLUMNS].read;
	return names;
}

/*
 * Rows that were sent
 */

/*
 * Gets the next member of an object that was sent.  The name excludes the
 * annotation that makes it a reference.
 */
static bool
next_member(dv_cursor *cursor, dv_value *name, dv_value *value)
{
	static const char bind[] = "@" DV_ANNOTATION_BIND;
	const size_t len = sizeof(bind) - 1;

	if (!dv_cursor_next(cursor, '}') || !dv_cursor_name(cursor, name) ||
		!dv_cursor_value(cursor, value))
		return false;
	if (name->len > len && memcmp(name->text + name->len - len, bind, len) == 0)
		name->len -= len;
	return true;
}

static void
open_row(dv_cursor *cursor, const dv_batch *batch, const dv_batch_row *row)
{
	size_t		len;
	const char *object = dv_batch_object(batch, row, &len);

	/* the cursor wants a NUL after the text */
	dv_cursor_open(cursor, pnstrdup(object, len), len);
	(void) dv_cursor_enter(cursor, '{');
}

/* Gets the partition of a row that was sent; returns false if it has none. */
static bool
partition_of(const dv_job *job, const dv_batch_row *row, dv_value *partition)
{
	dv_cursor	cursor;
	dv_value	name;

	if (job->spec->partition == NULL)
		return false;
	open_row(&cursor, job->batch, row);
	while (next_member(&cursor, &name, partition))
		if (name.len == strlen(job->spec->partition) &&
			memcmp(name.text, job->spec->partition, name.len) == 0)
			return partition->kind == DV_VALUE_STRING && partition->len > 0;
	return false;
}

void
dv_proof_condition(const dv_job *job, const dv_batch_row *row, StringInfo out)
{
	const char *id = job->spec->destination.primary_id;
	dv_value	partition;
	bool		divided = !is_made(job, row) && partition_of(job, row, &partition);

	appendStringInfo(out, "%s%s%%20eq%%20", divided ? "(" : "", id);
	dv_append_id(out, row->id);
	if (divided)
	{
		char	   *text = palloc(partition.len);
		size_t		len;
		char	   *literal;

		/* we have encoded this, so it can be decoded */
		if (dv_value_string(&partition, text, &len) != DV_VALUE_OK)
			elog(ERROR, "could not read the partition of a row");
		literal = palloc(DV_PAYLOAD_KEY(len) + 1);
		*dv_payload_key(literal, text, len) = '\0';
		appendStringInfo(out, "%%20and%%20%s%%20eq%%20%s", job->spec->partition,
						 dv_address_encode(literal));
		appendStringInfoChar(out, ')');
	}
}

/*
 * Returns true if the row that was read is in the partition to which this row
 * was sent.  A row that was sent without a partition may be read with its id in
 * place of one.
 */
static bool
in_partition(const dv_job *job, const dv_batch_row *row, const dv_value *values)
{
	const dv_value *read = &values[READ_PARTITION];
	dv_value	sent;

	if (job->spec->partition == NULL)
		return true;
	if (!partition_of(job, row, &sent))
		return dv_value_is_null(read) || read->len == 0 ||
			(values[READ_ID].len == read->len &&
			 pg_strncasecmp(values[READ_ID].text, read->text, read->len) == 0);
	return dv_stored_compare(DV_WIRE_TEXT, &sent, read, palloc(sent.len + read->len + 1)) ==
		DV_STORED_EQUAL;
}

/*
 * Judging
 */

/* Returns the earliest time at which the first attempt can have created a row, or -1. */
static int64
first_moment(const dv_job *job)
{
	const char *date = dv_call_header(job->call, "Date");
	int64		now = date != NULL ? dv_http_date(date) : -1;

	if (now < 0)
		return -1;
	return (now - EPOCH_SECONDS) * DV_SECOND - (dv_now() - job->first_sent) - CLOCK_SLACK;
}

/* Gets the real time of creation. */
static bool
birth_of(const dv_value *values, int64_t *birth)
{
	return dv_value_timestamp(&values[READ_OVERRIDDEN], birth) == DV_VALUE_OK ||
		dv_value_timestamp(&values[READ_CREATED], birth) == DV_VALUE_OK;
}

/* Returns the index of the column to which a member belongs, or -1. */
static int
column_of(const dv_job *job, const dv_value *name, int n, int guess)
{
	const dv_stored_column *columns = job->spec->columns;
	int			i;

	/* members have the order of the columns, but not every column has a member */
	for (i = 0; i < n; i++)
	{
		int			at = (guess + i) % n;

		if (strlen(columns[at].sent) == name->len &&
			memcmp(columns[at].sent, name->text, name->len) == 0)
			return at;
	}
	return -1;
}

/* Compares the values of a row with those that were sent. */
static void
compare_values(const dv_job *job, const dv_batch_row *row, const dv_value *values, dv_proof *proof)
{
	int			n = columns_read(job);
	int			at = -1;
	int			equal = 0;
	dv_cursor	cursor;
	dv_value	name;
	dv_value	sent;

	open_row(&cursor, job->batch, row);
	proof->finding = DV_FINDING_UNCLEAR;
	while (next_member(&cursor, &name, &sent))
	{
		int			column = column_of(job, &name, n, at + 1);
		const dv_value *read;

		if (column < 0)
			continue;
		at = column;
		read = &values[place_of(job->spec, column)];
		switch (dv_stored_compare(job->spec->columns[column].wire, &sent, read,
								  palloc(sent.len + read->len + 1)))
		{
			case DV_STORED_EQUAL:
				equal++;
				break;
			case DV_STORED_NULL:
				/* a new row has null if nothing was sent, but this one was to be cleared */
				equal += is_of_changes(job);
				break;
			case DV_STORED_DIFFERENT:
				proof->unlike = job->spec->columns[column].read;
				return;
			default:
				break;
		}
	}
	if (equal > 0)
		proof->finding = DV_FINDING_OURS;
}

static void
judge(const dv_job *job, const dv_batch_row *row, const dv_value *values, dv_proof *proof)
{
	int64		first = first_moment(job);
	int64_t		birth;

	if (is_made(job, row))
		proof->finding = DV_FINDING_OURS;
	else if (dv_writer_created_twin(job, row))
		proof->finding = DV_FINDING_THEIRS;
	else if (first < 0 || !birth_of(values, &birth))
		proof->finding = DV_FINDING_UNCLEAR;
	else if (birth < first)
	{
		proof->finding = DV_FINDING_THEIRS;
		job->findings->any_older = true;
	}
	else
		compare_values(job, row, values, proof);
}

/* Judges a row that has another version than the one that was to be updated. */
static void
judge_change(const dv_job *job, const dv_batch_row *row, const dv_value *values, dv_proof *proof)
{
	int64		first = first_moment(job);
	int64_t		changed;
	bool		known = first >= 0 &&
	dv_value_timestamp(&values[READ_CREATED], &changed) == DV_VALUE_OK;

	compare_values(job, row, values, proof);
	if (known && changed < first && proof->unlike != NULL)
		proof->finding = DV_FINDING_THEIRS;
	else if (!known || changed < first)
		proof->finding = DV_FINDING_UNCLEAR;
}

static dv_findings *
findings_of(dv_job *job)
{
	if (job->findings == NULL)
	{
		job->findings = MemoryContextAllocZero(job->context, sizeof(dv_findings));
		job->findings->rows = MemoryContextAllocZero(job->context,
													 job->batch->nrows * sizeof(dv_proof));
	}
	return job->findings;
}

void
dv_proof_judge(dv_job *job, const dv_value *values)
{
	dv_proof   *rows = findings_of(job)->rows;
	uint8		id[DV_ID_LEN];
	int			i;

	if (dv_value_uuid(&values[READ_ID], id) != DV_VALUE_OK)
		return;
	for (i = 0; i < job->batch->nrows; i++)
	{
		const dv_batch_row *row = &job->batch->rows[i];

		if (memcmp(row->id, id, DV_ID_LEN) != 0)
			continue;
		if (is_of_changes(job))
			judge_change(job, row, values, &rows[i]);
		else if (is_made(job, row) || in_partition(job, row, values))
			judge(job, row, values, &rows[i]);
	}
}

const dv_proof *
dv_proof_conclude(dv_job *job)
{
	dv_findings *findings = findings_of(job);
	int			i;

	for (i = 0; findings->any_older && job->whole && i < job->batch->nrows; i++)
		if (findings->rows[i].finding != DV_FINDING_ABSENT)
			findings->rows[i].finding = DV_FINDING_THEIRS;
	return findings->rows;
}

dv_error
dv_proof_doubt(const dv_job *job, const dv_proof *proof)
{
	const char *fact = is_of_changes(job) ?
	"an attempt to update the row was not answered, and the row no longer has the version that was read" :
	"an attempt to create the row was not answered, and a row with its id exists";
	const char *deed = is_of_changes(job) ? "changed" : "created";
	dv_error	error = {
		.verdict = DV_VERDICT_REFUSED,
		.retry_after = -1,
		.code = "",
		.sqlstate = ERRCODE_T_R_STATEMENT_COMPLETION_UNKNOWN,
	};

	error.message = proof->unlike != NULL ?
		psprintf("%s, but the value of \"%s\" is not the one that was sent: it is not known whether this statement %s it",
				 fact, proof->unlike, deed) :
		psprintf("%s, but it is not known whether this statement %s it", fact, deed);
	return error;
}
