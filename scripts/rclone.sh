#!/usr/bin/env bash
# The test suites of rclone (fs/operations, fs/sync, vfs) against /dav/ (vendor other) and the Nextcloud address (vendor nextcloud). It
# fetches the module and what its tests need from the module proxy. Of rclone's backends only those that the suites name are compiled.
# An argument is a directory in which what the suites say is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v1.71.0
work=$(mktemp -d)
said=${1:-$work}
trap 'kill "$server" 2>/dev/null || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT

CGO_ENABLED=0 go build -o "$work/smartdrive" ./cmd/smartdrive
export CGO_ENABLED=0 GOFLAGS= GOENV="$(go env GOENV)" HOME="$work/home" GOPATH="$(go env GOPATH)" GOCACHE="$(go env GOCACHE)" GOMODCACHE="$(go env GOMODCACHE)"
mkdir -p "$HOME" "$said"
password=$(head -c 18 /dev/urandom | base64)
SMARTDRIVE_ADMIN_PASSWORD=$password "$work/smartdrive" serve --data "$work/data" --listen 127.0.0.1:0 --min-free 0 >"$work/ready" 2>"$said/server.log" &
server=$!
until url=$(grep -om1 'http://127[^ ]*' "$work/ready"); do kill -0 "$server" && sleep 0.1; done
url=${url%/}
"$work/smartdrive" login "$url" --user admin --password-stdin <<<"$password" >"$work/login"
secret=$("$work/smartdrive" token create rclone --heads nextcloud,dav)

cp -r "$(go mod download -json "github.com/rclone/rclone@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" "$work/rclone"
chmod -R u+w "$work/rclone"
cd "$work/rclone"
{
	echo 'package all'
	printf 'import _ "github.com/rclone/rclone/backend/%s"\n' local memory onedrive webdav
} >backend/all/all.go
mkdir obscure
cat >obscure/main.go <<-'GO'
	package main

	import (
		"fmt"
		"os"

		"github.com/rclone/rclone/fs/config/obscure"
	)

	func main() { fmt.Println(obscure.MustObscure(os.Args[1])) }
GO
pass=$(go run ./obscure "$secret")
for vendor in nextcloud other; do
	export "RCLONE_CONFIG_${vendor^^}_TYPE=webdav" "RCLONE_CONFIG_${vendor^^}_VENDOR=$vendor" "RCLONE_CONFIG_${vendor^^}_USER=admin" "RCLONE_CONFIG_${vendor^^}_PASS=$pass"
done
export RCLONE_CONFIG_NEXTCLOUD_URL="$url/remote.php/dav/files/admin/" RCLONE_CONFIG_OTHER_URL="$url/dav/files"

passed=0 failed=0 skipped=0
count() { grep -c "^--- $1" "$2" || true; }
for suite in fs/operations fs/sync vfs; do
	go test -c -o "$work/suite" "./$suite"
	for vendor in nextcloud other; do
		log=$said/$vendor-${suite//\//-}.log
		(cd "$suite" && "$work/suite" -remote "$vendor:suites" -test.v -test.timeout 30m) >"$log" 2>&1 || {
			grep -q '^--- FAIL' "$log" || failed=$((failed + 1)) # it ended without a result
			sed -n "s|^--- FAIL: \([^ ]*\).*|failed: $vendor $suite \1|p" "$log"
			tail -20 "$log"
		}
		printf '%s %s: %s passed, %s failed, %s skipped\n' "$vendor" "$suite" "$(count PASS "$log")" "$(count FAIL "$log")" "$(count SKIP "$log")"
		passed=$((passed + $(count PASS "$log"))) failed=$((failed + $(count FAIL "$log"))) skipped=$((skipped + $(count SKIP "$log")))
	done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
