#!/usr/bin/env bash
# make test: every test that this machine can run, and those that keep things in a database again on MySQL where one is up.
# It starts nothing: "make services" does, and .services/env names what is up. At the end it says what it left out.
#   SMARTDRIVE_TEST_REQUIRE  a list: what is missing of it is a failure and no skip; CI sets it
#   SMARTDRIVE_TEST_DEPTH    deep: see internal/testkit/depth
#   SMARTDRIVE_TEST_PARTS    some of the parts below (default: all)
set -uo pipefail
cd "$(dirname "$0")/.."
if [ -f .services/env ]; then
	set -a
	. .services/env
	set +a
fi
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

# The real binary is linked once; test/process takes it from here.
CGO_ENABLED=0 go build -o "$bin" ./cmd/smartdrive ./test/check ./scripts/testcost ./scripts/testreport || exit 1
export SMARTDRIVE_TEST_BIN=$bin

# The packages with tests on MySQL; of the whole programs the one that opens its database itself.
with_database() {
	./scripts/withdatabase.sh ./internal/...
	echo example.org/smartdrive/test/crossed
}

# What the packages' tests make the program ask a database is written down here, for test/plans. It lies outside of the tree, so that
# "go test" believes results of earlier runs as before; a package that runs again replaces what it wrote.
statements=${XDG_CACHE_HOME:-$HOME/.cache}/smartdrive-statements/$(pwd | cksum | cut -d' ' -f1)
plans=example.org/smartdrive/test/plans

# Whole clusters that are killed and cut off want the machine for themselves: they come last.
alone=example.org/smartdrive/test/cluster

# run TITLE FLAG...: the tests of the packages on standard input. They wait more than they work, for services, programs and the disk:
# four packages run beside each other. Vetting is make check's and CI's. A landing believes no result of an earlier run.
run() {
	echo "=== $1"
	xargs -r go test -json -p 4 -vet=off ${CI:+-count=1} -exec "$bin/testcost" -timeout "${SMARTDRIVE_TEST_TIMEOUT:-20m}" "${@:2}" 2>&1
}

parts() {
	local status=0
	for part in ${SMARTDRIVE_TEST_PARTS:-packages plans mysql system cluster}; do
		case $part in
		packages) go list ./... | grep -v '^example.org/smartdrive/test/' | SMARTDRIVE_TEST_STATEMENTS=$statements run "packages" || status=1 ;;
		plans) echo "$plans" | SMARTDRIVE_TEST_STATEMENTS=$statements run "plans of what they asked the database" -count=1 || status=1 ;;
		mysql) [ -z "${SMARTDRIVE_TEST_MYSQL:-}" ] || with_database | SMARTDRIVE_TEST_STATEMENTS=$statements SMARTDRIVE_TEST_DB=mysql run "packages on MySQL" || status=1 ;;
		system) go list ./test/... | grep -vx -e "$alone" -e "$plans" | run "the whole program" || status=1 ;;
		cluster) echo "$alone" | run "whole clusters" || status=1 ;;
		*) echo "there is no part $part; there are packages, plans, mysql, system, cluster" && status=2 ;;
		esac
	done
	return $status
}

# Depth costs what it costs: budgets are for what lands a change.
budget=scripts/budget.txt
[ "${SMARTDRIVE_TEST_DEPTH:-}" != deep ] || budget=
parts | "$bin/testreport" -missing .services/missing -budget "$budget"
