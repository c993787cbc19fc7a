/*
 * text.h
 *		Text that is exchanged with the service.
 *
 * The service speaks UTF-8.  Each database that looks at the pool's shared
 * memory has an encoding of its own.  Text is converted only by these functions:
 *
 *	 dv_text_in, dv_text_in_if_possible		data and names of the service
 *	 dv_text_json_in						JSON, as a whole
 *	 dv_text_shown							what is only shown: errors, log lines
 *	 dv_text_told							what an error tells the client
 *	 dv_text_to_utf8						everything that is sent
 *	 dv_text_common							names that other databases read
 *
 * (fdw/encode.c converts the values of rows itself, because it keeps the
 * conversion for all rows and treats what cannot be converted as a misfit.)
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_TEXT_H
#define DV_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Converts UTF-8 of the service to the database encoding.  Raises
 * PostgreSQL's own error if it is not UTF-8, contains a NUL, or has a character
 * that the database encoding lacks.  May return its argument, which must end
 * with a NUL.
 */
extern const char *dv_text_in(const char *utf8, size_t len);

/* The same as a copy, or NULL instead of an error. */
extern char *dv_text_in_if_possible(const char *utf8, size_t len);

/*
 * Converts JSON text.  In a database with encoding SQL_ASCII, characters beyond
 * ASCII are stored as UTF-8 even if the service has escaped them, because jsonb
 * would not accept the escapes.
 */
extern const char *dv_text_json_in(const char *utf8, size_t len);

/*
 * Converts text of the service, or of a library, that is only shown.  Never
 * fails: invalid UTF-8, control characters, and characters that the database
 * encoding lacks are replaced by question marks, and a long text is cut.
 */
extern char *dv_text_shown(const char *bytes, size_t len);

/*
 * Returns text in the database encoding, such as that of dv_text_shown, with a
 * question mark for each character that the client's encoding lacks.  Otherwise
 * PostgreSQL would raise an error about that character in place of the error
 * with the message.
 */
extern const char *dv_text_told(const char *text);

/* Returns a copy of the same length, with question marks in place of invalid UTF-8. */
extern char *dv_text_mended(const char *bytes, size_t len);

/*
 * Converts text in the database encoding, or NULL, to UTF-8.  Raises an error
 * if that is not possible.  May return its argument.
 */
extern const char *dv_text_to_utf8(const char *text);

/*
 * Converts a name to UTF-8, as the pool's shared memory holds it, and cuts it
 * to "size", including its NUL.  Never fails.  dv_text_shown converts it back,
 * in any database.
 */
extern char *dv_text_common(const char *name, size_t size);

/* Returns true if the text consists of printable ASCII characters without blanks. */
extern bool dv_text_is_word(const char *text);

/*
 * Returns true if the text contains control characters, which are the same bytes in all encodings
 * of servers.
 */
extern bool dv_text_has_controls(const char *text, size_t len);

#endif							/* DV_TEXT_H */
