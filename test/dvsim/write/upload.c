/*
 * upload.c
 *		Files that arrive in several requests.
 *
 * The first request has the header x-ms-transfer-mode and no content, and its
 * answer has an address with a token.  The others send the bytes to that
 * address, one part after the other; the last one attaches the file to the
 * row.  Until then, its bytes are in "~upload", under the token.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "store/guid.h"
#include "write/upload.h"

/* recommended by the service to each client */
#define CHUNK_SIZE "4194304"

struct part
{
	unsigned long long first;
	unsigned long long last;
	unsigned long long size;	/* of the file */
};

static bool
bad_request(struct sim_req *req, struct sim_res *res, const char *message)
{
	return sim_fail(req, res, 400, "0x80040203", "%s", message);
}

static bool
step(struct sim_req *req, struct sim_res *res, sqlite3_stmt *stmt)
{
	int			rc = sqlite3_step(stmt);

	sim_stmt_put(req->sim->store, stmt);
	return rc == SQLITE_DONE || sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
}

bool
sim_upload_start(struct sim_req *req, struct sim_res *res, const struct sim_column *column,
				 const unsigned char row[16], const char *name)
{
	unsigned char token[16];
	char		row_text[37] = "";
	char		token_text[37] = "";
	sqlite3_stmt *stmt;

	if (strcasecmp(sim_header(req, "x-ms-transfer-mode"), "chunked") != 0 || req->body_len > 0)
		return bad_request(req, res, "An upload in chunks begins with x-ms-transfer-mode: chunked and no content.");
	stmt = sim_stmt_get(req->sim->store,
						"INSERT INTO \"~upload\"(token,row,place,name,bytes) VALUES (?1,?2,?3,?4,x'')");
	if (stmt == NULL)
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	sim_guid_make((uint64_t) (req->sim->epoch_us + sim_now_us(req->sim)), sim_random(req->sim), token);
	sqlite3_bind_blob(stmt, 1, token, 16, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 2, row, 16, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 3, sim_fmt(req->arena, "%s.%s", column->table->name, column->name), -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 4, name, -1, SQLITE_STATIC);
	if (!step(req, res, stmt))
		return false;
	sim_guid_print(row, row_text);
	sim_guid_print(token, token_text);
	sim_res_header(req, res, "Accept-Ranges", "bytes");
	sim_res_header(req, res, "Location",
				   sim_fmt(req->arena, "%s%s%s(%.36s)/%s?sessiontoken=%.36s", req->base_url, SIM_ROOT,
						   column->table->set_name, row_text, column->property, token_text));
	sim_res_header(req, res, "x-ms-chunk-size", CHUNK_SIZE);
	sim_res_header(req, res, "Access-Control-Expose-Headers", "x-ms-chunk-size");
	return true;
}

/* "bytes 0-4194303/25870370", matching the body, and no more than the column admits */
static bool
read_part(struct sim_req *req, struct sim_res *res, const struct sim_column *column, struct part *part)
{
	const char *range = sim_header(req, "Content-Range");
	int			n = 0;

	if (range == NULL ||
		sscanf(range, "bytes %llu-%llu/%llu%n", &part->first, &part->last, &part->size, &n) != 3 ||
		range[n] != '\0' || part->first > part->last || part->last >= part->size ||
		part->last - part->first + 1 != req->body_len)
		return bad_request(req, res, "The header Content-Range does not fit the content.");
	return sim_upload_fits(req, res, column, part->size);
}

bool
sim_upload_fits(struct sim_req *req, struct sim_res *res, const struct sim_column *column,
				unsigned long long size)
{
	return size <= (unsigned long long) column->max_length * 1024 ||
		sim_fail(req, res, 400, "0x80044a02", "Attachment file size is too big.");
}

/* returns the bytes received so far; NULL after sim_fail() */
static char *
arrived(struct sim_req *req, struct sim_res *res, const struct sim_column *column, const unsigned char row[16],
		const unsigned char token[16], const char **name, size_t *len)
{
	sqlite3_stmt *stmt = sim_stmt_get(req->sim->store,
									  "SELECT bytes,name FROM \"~upload\" WHERE token=?1 AND row=?2 AND place=?3");
	char	   *bytes = NULL;

	if (stmt != NULL)
	{
		sqlite3_bind_blob(stmt, 1, token, 16, SQLITE_STATIC);
		sqlite3_bind_blob(stmt, 2, row, 16, SQLITE_STATIC);
		sqlite3_bind_text(stmt, 3, sim_fmt(req->arena, "%s.%s", column->table->name, column->name), -1,
						  SQLITE_STATIC);
		if (sqlite3_step(stmt) == SQLITE_ROW)
		{
			*len = (size_t) sqlite3_column_bytes(stmt, 0);
			bytes = sim_alloc(req->arena, *len + req->body_len + 1);
			if (*len > 0)
				memcpy(bytes, sqlite3_column_blob(stmt, 0), *len);
			*name = sim_strdup(req->arena, (const char *) sqlite3_column_text(stmt, 1));
		}
		sim_stmt_put(req->sim->store, stmt);
	}
	if (bytes == NULL)
		bad_request(req, res, "There is no upload with this sessiontoken.");
	return bytes;
}

/* keeps the bytes, or deletes them once the file is complete */
static bool
keep(struct sim_req *req, struct sim_res *res, const unsigned char token[16], const void *bytes, size_t len,
	 bool complete)
{
	sqlite3_stmt *stmt = sim_stmt_get(req->sim->store, complete ? "DELETE FROM \"~upload\" WHERE token=?1" :
									  "UPDATE \"~upload\" SET bytes=?2 WHERE token=?1");

	if (stmt == NULL)
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	sqlite3_bind_blob(stmt, 1, token, 16, SQLITE_STATIC);
	if (!complete)
		sqlite3_bind_blob(stmt, 2, bytes, (int) len, SQLITE_STATIC);
	return step(req, res, stmt);
}

bool
sim_upload_part(struct sim_req *req, struct sim_res *res, const struct sim_column *column,
				const unsigned char row[16], const char **name, const void **bytes, size_t *len)
{
	const char *text = sim_param(req, "sessiontoken");
	unsigned char token[16];
	struct part part;
	char	   *all;
	bool		complete;

	if (!sim_guid_parse(text, strlen(text), token))
		return bad_request(req, res, "There is no upload with this sessiontoken.");
	if (!read_part(req, res, column, &part))
		return false;
	all = arrived(req, res, column, row, token, name, len);
	if (all == NULL)
		return false;
	if (part.first != *len)
		return bad_request(req, res, "The parts of a file are sent one after the other.");
	memcpy(all + *len, req->body, req->body_len);
	*len += req->body_len;
	complete = part.last + 1 == part.size;
	*bytes = complete ? all : NULL;
	return keep(req, res, token, all, *len, complete);
}
