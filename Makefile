# SmartDrive. "make help" lists what there is. Go is all that is needed; make itself is a convenience.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GOLANGCI_VERSION := v2.15.0
GOFUMPT_VERSION  := v0.12.0
TOOLS := $(CURDIR)/.tools
# As the binary that is shipped is built; and what lint, tests and the binary need is compiled once and not twice.
export CGO_ENABLED := 0

# Packages with goroutines that share memory; the race detector needs a C compiler and runs on these alone, in a deep run on all.
# What it skips is long and has one thing happen after the other.
RACE := ./internal/engine/sqldb/... ./internal/engine/timer/... ./internal/engine/stream/... ./internal/engine/blob/... ./internal/usecase/upload/... \
        ./internal/export/... ./internal/engine/instance/lease ./internal/intake/bundle/... ./internal/intake/ingest/... ./internal/move/... ./internal/usecase/share/... ./internal/usecase/collect/... ./internal/usecase/thumb/... ./internal/head/tus/... ./internal/head/resumable/... \
        ./internal/domain/account/... ./internal/domain/idem/... ./internal/engine/instance/... ./internal/engine/stream/dispatch/... ./internal/head/server/... ./client/... \
        ./test/services/...
# SQLite is C that was translated to Go. Its memory comes from mmap, which the detector does not watch: to instrument it finds
# nothing, and costs three fifths of the processor time. Nor is what allocates that memory. What calls it, and what stands in for
# the C library, is instrumented.
NOT_WATCHED := -gcflags='modernc.org/sqlite/lib=-race=false -d=checkptr=0' -gcflags='modernc.org/memory=-race=false -d=checkptr=0'
FUZZTIME ?= 5s

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/smartdrive, a static binary, optimized for what cmd/smartdrive/serve.pgo shows
	go build -trimpath -pgo cmd/smartdrive/serve.pgo -ldflags "-s -w" -o bin/smartdrive ./cmd/smartdrive

.PHONY: profile
profile: ## make cmd/smartdrive/serve.pgo again, which "make build" optimizes for
	./scripts/profile.sh

.PHONY: serve
serve: ## run the server with its defaults
	go run ./cmd/smartdrive serve

.PHONY: check
check: ## what a change usually breaks, in 2 minutes: format, vet, lint of what changed, short tests without services
	./scripts/check.sh

.PHONY: test
test: ## every test that this machine can run, in 10 minutes, with a block at the end for what it left out
	./scripts/test.sh

.PHONY: deep
deep: ## what takes too long for every change, and the first hour of the soaks; PARTS="race fuzz" for some (scripts/deep.sh -list)
	./scripts/deep.sh $(PARTS)

.PHONY: services
services: ## start MariaDB, Redis, Kafka and an S3 server for tests, below .services; addresses in .services/env
	go run ./scripts/services up

.PHONY: services-down
services-down: ## stop them, and remove their data
	go run ./scripts/services down

.PHONY: race
race: ## the race detector on the concurrent packages
	CGO_ENABLED=1 go test -race -short $(if $(CI),-count=1) -timeout $(or $(SMARTDRIVE_TEST_TIMEOUT),30m) $(NOT_WATCHED) -skip 'AtEveryCall|Transactions|StepByStep|IsThatOfTheModel' $(RACE)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each: a time or a count (default 5s; 2000x)
	./scripts/fuzz.sh $(FUZZTIME)

.PHONY: uploader
uploader: build ## the browser's uploader in chromium (CHROMIUM=/usr/bin/chromium), with its rate against a bare fetch (needs Node 20)
	cd web && npm ci && SMARTDRIVE_MEASURE=1 SMARTDRIVE_BIN=$(CURDIR)/bin/smartdrive npm run e2e:upload

.PHONY: kill
kill: ## the kill loop: 200 kills of the real binary under load, judged by the independent checker
	SMARTDRIVE_KILLS=200 go test ./test/kill -run TestKillLoop -count 1 -v -timeout 20m

.PHONY: soak
soak: ## the long runs: 100,000 model histories, 2,000 kills, 500 kills of a cluster and every fault of its network, a million operations through switches of the database, a comparison of ten million rows, 150 kills within steps of a migration, an instance that sleeps through one, zips over 4 GiB (hours)
	SMARTDRIVE_SOAK=1 go test ./internal/usecase/upload -run Histories -count 1 -timeout 12h
	SMARTDRIVE_SOAK=1 go test ./test/kill -run TestKillLoop -count 1 -v -timeout 12h
	SMARTDRIVE_SOAK=1 go test ./test/cluster -count 1 -v -timeout 12h
	set -a; ! [ -f .services/env ] || . .services/env; set +a; SMARTDRIVE_SOAK=1 go test ./internal/move/migrate -run TestChaos -count 1 -v -timeout 12h
	set -a; ! [ -f .services/env ] || . .services/env; set +a; SMARTDRIVE_SOAK=1 go test ./internal/move/migrate -run TestMeasureMany -count 1 -v -timeout 12h
	set -a; ! [ -f .services/env ] || . .services/env; set +a; SMARTDRIVE_SOAK=1 go test ./test/migration -run 'Killed|Asleep' -count 1 -v -timeout 12h
	SMARTDRIVE_SOAK=1 go test ./internal/export/zipline -run Huge -count 1 -v -timeout 1h

.PHONY: bench
bench: ## the figures of docs/performance.md, each a ratio against a baseline in the same run
	go run ./scripts/services up || echo "the services could not be started: their benchmarks are skipped"
	set -a; ! [ -f .services/env ] || . .services/env; set +a; \
	go test ./bench -run XXX -bench . -benchtime 1x -count 1 -timeout 60m && \
	go test ./internal/engine/blob/s3 -run XXX -bench PartEvents -benchtime 1x -count 3

.PHONY: compare
compare: ## the comparisons of the articles with numbers, for docs/comparisons.md (NAMES="structures rows" for some; needs "make services")
	go run ./test/compare $(NAMES)

.PHONY: web
web: ## build the pages into internal/head/webui/dist; fails when that is not what is committed
	./scripts/web.sh build

.PHONY: web-test
web-test: ## the pages: their tests, and the real binary in a real browser, with screenshots in web/e2e/pages/screenshots
	./scripts/web.sh test

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## golangci-lint with gofumpt
	$(TOOLS)/golangci-lint run ./...

.PHONY: vet
vet: ## go vet; on the other platforms the types of everything
	./scripts/vet.sh

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint ## format the code
	$(TOOLS)/golangci-lint fmt ./...

.PHONY: docs
docs: ## write the generated pages and the transcripts of tests; read the difference
	go test ./internal/base/config ./internal/intake/invoice ./internal/intake/invoice/rule -run 'Docs|Reference' -update
	go test ./internal/head/rest -run 'Reference|Transcript' -update
	go test ./internal/head/problem ./internal/head/dav ./internal/head/nextcloud -run 'AsClientsSeeThem|Transcripts|AsTheySpeak' -update
	go test ./internal -run Rooms -update

.PHONY: release
release: ## everything that a release has, into dist/ (VERSION=0.1.0; docs/releases.md)
	cd scripts/release && nice go run -trimpath . -version "$(VERSION)"

.PHONY: ci
ci: ## what lands a change
	.ci/run

$(TOOLS)/golangci-lint:
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
