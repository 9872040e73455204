#!/usr/bin/env bash
# Renames the Go module: rewrites go.mod and every tracked file that names a package of the module.
#   scripts/modulepath.sh code.example.net/you/smartdrive
set -euo pipefail
cd "$(dirname "$0")/.."
new=${1:?usage: scripts/modulepath.sh MODULE} old=$(awk '$1 == "module" { print $2; exit }' go.mod)
[[ $new =~ ^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9._~-]+)+$ ]] || { echo "a module path begins with a host name, as in example.org/smartdrive; sent: $new" >&2; exit 1; }
go mod edit -module "$new"
git grep -lzF "$old" | OLD=$old NEW=$new xargs -0 perl -pi -e 's{(?<![\w./-])\Q$ENV{OLD}\E(?![\w.-])}{$ENV{NEW}}g'
gofmt -w $(git diff --name-only -- '*.go')
