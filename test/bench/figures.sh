# figures.sh: code shared by the benchmarks that run PostgreSQL.  It is sourced
# after ../lib.sh, rather than run.
#
# SPDX-License-Identifier: PostgreSQL
# shellcheck shell=bash disable=SC2120

# figures have decimal points in any locale
export LC_ALL=C.UTF-8

declare -A figures=()	# the figures of each line by its name, run by run

# Returns this backend's processor time in clock ticks, and its memory and peak in kB.
# shellcheck disable=SC2034
process_function="CREATE FUNCTION process(OUT ticks bigint, OUT rss bigint, OUT peak bigint)
LANGUAGE plpgsql AS 'DECLARE
  -- the part after the program''s name begins with the third member
  stat text[] := string_to_array(regexp_replace(pg_read_file(''/proc/self/stat''), ''^.*\\) '', ''''), '' '');
  status text := pg_read_file(''/proc/self/status'');
BEGIN
  ticks := stat[12]::bigint + stat[13]::bigint;
  rss := substring(status FROM ''VmRSS:\\s*(\\d+)'');
  peak := substring(status FROM ''VmHWM:\\s*(\\d+)'');
END';"

psql_() { as_user psql -X -q -A -t -F ' ' -v ON_ERROR_STOP=1 -d bench "$@"; }

ask() { as_user curl -q -sS -g --noproxy '*' --max-time 600 --fail-with-body "$@"; }

# Prints a member of the JSON on the input: json '->{a}{b}'
json() { perl -MJSON::PP -0777 -e "print decode_json(<>)$1 // 0"; }

# Starts a dvsim without limits.
start_bare_dvsim()
{
	start_dvsim --limit-requests 100000000 --limit-exec 1000000s --limit-concurrent 1000 \
		--dop 52 "$@" || exit
}

get_token()
{
	ask "$dvsim_url/contoso/oauth2/v2.0/token" -d grant_type=client_credentials \
		-d client_id=app1 -d client_secret=secret1 --data-urlencode "scope=$dvsim_url/.default" |
		json '->{access_token}' || die "could not get a token from dvsim"
}

check_numbers()
{
	local number

	for number; do
		[[ $number =~ ^[1-9][0-9]*$ ]] || die "ROWS, REPEAT, and other numbers must be greater than 0"
	done
}

divide() { awk "BEGIN { printf \"%.6f\", ($1) / ($2) }"; }

# Prints microseconds for a row: micros TICKS ROWS
micros() { divide "$1 * 1000000 / $(getconf CLK_TCK)" "$2"; }

note_figure() { figures[$1]="${figures[$1]:-} $2"; }

# Prints the median of the figures of a line.
median()
{
	tr ' ' '\n' <<<"${figures[$1]# }" | sort -g |
		awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# Prints the heads of the columns: table_head RUNS
table_head()
{
	local i

	printf '%-44s' ""
	for ((i = 1; i <= $1; i++)); do
		printf '     run %d' "$i"
	done
	printf ' |    median   ratio  target\n'
}

# Prints a line of the table, with the ratio of its median to that of another
# line, and the target for the median ("<= 2.5"), the ratio ("ratio >= 0.85"), or
# each run ("each <= 24"):
# line TEXT FORMAT NAME [OTHER [AIM]]
line()
{
	local text=$1 format=$2 name=$3 other=${4:-} aim=${5:-} figure middle ratio verdict=MISSED

	middle=$(median "$name")
	printf '%-44s' "$text"
	for figure in ${figures[$name]}; do
		# shellcheck disable=SC2059
		printf " $format" "$figure"
	done
	# shellcheck disable=SC2059
	printf " | $format" "$middle"
	if [ "$other" ]; then
		ratio=$(divide "$middle" "$(median "$other")")
		printf '  %6.2f' "$ratio"
	elif [ "$aim" ]; then
		printf '%8s' ''
	fi
	if [ "$aim" ]; then
		if [[ $aim = ratio* ]]; then
			middle=$ratio
		elif [[ $aim = each* ]]; then
			middle=$(tr ' ' '\n' <<<"${figures[$name]# }" | sort -g | tail -n 1)
		fi
		awk "BEGIN { exit !($middle ${aim##*[a-z] }) }" && verdict=reached
		printf '  %s %s' "$aim" "$verdict"
	fi
	echo
}
