#!/usr/bin/env bash
# The web pages, with Node.
#   web.sh build   builds internal/head/webui/dist and fails when it is not what is committed
#   web.sh test    checks types, runs the tests of the pages, and the pages themselves: the real binary in a real browser
#   web.sh deep    the same in every look, and all scenarios of the uploader, with its rate against a bare fetch
set -euo pipefail
cd "$(dirname "$0")/.."

# needs PROGRAM PACKAGE...: installs the packages where the program is missing
needs() {
	command -v "$1" >/dev/null && return
	apt-get update -qq && apt-get install -y -qq --no-install-recommends "${@:2}"
}

# fonts: without them a page in Chinese is boxes
fonts() {
	[ -n "$(find /usr/share/fonts -iname '*cjk*' -print -quit 2>/dev/null)" ] && return
	apt-get update -qq && apt-get install -y -qq --no-install-recommends fonts-noto-cjk
}

install() {
	needs npm nodejs npm
	(cd web && npm ci --no-progress)
}

case "${1:-}" in
build)
	install
	(cd web && npm run build --workspace app)
	if [ -n "$(git status --porcelain -- internal/head/webui/dist)" ]; then
		git --no-pager diff --stat -- internal/head/webui/dist
		echo "internal/head/webui/dist is not what web/ builds: commit it" >&2
		exit 1
	fi
	;;
test | deep)
	[ -d web/node_modules ] || install
	needs "${CHROMIUM:-chromium}" chromium
	needs sqlite3 sqlite3
	fonts
	bin=$(mktemp -d)
	trap 'rm -rf "$bin"' EXIT
	CGO_ENABLED=0 go build -o "$bin/smartdrive" ./cmd/smartdrive
	cd web
	export SMARTDRIVE_BIN="$bin/smartdrive"
	if [ "$1" = deep ]; then
		npm run check
		npm run test
		export SMARTDRIVE_TEST_DEPTH=deep
		npm run e2e
		export SMARTDRIVE_MEASURE=1
		node --test e2e/pages/slow.test.mjs
		npm run e2e:upload
	else
		(npm run check && npm run test) >"$bin/units" 2>&1 & # beside the tests in a browser
		units=$!
		npm run e2e
		wait $units || { cat "$bin/units" && exit 1; }
		npm run e2e:upload -- -t "reload in the middle|that the server has|1,000 files|no space"
	fi
	;;
*)
	sed -n '2,4p' "$0" >&2
	exit 2
	;;
esac
