#!/usr/bin/env bash
# make check: what a change usually breaks, in two minutes. Format, the tests of the repository's own rules, vet, lint of the packages
# that were changed, the short tests of everything without services, and those of the changed packages on MySQL if "make services"
# has started it. Changed is what differs from the branch that this one follows (without one: from main; or
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

# The rules that a line breaks most easily need no build of the program: the wrap of comments, layers, names, links, tables.
step "rules of the repository"
go test -vet=off -timeout 5m ./internal ./docs || status=1
go test -vet=off -timeout 5m ./test/docs -run 'EachTable|EachThing|Glossary|Listed|Links|Named(Files|Tests|Symbols)' || status=1

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
if [ -n "$changed" ] && [ -f .services/env ] && go run ./scripts/services status 2>/dev/null | grep -q '^mariadb  *up,'; then
	on_mysql=$(./scripts/withdatabase.sh $(printf '%s\n' "$dirs" | grep '^./internal'))
	step "short tests of $(printf '%s' "$on_mysql" | grep -c .) changed packages on MySQL"
	set -a
	. .services/env
	set +a
	[ -z "$on_mysql" ] || SMARTDRIVE_TEST_DB=mysql go test -short -vet=off -timeout 5m $on_mysql || status=1
fi
step "done: $([ $status = 0 ] && echo 'nothing broken' || echo 'FAILED')"
exit $status
