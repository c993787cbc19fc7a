/*
 * errors.h
 *		Symbolic names of the service's error codes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ERRORS_H
#define SIM_ERRORS_H

/*
 * What ApiExceptionMessageName says of a code as it stands in an error
 * ("0x80040217", any case); NULL for codes that have no name here, "" and
 * "0x0" among them.
 */
const char *sim_error_name(const char *code);

#endif
