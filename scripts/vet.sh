#!/usr/bin/env bash
# go vet for this platform; the others are type-checked, tests included, in seconds.
#   vet.sh        as above
#   vet.sh whole  go vet on all platforms, which compiles everything for each (minutes)
set -euo pipefail
cd "$(dirname "$0")/.."
platforms="linux/arm64 darwin/arm64 windows/amd64"

go vet ./...
if [ "${1:-}" != whole ]; then
	exec go run ./scripts/typecheck $platforms
fi
for platform in $platforms; do
	echo "go vet for $platform"
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} go vet ./...
done
