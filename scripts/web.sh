#!/usr/bin/env bash
# The web pages, with Node.
#   web.sh build   builds internal/webui/dist and fails when it is not what is committed
#   web.sh test    checks types, runs the tests of the pages, and the pages themselves: the real binary in a real browser
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
	if [ -n "$(git status --porcelain -- internal/webui/dist)" ]; then
		git --no-pager diff --stat -- internal/webui/dist
		echo "internal/webui/dist is not what web/ builds: commit it" >&2
		exit 1
	fi
	;;
test)
	[ -d web/node_modules ] || install
	needs "${CHROMIUM:-chromium}" chromium
	fonts
	bin=$(mktemp -d)
	trap 'rm -rf "$bin"' EXIT
	CGO_ENABLED=0 go build -o "$bin/smartdrive" ./cmd/smartdrive
	(cd web && export SMARTDRIVE_BIN="$bin/smartdrive" && npm run check && npm run test && npm run e2e && npm run e2e:upload)
	;;
*)
	sed -n '2,4p' "$0" >&2
	exit 2
	;;
esac
