#!/usr/bin/env bash
# Clients that others' generators make of the API's document compile: openapi-generator (Go, Java, Python, TypeScript) of OpenAPI 3.1,
# oapi-codegen of 3.0. It fetches the generators and what their clients need from the registries, and needs Java, Maven, Python, Node.
set -euo pipefail
cd "$(dirname "$0")/.."
generator=7.17.0 oapi_codegen=v2.5.0
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

CGO_ENABLED=0 go build -o "$work/smartdrive" ./cmd/smartdrive
"$work/smartdrive" serve --data "$work/data" --listen 127.0.0.1:0 >"$work/said" 2>/dev/null &
server=$!
until url=$(grep -om1 'http://127[^ ]*' "$work/said"); do kill -0 "$server" && sleep 0.1; done
curl -fsS "${url%/}/api/openapi.json" -o "$work/v31.json"
curl -fsS "${url%/}/api/openapi-3.0.json" -o "$work/v30.json"

mvn -q -B dependency:copy -Dartifact=org.openapitools:openapi-generator-cli:$generator -DoutputDirectory="$work"
openapi() { java -jar "$work/openapi-generator-cli-$generator.jar" "$@"; }
openapi validate -i "$work/v31.json"
openapi validate -i "$work/v30.json"
for client in go "java --library=native" python typescript-fetch; do
	read -r language options <<<"$client"
	echo "=== $language"
	openapi generate -i "$work/v31.json" -g "$language" -o "$work/$language" $options --git-user-id example --git-repo-id client >"$work/$language.log" 2>&1 || {
		tail -20 "$work/$language.log"
		exit 1
	}
	case $language in
	go) (cd "$work/go" && GOFLAGS=-mod=mod go vet .) ;;
	java) (cd "$work/java" && mvn -q -B -DskipTests compile) ;;
	python)
		python3 -m venv "$work/venv"
		"$work/venv/bin/pip" install -q -r "$work/python/requirements.txt"
		(cd "$work/python" && "$work/venv/bin/python" -W error -c 'from openapi_client import *; ApiClient()')
		;;
	typescript-fetch)
		(cd "$work/$language" && npm init -y >/dev/null && npm install -s --no-audit --no-fund typescript@5 &&
			npx tsc --noEmit --strict --target es2020 --module es2020 --moduleResolution node index.ts)
		;;
	esac
done
echo "=== oapi-codegen"
mkdir "$work/oapi"
cd "$work/oapi"
go mod init example.org/client 2>/dev/null
go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$oapi_codegen -generate types,client -package client "$work/v30.json" >client.go
GOFLAGS=-mod=mod go mod tidy 2>/dev/null
go vet .
echo "five clients compile"
