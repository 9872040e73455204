#!/usr/bin/env bash
# Runs all tests, and those that keep things in a database again with MySQL. Services are started as far as the machine can
# (scripts/services) and stay up for the next run. At the end it says, loudly, what this machine could not run.
# SMARTDRIVE_TEST_REQUIRE (a list) turns such a skip into a failure; CI sets it.
set -uo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

go run ./scripts/services up || echo "the services could not be started"
if [ -f .services/env ]; then
	set -a
	. .services/env
	set +a
fi

# The packages whose tests open a database through sqldbtest. SMARTDRIVE_TEST_DB=mysql makes it open one on MySQL.
with_database() {
	go list -test -f '{{range .Deps}}{{if eq . "smartdrive/internal/sqldb/sqldbtest"}}{{$.ImportPath}}{{end}}{{end}}' ./internal/... |
		sed -n 's/\.test$//p'
	echo smartdrive/test/crossed # of the whole programs the one that opens its database itself
}

# Whole clusters that are killed and cut off want the machine for themselves: they come last.
alone=smartdrive/test/cluster

status=0
go list ./... | grep -vx "$alone" | xargs go test -json -timeout 20m >"$log" || status=$?
if [ -n "${SMARTDRIVE_TEST_MYSQL:-}" ]; then
	echo "=== the same tests with every database on MySQL" >>"$log"
	with_database | SMARTDRIVE_TEST_DB=mysql xargs -r go test -json -timeout 20m >>"$log" || status=$?
fi
echo "=== whole clusters" >>"$log"
go test -json -timeout 20m "$alone" >>"$log" || status=$?
go run ./scripts/testreport -missing .services/missing <"$log" || status=$?
exit $status
