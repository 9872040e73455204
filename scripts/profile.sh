#!/usr/bin/env bash
# make profile: what the server does while small files come one by one and in batches, for "make build", which optimizes for it
# (decision 155). A directory on a disk is needed: TMPDIR. It is made again when a release has changed much of what it shows.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for bench in Singles:20000x Batch:100x; do
	name=${bench%:*}
	go test ./internal/head/rest -run XXX -bench "^Benchmark$name\$" -benchtime "${bench#*:}" -cpuprofile "$work/$name" -o "$work/test"
done
go tool pprof -proto "$work/Singles" "$work/Batch" >cmd/smartdrive/serve.pgo
