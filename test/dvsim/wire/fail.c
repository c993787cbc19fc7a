/*
 * fail.c
 *		The service's error bodies.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "wire/errors.h"
#include "wire/request.h"
#include "store/text.h"

#define DETAILS "Microsoft.PowerApps.CDS.ErrorDetails."

static const char *
name_of_code(const char *code)
{
	const char *name = sim_error_name(code);

	return name ? name : "UnExpected";
}

static void
put_member(struct sim_req *req, struct sim_buf *body, const char *annotation, const char *value)
{
	if (!sim_wants_annotation(req, annotation))
		return;
	sim_puts(body, ",\"@");
	sim_puts(body, annotation);
	sim_puts(body, "\":");
	sim_put_json(body, value, strlen(value));
}

static void
put_standard_members(struct sim_req *req, struct sim_res *res)
{
	struct sim_buf *body = &res->body;
	const char *digits = strncasecmp(res->error_code, "0x", 2) == 0 ? res->error_code + 2 : "0";
	char		step[37];
	char		activity[37];
	char		status[16];

	sim_guid_random(req->sim, step);
	sim_guid_random(req->sim, activity);
	snprintf(status, sizeof(status), "%d", res->status);
	put_member(req, body, DETAILS "ApiExceptionSourceKey",
			   "Plugin/Microsoft.Crm.Common.ObjectModel.AccountService");
	put_member(req, body, DETAILS "ApiStepKey", step);
	put_member(req, body, DETAILS "ApiDepthKey", "1");
	put_member(req, body, DETAILS "ApiActivityIdKey", activity);
	put_member(req, body, DETAILS "ApiPluginSolutionNameKey", "System");
	put_member(req, body, DETAILS "ApiStepSolutionNameKey", "System");
	put_member(req, body, DETAILS "ApiExceptionCategory",
			   res->status < 500 ? "ClientError" : "SystemFailure");
	put_member(req, body, DETAILS "ApiExceptionMessageName", name_of_code(res->error_code));
	put_member(req, body, DETAILS "ApiExceptionHttpStatusCode", status);
	put_member(req, body, "Microsoft.PowerApps.CDS.HelpLink",
			   sim_fmt(req->arena, "http://go.microsoft.com/fwlink/?LinkID=398563"
					   "&error=Microsoft.Crm.CrmException%%3a%s&client=platform", digits));
	put_member(req, body, "Microsoft.PowerApps.CDS.InnerError.Message", res->error_message);
}

/*
 * Messages quote input of the client, which need not be UTF-8: like the
 * service when it decodes a URL or a body, we replace each invalid byte by
 * U+FFFD, so that the answer is always JSON.
 */
static const char *
well_formed(struct sim_arena *arena, const char *s)
{
	size_t		left = strlen(s);
	char	   *copy;
	char	   *out;

	if (sim_text_valid(s, left))
		return s;
	out = copy = sim_alloc(arena, left * 3 + 1);
	while (left > 0)
	{
		size_t		n = (unsigned char) *s < 0x80 ? 1 : 2;

		while (n > 1 && n <= 4 && n <= left && !sim_text_valid(s, n))
			n++;
		if (n > 4 || n > left)
		{
			memcpy(out, "\xef\xbf\xbd", 3);
			out += 3;
			n = 1;
		}
		else
		{
			memcpy(out, s, n);
			out += n;
		}
		s += n;
		left -= n;
	}
	return copy;
}

/*
 * "details" are further members: a name with a leading '@' stands for itself,
 * any other is a key of the fault's ErrorDetails dictionary.
 */
void
sim_error_body(struct sim_req *req, struct sim_res *res, const struct sim_pairs *details)
{
	struct sim_buf *body = &res->body;

	res->error_message = well_formed(req->arena, res->error_message);
	body->len = 0;
	sim_puts(body, "{\"error\":{\"code\":");
	sim_put_json(body, res->error_code, strlen(res->error_code));
	sim_puts(body, ",\"message\":");
	sim_put_json(body, res->error_message, strlen(res->error_message));
	if (sim_header(req, "Prefer") != NULL)
	{
		put_standard_members(req, res);
		for (int i = 0; details != NULL && i < details->n; i++)
		{
			const char *name = details->items[i].name;

			if (name[0] == '@')
				name++;
			else
				name = sim_fmt(req->arena, DETAILS "%s", name);
			put_member(req, body, name, details->items[i].value);
		}
	}
	sim_puts(body, "}}");
	res->content_type = "application/json; odata.metadata=minimal";
}

bool
sim_fail(struct sim_req *req, struct sim_res *res, int status, const char *code,
		 const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	res->error_message = sim_vfmt(req->arena, fmt, args);
	va_end(args);
	res->status = status;
	res->error_code = code;
	sim_error_body(req, res, NULL);
	return false;
}

void
sim_json_answer(struct sim_res *res, int status)
{
	res->status = status;
	res->content_type = "application/json; odata.metadata=minimal";
}
