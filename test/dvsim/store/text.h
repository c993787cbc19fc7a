/*
 * text.h
 *		Text as the service compares it: without case, accents and trailing
 *		blanks (Latin1_General_CI_AI), and LIKE with live wildcards.
 *
 * Pure; input is UTF-8, broken sequences compare by their bytes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_TEXT_H
#define SIM_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "store/mem.h"

int			sim_text_compare(const char *a, size_t alen, const char *b, size_t blen);
bool		sim_text_like(const char *s, size_t len, const char *pattern, size_t plen);

/*
 * appends the fold of a text, which is the same for all texts that compare as equal: lower case,
 * no accents, no trailing blanks
 */
void		sim_text_fold(const char *s, size_t len, struct sim_buf *out);

/* UTF-16 units in UTF-8 text: what MaxLength counts */
size_t		sim_text_units(const char *s, size_t len);
bool		sim_text_valid(const char *s, size_t len);	/* well-formed UTF-8, only characters
														 * legal in XML 1.0 */

#endif
