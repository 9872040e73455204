#!/usr/bin/env bash
# make deep: what takes too long for every change, and the first hour of the soaks. It is run before an issue is called resolved.
# Each part can be repeated alone, and writes a line into docs/soak.md: date, commit, machine, duration, result.
#   deep.sh             all parts
#   deep.sh PART...     some of them
#   deep.sh -list       their names
set -uo pipefail
cd "$(dirname "$0")/.."

parts=(
	"vet|all packages on all platforms|scripts/vet.sh whole"
	"web|the pages: every look, and the uploader with its figures|scripts/web.sh deep"
	"packages|every package, at full depth|SMARTDRIVE_TEST_PARTS=packages scripts/test.sh"
	"mysql|the same with every database on MySQL|SMARTDRIVE_TEST_PARTS=mysql scripts/test.sh"
	"plans|what packages and mysql have asked the database: plans and times on a million rows|SMARTDRIVE_TEST_PARTS=plans scripts/test.sh"
	"system|the whole program: 200 kills, scripts on all columns, moves, other people's clients|SMARTDRIVE_TEST_PARTS=system scripts/test.sh"
	"cluster|whole clusters: killed, cut off, emptied|SMARTDRIVE_TEST_PARTS=cluster scripts/test.sh"
	"memory|peaks of resident memory under the worst legal input|go test ./test/memory -count 1 -v -timeout 1h"
	"race|the race detector at full depth, on every package|make race RACE='./internal/... ./client/... ./test/services/...'"
	"clients|linters of the document of the API, and the clients that generators make of it|scripts/clients.sh"
	"rclone|the test suites of rclone, with the vendors nextcloud and other|scripts/rclone.sh"
	"release|a release, built twice and bit-equal; its packages and images installed and tried|scripts/release/deep.sh"
	"fuzz|every fuzz target, 2,000 inputs|make fuzz FUZZTIME=2000x"
	"soak-histories|5,000 random histories of uploads|SMARTDRIVE_SOAK=5000 go test ./internal/usecase/upload -run Histories -count 1 -timeout 2h"
	"soak-kill|600 kills of the server|SMARTDRIVE_KILLS=600 go test ./test/kill -run TestKillLoop -count 1 -v -timeout 2h"
	"soak-access|a million requests: who may do what, on SQLite and in clusters|SMARTDRIVE_ACCESS=850000 go test ./test/columns -run TestAccessOnAllColumns -count 1 -v -timeout 6h"
	"soak-cluster|60 kills in a cluster|SMARTDRIVE_CLUSTER_KILLS=60 go test ./test/cluster -run 'TestChaos$' -count 1 -v -timeout 2h"
	"soak-sleep|kills within steps of a migration, and an instance that sleeps through one|SMARTDRIVE_SOAK=1 go test ./test/migration -run 'Killed|Asleep' -count 1 -v -timeout 2h"
	"soak-rows|a comparison of a million rows, killed in the middle|SMARTDRIVE_MEASURE=1000000 go test ./internal/move/migrate -run TestMeasureMany -count 1 -v -timeout 2h"
	"soak-zip|zips over 4 GiB|SMARTDRIVE_SOAK=1 go test ./internal/export/zipline -run Huge -count 1 -v -timeout 1h"
)
name() { cut -d'|' -f1 <<<"$1"; }

if [ "${1:-}" = -list ]; then
	printf '%s\n' "${parts[@]}" | awk -F'|' '{printf "  %-16s %s\n", $1, $2}'
	exit
fi
chosen=("$@")
[ $# -gt 0 ] || mapfile -t chosen < <(printf '%s\n' "${parts[@]}" | cut -d'|' -f1)
for part in "${chosen[@]}"; do
	printf '%s\n' "${parts[@]}" | grep -q "^$part|" || {
		echo "there is no part $part; there are:" >&2
		"$0" -list >&2
		exit 2
	}
done

export SMARTDRIVE_TEST_DEPTH=deep SMARTDRIVE_TEST_TIMEOUT=60m
make services || echo "some services could not be started: what needs them is skipped"
set -a
. .services/env
set +a

machine="$(nproc) cores of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)"
logs=$(mktemp -d)

# record PART WHAT SECONDS RESULT: one line below the mark in docs/soak.md
record() {
	local commit
	commit=$(git rev-parse --short HEAD)
	[ -z "$(git status --porcelain -- . ':!docs/soak.md')" ] || commit="$commit and changes"
	row="| $(date -u +'%Y-%m-%d %H:%M') | $commit | $machine, load $(cut -d' ' -f2 /proc/loadavg) | $1: $2 | $3 s | $4 |"
	awk -v row="$row" '{print} /^<!-- make deep -->/ {getline; print; getline; print; print row}' docs/soak.md >"$logs/soak.md" && cp "$logs/soak.md" docs/soak.md
}

status=0
for part in "${chosen[@]}"; do
	line=$(printf '%s\n' "${parts[@]}" | grep "^$part|")
	what=$(cut -d'|' -f2 <<<"$line") command=$(cut -d'|' -f3- <<<"$line")
	printf '\n=== %s: %s ===\n' "$part" "$what"
	began=$SECONDS
	if bash -c "$command" >"$logs/$part" 2>&1; then
		result=passed
		count=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$logs/$part" | tail -1)
		[ -z "$count" ] || result="passed: $count"
	else
		result="FAILED: $(grep -E '^(failed: |--- FAIL: )' "$logs/$part" | head -3 | sed 's/^failed: //; s/|/,/g' | paste -sd';')"
		status=1
	fi
	tail -40 "$logs/$part"
	echo "$result after $((SECONDS - began)) s; all that it said is in $logs/$part"
	record "$part" "$what" $((SECONDS - began)) "$result"
done
exit $status
