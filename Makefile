# dataverse_fdw: Microsoft Dataverse tables as foreign tables.
#
#	make, make install, make installcheck	as for every extension
#	make demo, make test			need only a shell; see README.md
#	make WERROR=1				treats warnings as errors

EXTENSION = dataverse_fdw
EXTVERSION = 1.0
MODULE_big = dataverse_fdw
# The extension's script, put together in this order
SCRIPT = $(addprefix src/sql/,schema.sql check.sql functions.sql pool.sql rejects.sql import.sql changes.sql copies.sql runs.sql pull_columns.sql pull_prepare.sql \
	pull_steps.sql pull.sql track.sql conflicts.sql sync_steps.sql sync.sql pushes.sql push_steps.sql push.sql owner.sql comments.sql grants.sql)
DATA_built = sql/$(EXTENSION)--$(EXTVERSION).sql

# src/fdw: PostgreSQL's side
OBJS = $(addprefix src/fdw/,analyze.o async.o audience.o bind.o caller.o capture.o captured.o change_log.o \
	changes.o choices.o columns.o combination.o condition.o connection.o cost.o dataverse_fdw.o decode.o doubts.o \
	drain.o drift.o encode.o evaluate.o excerpt.o explain.o fetch_plan.o fetch_request.o fetch_scan.o fit.o \
	func.o grid.o group_merge.o group_scan.o guard.o hold.o import.o kept.o list.o list_check.o lookup.o \
	merge_page.o modify.o modify_check.o modify_identity.o modify_pending.o modify_plan.o modify_read_back.o \
	modify_refused.o modify_return.o modify_row.o modify_stored.o operator.o option.o outcome.o pattern.o \
	plan.o plan_clauses.o plan_group.o plan_join.o plan_lookup.o read_plan.o rejects.o relation.o replay.o \
	request.o result_relation.o rights.o run_lock.o scan.o seen.o setting.o ship.o spool.o system_columns.o \
	tid.o truncate.o view.o wanted.o writable.o)
# src/client: the sessions of a backend with the service
OBJS += $(addprefix src/client/,answer.o call.o catalog.o chain.o doubts.o forms.o id_trial.o job.o keys.o \
	known.o ledger.o pages.o pipeline.o proof.o ranges.o retry.o search.o senders.o session.o settle.o spread.o \
	standing.o trouble.o turn.o verify.o writer.o)
# src/pool: when requests may be sent, and by which application user
OBJS += $(addprefix src/pool/,budget.o entry.o latency.o place.o pool.o progress.o rate.o report.o select.o shared.o \
	speed.o stats.o throttle.o wait.o)
# src/net: HTTP and tokens
OBJS += $(addprefix src/net/,assertion.o attention.o date.o descriptor.o drive.o http.o inbox.o json.o mux.o text.o token.o \
	transport.o url.o xact.o)
# src/dataverse: the service's language
OBJS += $(addprefix src/dataverse/,address.o arena.o batch.o batch_answer.o blame.o definition.o error.o \
	fetch.o fetchxml.o fold.o guid.o header.o id_order.o json_cursor.o line.o metadata.o metadata_request.o multipart.o name_index.o names.o odata.o operation.o page.o payload.o policy.o \
	stored.o type.o value.o)

# These tests need no service.
REGRESS = extension options append
# These need dvsim, whose address is in DVSIM_URL: "make test" starts one.
ifdef DVSIM_URL
REGRESS += functions pool import scan join geqo lookup scan_dml where barrier collation edges ctid analyze insert update match_version delete upsert copy write_errors types scan_target rejects interplay special pull track push pull_refused pull_targets pull_values sync odd_targets bookkeeping pull_mistakes mistakes rights
endif
REGRESS_OPTS = --load-extension=$(EXTENSION)
# EXPLAIN VERBOSE shows the ids of queries where pg_stat_statements is preloaded.
installcheck: export PGOPTIONS += -c compute_query_id=regress

# Uses pkg-config, or the library's own script.
found = $(shell pkg-config $(1) $(2) 2>/dev/null || $(3) $(1) 2>/dev/null)

# $(srcdir) is another folder when somebody builds outside the source tree, as Debian does.
PG_CPPFLAGS = -I$(srcdir)/src -DDV_VERSION='"$(EXTVERSION)"'
PG_CPPFLAGS += $(call found,--cflags,libcurl,curl-config) $(call found,--cflags,json-c,:) \
	$(call found,--cflags,libcrypto,:)
SHLIB_LINK = $(call found,--libs,libcurl,curl-config) $(or $(call found,--libs,json-c,false),-ljson-c) \
	$(or $(call found,--libs,libcrypto,false),-lcrypto)

# PostgreSQL's callbacks and headers have parameters that are not always used.
# a function that is not declared would be missing only when the library is loaded
PG_CFLAGS = -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Werror=implicit-function-declaration
# For test/t/030_differential.pl, which needs to select wrong policies.
ifeq ($(DV_TEST),1)
PG_CPPFLAGS += -DDV_TEST
endif
ifeq ($(WERROR),1)
PG_CFLAGS += -Werror
endif

EXTRA_CLEAN = $(addprefix src/,$(foreach f,fdw client pool net dataverse,$(f)/*.o $(f)/*.bc)) \
	results regression.diffs regression.out tmp_check output_iso \
	test/unit/build test/bench/build test/fuzz/build test/dvsim/build test/dvsim/build-asan test/dvsim/dvsim test/dvsim/dvsim-asan \
	test/ratesim/build test/ratesim/plots test/ratesim/ratesim \
	$(EXTENSION)-*.zip

# These targets do not use pg_config, so they work before PostgreSQL is installed.
HOUSE = demo test test-asan test-chroot check-live check-live-clean fuzz dvsim ratesim bench-dvsim bench-peers bench-read bench-write bench-write-memory bench-encode bench-sync bench-track indent indent-check dist clean

ifneq ($(filter-out $(HOUSE) print-%,$(or $(MAKECMDGOALS),all)),)
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error $(PG_CONFIG) does not run: install the server's development files (postgresql-server-dev-NN) or set PG_CONFIG)
endif
include $(PGXS)
ifneq ($(shell test $(VERSION_NUM) -ge 150002 && echo yes),yes)
$(error dataverse_fdw needs PostgreSQL 15.2 or later, and $(PG_CONFIG) belongs to $(VERSION))
endif
ifdef VPATH
made := $(shell mkdir -p $(sort $(dir $(OBJS) $(DATA_built))))
endif
$(OBJS): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/*/*.h) Makefile

# psql shows a message in place of whatever follows \quit.
$(DATA_built): $(SCRIPT) Makefile
	{ printf '%s\n' '\echo Use "CREATE EXTENSION $(EXTENSION)" to load this file. \quit'; \
	for part in $(filter %.sql,$^); do echo; cat $$part || exit; done; } > $@.new
	mv $@.new $@
else
clean:
	rm -rf $(MODULE_big).so $(EXTRA_CLEAN)
endif

demo:
	@KEEP='$(KEEP)' test/demo

test:
	@ONLY='$(ONLY)' KEEP='$(KEEP)' JOBS='$(JOBS)' WERROR='$(WERROR)' \
		PG_CONFIGS='$(PG_CONFIGS)' DIFFERENTIAL='$(DIFFERENTIAL)' FUZZ='$(FUZZ)' SEED='$(SEED)' \
		DURATION='$(DURATION)' ROUNDS='$(ROUNDS)' \
		test/run

# SECONDS sets the time for each target, NAMES="page answer" selects some; their corpus is kept.
fuzz:
	$(MAKE) -C test/fuzz run

# Runs both on a bare Debian or Ubuntu, as root: make test-chroot DIST=noble
test-chroot:
	@test/chroot '$(or $(DIST),trixie)' $(if $(ONLY),test ONLY='$(ONLY)')

# In a server with sanitizers: make test-asan POSTGRES=/path/to/its/source
test-asan:
	@POSTGRES='$(POSTGRES)' ASAN_CACHE='$(ASAN_CACHE)' ONLY='$(ONLY)' JOBS='$(JOBS)' test/asan

dvsim:
	$(MAKE) -C test/dvsim

# Prints tables, and writes plots to test/ratesim/plots.
ratesim:
	$(MAKE) -C test/ratesim plots

bench-dvsim: dvsim
	$(MAKE) -C test/bench dvsim

bench-read:
	@ROWS='$(ROWS)' REPEAT='$(REPEAT)' test/bench/read

bench-peers:
	@ROWS='$(ROWS)' REPEAT='$(REPEAT)' CONNECTIONS='$(CONNECTIONS)' test/bench/peers

bench-write:
	@ROWS='$(ROWS)' REPEAT='$(REPEAT)' CONNECTIONS='$(CONNECTIONS)' test/bench/write

bench-write-memory:
	@ROWS='$(ROWS)' test/bench/write --memory

bench-sync:
	@ROWS='$(ROWS)' REPEAT='$(REPEAT)' CHANGED='$(CHANGED)' SENT='$(SENT)' KILLS='$(KILLS)' HISTORIES='$(HISTORIES)' SEED='$(SEED)' test/bench/sync

bench-track:
	@ROWS='$(ROWS)' REPEAT='$(REPEAT)' WIDE='$(WIDE)' test/bench/track

bench-encode:
	@ROWS='$(ROWS)' PASSES='$(PASSES)' test/bench/encode

# Against a live environment; test/live/README.md says what it needs and what it does.
check-live:
	@TABLES='$(TABLES)' TRUNCATE='$(TRUNCATE)' CREATE_KEY='$(CREATE_KEY)' STEPS='$(STEPS)' REPORT='$(REPORT)' MASK='$(MASK)' \
		test/live/run '$(ENVIRONMENT)'

check-live-clean:
	@TABLES='$(TABLES)' test/live/run --clean '$(ENVIRONMENT)'

indent:
	test/indent

indent-check:
	test/indent --check

dist:
	git archive --format=zip --prefix=$(EXTENSION)-$(EXTVERSION).0/ -o $(EXTENSION)-$(EXTVERSION).0.zip HEAD

print-%:
	@echo '$($*)'

.PHONY: $(HOUSE)
