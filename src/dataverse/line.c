/*
 * line.c
 *		The text of a request line while it is being written.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/line.h"
#include "net/hex.h"

void
dv_line_byte(dv_line *line, char c)
{
	if (line->len + 1 < line->size)
		line->out[line->len] = c;
	line->len++;
}

void
dv_line_text(dv_line *line, const char *text)
{
	for (; *text != '\0'; text++)
		dv_line_byte(line, *text);
}

void
dv_line_number(dv_line *line, int64_t number)
{
	char		digits[20];
	int			i = 0;

	do
		digits[i++] = (char) ('0' + number % 10);
	while ((number /= 10) > 0);
	while (i > 0)
		dv_line_byte(line, digits[--i]);
}

static bool
needs_no_encoding(dv_line_encoding encoding, char c)
{
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		encoding == DV_LINE_RAW)
		return true;
	if (c == '\0')
		return false;
	return strchr("-._~:*!()',", c) != NULL ||
		(encoding == DV_LINE_READABLE &&
		 ((unsigned char) c >= 0x80 || strchr(" \"[]{}@$/=?;", c) != NULL));
}

void
dv_line_encode(dv_line *line, char c)
{
	char		escape[3];
	int			i;

	if (needs_no_encoding(line->encoding, c))
	{
		dv_line_byte(line, c);
		return;
	}
	(void) dv_hex_put_percent(escape, (unsigned char) c);
	for (i = 0; i < 3; i++)
		dv_line_byte(line, escape[i]);
}

void
dv_line_encode_text(dv_line *line, const char *text)
{
	for (; *text != '\0'; text++)
		dv_line_encode(line, *text);
}

/* In attribute values, parsers turn blanks other than " " into " " unless they are escaped. */
void
dv_line_encode_xml(dv_line *line, const char *text)
{
	static const char special[] = "<>&\"'\t\n\r";
	static const char *const references[] = {
		"&lt;", "&gt;", "&amp;", "&quot;", "&apos;", "&#9;", "&#10;", "&#13;"
	};

	for (; *text != '\0'; text++)
	{
		const char *found = strchr(special, *text);

		if (found != NULL)
			dv_line_encode_text(line, references[found - special]);
		else
			dv_line_encode(line, *text);
	}
}

void
dv_line_option(dv_line *line, const char *name)
{
	dv_line_byte(line, line->any ? '&' : '?');
	dv_line_text(line, name);
	line->any = true;
}

void
dv_line_partition(dv_line *line, const dv_operand *partition)
{
	if (partition == NULL)
		return;
	dv_line_option(line, "partitionId=");
	if (partition->placeholder)
		dv_line_text(line, partition->text);
	else
		dv_line_encode_text(line, partition->text);
}

size_t
dv_line_end(dv_line *line)
{
	if (line->size > 0)
		line->out[line->len < line->size ? line->len : line->size - 1] = '\0';
	return line->len;
}
