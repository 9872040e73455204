#!/usr/bin/env bash
# withdatabase.sh PACKAGE...: those of the packages whose tests open a database through sqldbtest. SMARTDRIVE_TEST_DB=mysql makes it
# open one on MySQL. What the stream on Kafka asks a database is the outbox's, a package of its own; whole clusters have both. A
# migration of rows names both databases in each of its tests.
set -uo pipefail
cd "$(dirname "$0")/.."
it=example.org/smartdrive/internal/engine/sqldb/sqldbtest # where the package is part of what it tests, its name says so
go list -test -f '{{range .Deps}}{{if or (eq . "'$it'") (eq . (printf "'$it' [%s]" $.ImportPath))}}{{$.ImportPath}}{{end}}{{end}}' "$@" |
	sed -n 's/\.test$//p' | grep -v /internal/move/migrate$ | { [ "${SMARTDRIVE_TEST_DEPTH:-}" = deep ] && cat || grep -v /internal/engine/stream/kafka$; }
exit 0
