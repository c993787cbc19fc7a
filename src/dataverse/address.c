/*
 * address.c
 *		Addresses of rows and of metadata, relative to the root of the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "dataverse/address.h"
#include "dataverse/payload.h"
#include "net/url.h"

void
dv_append_id(StringInfo out, const uint8 *id)
{
	enlargeStringInfo(out, DV_PAYLOAD_UUID);
	out->len = dv_payload_uuid(out->data + out->len, id) - out->data;
	out->data[out->len] = '\0';
}

char *
dv_id_text(const uint8 *id)
{
	char	   *text = palloc(DV_PAYLOAD_UUID + 1);

	*dv_payload_uuid(text, id) = '\0';
	return text;
}

char *
dv_address_encode(const char *text)
{
	char	   *encoded;

	if (text == NULL)
		return NULL;
	encoded = palloc(3 * strlen(text) + 1);
	(void) dv_url_encode(text, encoded);
	return encoded;
}

char *
dv_address_reference(const char *set, const char *id, const char *navigation, const char *other_id)
{
	if (other_id == NULL)
		return psprintf("%s(%s)/%s/$ref", set, id, navigation);
	return psprintf("%s(%s)/%s(%s)/$ref", set, id, navigation, other_id);
}

void
dv_append_referred(StringInfo out, const char *root, const char *set, const char *id)
{
	appendStringInfo(out, ",\"@odata.id\":\"%s%s(%s)\"", root, set, id);
}

char *
dv_address_row_count(const char *table)
{
	return psprintf("RetrieveTotalRecordCount(EntityNames=@p1)?@p1=%%5B%%22%s%%22%%5D", table);
}

char *
dv_address_entity_set(const char *table)
{
	return psprintf("EntityDefinitions(LogicalName='%s')?$select=EntitySetName", table);
}

char *
dv_address_shape(const char *path)
{
	const char *end = path + strcspn(path, "?");
	StringInfoData s;
	bool		quoted = false;
	int			depth = 0;

	initStringInfo(&s);
	for (; path < end; path++)
	{
		if (*path == '\'' && depth > 0)
			quoted = !quoted;
		else if (*path == ')' && depth > 0 && !quoted)
			depth--;
		if (depth == 0)
			appendStringInfoChar(&s, *path);
		if (*path == '(' && !quoted && depth++ == 0)
			appendStringInfoString(&s, "...");
	}
	/* an option is named up to its "=", and ends at the next "&" */
	while (*path != '\0')
	{
		appendBinaryStringInfo(&s, path, 1 + strcspn(path + 1, "=&"));
		path += 1 + strcspn(path + 1, "&");
	}
	return s.data;
}
