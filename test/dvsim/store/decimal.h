/*
 * decimal.h
 *		Exact decimals: 128-bit integers scaled by 10^10.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_DECIMAL_H
#define SIM_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

typedef __int128 sim_dec;

#define SIM_DEC_SCALE 10

/*
 * decimal text, exponents allowed; digits beyond "precision" are rounded half away from zero;
 * false if malformed or too large
 */
bool		sim_dec_parse(const char *s, size_t len, int precision, sim_dec *out);

/* with exactly "digits" digits after the point (0..10); returns the length; buffer of 48 bytes is enough */
int			sim_dec_print(sim_dec v, int digits, char *out);

void		sim_dec_pack(sim_dec v, unsigned char out[16]);
sim_dec		sim_dec_unpack(const unsigned char in[16]);

#endif
