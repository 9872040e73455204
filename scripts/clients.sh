#!/usr/bin/env bash
# The documents of the API are without errors for two linters, and the clients that generators make of them compile. It fetches the
# generators and what their clients need from the registries, and needs Java, Maven, Python and Node.
#   clients.sh          all of them
#   clients.sh NAME...  some: lint openapi-typescript hey-api python ogen oapi-codegen openapi-generator
set -euo pipefail
cd "$(dirname "$0")/.."
generator=7.17.0 oapi_codegen=v2.8.2 ogen=v1.25.0 python_client=0.29.1 mypy=1.18.2
node_packages=(@redocly/cli@2.77.0 @stoplight/spectral-cli@6.16.3 openapi-typescript@7.13.0 @hey-api/openapi-ts@0.95.0 typescript@5.9.3)
work=$(mktemp -d)
server=
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
chosen=("$@")
[ $# -gt 0 ] || chosen=(lint openapi-typescript hey-api python ogen oapi-codegen openapi-generator)

CGO_ENABLED=0 go build -o "$work/smartdrive" ./cmd/smartdrive
"$work/smartdrive" serve --data "$work/data" --listen 127.0.0.1:0 >"$work/said" 2>/dev/null &
server=$!
until url=$(grep -om1 'http://127[^ ]*' "$work/said"); do kill -0 "$server" && sleep 0.1; done
curl -fsS "${url%/}/api/openapi.json" -o "$work/v31.json"
curl -fsS "${url%/}/api/openapi-3.0.json" -o "$work/v30.json"

node() {
	[ -d "$work/node" ] || {
		mkdir "$work/node"
		(cd "$work/node" && npm init -y >/dev/null && npm install -s --no-audit --no-fund "${node_packages[@]}")
	}
	(cd "$work/node" && npx --no-install "$@")
}
# silent COMMAND: fails if the command prints a warning
silent() {
	"$@" >"$work/log" 2>&1 || {
		tail -40 "$work/log"
		return 1
	}
	! grep -i 'warn' "$work/log"
}
typescript() { node tsc --noEmit --strict --skipLibCheck --target es2022 --module es2022 --moduleResolution bundler --lib es2022,dom,dom.iterable "$@"; }
go_client() { # DIR: compiles the client in it
	cd "$1"
	[ -f go.mod ] || go mod init example.org/client 2>/dev/null
	GOFLAGS=-mod=mod go mod tidy 2>/dev/null
	GOFLAGS=-mod=mod go vet ./...
}

lint() {
	echo 'extends: ["spectral:oas"]' >"$work/spectral.yaml"
	for v in v31 v30; do
		node redocly lint --format summary "$work/$v.json" 2>&1 | tee "$work/log"
		grep -q 'Your API description is valid' "$work/log"
		node spectral lint -r "$work/spectral.yaml" --fail-severity error "$work/$v.json"
	done
}
openapi_typescript() {
	for v in v31 v30; do
		silent node openapi-typescript "$work/$v.json" -o "$work/node/$v.ts"
		typescript "$v.ts"
	done
}
hey_api() {
	silent node openapi-ts -i "$work/v31.json" -o "$work/node/hey"
	typescript hey/index.ts
}
python() {
	python3 -m venv "$work/venv"
	"$work/venv/bin/pip" install -q "openapi-python-client==$python_client" "mypy==$mypy"
	cat >"$work/python.yaml" <<-'END'
		content_type_overrides:
		  application/x-ndjson: application/octet-stream
		  application/vnd.smartdrive.batch: application/octet-stream
		  text/csv: text/plain
		post_hooks: []
	END
	silent "$work/venv/bin/openapi-python-client" generate --path "$work/v30.json" --output-path "$work/python" --config "$work/python.yaml"
	(cd "$work/python" && "$work/venv/bin/mypy" --follow-imports silent smart_drive_client)
}
ogen() {
	mkdir "$work/ogen"
	silent env CGO_ENABLED=0 GOFLAGS=-mod=mod GOBIN="$work/bin" go install "github.com/ogen-go/ogen/cmd/ogen@$ogen"
	printf 'generator:\n  features:\n    enable: [paths/client]\n    disable_all: true\n' >"$work/ogen.yaml"
	"$work/bin/ogen" --target "$work/ogen/client" --package client --clean --config "$work/ogen.yaml" "$work/v30.json" >"$work/log" 2>&1 || {
		tail -20 "$work/log"
		return 1
	}
	# ogen says these of each problem document, whose status it does not compare, and of Last-Event-ID
	! grep WARN "$work/log" | grep -v -e 'Ensuring "status" matching' -e 'Header name is not canonical'
	(go_client "$work/ogen")
}
oapi_codegen() {
	mkdir "$work/oapi"
	silent env CGO_ENABLED=0 GOFLAGS=-mod=mod GOBIN="$work/bin" go install "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$oapi_codegen"
	silent "$work/bin/oapi-codegen" -generate types,client -package client -o "$work/oapi/client.go" "$work/v30.json"
	(go_client "$work/oapi")
}
openapi_generator() {
	mvn -q -B dependency:copy "-Dartifact=org.openapitools:openapi-generator-cli:$generator" "-DoutputDirectory=$work"
	local run=(java -jar "$work/openapi-generator-cli-$generator.jar") client language options
	"${run[@]}" validate -i "$work/v31.json"
	"${run[@]}" validate -i "$work/v30.json"
	# from 3.0: the Python client of a webhook with headers is no Python
	for client in "go --additional-properties=enumClassPrefix=true" "java --library=native" python typescript-fetch; do
		read -r language options <<<"$client"
		echo "openapi-generator: $language"
		# shellcheck disable=SC2086 # options are words
		"${run[@]}" generate -i "$work/v30.json" -g "$language" -o "$work/$language" $options --git-user-id example --git-repo-id client >"$work/log" 2>&1 || {
			tail -20 "$work/log"
			return 1
		}
		case $language in
		go) (cd "$work/go" && GOFLAGS=-mod=mod go vet .) ;;
		java) (cd "$work/java" && mvn -q -B -DskipTests compile) ;;
		python)
			python3 -m venv "$work/venv-generator"
			"$work/venv-generator/bin/pip" install -q -r "$work/python/requirements.txt"
			(cd "$work/python" && "$work/venv-generator/bin/python" -W error -c 'from openapi_client import *; ApiClient()')
			;;
		typescript-fetch)
			mv "$work/typescript-fetch" "$work/node/fetch"
			typescript fetch/index.ts
			;;
		esac
	done
}

node tsc --version
for name in "${chosen[@]}"; do
	echo "=== $name"
	"${name//-/_}"
done
echo "the document is clean, and its clients compile: ${chosen[*]}"
