/*
 * dataverse_fdw.h
 *		Functions to recognize objects of this foreign-data wrapper.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_DATAVERSE_FDW_H
#define DV_DATAVERSE_FDW_H

/*
 * Returns true if the server's wrapper has our handler, whatever the wrapper is
 * called.  A wrapper of another library may have a handler of the same name.
 */
extern bool dv_is_our_server(Oid serverid);

#endif							/* DV_DATAVERSE_FDW_H */
