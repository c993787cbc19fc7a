/*
 * combination.c
 *		Combinations of options that cannot work.
 *
 * Each option by itself has been checked before (option.c).  The options of a
 * server and of its user mappings are never known together, so a server gets a
 * NOTICE if its user mappings decide whether it can work.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"

#include "client/session.h"
#include "fdw/combination.h"
#include "fdw/option.h"

static void
refuse_combination(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg_internal("%s", message),
			 errhint("%s", hint)));
}

/* An application user must have exactly one kind of credentials. */
static void
check_application_user(dv_options opts, int number)
{
	const char *n = number > 1 ? psprintf("_%d", number) : "";
	const char *hint = psprintf("Set \"client_id%s\" together with \"client_secret%s\" or \"client_certificate%s\", or set \"managed_identity%s\" or \"access_token%s\".",
								n, n, n, n, n);
	dv_option	id = dv_option_numbered(DV_OPT_CLIENT_ID, number);
	bool		secret = dv_option_given(opts, dv_option_numbered(DV_OPT_CLIENT_SECRET, number));
	bool		certificate = dv_option_given(opts, dv_option_numbered(DV_OPT_CLIENT_CERTIFICATE, number));
	bool		key = dv_option_given(opts, dv_option_numbered(DV_OPT_CLIENT_KEY, number));
	bool		password = dv_option_given(opts, dv_option_numbered(DV_OPT_CLIENT_KEY_PASSWORD, number));
	bool		identity = dv_option_bool(opts, dv_option_numbered(DV_OPT_MANAGED_IDENTITY, number));
	bool		token = dv_option_given(opts, dv_option_numbered(DV_OPT_ACCESS_TOKEN, number));
	bool		given = dv_option_given(opts, id) || key || password ||
	dv_option_given(opts, dv_option_numbered(DV_OPT_NAME, number));
	int			ways = secret + certificate + identity + token;

	if (ways == 0 && given)
		refuse_combination(psprintf("application user %d has no credentials", number), hint);
	if (ways > 1)
		refuse_combination(psprintf("application user %d has more than one kind of credentials", number),
						   hint);
	if ((secret || certificate) && !dv_option_given(opts, id))
		refuse_combination(psprintf("option \"%s\" is missing", dv_option_name(id)), hint);
	if ((key || password) && !certificate)
		refuse_combination(psprintf("application user %d has a key but no certificate", number),
						   psprintf("Also set \"client_certificate%s\".", n));
}

/* Two application users with the same id are one, which is hardly intended. */
static void
notice_repetition(dv_options opts, int number)
{
	dv_option	second = dv_option_numbered(DV_OPT_CLIENT_ID, number);
	int			other;

	if (!dv_option_given(opts, second))
		return;
	for (other = 1; other < number; other++)
	{
		dv_option	first = dv_option_numbered(DV_OPT_CLIENT_ID, other);

		if (dv_option_given(opts, first) &&
			pg_strcasecmp(dv_option_text(opts, first), dv_option_text(opts, second)) == 0)
		{
			ereport(NOTICE,
					(errmsg("options \"%s\" and \"%s\" have the same value",
							dv_option_name(first), dv_option_name(second)),
					 errdetail("In Dataverse they are one application user, so the second one adds no throughput."),
					 errhint("Set \"%s\" to the client id of another app registration.", dv_option_name(second))));
			return;
		}
	}
}

void
dv_combination_check(List *list, Oid catalog)
{
	dv_options	opts = {list, NIL};
	int			number;

	if (catalog == UserMappingRelationId && dv_option_given(opts, DV_OPT_PROXY_PASSWORD) &&
		!dv_option_given(opts, DV_OPT_PROXY_USER))
		refuse_combination("option \"proxy_user\" is missing",
						   "Set \"proxy_user\" together with \"proxy_password\".");
	if (catalog == UserMappingRelationId)
	{
		for (number = 1; number <= DV_APPLICATION_USERS_MAX; number++)
			check_application_user(opts, number);
		for (number = 2; number <= DV_APPLICATION_USERS_MAX; number++)
			notice_repetition(opts, number);
	}
	if (catalog == ForeignServerRelationId && !dv_option_given(opts, DV_OPT_URL))
		refuse_combination("option \"url\" is missing",
						   "Set it to the address of the environment, such as https://contoso.crm.dynamics.com.");
	if (catalog == ForeignServerRelationId && dv_option_given(opts, DV_OPT_MAX_PARALLEL) &&
		dv_option_int(opts, DV_OPT_MIN_PARALLELISM) > dv_option_int(opts, DV_OPT_MAX_PARALLEL))
		refuse_combination("option \"min_parallelism\" is greater than \"max_parallel\"",
						   "Raise \"max_parallel\" or lower \"min_parallelism\".");

	/* the user mappings decide which kinds of credentials there will be */
	if (catalog == ForeignServerRelationId && !dv_option_given(opts, DV_OPT_TENANT_ID) &&
		!dv_option_given(opts, DV_OPT_TOKEN_URL))
		ereport(NOTICE,
				(errmsg("the server has neither option \"tenant_id\" nor \"token_url\""),
				 errdetail("Application users with a client secret or certificate will get no tokens."),
				 errhint("Set \"tenant_id\", unless all application users have a managed identity or an access token.")));
}
