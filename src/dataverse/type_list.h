/*
 * type_list.h
 *		The types of Dataverse columns: one line for each, with everything that
 *		is known about it except the C functions that convert its values.
 *
 * Those are found by the wire form in fdw/conversion_list.h, so a new type
 * needs a line in that file only if its values have a form of their own.
 * dataverse/type.h explains the members of a line.
 *
 * This file has no include guard: a file that includes it defines DV_TYPE()
 * first, which is undefined at the end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */

/* symbol, name, attribute_type, sql, wire, comparison, flags, range */
DV_TYPE(OTHER, "other", "VirtualType", "text", OPAQUE, OPAQUE, DV_READONLY, NULL)
DV_TYPE(UNIQUEIDENTIFIER, "uniqueidentifier", "UniqueidentifierType", "uuid", ID, ID, DV_LISTED, NULL)
DV_TYPE(STRING, "string", "StringType", "text", TEXT, TEXT, DV_FREE_TEXT, NULL)
DV_TYPE(MEMO, "memo", "MemoType", "text", TEXT, TEXT, DV_FREE_TEXT, NULL)
DV_TYPE(INTEGER, "integer", "IntegerType", "int4", INTEGER, NUMBER, DV_LISTED | DV_HELPED, &int32_range)
DV_TYPE(BIGINT, "bigint", "BigIntType", "int8", BIGINT, NUMBER, DV_LISTED | DV_HELPED, &int64_range)
DV_TYPE(DECIMAL, "decimal", "DecimalType", "numeric", DECIMAL, NUMBER, DV_LISTED | DV_HELPED, &decimal_range)
DV_TYPE(MONEY, "money", "MoneyType", "numeric", DECIMAL, NUMBER, DV_LISTED | DV_HELPED, &money_range)
DV_TYPE(DOUBLE, "double", "DoubleType", "float8", DOUBLE, DOUBLE, DV_HELPED, NULL)
DV_TYPE(BOOLEAN, "boolean", "BooleanType", "bool", BOOLEAN, BOOLEAN, DV_LABELLED, NULL)
DV_TYPE(CHOICE, "choice", "PicklistType", "int4", CHOICE, CHOICE, DV_LISTED | DV_LABELLED, &int32_range)
DV_TYPE(STATE, "state", "StateType", "int4", CHOICE, CHOICE, DV_LISTED | DV_LABELLED, &int32_range)
DV_TYPE(STATUS, "status", "StatusType", "int4", CHOICE, CHOICE, DV_LISTED | DV_LABELLED, &int32_range)
DV_TYPE(CHOICES, "choices", "MultiSelectPicklistType", "int4[]", CHOICES, CHOICES, DV_LABELLED, NULL)
/* the definition of a DateTimeType says which of these three it is */
DV_TYPE(DATETIME, "datetime", "DateTimeType", "timestamptz", MOMENT, TIME, DV_HELPED, NULL)
DV_TYPE(DATETIME_INDEPENDENT, "datetime_independent", NULL, "timestamp", LOCAL_TIME, TIME, DV_HELPED, NULL)
DV_TYPE(DATE, "date", NULL, "date", DATE, DATE, DV_HELPED, NULL)
DV_TYPE(LOOKUP, "lookup", "LookupType", "uuid", REFERENCE, ID, DV_LISTED | DV_LABELLED, NULL)
DV_TYPE(CUSTOMER, "customer", "CustomerType", "uuid", REFERENCE, ID, DV_LISTED | DV_LABELLED, NULL)
DV_TYPE(OWNER, "owner", "OwnerType", "uuid", REFERENCE, ID, DV_LISTED | DV_LABELLED, NULL)
/* the name of a table: nobody searches for parts of it */
DV_TYPE(ENTITYNAME, "entityname", "EntityNameType", "text", TEXT, TEXT, 0, NULL)
/* the Web API has no filters for the rest */
DV_TYPE(IMAGE, "image", "ImageType", "bytea", BYTES, OPAQUE, DV_HELPED, NULL)
DV_TYPE(FILE, "file", "FileType", "uuid", ID, OPAQUE, DV_READONLY | DV_HELPED, NULL)
DV_TYPE(MANAGED, "managed", "ManagedPropertyType", "jsonb", OPAQUE, OPAQUE, DV_READONLY, NULL)

#undef DV_TYPE
