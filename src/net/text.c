/*
 * text.c
 *		Text that is exchanged with the service.
 *
 * A database with encoding SQL_ASCII holds bytes of unknown meaning.  Such a
 * database stores incoming text as UTF-8, and its outgoing text must be UTF-8.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "net/text.h"

#define LONGEST_SHOWN 2000

bool
dv_text_has_controls(const char *text, size_t len)
{
	size_t		i;

	for (i = 0; i < len; i++)
		if ((unsigned char) text[i] < ' ' || text[i] == 0x7f)
			return true;
	return false;
}

bool
dv_text_is_word(const char *text)
{
	for (; *text != '\0'; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

const char *
dv_text_in(const char *utf8, size_t len)
{
	if (len > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("text from Dataverse is too long")));
	return pg_any_to_server(utf8, (int) len, PG_UTF8);
}

/* Returns the code point of an escape \uXXXX, or 0 if it is not an escape. */
static pg_wchar
escaped_unit(const char *p)
{
	char		digits[5] = "";

	if (p[0] != '\\' || p[1] != 'u')
		return 0;
	memcpy(digits, p + 2, strnlen(p + 2, 4));
	return strspn(digits, "0123456789abcdefABCDEF") == 4 ? strtoul(digits, NULL, 16) : 0;
}

/*
 * Reads an escape of a character beyond ASCII, or of a pair of surrogates, and
 * returns its length, or 0 if there is no such escape.
 */
static int
read_escape(const char *p, pg_wchar * character)
{
	*character = escaped_unit(p);
	if (is_utf16_surrogate_first(*character))
	{
		pg_wchar	second = escaped_unit(p + 6);

		if (!is_utf16_surrogate_second(second))
			return 0;
		*character = surrogate_pair_to_codepoint(*character, second);
		return 12;
	}
	return *character >= 0x80 && !is_utf16_surrogate_second(*character) ? 6 : 0;
}

static const char *
without_escapes(const char *json, size_t *len)
{
	const char *end = json + *len;
	char	   *result = palloc_extended(*len + 1, MCXT_ALLOC_HUGE);
	char	   *out = result;

	while (json < end)
	{
		pg_wchar	character;
		int			n = read_escape(json, &character);

		if (n > 0)
		{
			unicode_to_utf8(character, (unsigned char *) out);
			out += pg_utf_mblen((unsigned char *) out);
		}
		else
		{
			/* an escaped backslash does not begin another escape */
			n = *json == '\\' && json + 1 < end ? 2 : 1;
			memcpy(out, json, n);
			out += n;
		}
		json += n;
	}
	*out = '\0';
	*len = out - result;
	return result;
}

const char *
dv_text_json_in(const char *utf8, size_t len)
{
	if (GetDatabaseEncoding() == PG_SQL_ASCII)
		utf8 = without_escapes(utf8, &len);
	return dv_text_in(utf8, len);
}

const char *
dv_text_to_utf8(const char *text)
{
	return text != NULL ? pg_server_to_any(text, (int) strlen(text), PG_UTF8) : NULL;
}

/*
 * Replacing what cannot be kept
 */

/* Returns the length of the first character, or 0 if it is to be replaced. */
static int
length_of_good(const char *bytes, size_t len, const char *controls)
{
	if (*bytes == '\0')
		return 0;
	if (controls != NULL && dv_text_has_controls(bytes, 1))
		return strchr(controls, *bytes) != NULL ? 1 : 0;
	return Max(pg_encoding_verifymbchar(PG_UTF8, bytes, (int) Min(len, MAX_MULTIBYTE_CHAR_LEN)), 0);
}

/* "controls" lists the control characters that are kept; NULL keeps all of them. */
static char *
mend(const char *bytes, size_t len, const char *controls)
{
	char	   *mended = palloc_extended(len + 1, MCXT_ALLOC_HUGE);
	char	   *out = mended;

	while (len > 0)
	{
		int			n = length_of_good(bytes, len, controls);

		if (n > 0)
			memcpy(out, bytes, n);
		else
			*out = '?';
		n = Max(n, 1);
		out += n;
		bytes += n;
		len -= n;
	}
	*out = '\0';
	return mended;
}

char *
dv_text_mended(const char *bytes, size_t len)
{
	return mend(bytes, len, NULL);
}

/*
 * The conversion is a function in the catalogs, where nothing can be looked up after a failure.
 */
static Oid
conversion_of(int from, int to)
{
	return IsTransactionState() ? FindDefaultConversionProc(from, to) : InvalidOid;
}

/*
 * Converts as much of the text as possible, and returns how much that is.
 * Without a conversion, converts ASCII, which all encodings have in common.
 */
static int
convert_some(Oid conversion, const char *text, int len, int from, int to, StringInfo out)
{
	int			room = len * MAX_CONVERSION_GROWTH + 1;
	int			done = 0;

	if (!OidIsValid(conversion))
	{
		while (done < len && !IS_HIGHBIT_SET(text[done]))
			done++;
		appendBinaryStringInfo(out, text, done);
		return done;
	}
	enlargeStringInfo(out, room);
	done = pg_do_encoding_conversion_buf(conversion, from, to, (unsigned char *) text, len,
										 (unsigned char *) out->data + out->len, room, true);
	out->len += (int) strlen(out->data + out->len);
	return done;
}

/* The text must be valid in its encoding. */
static char *
convert_all(const char *text, int from, int to)
{
	int			len = (int) strlen(text);
	StringInfoData out;
	Oid			conversion;

	initStringInfo(&out);
	conversion = conversion_of(from, to);
	while (len > 0)
	{
		int			done = convert_some(conversion, text, len, from, to, &out);

		if (done < len)
		{
			done += Min(pg_encoding_mblen(from, text + done), len - done);
			appendStringInfoChar(&out, '?');
		}
		text += done;
		len -= done;
	}
	return out.data;
}

static bool
is_same_encoding(int from, int to)
{
	return from == to || from == PG_SQL_ASCII || to == PG_SQL_ASCII;
}

char *
dv_text_in_if_possible(const char *utf8, size_t len)
{
	int			encoding = GetDatabaseEncoding();
	StringInfoData out;
	Oid			conversion;

	if (len > MaxAllocSize / MAX_CONVERSION_GROWTH - 1 ||
		!pg_verify_mbstr(PG_UTF8, utf8, (int) len, true))
		return NULL;
	if (is_same_encoding(PG_UTF8, encoding))
		return pnstrdup(utf8, len);
	conversion = conversion_of(PG_UTF8, encoding);
	if (!OidIsValid(conversion))
		return NULL;
	initStringInfo(&out);
	if (convert_some(conversion, utf8, (int) len, PG_UTF8, encoding, &out) == (int) len)
		return out.data;
	pfree(out.data);
	return NULL;
}

/* Cuts UTF-8 to that many bytes, between two characters. */
static char *
cut(char *utf8, size_t most)
{
	if (strlen(utf8) > most)
		utf8[pg_encoding_mbcliplen(PG_UTF8, utf8, (int) strlen(utf8), (int) most)] = '\0';
	return utf8;
}

char *
dv_text_shown(const char *bytes, size_t len)
{
	int			encoding = GetDatabaseEncoding();
	char	   *utf8 = cut(mend(bytes, Min(len, LONGEST_SHOWN + MAX_MULTIBYTE_CHAR_LEN), "\t\n\r"),
						   LONGEST_SHOWN);

	return is_same_encoding(PG_UTF8, encoding) ? utf8 : convert_all(utf8, PG_UTF8, encoding);
}

const char *
dv_text_told(const char *text)
{
	int			from = GetDatabaseEncoding();
	int			to = pg_get_client_encoding();
	int			len = (int) strlen(text);
	StringInfoData told;
	StringInfoData converted;
	Oid			conversion;

	if (from == to || to == PG_SQL_ASCII)
		return text;
	initStringInfo(&told);
	initStringInfo(&converted);
	conversion = from != PG_SQL_ASCII ? conversion_of(from, to) : InvalidOid;
	while (len > 0)
	{
		/* PostgreSQL does not convert text of SQL_ASCII, but checks that it is the client's */
		int			done = from != PG_SQL_ASCII ?
		convert_some(conversion, text, len, from, to, &converted) :
		pg_encoding_verifymbstr(to, text, len);

		appendBinaryStringInfo(&told, text, done);
		if (done < len)
		{
			done += Min(pg_encoding_mblen(from, text + done), len - done);
			appendStringInfoChar(&told, '?');
		}
		resetStringInfo(&converted);
		text += done;
		len -= done;
	}
	pfree(converted.data);
	return told.data;
}

char *
dv_text_common(const char *name, size_t size)
{
	int			encoding = GetDatabaseEncoding();

	return cut(is_same_encoding(encoding, PG_UTF8) ? mend(name, strlen(name), NULL) :
			   convert_all(name, encoding, PG_UTF8), size - 1);
}
