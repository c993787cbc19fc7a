/*
 * conversion_list.h
 *		Conversions between PostgreSQL types and types of the service, one line
 *		for each PostgreSQL type.
 *
 *	put				writes a value (fdw/encode.c); not used for references, which
 *					depend on the target of the lookup
 *	decode			reads a value (fdw/decode.c)
 *	written_as		wire forms of the columns that values can be written to
 *	read_as			wire forms of the columns that values can be read from, at least
 *					those above, since whoever writes a value wants to read it; a
 *					form that is not interpreted is read as any type
 *	natural_for		wire forms that correspond to the type one to one, so that
 *					filters can be sent to the service
 *	default_type	Dataverse type of columns without the option "type"
 *
 * This file has no include guard: a file that includes it defines DV_CONVERSION()
 * first, which is undefined at the end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */

/* type, put, decode, written_as, read_as, natural_for, default_type */
DV_CONVERSION(TEXTOID, put_text, decode_text, DV_WIRE_TEXT | DV_WIRE_CHOICES, DV_WIRE_ANY, DV_WIRE_TEXT, STRING)
DV_CONVERSION(VARCHAROID, put_text, decode_text, DV_WIRE_TEXT | DV_WIRE_CHOICES, DV_WIRE_ANY, DV_WIRE_TEXT, STRING)
DV_CONVERSION(BPCHAROID, put_text, decode_input, DV_WIRE_TEXT, DV_WIRE_ANY, 0, OTHER)
DV_CONVERSION(UUIDOID, put_uuid, decode_uuid, DV_WIRE_ID | DV_WIRE_REFERENCE | DV_WIRE_TEXT, DV_WIRE_ID | DV_WIRE_REFERENCE | DV_WIRE_TEXT, DV_WIRE_ID | DV_WIRE_REFERENCE, LOOKUP)
DV_CONVERSION(INT4OID, put_int4, decode_int4, DV_WIRE_NUMBERS, DV_WIRE_NUMBERS, DV_WIRE_INTEGER | DV_WIRE_CHOICE, INTEGER)
DV_CONVERSION(INT8OID, put_int8, decode_int8, DV_WIRE_NUMBERS, DV_WIRE_NUMBERS, DV_WIRE_INTEGER | DV_WIRE_BIGINT, BIGINT)
DV_CONVERSION(INT2OID, put_int2, decode_int2, DV_WIRE_NUMBERS, DV_WIRE_NUMBERS, DV_WIRE_INTEGER, INTEGER)
DV_CONVERSION(NUMERICOID, put_numeric, decode_numeric, DV_WIRE_NUMBERS, DV_WIRE_NUMBERS, DV_WIRE_DECIMAL, DECIMAL)
DV_CONVERSION(FLOAT8OID, put_float8, decode_float8, DV_WIRE_REALS, DV_WIRE_NUMBERS, DV_WIRE_DOUBLE, DOUBLE)
DV_CONVERSION(FLOAT4OID, put_float4, decode_input, DV_WIRE_REALS, DV_WIRE_NUMBERS, 0, OTHER)
DV_CONVERSION(BOOLOID, put_bool, decode_bool, DV_WIRE_BOOLEAN, DV_WIRE_BOOLEAN, DV_WIRE_BOOLEAN, BOOLEAN)
DV_CONVERSION(INT4ARRAYOID, put_choices, decode_choices, DV_WIRE_CHOICES, DV_WIRE_CHOICES, DV_WIRE_CHOICES, CHOICES)
DV_CONVERSION(TIMESTAMPTZOID, put_timestamp, decode_timestamp, DV_WIRE_TIMES | DV_WIRE_TEXT, DV_WIRE_TIMES | DV_WIRE_TEXT, DV_WIRE_MOMENT, DATETIME)
DV_CONVERSION(TIMESTAMPOID, put_timestamp, decode_timestamp, DV_WIRE_TIMES | DV_WIRE_TEXT, DV_WIRE_TIMES | DV_WIRE_TEXT, DV_WIRE_LOCAL_TIME, DATETIME_INDEPENDENT)
DV_CONVERSION(DATEOID, put_date, decode_date, DV_WIRE_DATE | DV_WIRE_TEXT, DV_WIRE_DATE | DV_WIRE_TEXT, DV_WIRE_DATE, DATE)
DV_CONVERSION(BYTEAOID, put_bytea, decode_bytea, DV_WIRE_BYTES, DV_WIRE_BYTES, DV_WIRE_BYTES, IMAGE)
/* all other types go through their input and output functions */
DV_CONVERSION(InvalidOid, put_text, decode_input, DV_WIRE_TEXT, DV_WIRE_ANY, 0, OTHER)

#undef DV_CONVERSION
