/*
 * pg_entry_test.c
 *		The table of application users: which entries are reclaimed, and when.
 *
 * The test lays out the memory, with room for three users and two backends.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/cryptohash.h"
#include "miscadmin.h"

#include "pg_stand_in.h"
#include "pool/entry.h"
#include "pool/environment.h"
#include "pool/wait.h"

#define USERS		3
#define VIEWS		(DV_VIEWS_PER_USER * USERS)
#define BACKENDS	2
#define HISTORY		4
#define START		(1000000 * DV_SECOND)
#define WINDOW		(300 * DV_SECOND)
#define HOUR		(3600 * DV_SECOND)

Oid			MyDatabaseId = 1;

static dv_shared shared;
static dv_shared_user users[USERS];
static dv_shared_view views[VIEWS];
static dv_history history[HISTORY];
static dv_shared_lease leases[USERS][DV_USER_LEASES];
static int	forgotten;
static int	freed;
static union
{
	dv_shared_backend row;
	char		space[sizeof(dv_shared_backend) + (1 + DV_VIEWS_PER_USER) * sizeof(uint64)];
}			backends[BACKENDS];

dv_shared_user *
dv_shared_users(dv_shared *s)
{
	(void) s;
	return users;
}

/* The useful limit of environments is of no interest here. */
void
dv_environment_join(dv_shared *s, int user, const uint8 *key)
{
	(void) s;
	(void) user;
	(void) key;
}

void
dv_environment_leave(dv_shared *s, int user)
{
	(void) s;
	(void) user;
}

dv_shared_view *
dv_shared_views(dv_shared *s)
{
	(void) s;
	return views;
}

dv_history *
dv_shared_history(dv_shared *s)
{
	(void) s;
	return history;
}

dv_shared_backend *
dv_shared_backend_at(dv_shared *s, int i)
{
	(void) s;
	return &backends[i].row;
}

uint64 *
dv_shared_uses(const dv_shared *s, dv_shared_backend *row)
{
	return row->words + s->nwords;
}

dv_shared_lease *
dv_shared_leases(dv_shared *s, int user)
{
	(void) s;
	return leases[user];
}

void
dv_shared_free_lease(dv_shared *s, int user, dv_shared_lease *lease)
{
	(void) s;
	users[user].in_flight--;
	lease->ticket = 0;
}

void
dv_wait_forget(dv_shared *s, int user)
{
	(void) s;
	forgotten = user;
}

void
dv_wait_freed(dv_shared *s, int user, int n, int obstacles, int64 now)
{
	(void) s;
	(void) n;
	(void) obstacles;
	(void) now;
	/* its environment must still be known */
	assert_true(users[user].used);
	freed = user;
}

/* Other functions that the module needs; the tests do not compute hashes. */

pg_cryptohash_ctx *
pg_cryptohash_create(pg_cryptohash_type type)
{
	(void) type;
	abort();
}

int
pg_cryptohash_init(pg_cryptohash_ctx * ctx)
{
	return ctx != NULL;
}

int
pg_cryptohash_update(pg_cryptohash_ctx * ctx, const uint8 *data, size_t len)
{
	return ctx != NULL && data != NULL && len > 0;
}

int
pg_cryptohash_final(pg_cryptohash_ctx * ctx, uint8 *dest, size_t len)
{
	return ctx != NULL && dest != NULL && len > 0;
}

void
pg_cryptohash_free(pg_cryptohash_ctx * ctx)
{
	(void) ctx;
}

const char *
pg_cryptohash_error(pg_cryptohash_ctx * ctx)
{
	return ctx != NULL ? "error" : "";
}

int
errmsg_internal(const char *fmt,...)
{
	return fmt != NULL;
}

#if !defined(HAVE_DECL_STRLCPY) || !HAVE_DECL_STRLCPY
size_t
strlcpy(char *dst, const char *src, size_t size)
{
	size_t		len = strlen(src);

	memcpy(dst, src, Min(len + 1, size));
	dst[size - 1] = '\0';
	return len;
}
#endif

static int
begin(void **state)
{
	(void) state;
	memset(&shared, 0, sizeof(shared));
	memset(users, 0, sizeof(users));
	memset(views, 0, sizeof(views));
	memset(history, 0, sizeof(history));
	memset(backends, 0, sizeof(backends));
	memset(leases, 0, sizeof(leases));
	forgotten = freed = -1;
	shared.nusers = USERS;
	shared.nviews = VIEWS;
	shared.nbackends = BACKENDS;
	shared.nhistory = HISTORY;
	shared.nwords = 1;
	backends[0].row.pid = 1;
	backends[1].row.pid = 2;
	return 0;
}

/* A session of a role opens a pool of a server with the users whose names are the letters. */
static bool
open_pool_of(Oid server, int backend, Oid role, const char *letters, int64 now)
{
	static const char *const names[] = {"one", "two", "three", "four"};
	dv_pool_policy policy = {.rate = dv_rate_preset(DV_PRESET_BALANCED)};
	dv_pool_spec spec = {
		.organisation = "https://crm.example", .serverid = server, .server_name = "crm", .roleid = role, .names = names,
		.policy = &policy, .n = (int) strlen(letters)
	};
	dv_entry_key keys[USERS + 1];
	int			which[USERS + 1];
	int			i;

	spec.entitled = spec.n;
	for (i = 0; i < spec.n; i++)
	{
		memset(keys[i].user, letters[i] - 'a' + 'A', DV_KEY_LEN);
		memset(keys[i].claim, letters[i], DV_KEY_LEN);
	}
	return dv_entry_open(&shared, &backends[backend].row, &spec, keys, which, now);
}

/* Each role has a server of its own. */
static bool
open_pool(int backend, Oid role, const char *letters, int64 now)
{
	return open_pool_of(100 + role, backend, role, letters, now);
}

static void
end_session(int backend)
{
	memset(backends[backend].row.words, 0, (1 + DV_VIEWS_PER_USER) * sizeof(uint64));
}

static dv_shared_user *
user_of(char letter)
{
	int			i;

	for (i = 0; i < USERS; i++)
		if (users[i].used && users[i].key[0] == (uint8) letter)
			return &users[i];
	return NULL;
}

/* Three roles, each with a user, a second after the other; no session is left. */
static void
fill(void)
{
	assert_true(open_pool(0, 11, "a", START));
	assert_true(open_pool(0, 12, "b", START + DV_SECOND));
	assert_true(open_pool(0, 13, "c", START + 2 * DV_SECOND));
	end_session(0);
}

static void
idle_for_a_window(void **state)
{
	(void) state;
	fill();
	assert_false(open_pool(1, 14, "d", START + WINDOW - 1));
	assert_non_null(user_of('a'));
	assert_true(open_pool(1, 14, "d", START + WINDOW));
	assert_null(user_of('a'));
	assert_non_null(user_of('b'));
	assert_non_null(user_of('c'));
}

static void
idle_longest_goes_first(void **state)
{
	(void) state;
	fill();
	user_of('a')->rate.last_activity = START + 10 * DV_SECOND;
	assert_true(open_pool(1, 14, "d", START + 2 * WINDOW));
	assert_null(user_of('b'));
	assert_non_null(user_of('a'));
}

static void
kept_while_throttled(void **state)
{
	(void) state;
	fill();
	user_of('a')->throttle.until = START + 3 * WINDOW;
	user_of('b')->throttle.until = START + 3 * WINDOW + 1;
	user_of('c')->throttle.until = START + 3 * WINDOW + 1;
	assert_false(open_pool(1, 14, "d", START + 3 * WINDOW - 1));
	assert_true(open_pool(1, 14, "d", START + 3 * WINDOW));
	assert_null(user_of('a'));
}

static void
kept_while_in_the_history(void **state)
{
	(void) state;
	fill();
	user_of('a')->throttle.last_at = START;
	user_of('b')->throttle.last_at = START + DV_SECOND;
	user_of('c')->throttle.last_at = START + DV_SECOND;
	history[0].user = (int) (user_of('b') - users);
	history[1].user = (int) (user_of('a') - users);
	assert_false(open_pool(1, 14, "d", START + HOUR - 1));
	assert_true(open_pool(1, 14, "d", START + HOUR));
	assert_null(user_of('a'));
	assert_int_equal(history[1].user, -1);
	assert_int_equal(history[0].user, (int) (user_of('b') - users));
}

static void
kept_while_in_use(void **state)
{
	(void) state;
	assert_true(open_pool(0, 11, "a", START));
	assert_true(open_pool(0, 12, "b", START));
	assert_true(open_pool(0, 13, "c", START));
	assert_false(open_pool(1, 14, "d", START + 10 * HOUR));
	end_session(0);
	user_of('a')->in_flight = 1;
	assert_true(open_pool(1, 14, "d", START + 10 * HOUR));
	assert_true(open_pool(1, 15, "e", START + 10 * HOUR));
	assert_non_null(user_of('a'));
	assert_false(open_pool(1, 16, "f", START + 20 * HOUR));
}

static void
not_for_others_of_the_same_pool(void **state)
{
	(void) state;
	fill();
	assert_true(open_pool(1, 14, "ade", START + HOUR));
	assert_non_null(user_of('a'));
	end_session(1);
	assert_false(open_pool(1, 15, "adef", START + 10 * HOUR));
}

static void
views_go_with_their_user(void **state)
{
	int			used = 0;
	int			i;

	(void) state;
	fill();
	assert_true(open_pool(1, 14, "d", START + HOUR));
	for (i = 0; i < VIEWS; i++)
		used += views[i].used;
	assert_int_equal(used, USERS);
}

static void
a_role_displaces_its_own_first(void **state)
{
	(void) state;
	assert_true(open_pool(0, 11, "a", START));
	assert_true(open_pool(1, 12, "b", START));
	end_session(0);
	end_session(1);
	user_of('a')->throttle.until = START + HOUR;
	assert_true(open_pool(0, 11, "c", START + DV_SECOND));
	assert_null(user_of('a'));
	assert_non_null(user_of('b'));
}

/* A role that names the application user of another role cannot cause its removal. */
static void
a_role_does_not_displace_what_others_use(void **state)
{
	(void) state;
	assert_true(open_pool(0, 11, "a", START));
	end_session(0);
	user_of('a')->throttle.until = START + HOUR;
	assert_true(open_pool(0, 12, "a", START));
	end_session(0);
	assert_true(open_pool(0, 12, "b", START + DV_SECOND));
	assert_non_null(user_of('a'));
	end_session(0);
	assert_true(open_pool(0, 12, "c", START + 2 * HOUR));
	assert_null(user_of('a'));
}

/* Nor does a mapping set, for other roles, attributes that only mappings have. */
static void
a_role_does_not_describe_what_others_use(void **state)
{
	(void) state;
	assert_true(open_pool_of(100, 0, 11, "a", START));
	assert_true(open_pool_of(100, 1, 12, "ba", START));
	assert_string_equal(views[0].name, "two");
	assert_int_equal(views[0].sharing, 2);
	assert_true(open_pool_of(100, 0, 11, "a", START));
	user_of('a')->proven = true;
	assert_true(open_pool_of(100, 1, 12, "ba", START));
	assert_string_equal(views[0].name, "one");
	assert_int_equal(views[0].sharing, 1);
	assert_true(open_pool_of(100, 0, 11, "ab", START));
	assert_int_equal(views[0].sharing, 2);
}

/* A claim has the small letter of its user, which has the capital one; more digits make more claims. */
static dv_entry_key
claim_of(char letter, char more)
{
	dv_entry_key key;

	memset(key.user, letter - 'a' + 'A', DV_KEY_LEN);
	memset(key.claim, letter, DV_KEY_LEN);
	key.claim[DV_KEY_LEN - 1] = (uint8) more;
	return key;
}

static int
open_claim(int backend, Oid role, const dv_entry_key *key)
{
	static const char *const names[] = {"one"};
	dv_pool_policy policy = {.rate = dv_rate_preset(DV_PRESET_BALANCED)};
	dv_pool_spec spec = {
		.organisation = "https://crm.example", .serverid = 100, .server_name = "crm", .roleid = role, .names = names,
		.policy = &policy, .n = 1, .entitled = 1
	};
	int			view;

	assert_true(dv_entry_open(&shared, &backends[backend].row, &spec, key, &view, START));
	return views[view].user;
}

/* Claims share nothing until both are proved, and then they are the same user. */
static void
claims_are_their_own_until_they_are_proved(void **state)
{
	dv_entry_key good = claim_of('a', 1);
	dv_entry_key other = claim_of('a', 2);
	dv_entry_key made_up = claim_of('a', 3);
	int			a = open_claim(0, 11, &good);
	int			b = open_claim(1, 12, &other);
	uint64		moves;

	(void) state;
	assert_int_not_equal(a, b);
	assert_int_equal(open_claim(1, 13, &good), a);
	assert_int_equal(dv_entry_prove(&shared, a, &good, START), a);
	assert_true(users[a].proven);
	assert_int_equal(forgotten, -1);
	assert_int_equal(freed, a);
	assert_int_equal(open_claim(0, 11, &good), a);
	assert_int_equal(open_claim(1, 12, &other), b);
	assert_int_not_equal(open_claim(1, 13, &made_up), a);
	users[b].failures = 3;
	moves = shared.moves;
	assert_int_equal(dv_entry_prove(&shared, b, &other, START), a);
	/* who waits for the claim looks for the user */
	assert_int_equal(forgotten, b);
	assert_int_not_equal(shared.moves, moves);
	assert_int_equal(users[a].failures, 3);
	assert_int_equal(dv_entry_find(&shared, &other), a);
	end_session(1);
	dv_entry_leave(&shared, b, a);
	assert_false(users[b].used);
	assert_int_equal(open_claim(1, 12, &other), a);
	assert_int_not_equal(open_claim(1, 13, &made_up), a);
}

/* Of many claims, the last ones are remembered; the others have to be proved again. */
static void
some_claims_are_remembered(void **state)
{
	int			i;

	(void) state;
	for (i = 1; i <= DV_CLAIMS + 1; i++)
	{
		dv_entry_key key = claim_of('a', (char) i);
		int			entry = open_claim(1, 11, &key);
		int			user = dv_entry_prove(&shared, entry, &key, START);

		end_session(1);
		dv_entry_leave(&shared, entry, user);
		assert_int_equal(dv_entry_find(&shared, &key), user);
	}
	for (i = 1; i <= DV_CLAIMS + 1; i++)
	{
		dv_entry_key key = claim_of('a', (char) i);

		assert_int_equal(dv_entry_find(&shared, &key) < 0, i == 1);
	}
}

/* A role that fills the table with claims gives way to a role with fewer entries. */
static void
the_greatest_account_gives_way(void **state)
{
	(void) state;
	assert_true(open_pool(0, 11, "abc", START));
	leases[user_of('a') - users][5].ticket = 7;
	user_of('a')->in_flight = 1;
	assert_true(open_pool(1, 12, "d", START));
	assert_null(user_of('a'));
	assert_int_equal(leases[forgotten][5].ticket, 0);
	assert_int_equal(freed, forgotten);
	assert_int_equal(users[freed].in_flight, 0);
	assert_int_not_equal(shared.moves, 0);
	/* not to a role that would then have as many */
	assert_false(open_pool(1, 12, "de", START));
	assert_non_null(user_of('b'));
	assert_non_null(user_of('c'));
}

/* Proved users give way last, and not at all if they are half of the table. */
static void
what_was_proved_gives_way_last(void **state)
{
	(void) state;
	assert_true(open_pool(0, 11, "abc", START));
	user_of('a')->proven = user_of('b')->proven = true;
	assert_true(open_pool(1, 12, "d", START));
	assert_null(user_of('c'));
	user_of('d')->proven = true;
	assert_true(open_pool(1, 13, "e", START));
	assert_true(user_of('d')->proven);
	assert_int_equal((user_of('a') != NULL) + (user_of('b') != NULL), 1);
	assert_false(open_pool(1, 14, "f", START));
}

/* Servers come and go, but their users stay: views of servers that no session uses give way. */
static void
a_user_is_seen_by_any_number_of_servers(void **state)
{
	Oid			server;

	(void) state;
	for (server = 100; server < 100 + 2 * VIEWS; server++)
	{
		assert_true(open_pool_of(server, 0, 11, "a", START));
		end_session(0);
	}
	assert_true(open_pool_of(100, 0, 11, "abc", START));
}

/* The views of the server whose pool is opened do not give way to each other, however old they are. */
static void
a_server_keeps_its_own_views(void **state)
{
	Oid			server;
	int			own = 0;
	int			i;

	(void) state;
	for (server = 100; server < 100 + VIEWS; server++)
	{
		assert_true(open_pool_of(server, 0, 11, "a", START + server));
		end_session(0);
	}
	assert_true(open_pool_of(100, 0, 11, "ab", START + DV_SECOND));
	for (i = 0; i < VIEWS; i++)
		own += views[i].used && views[i].serverid == 100;
	assert_int_equal(own, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(idle_for_a_window, begin),
		cmocka_unit_test_setup(idle_longest_goes_first, begin),
		cmocka_unit_test_setup(kept_while_throttled, begin),
		cmocka_unit_test_setup(kept_while_in_the_history, begin),
		cmocka_unit_test_setup(kept_while_in_use, begin),
		cmocka_unit_test_setup(not_for_others_of_the_same_pool, begin),
		cmocka_unit_test_setup(views_go_with_their_user, begin),
		cmocka_unit_test_setup(a_role_displaces_its_own_first, begin),
		cmocka_unit_test_setup(a_role_does_not_displace_what_others_use, begin),
		cmocka_unit_test_setup(a_role_does_not_describe_what_others_use, begin),
		cmocka_unit_test_setup(claims_are_their_own_until_they_are_proved, begin),
		cmocka_unit_test_setup(some_claims_are_remembered, begin),
		cmocka_unit_test_setup(the_greatest_account_gives_way, begin),
		cmocka_unit_test_setup(what_was_proved_gives_way_last, begin),
		cmocka_unit_test_setup(a_user_is_seen_by_any_number_of_servers, begin),
		cmocka_unit_test_setup(a_server_keeps_its_own_views, begin),
	};

	return cmocka_run_group_tests_name("entry", tests, NULL, NULL);
}
