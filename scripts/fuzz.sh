#!/usr/bin/env bash
# Runs every fuzz target of the module for a while each: scripts/fuzz.sh 5s
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-5s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do
	dir=$(dirname "$file")
	grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | cut -d' ' -f2 | while read -r target; do
		echo "fuzz $dir $target"
		go test "$dir" -run XXX -fuzz "^$target\$" -fuzztime "$time" >"$log" 2>&1 || {
			cat "$log"
			exit 1
		}
	done
done
