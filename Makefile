# dataverse_fdw: Microsoft Dataverse tables as foreign tables.
#
#	make, make install, make installcheck	as for every extension
#	make demo, make test			need only a shell; see README.md
#	make WERROR=1				treats warnings as errors

EXTENSION = dataverse_fdw
EXTVERSION = 1.0
# PostgreSQL's major versions with which the workflows test it; the oldest from 15.2 on
MAJORS = 15 16 17 18 19
# of the distribution: release candidates come before EXTVERSION.0
DISTVERSION = $(EXTVERSION).0-rc1
MODULE_big = dataverse_fdw
# The extension's script, assembled in this order
SCRIPT = $(addprefix src/sql/,schema.sql check.sql functions.sql pool.sql rejects.sql import.sql changes.sql run_types.sql copies.sql runs.sql pull_columns.sql pull_prepare.sql \
	pull_steps.sql pull.sql track.sql conflicts.sql sync_steps.sql sync.sql pushes.sql push_steps.sql push.sql metrics.sql export.sql comments.sql grants.sql)
# Scripts that update earlier versions: what only applies to one of them, and then replaces all functions and views
UPDATES = $(patsubst $(top)/src/sql/updates/%.sql,sql/$(EXTENSION)--%.sql,$(wildcard $(top)/src/sql/updates/*--$(EXTVERSION).sql))
DATA_built = sql/$(EXTENSION)--$(EXTVERSION).sql $(UPDATES)

# another folder in builds outside the source tree, as in Debian's
top = $(or $(srcdir),.)
OBJS = $(patsubst $(top)/%.c,%.o,$(sort $(wildcard $(addprefix $(top)/src/,*/*.c */*/*.c))))

# These tests need no service; the others need dvsim, whose address is in DVSIM_URL: "make test" starts one.
WITHOUT_DVSIM = extension options append
REGRESS = $(WITHOUT_DVSIM)
# The test "pool" comes first: the limits of an application user depend on earlier requests.
ifdef DVSIM_URL
REGRESS += pool $(filter-out pool $(WITHOUT_DVSIM) $(EXTENSION)--%,$(notdir $(basename $(wildcard $(top)/sql/*.sql))))
endif
REGRESS_OPTS = --load-extension=$(EXTENSION)
# EXPLAIN VERBOSE shows the ids of queries where pg_stat_statements is preloaded.
installcheck: export PGOPTIONS += -c compute_query_id=regress

# Uses pkg-config, or the library's own script.
found = $(shell pkg-config $(1) $(2) 2>/dev/null || $(3) $(1) 2>/dev/null)

PG_CPPFLAGS = -I$(top)/src -DDV_VERSION='"$(EXTVERSION)"'
PG_CPPFLAGS += $(call found,--cflags,libcurl,curl-config) $(call found,--cflags,json-c,:) \
	$(call found,--cflags,libcrypto,:)
SHLIB_LINK = $(call found,--libs,libcurl,curl-config) $(or $(call found,--libs,json-c,false),-ljson-c) \
	$(or $(call found,--libs,libcrypto,false),-lcrypto)
# optional; LIBDEFLATE=no does without it
libdeflate := $(if $(filter no,$(LIBDEFLATE)),,$(call found,--libs,libdeflate,:))
ifneq ($(libdeflate),)
PG_CPPFLAGS += -DDV_LIBDEFLATE $(call found,--cflags,libdeflate,:)
SHLIB_LINK += $(libdeflate)
endif

# PostgreSQL's callbacks and headers have parameters that are not always used.
# a function that is not declared would be missing only when the library is loaded
PG_CFLAGS = -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Werror=implicit-function-declaration
# For test/t/read/differential.pl, which selects wrong policies.
ifeq ($(DV_TEST),1)
PG_CPPFLAGS += -DDV_TEST
endif
ifeq ($(WERROR),1)
PG_CFLAGS += -Werror
endif

EXTRA_CLEAN = $(addprefix src/,*/*.o */*.bc */*/*.o */*/*.bc) \
	results regression.diffs regression.out tmp_check output_iso \
	test/unit/build test/bench/build test/fuzz/build test/dvsim/build test/dvsim/build-asan test/dvsim/dvsim test/dvsim/dvsim-asan \
	test/ratesim/build test/ratesim/plots test/ratesim/ratesim \
	$(EXTENSION)-*.zip

# These targets do not use pg_config, so they work before PostgreSQL is installed.
HOUSE = demo test test-asan test-chroot check-live check-live-clean fuzz dvsim ratesim bench-dvsim bench-peers bench-read bench-write bench-write-memory bench-write-elastic bench-waiters bench-encode bench-sync bench-track indent indent-check dist clean

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
$(OBJS): $(wildcard $(addprefix $(top)/src/,*.h */*.h */*/*.h)) Makefile

# If psql runs the script, its first line prints a message and ends the script.
sql/$(EXTENSION)--$(EXTVERSION).sql: $(SCRIPT) Makefile
	{ printf '%s\n' '\echo Use "CREATE EXTENSION $(EXTENSION)" to load this file. \quit'; \
	for part in $(filter %.sql,$^); do echo; cat $$part || exit; done; } > $@.new
	mv $@.new $@

$(UPDATES): sql/$(EXTENSION)--%.sql: src/sql/updates/%.sql src/sql/updates/replace.awk $(SCRIPT) Makefile
	{ printf '%s\n' '\echo Use "ALTER EXTENSION $(EXTENSION) UPDATE" to load this file. \quit' ''; cat $<; \
	for part in $(filter-out src/sql/updates/% $(top)/src/sql/updates/%,$(filter %.sql,$^)); do echo; awk -f $(filter %.awk,$^) $$part || exit; done; } > $@.new
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

# Runs both on a bare Debian or Ubuntu, as root: make test-chroot DIST=noble; or, with PACKAGE=1,
# builds, tests, installs, upgrades, and removes the packages there.
test-chroot:
	@test/chroot '$(or $(DIST),trixie)' $(if $(ONLY),test ONLY='$(ONLY)') $(if $(PACKAGE),package)

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

bench-write-elastic:
	@ROWS='$(ROWS)' REPEAT='$(REPEAT)' CONNECTIONS='$(CONNECTIONS)' test/bench/write --elastic

bench-waiters:
	@ROWS='$(ROWS)' REPEAT='$(REPEAT)' test/bench/waiters

bench-sync:
	@ROWS='$(ROWS)' REPEAT='$(REPEAT)' CHANGED='$(CHANGED)' SENT='$(SENT)' KILLS='$(KILLS)' HISTORIES='$(HISTORIES)' SEED='$(SEED)' ONLY='$(ONLY)' test/bench/sync

bench-track:
	@ROWS='$(ROWS)' REPEAT='$(REPEAT)' WIDE='$(WIDE)' test/bench/track

bench-encode:
	@ROWS='$(ROWS)' PASSES='$(PASSES)' test/bench/encode

# Against a live environment; test/live/README.md lists the requirements and the effects.
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
	git archive --format=zip --prefix=$(EXTENSION)-$(DISTVERSION)/ -o $(EXTENSION)-$(DISTVERSION).zip HEAD

print-%:
	@echo '$($*)'

.PHONY: $(HOUSE)
