/*
 * option_list.h
 *		The options of servers, user mappings, foreign tables, and columns, one
 *		line for each.
 *
 * A line gives the type of the value, with the default (or NULL) and the range.  If
 * the line ends with a member of dv_session_config, the value is copied to it.
 * DV_SETTING() is an option that can be overridden by a setting,
 * dataverse_fdw.NAME, whose description comes first; DV_PLAN_SETTING() is the same
 * for an option that plans depend on, which are invalidated when the setting
 * changes.  A setting without SPEED affects the outcome of rows, and is therefore
 * accepted only from certain roles (rights.c).  A run can replace settings
 * with OF_RUNS for its own statements (setting.c).
 *
 * This file has no include guard: a file that includes it defines DV_OPTION(), and
 * DV_SETTING() and DV_PLAN_SETTING() if these are to differ; all are undefined at
 * the end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SETTING
#define DV_SETTING(description, ...) DV_OPTION(__VA_ARGS__)
#endif
#ifndef DV_PLAN_SETTING
#define DV_PLAN_SETTING(...) DV_SETTING(__VA_ARGS__)
#endif

/* symbol, name, flags, value, member of dv_session_config */

/* address of the service */
DV_OPTION(URL, "url", ON_SERVER, SITE(NULL), IN_SESSION(base_url))
DV_OPTION(API_VERSION, "api_version", ON_SERVER, VERSION("9.2"), IN_SESSION(api_version))
DV_OPTION(TENANT_ID, "tenant_id", ON_SERVER, DOMAIN_NAME(NULL))
DV_OPTION(AUTHORITY, "authority", ON_SERVER, ADDRESS("https://login.microsoftonline.com"))
DV_OPTION(TOKEN_URL, "token_url", ON_SERVER, ADDRESS(NULL))

/* connections to the service */
DV_OPTION(CA_FILE, "ca_file", ON_SERVER | SUPERUSER, TEXT(NULL), IN_SESSION(http.ca_file))
DV_OPTION(PROXY, "proxy", ON_SERVER | SUPERUSER, HTTP_PROXY(NULL), IN_SESSION(http.proxy))
DV_OPTION(CONNECT_TIMEOUT, "connect_timeout", ON_SERVER, TIMEOUT("30s", 0.001, 3600), IN_SESSION(http.connect_timeout_ms))
DV_OPTION(REQUEST_TIMEOUT, "request_timeout", ON_SERVER, TIMEOUT("150s", 0.001, 3600), IN_SESSION(request_timeout_ms))
DV_OPTION(AFFINITY_COOKIE, "affinity_cookie", ON_SERVER, BOOLEAN("off"), IN_SESSION(http.keep_cookies))
DV_OPTION(USER_AGENT, "user_agent", ON_SERVER, LINE("dataverse_fdw"), IN_SESSION(http.user_agent))

/* the pool of application users */
DV_OPTION(SELECTION, "selection", ON_SERVER, CHOICE("throttle_aware", selections), IN_SESSION(pool.selection))
DV_SETTING("Sets the maximum number of concurrent write requests of this session.",
		   MAX_PARALLEL, "max_parallel", ON_SERVER | SPEED, INTEGER(NULL, 1, 52), IN_SESSION(pool.max_parallel))
DV_OPTION(DOP_SCOPE, "dop_scope", ON_SERVER, CHOICE("user", dop_scopes), IN_SESSION(pool.dop_scope))
DV_OPTION(MAX_THROTTLE_RETRIES, "max_throttle_retries", ON_SERVER, INTEGER("3", -1, 1000000), IN_SESSION(retry.max_throttle_retries))
DV_OPTION(MAX_RETRIES, "max_retries", ON_SERVER, INTEGER("5", 0, 1000), IN_SESSION(retry.max_retries))
DV_OPTION(FALLBACK_RETRY_AFTER, "fallback_retry_after", ON_SERVER, DURATION("30s", 0, 3600), IN_SESSION(pool.fallback_retry_after))
DV_OPTION(RETRY_AFTER_BUFFER, "retry_after_buffer", ON_SERVER, DURATION("1s", 0, 60), IN_SESSION(pool.retry_after_buffer))
DV_OPTION(MAX_RETRY_AFTER_TOLERANCE, "max_retry_after_tolerance", ON_SERVER, DURATION(NULL, 0, 86400), IN_SESSION(retry.tolerance))
DV_OPTION(SLOT_TIMEOUT, "slot_timeout", ON_SERVER, DURATION(NULL, 0.001, 86400), IN_SESSION(pool.slot_timeout))
DV_OPTION(THROTTLE_TRACKING, "throttle_tracking", ON_SERVER, BOOLEAN("on"), IN_SESSION(pool.throttle_tracking))

/* the rate controller; missing defaults depend on rate_preset */
DV_OPTION(ADAPTIVE_RATE, "adaptive_rate", ON_SERVER, BOOLEAN("on"), IN_SESSION(pool.rate.adaptive))
DV_OPTION(RATE_PRESET, "rate_preset", ON_SERVER, CHOICE("balanced", presets))
DV_OPTION(INITIAL_PARALLELISM_FACTOR, "initial_parallelism_factor", ON_SERVER, REAL(NULL, 0.1, 1), IN_SESSION(pool.rate.initial_factor))
DV_OPTION(MIN_PARALLELISM, "min_parallelism", ON_SERVER, INTEGER("1", 1, 52), IN_SESSION(pool.rate.min_parallelism))
DV_OPTION(INCREASE_RATE, "increase_rate", ON_SERVER, INTEGER("2", 1, 52), IN_SESSION(pool.rate.increase_rate))
DV_OPTION(DECREASE_FACTOR, "decrease_factor", ON_SERVER, REAL(NULL, 0.1, 0.9), IN_SESSION(pool.rate.decrease_factor))
DV_OPTION(STABILIZATION_BATCHES, "stabilization_batches", ON_SERVER, INTEGER(NULL, 1, 1000), IN_SESSION(pool.rate.stabilization_batches))
DV_OPTION(MIN_INCREASE_INTERVAL, "min_increase_interval", ON_SERVER, DURATION(NULL, 0, 3600), IN_SESSION(pool.rate.min_increase_interval))
DV_OPTION(RECOVERY_MULTIPLIER, "recovery_multiplier", ON_SERVER, REAL("2.0", 1, 10), IN_SESSION(pool.rate.recovery_multiplier))
DV_OPTION(LAST_KNOWN_GOOD_TTL, "last_known_good_ttl", ON_SERVER, DURATION("5min", 1, 86400), IN_SESSION(pool.rate.last_known_good_ttl))
DV_OPTION(IDLE_RESET_PERIOD, "idle_reset_period", ON_SERVER, DURATION("5min", 1, 86400), IN_SESSION(pool.rate.idle_reset_period))
DV_OPTION(EXECUTION_TIME_CEILING_FACTOR, "execution_time_ceiling_factor", ON_SERVER, REAL(NULL, 0, 100000), IN_SESSION(pool.rate.execution_factor))
DV_OPTION(SLOW_BATCH_THRESHOLD, "slow_batch_threshold", ON_SERVER, DURATION(NULL, 0, 3600), IN_SESSION(pool.rate.slow_batch_threshold))
DV_OPTION(BUDGET_PACING, "budget_pacing", ON_SERVER, BOOLEAN("on"), IN_SESSION(pool.budget_pacing))
DV_OPTION(USEFUL_LIMIT, "useful_limit", ON_SERVER, BOOLEAN("on"), IN_SESSION(pool.useful_limit))

/* reading and writing; options of the table override those of the server */
DV_SETTING("Sets the number of rows in a bulk message.",
		   BATCH_SIZE, "batch_size", ON_SERVER | ON_TABLE | SPEED, INTEGER("100", 1, 1000))
DV_OPTION(PAGE_SIZE, "page_size", ON_SERVER | ON_TABLE, INTEGER(NULL, 1, 5000))
DV_SETTING("Sets how many ranges of ids of a table are read at a time.",
		   SCAN_PARALLELISM, "scan_parallelism", ON_SERVER | ON_TABLE | SPEED, INTEGER(NULL, 1, 64))
DV_SETTING("Sets what a modification does when Dataverse refuses a row: abort or continue.",
		   ON_ERROR, "on_error", ON_SERVER | ON_TABLE | OF_RUNS, CHOICE("abort", error_modes))
DV_SETTING("Sets how many refused rows a modification files before it gives up.",
		   MAX_ERRORS, "max_errors", ON_SERVER | ON_TABLE | OF_RUNS, INTEGER(NULL, 0, INT_MAX))
/* not a setting, because plans depend on it */
DV_OPTION(ON_OVERSIZE, "on_oversize", ON_SERVER | ON_TABLE | ON_COLUMN, CHOICE("error", oversize_modes))
DV_OPTION(GENERATE_IDS, "generate_ids", ON_SERVER | ON_TABLE, BOOLEAN("on"))
DV_SETTING("Sets how rows are inserted: create, upsert, or ignore_duplicates.",
		   INSERT_MODE, "insert_mode", ON_SERVER | ON_TABLE | OF_RUNS, CHOICE("create", insert_modes))
DV_SETTING("Sets which custom logic is bypassed for written rows: none, sync, async, or all.",
		   BYPASS_CUSTOM_LOGIC, "bypass_custom_logic", ON_SERVER | ON_TABLE, CHOICE("none", bypasses))
DV_SETTING("Prevents written rows from starting Power Automate flows.",
		   BYPASS_FLOWS, "bypass_flows", ON_SERVER | ON_TABLE, BOOLEAN("off"))
DV_SETTING("Suppresses the duplicate detection rules.",
		   SUPPRESS_DUPLICATE_DETECTION, "suppress_duplicate_detection", ON_SERVER | ON_TABLE, BOOLEAN("on"))
DV_SETTING("Sets the text that plug-ins receive in the shared variable \"tag\".",
		   TAG, "tag", ON_SERVER | ON_TABLE, TEXT(NULL))
DV_PLAN_SETTING("Lets UPDATE and DELETE write only rows that have not been changed since the statement read them.",
				MATCH_VERSION, "match_version", ON_SERVER | ON_TABLE | OF_RUNS, BOOLEAN("off"))
/* not settings, because plans depend on them */
DV_OPTION(FULL_TEXT_FILTERS, "full_text_filters", ON_SERVER | ON_TABLE, BOOLEAN("off"))
DV_OPTION(PUSH_JOINS, "push_joins", ON_SERVER | ON_TABLE, BOOLEAN("on"))
DV_OPTION(PUSH_GROUPS, "push_groups", ON_SERVER | ON_TABLE, BOOLEAN("on"))
DV_OPTION(UPDATABLE, "updatable", ON_SERVER | ON_TABLE, BOOLEAN("on"))
DV_OPTION(TRUNCATABLE, "truncatable", ON_SERVER | ON_TABLE, BOOLEAN("off"))
DV_OPTION(USE_REMOTE_ESTIMATE, "use_remote_estimate", ON_SERVER | ON_TABLE, BOOLEAN("off"))
DV_OPTION(REQUEST_COST, "request_cost", ON_SERVER | ON_TABLE, REAL(NULL, 1, 1000000))
DV_OPTION(ROW_COST, "row_cost", ON_SERVER | ON_TABLE, REAL(NULL, 0, 1000000))
DV_OPTION(IMPORT_STATS, "import_stats", ON_SERVER | ON_TABLE, BOOLEAN("off"))

/* the table in Dataverse */
DV_OPTION(TABLE, "table", ON_TABLE, NAME_IN_URL(NULL))
DV_OPTION(ENTITY_SET, "entity_set", ON_TABLE, NAME_IN_URL(NULL))
DV_OPTION(PRIMARY_ID, "primary_id", ON_TABLE, NAME_IN_URL(NULL))
DV_OPTION(TABLE_TYPE, "table_type", ON_TABLE, CHOICE("standard", table_types))
DV_SETTING("Sets the columns of the alternate key by which upserts find their rows.",
		   UPSERT_KEY, "upsert_key", ON_TABLE | OF_RUNS, COLUMNS(NULL))
DV_OPTION(PARTITION_ID, "partition_id", ON_TABLE, TEXT(NULL))
DV_OPTION(KEYS, "keys", ON_TABLE, TEXT(NULL))

/* the column in Dataverse */
DV_OPTION(COLUMN, "column", ON_COLUMN, NAME_IN_URL(NULL))
DV_OPTION(NAVIGATION, "navigation", ON_COLUMN, NAMES(NULL))
DV_OPTION(TARGET, "target", ON_COLUMN, NAMES(NULL))
DV_OPTION(TARGET_SET, "target_set", ON_COLUMN, NAMES(NULL))
DV_OPTION(TYPE, "type", ON_COLUMN, TEXT(NULL))
DV_OPTION(REF_TYPE_OF, "ref_type_of", ON_COLUMN, TEXT(NULL))
DV_OPTION(LABEL_OF, "label_of", ON_COLUMN, TEXT(NULL))
DV_OPTION(HELPER_OF, "helper_of", ON_COLUMN, TEXT(NULL))
DV_OPTION(SOURCE, "source", ON_COLUMN, CHOICE("simple", sources))
DV_OPTION(READONLY, "readonly", ON_COLUMN, BOOLEAN("off"))
DV_OPTION(UPDATE_ONLY, "update_only", ON_COLUMN, BOOLEAN("off"))
DV_OPTION(CREATE_ONLY, "create_only", ON_COLUMN, BOOLEAN("off"))
DV_OPTION(PRIMARY_IMAGE, "primary_image", ON_COLUMN, BOOLEAN("off"))

/* application users */
DV_OPTION(NAME, "name", ON_USER | NUMBERED, TEXT(NULL))
DV_OPTION(CLIENT_ID, "client_id", ON_USER | NUMBERED, TEXT(NULL))
DV_OPTION(CLIENT_SECRET, "client_secret", ON_USER | NUMBERED | SECRET, TEXT(NULL))
DV_OPTION(CLIENT_CERTIFICATE, "client_certificate", ON_USER | NUMBERED | SUPERUSER, TEXT(NULL))
DV_OPTION(CLIENT_KEY, "client_key", ON_USER | NUMBERED | SUPERUSER, TEXT(NULL))
DV_OPTION(CLIENT_KEY_PASSWORD, "client_key_password", ON_USER | NUMBERED | SECRET, TEXT(NULL))
DV_OPTION(MANAGED_IDENTITY, "managed_identity", ON_USER | NUMBERED | SUPERUSER, BOOLEAN("off"))
DV_OPTION(ACCESS_TOKEN, "access_token", ON_USER | NUMBERED | SECRET, WORD(NULL))
DV_OPTION(CALLER_ID, "caller_id", ON_USER, WORD(NULL), IN_SESSION(caller_id))

/* credentials for the proxy */
DV_OPTION(PROXY_USER, "proxy_user", ON_USER, TEXT(NULL), IN_SESSION(http.proxy_user))
DV_OPTION(PROXY_PASSWORD, "proxy_password", ON_USER | SECRET, TEXT(NULL), IN_SESSION(http.proxy_password))

#undef DV_OPTION
#undef DV_SETTING
#undef DV_PLAN_SETTING
