/*
 * excerpt.h
 *		Errors of PostgreSQL's input functions about text of the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_EXCERPT_H
#define DV_EXCERPT_H

/*
 * Raises the current error again, with texts of bounded length.  Input
 * functions quote invalid input, which may be a whole answer.  If "instead" is
 * not NULL, the value must not be quoted, and an error about it has that
 * message.  Use it in PG_CATCH, with the memory context that was current before
 * PG_TRY.
 */
extern void dv_excerpt_rethrow(MemoryContext context, const char *instead);

#endif							/* DV_EXCERPT_H */
