#!/usr/bin/env bash
# make check: what a change usually breaks, in two minutes. Format, vet, lint of the packages that were changed, and the short
# tests of everything without services. Changed is what differs from the branch that this one follows (without one: from main; or
# from BASE), and what is not committed.
set -uo pipefail
cd "$(dirname "$0")/.."
started=$SECONDS
status=0
step() { printf '%4d s  %s\n' $((SECONDS - started)) "$1"; }

base=${BASE:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}
changed=$({
	git diff --name-only --diff-filter=d "$base" -- '*.go'
	git ls-files --others --exclude-standard -- '*.go'
} | sort -u)

step "format"
unformatted=$(git ls-files -z --cached --others --exclude-standard -- '*.go' | xargs -0 gofmt -l 2>/dev/null)
if [ -n "$unformatted" ]; then
	printf 'not formatted (make fmt):\n%s\n' "$unformatted"
	status=1
fi

step "vet"
go vet ./... || status=1

if [ -n "$changed" ]; then
	dirs=$(printf '%s\n' "$changed" | xargs -n1 dirname | sort -u | grep -v testdata | sed 's|^|./|')
	step "lint of $(printf '%s\n' "$dirs" | wc -l) changed packages"
	make --no-print-directory "$PWD/.tools/golangci-lint" && .tools/golangci-lint run --allow-parallel-runners $dirs || status=1
fi

step "short tests"
for variable in $(env | sed -n 's/^\(SMARTDRIVE_[A-Z0-9_]*\)=.*/\1/p'); do unset "$variable"; done
go test -short -vet=off -timeout 5m ./internal/... ./client/... ./cmd/... ./scripts/... | grep -v 'no test files' || status=1
step "done: $([ $status = 0 ] && echo 'nothing broken' || echo 'FAILED')"
exit $status
