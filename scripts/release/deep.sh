#!/usr/bin/env bash
# Builds the release of the last commit twice, in two directories with two build caches, and compares the bytes; then tries what it has
# built (try.sh). Everything lies in a temporary directory.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp" && rm -rf "$tmp"' EXIT

# build DIRECTORY VERSION [PLATFORMS]: the release of a clone in the directory
build() { (cd "$1/scripts/release" && nice go run -trimpath . -version "$2" ${3:+-platforms "$3"}); }

git clone -q --shared "$root" "$tmp/a"
git clone -q --shared "$root" "$tmp/another/and/deeper"
build "$tmp/a" 0.0.0-test.2
GOCACHE=$tmp/cache build "$tmp/another/and/deeper" 0.0.0-test.2
diff -r "$tmp/a/dist" "$tmp/another/and/deeper/dist"
echo "PASS bit-equal: $(find "$tmp/a/dist" -type f | wc -l) files, $(du -sh "$tmp/a/dist" | cut -f1)"
(cd "$tmp/a/dist" && sha256sum --quiet --check SHA256SUMS)
rm -rf "$tmp/another" "$tmp/cache"
mv "$tmp/a/dist" "$tmp/new"

build "$tmp/a" 0.0.0-test.1 "linux/$(go env GOARCH)"
"$here/try.sh" "$tmp/new" "$tmp/a/dist"
