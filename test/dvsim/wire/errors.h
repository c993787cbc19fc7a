/*
 * errors.h
 *		Symbolic names of the service's error codes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ERRORS_H
#define SIM_ERRORS_H

/*
 * The ApiExceptionMessageName of a code as written in an error ("0x80040217",
 * any case); NULL for unnamed codes, including "" and "0x0".
 */
const char *sim_error_name(const char *code);

#endif
