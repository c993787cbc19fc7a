# figures.sh: what the benchmarks that run a PostgreSQL have in common.  Read by
# bash after ../lib.sh, not run.
#
# SPDX-License-Identifier: PostgreSQL
# shellcheck shell=bash disable=SC2120

declare -A figures=()	# name of a line: its figures, run by run

# of this backend: processor time in clock ticks, memory and its peak in kB
# shellcheck disable=SC2034
process_function="CREATE FUNCTION process(OUT ticks bigint, OUT rss bigint, OUT peak bigint)
LANGUAGE plpgsql AS 'DECLARE
  -- what follows the program''s name begins with the third member
  stat text[] := string_to_array(regexp_replace(pg_read_file(''/proc/self/stat''), ''^.*\\) '', ''''), '' '');
  status text := pg_read_file(''/proc/self/status'');
BEGIN
  ticks := stat[12]::bigint + stat[13]::bigint;
  rss := substring(status FROM ''VmRSS:\\s*(\\d+)'');
  peak := substring(status FROM ''VmHWM:\\s*(\\d+)'');
END';"

psql_() { as_user psql -X -q -A -t -F ' ' -v ON_ERROR_STOP=1 -d bench "$@"; }

ask() { as_user curl -q -sS -g --noproxy '*' --max-time 600 --fail-with-body "$@"; }

# member of the JSON on the input: json '->{a}{b}'
json() { perl -MJSON::PP -0777 -e "print decode_json(<>)$1 // 0"; }

# A dvsim without limits.
start_bare_dvsim()
{
	start_dvsim --limit-requests 100000000 --limit-exec 1000000s --limit-concurrent 1000 \
		--dop 52 "$@" || exit
}

get_token()
{
	ask "$dvsim_url/contoso/oauth2/v2.0/token" -d grant_type=client_credentials \
		-d client_id=app1 -d client_secret=secret1 --data-urlencode "scope=$dvsim_url/.default" |
		json '->{access_token}' || die "dvsim gave no token"
}

check_numbers()
{
	local number

	for number; do
		[[ $number =~ ^[1-9][0-9]*$ ]] || die "ROWS, REPEAT and the like must be numbers above 0"
	done
}

divide() { awk "BEGIN { printf \"%.6f\", ($1) / ($2) }"; }

note_figure() { figures[$1]="${figures[$1]:-} $2"; }

# Of the figures of a line.
median()
{
	tr ' ' '\n' <<<"${figures[$1]# }" | sort -g |
		awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# The heads of the columns, for so many runs.
table_head()
{
	local i

	printf '%-44s' ""
	for ((i = 1; i <= $1; i++)); do
		printf '     run %d' "$i"
	done
	printf ' |    median   ratio  aim\n'
}

# A line of the table, with the ratio of its median to another's, and the aim:
# "<= 2.5" of the median, or "ratio >= 0.85": line TEXT FORMAT NAME [OTHER [AIM]]
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
		fi
		awk "BEGIN { exit !($middle ${aim#ratio }) }" && verdict=reached
		printf '  %s %s' "$aim" "$verdict"
	fi
	echo
}
