/*
 * operation.c
 *		The operations on a row, and their requests.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stddef.h>

#include "dataverse/operation.h"

static const dv_operation_rule rules[DV_OPERATIONS] = {
	[DV_CREATE] = {
		.name = "insert", .phrase = "insert into", .effect = DV_EFFECT_MADE,
		.message = "CreateMultiple",
		.method = "POST", .at_set = true, .has_body = true, .header = ""
	},
	[DV_UPSERT] = {
		.name = "upsert", .phrase = "upsert into", .effect = DV_EFFECT_MADE_OR_CHANGED,
		.message = "UpsertMultiple",
		.method = "PATCH", .has_body = true, .header = ""
	},
	[DV_UPDATE] = {
		.name = "update", .phrase = "update", .effect = DV_EFFECT_CHANGED,
		.message = "UpdateMultiple",
		/* without this header a missing row would be created */
		.method = "PATCH", .has_body = true, .header = "If-Match: *\r\n"
	},
	[DV_DELETE] = {
		.name = "delete", .phrase = "delete from", .effect = DV_EFFECT_REMOVED,
		.message = "DeleteMultiple", .elastic_only = true,
		.method = "DELETE", .header = ""
	},
	[DV_ASSOCIATE] = {
		.name = "insert", .phrase = "insert into", .effect = DV_EFFECT_MADE,
		.method = "POST", .has_body = true, .header = ""
	},
	[DV_DISASSOCIATE] = {
		.name = "delete", .phrase = "delete from", .effect = DV_EFFECT_REMOVED,
		.method = "DELETE", .header = ""
	},
};

const dv_operation_rule *
dv_operation_rule_of(dv_operation operation)
{
	return &rules[operation];
}
