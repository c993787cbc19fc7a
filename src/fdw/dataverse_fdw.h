/*
 * dataverse_fdw.h
 *		What the files of src/fdw share.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DATAVERSE_FDW_H
#define DATAVERSE_FDW_H

#include "nodes/pg_list.h"

/* option.c */
extern void dv_options_validate(List *options, Oid catalog);

#endif
