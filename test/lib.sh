# lib.sh: code shared by test/run, test/demo, and the benchmarks.  It is sourced
# by bash, rather than run.
#
# No matter whether root or another user starts it, everything happens in one
# new folder in the temporary directory, $work, and as one unprivileged user:
#
#	$work/src		a copy of the checkout, which is built there
#	$work/pg		a copy of the machine's PostgreSQL, in which the
#				extension is installed (PostgreSQL finds its files
#				relative to its programs, so a copy is complete)
#	$work/data		a cluster, reachable only through a socket in $work/socket
#	$work/home, tmp		for the programs that run
#	$work/log		their output; the only place that root writes to once
#				the others belong to the unprivileged user
#
# So nothing is installed on the machine (except missing packages), nothing is
# written to the checkout, other clusters are not even visible, and concurrent
# runs do not disturb each other.  At the end, the folder is removed and every
# process is terminated, however the run ends.
#
# SPDX-License-Identifier: PostgreSQL

# the flags of the make that called us do not apply to those that we call
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
work=
user=$(id -un)		# the user who runs everything that was built here
runner=			# prefix of a command that this user runs
sudo=			# prefix of a command that root runs
pg_config=
pg_bin=
job=			# process group of the current command
kept=			# not empty if the folder and its servers are kept
keep=${KEEP:-}		# the same, as requested by the caller
if [ "$keep" = 0 ]; then
	keep=
fi

if [ -t 1 ]; then
	bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
else
	bold='' dim='' plain=''
fi

heading() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
note() { printf '%s%s%s\n' "$dim" "$*" "$plain"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# Prints the usage of a script, which is its first comment, and why this call was wrong.
usage()
{
	printf '%s: %s\n' "${0##*/}" "$*"
	sed -n '/^[^#]/q; s/^#\t/  /p' "$0"
	exit 2
} >&2

# For scripts that are controlled by variables: no_arguments "$@"
no_arguments() { (($# == 0)) || usage "unknown argument \"$1\""; }

# ---------------------------------------------------------------------------
# processes

# Sets the array "prefix" to a prefix with which a command runs without
# privileges, and without anything in the caller's environment that could change
# its result: no PG*, no make flags, no locale, no proxy.
set_prefix()
{
	prefix=(env -i PATH="$pg_bin:$PATH" HOME="$work/home" TMPDIR="$work/tmp"
		LC_ALL=C.UTF-8 TZ=UTC USER="$user" LOGNAME="$user"
		PGHOST="$work/socket" PGPORT=5432 PGUSER=postgres)
	local name

	# the last two are those of test/asan
	for name in CC ASAN_OPTIONS UBSAN_OPTIONS; do
		[ -z "${!name:-}" ] || prefix+=("$name=${!name}")
	done
	# shellcheck disable=SC2206
	prefix+=($runner)
}

as_user()
{
	local prefix

	set_prefix
	"${prefix[@]}" "$@"
}

# Runs a command in a process group of its own, so that a signal that ends us can
# end the whole group.  The command runs in the background, because bash runs
# traps only between commands, but immediately while it waits.
run()
{
	local status=0

	set -m
	"$@" </dev/null &
	job=$!
	set +m
	wait "$job" || status=$?
	end_group "$job"
	job=
	return "$status"
}

# Ends a process group, by SIGTERM first, so that it can clean up.
end_group()
{
	local i

	kill -TERM -- "-$1" 2>/dev/null || return 0
	for ((i = 0; i < 50; i++)); do
		kill -0 -- "-$1" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -KILL -- "-$1" 2>/dev/null || :
}

# Ends everything that runs from a folder: clusters (including those of TAP tests
# that were interrupted), dvsim, programs under test.
end_programs()
{
	local signal exe pids pidfile i

	find "$1" -name postmaster.pid 2>/dev/null | while read -r pidfile; do
		as_user pg_ctl stop -D "${pidfile%/*}" -m fast -t 5 >/dev/null 2>&1 ||
			as_user pg_ctl stop -D "${pidfile%/*}" -m immediate >/dev/null 2>&1
	done
	for signal in TERM KILL; do
		for ((i = 0; i < 30; i++)); do
			pids=
			for exe in /proc/[0-9]*/exe; do
				if [[ $(readlink "$exe" 2>/dev/null) = "$1"/* ]]; then
					exe=${exe#/proc/}
					pids="$pids ${exe%/exe}"
				fi
			done
			[ -n "$pids" ] || return 0
			# shellcheck disable=SC2086
			((i > 0)) || kill -"$signal" $pids 2>/dev/null
			sleep 0.1
		done
	done
}

# Stops everything that was started and removes everything that was created, unless it is kept.
tidy_up()
{
	local status=$?

	trap - EXIT
	trap '' INT TERM HUP
	forget_createcluster
	if [ -n "$job" ]; then
		end_group "$job"
	fi
	leave_work
	exit "$status"
}

leave_work()
{
	if [ -n "$work" ] && [ -z "$kept" ]; then
		cd /
		end_programs "$work"
		rm -rf "$work"
	fi
	work=
	pg_bin=
}

trap tidy_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# ---------------------------------------------------------------------------
# what must be installed

# The PostgreSQL of a pg_config can be used if its server, headers, and build
# files all exist, and it is 15.2 or later (as "16beta1" and "19devel" are).
pg_usable()
{
	local version

	version=$("$1" --version 2>/dev/null) || return 1
	version=${version#PostgreSQL }
	if [[ $version =~ ^15\.([0-9]+) ]]; then
		((BASH_REMATCH[1] >= 2)) || return 1
	elif [[ $version =~ ^([0-9]+) ]]; then
		((BASH_REMATCH[1] >= 16)) || return 1
	else
		return 1
	fi
	[ -x "$("$1" --bindir)/initdb" ] && [ -x "$("$1" --bindir)/postgres" ] &&
		[ -f "$("$1" --includedir-server)/postgres.h" ] && [ -f "$("$1" --pgxs)" ]
}

# Sets pg_config to $PG_CONFIG if that is set, or else to the one in the path, or
# else to the newest one in Debian's layout.
find_pg_config()
{
	local candidate

	if [ -n "${PG_CONFIG:-}" ]; then
		pg_config=$(command -v "$PG_CONFIG") && pg_usable "$pg_config" && return
		die "PG_CONFIG=$PG_CONFIG is not PostgreSQL 15.2 or later with server and development files"
	fi
	for candidate in "$(command -v pg_config)" \
		$(printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -t/ -k5 -rn); do
		if [ -n "$candidate" ] && pg_usable "$candidate"; then
			pg_config=$candidate
			return
		fi
	done
	pg_config=
	return 1
}

# Prints the packages that provide PostgreSQL: the development files of a server
# that is installed, or else the newest server, 15 or later, that apt knows.
pg_packages()
{
	local major

	for major in $(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | cut -d/ -f5 | sort -rn); do
		if [[ $major =~ ^[0-9]+$ ]] && ((major >= 15)); then
			echo "postgresql-server-dev-$major"
			return
		fi
	done
	major=$(apt-cache search --names-only '^postgresql-server-dev-[0-9]+$' |
		sed 's/^postgresql-server-dev-\([0-9]*\) .*/\1/' | sort -rn | head -n 1)
	if [ "${major:-0}" -lt 15 ]; then
		echo "${0##*/}: apt has no PostgreSQL 15 or later here; add https://wiki.postgresql.org/wiki/Apt" >&2
		return 1
	fi
	echo "postgresql-$major postgresql-server-dev-$major"
}

# Prints the packages that are missing for the given needs.  It looks for what a
# package provides rather than for the package, so software that was installed in another way
# counts as well.  The PostgreSQL server is handled separately.
missing_packages()
{
	local authorities

	lib() { pkg-config --exists "$1" 2>/dev/null || echo "$2"; }

	echo '#include <stdio.h>' | "${CC:-cc}" -E - >/dev/null 2>&1 || echo gcc libc6-dev
	command -v pkg-config >/dev/null || echo pkg-config
	lib json-c libjson-c-dev
	lib libcrypto libssl-dev
	lib libdeflate libdeflate-dev
	lib libmicrohttpd libmicrohttpd-dev
	lib sqlite3 libsqlite3-dev
	lib expat libexpat1-dev
	lib zlib zlib1g-dev
	command -v curl >/dev/null || echo curl
	perl -MJSON::PP -MTAP::Harness -e 1 2>/dev/null || echo perl
	case " $* " in *" postgres "*)
		lib libcurl libcurl4-openssl-dev
		;;
	esac
	case " $* " in *" node "*)
		command -v node >/dev/null || echo nodejs
		command -v npm >/dev/null || echo npm
		;;
	esac
	case " $* " in *" tests "*)
		# without its file of certificate authorities, libcurl refuses all TLS connections
		authorities=$(curl-config --ca 2>/dev/null || echo unknown)
		[ -z "$authorities" ] || [ -e "$authorities" ] || echo ca-certificates
		lib cmocka libcmocka-dev
		command -v openssl >/dev/null || echo openssl
		command -v git >/dev/null || echo git
		command -v unzip >/dev/null || echo unzip
		perl -MIPC::Run -e 1 2>/dev/null || echo libipc-run-perl
		;;
	esac
}

# Debian creates and starts a cluster when a server package is installed, which we
# do not want.  The only way to prevent it is a file that exists while apt runs.
createcluster=/etc/postgresql-common/createcluster.d
createcluster_made=	# must be removed again
forbid_createcluster()
{
	local file=$createcluster/dataverse_fdw-$$.conf

	createcluster_made=$file
	if [ ! -d "$createcluster" ]; then
		createcluster_made="$file $createcluster"
		$sudo mkdir -p "$createcluster"
	fi
	echo 'create_main_cluster = false' | $sudo tee "$file" >/dev/null
}

forget_createcluster()
{
	# shellcheck disable=SC2086
	[ -z "$createcluster_made" ] || $sudo rm -d $createcluster_made 2>/dev/null
	createcluster_made=
}

apt_get()
{
	# NEEDRESTART_SUSPEND: otherwise Ubuntu would restart services of the machine
	$sudo env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
		${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
		apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

# Installs what is missing for the given needs, and sets pg_config.  The needs are
# postgres (to build and run the extension), node (to run programs of npm), and tests
# (to run tests).
need()
{
	local packages wanted server=

	packages=$(missing_packages "$@" | xargs)
	case " $* " in *" postgres "*) find_pg_config || server=missing ;; esac
	if [ -z "$packages$server" ]; then
		return
	fi
	heading "installing missing packages"
	wanted="$packages${server:+ postgresql-NN postgresql-server-dev-NN (15 or later)}"
	command -v apt-get >/dev/null ||
		die "there is no apt-get on this machine; please install what these Debian packages provide: $wanted"
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null ||
			die "there is no sudo on this machine; please have these packages installed: $wanted"
		sudo=sudo
	fi
	run_apt update
	if [ "$server" ]; then
		packages="$packages $(pg_packages)" || exit 1
	fi
	note "apt-get install $packages"
	forbid_createcluster
	# shellcheck disable=SC2086
	run_apt install --no-install-recommends $packages
	forget_createcluster
	packages=$(missing_packages "$@" | xargs)
	[ -z "$packages" ] || die "packages are still missing after the installation: $packages"
	[ -z "$server" ] || find_pg_config ||
		die "there is still no PostgreSQL 15.2 or later with server and development files"
}

# Prints the missing packages without which something is skipped, if apt has them:
# fuzz (clang with libFuzzer), format (pg_bsd_indent), cron (pg_cron for the server of
# pg_config).
missing_extras()
{
	local package

	{
		case " $* " in *" fuzz "*)
			echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
				clang -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null ||
				printf '%s\n' clang libclang-rt-dev
			;;
		esac
		case " $* " in *" format "*) command -v pg_bsd_indent >/dev/null || echo pg-bsd-indent ;; esac
		case " $* " in *" cron "*)
			[ -e "$("$pg_config" --pkglibdir)/pg_cron.so" ] ||
				"$pg_config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/postgresql-\1-cron/p'
			;;
		esac
	} | while read -r package; do
		! apt-cache show "$package" >/dev/null 2>&1 || echo "$package"
	done
}

# Installs these packages, if that is possible without asking for a password.
want()
{
	local packages

	packages=$(missing_extras "$@" | xargs)
	if [ "$(id -u)" != 0 ]; then
		sudo=sudo
	fi
	if [ -n "$packages" ] && { [ -z "$sudo" ] || sudo -n true 2>/dev/null; }; then
		note "apt-get install $packages"
		# shellcheck disable=SC2086
		apt_get install --no-install-recommends $packages >/dev/null 2>&1 ||
			note "could not install, and will do without: $packages"
	fi
}

# Makes a program of a Debian package available to tests, if that is possible.  The package is
# not installed, because that would start its service.
borrow()
{
	local package=$1

	command -v "$package" >/dev/null || (
		cd "$work/tmp" && apt-get -q -q download "$package" &&
			dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x -C "$pg_bin" --strip-components=3 "./usr/bin/$package"
	) >/dev/null 2>&1 || note "could not download, and will do without: $package"
}

# Runs apt-get, and shows its output only if it fails.
run_apt()
{
	local log

	log=$(apt_get "$@" 2>&1) && return
	printf '%s\n' "$log" >&2
	die "apt-get $1 failed"
}

# ---------------------------------------------------------------------------
# the folder

# Sets user and runner.  root becomes "nobody" rather than "postgres", because
# "postgres" could access the machine's own clusters.
drop_powers()
{
	if [ "$(id -u)" = 0 ]; then
		user=${TEST_USER:-nobody}
		runner="setpriv --reuid=$(id -u "$user") --regid=$(id -g "$user") --clear-groups"
	fi
}

# Makes the folder.
make_work()
{
	local dir

	drop_powers
	# the path of a socket has at most 107 bytes, make knows no paths with blanks, and the file
	# system must allow programs to run
	for dir in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
		if ((${#dir} > 50)) || [[ $dir != /* || $dir = *[!A-Za-z0-9_./+@-]* ]] || ! work=$(mktemp -d "$dir/dataverse_fdw.XXXXXX"); then
			continue
		fi
		mkdir "$work"/{src,pg,data,socket,home,tmp,log}
		chmod 700 "$work"/*
		printf '#!/bin/sh\n' >"$work/tmp/try"
		chmod 755 "$work/tmp/try"
		if [ -n "$runner" ]; then
			chmod 711 "$work"
		fi
		own "$work"/{data,socket,home,tmp}
		# the user may not have access to the folder of the checkout
		cd "$work" || exit
		if as_user "$work/tmp/try" 2>/dev/null; then
			return
		fi
		cd /
		rm -rf "$work"
		work=
	done
	die "there is no temporary folder in which user $user can run programs (set TMPDIR)"
}

# Gives files to the unprivileged user.
own()
{
	[ -z "$runner" ] || chown -R "$(id -u "$user"):$(id -g "$user")" "$@"
}

# Copies the checkout as it is now: files that git tracks, and untracked ones that
# it does not ignore.  If this is not a checkout, copies everything and cleans the
# copy.
copy_checkout()
{
	local files=$work/log/files

	# by default, git refuses to work in another user's checkout
	printf '[safe]\n\tdirectory = *\n' >"$work/log/gitconfig"
	GIT_CONFIG_GLOBAL="$work/log/gitconfig" \
		git -C "$root" ls-files -z -co --exclude-standard >"$files" 2>/dev/null || :
	if [ -s "$files" ]; then
		# files that were deleted from the checkout are still listed
		tar -c -C "$root" --ignore-failed-read --null -T "$files" -f - 2>"$work/log/tar.log"
	else
		tar -c -C "$root" --exclude=./.git --exclude=tmp_check -f - .
	fi | tar -x -C "$work/src" -f -
	[ -f "$work/src/Makefile" ] || die "could not copy the checkout"
	own "$work/src"
	if ! [ -s "$files" ]; then
		as_user make -s -C "$work/src" clean
	fi
	cd "$work/src" || exit
}

# Copies PostgreSQL with all its paths, so that it finds its files; shared
# libraries stay where they are.  From here on, pg_config is that of the copy.
copy_postgres()
{
	local bin lib share include program

	bin=$("$pg_config" --bindir)
	lib=$("$pg_config" --pkglibdir)
	share=$("$pg_config" --sharedir)
	pg_bin=$work/pg$bin
	mkdir -p "$pg_bin" "$work/pg$lib" "$work/pg$share"
	for program in "$bin"/{postgres,initdb,psql,createdb,dropdb,pgbench,vacuumdb} "$bin"/pg_*; do
		if [ -f "$program" ]; then
			cp -L "$program" "$pg_bin/"
		fi
	done
	tar -c -C "$lib" --exclude=./bitcode -f - . | tar -x -C "$work/pg$lib" -f - ||
		die "could not copy $lib"
	cp -a "$share/." "$work/pg$share/" ||
		die "could not copy $share"
	for include in "$("$pg_config" --includedir)" "$("$pg_config" --pkgincludedir)" \
		"$("$pg_config" --includedir-server)"; do
		if [ ! -e "$work/pg$include" ]; then
			mkdir -p "$work/pg${include%/*}"
			ln -s "$include" "$work/pg$include"
		fi
	done
	own "$work/pg"
	pg_config=$pg_bin/pg_config
}

# Builds with make: build DESCRIPTION LOG ARGUMENT…
# On failure, it shows the end of the log.
build()
{
	local what=$1 log=$work/log/$2.log start=$SECONDS

	shift 2
	if ! run as_user make -j"$(nproc)" WERROR="${WERROR:-${CI:+1}}" "$@" >"$log" 2>&1; then
		tail -n 40 "$log"
		echo "could not build $what"
		return 1
	fi
	note "built $what ($((SECONDS - start)) s)"
	grep -h 'warning:' "$log" || :
}

# Builds the extension and installs it into the copy of PostgreSQL.
build_extension()
{
	build "the extension for $("$pg_config" --version)" extension \
		-C "$work/src" PG_CONFIG="$pg_config" with_llvm=no install
}

build_dvsim() { build "dvsim" dvsim -C "$work/src/test/dvsim"; }

# ---------------------------------------------------------------------------
# the servers

start_cluster()
{
	local log=$work/log/cluster.log

	if ! run as_user initdb -D "$work/data" -U postgres -A trust -E UTF8 --no-locale --no-sync \
		>"$log" 2>&1 ||
		! run as_user pg_ctl start -w -D "$work/data" -l "$work/home/postgres.log" \
			-o "-c listen_addresses= -c unix_socket_directories='$work/socket' -c fsync=off" \
			>>"$log" 2>&1; then
		cat "$log" "$work/home/postgres.log"
		echo "the cluster did not start"
		return 1
	fi
}

# Starts a dvsim on a free port of the loopback address, and sets dvsim_url and
# dvsim_pid.  The arguments are added to its arguments.  It keeps running when the
# terminal is closed, so that it can be kept.
start_dvsim()
{
	local i ready=$work/home/dvsim.ready

	set -m
	(
		trap '' HUP
		set_prefix
		exec "${prefix[@]}" "$work/src/test/dvsim/dvsim" --listen 127.0.0.1:0 --seed 1 \
			--app-user app1:secret1 --ready-file "$ready" "$@"
	) </dev/null >"$work/log/dvsim.log" 2>&1 &
	dvsim_pid=$!
	set +m
	for ((i = 0; i < 100; i++)); do
		# read fails if the line is not complete yet
		if [ -e "$ready" ] && read -r dvsim_url <"$ready"; then
			return
		fi
		kill -0 "$dvsim_pid" 2>/dev/null || break
		sleep 0.1
	done
	cat "$work/log/dvsim.log"
	echo "dvsim did not start"
	return 1
}

# Prepares to stop servers that an earlier run has kept; tidy_up does the rest.
stop_kept()
{
	[[ ${1##*/} =~ ^dataverse_fdw\.[A-Za-z0-9]{6}$ ]] && [ -d "$1/socket" ] && [ -d "$1/src" ] ||
		die "$1 is not a folder of make demo or make test"
	drop_powers
	cd "$1" || exit
	work=$(pwd -P)
	pg_bin=$(dirname "$(find "$work/pg" -name pg_ctl)")
	cd /
}
