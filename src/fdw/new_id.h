/*
 * new_id.h
 *		Ids of new rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_NEW_ID_H
#define DV_NEW_ID_H

/* Makes an id (16 bytes) that is greater than all that this backend has made before. */
extern void dv_new_id(uint8 *id);

#endif							/* DV_NEW_ID_H */
