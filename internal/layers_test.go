package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// layers maps packages to layers. A package may import only packages of strictly lower layers;
// packages of one layer do not import each other. Conformance suites beside a port (xtest) belong
// to tests and may import what they need.
var layers = map[string]int{
	"testkit/depth": 0, "testkit/disktest": 0, "base/drive": 0, "base/digest": 0, "base/ticket": 0, "intake/invoice/xmlscan": 0, "intake/invoice/pdf": 0, "base/config": 0, "base/telemetry": 0, "base/filelock": 0, "base/wholesync": 0,
	"engine/blob": 1, "engine/blob/local": 1, "engine/blob/local/wal": 1, "engine/blob/local/pack": 1, "engine/blob/s3": 1, "engine/blob/s3/pack": 1, "engine/blob/slothead": 1, "engine/sqldb": 1, "engine/meta": 1, "engine/turn": 1, "engine/mail": 1, "intake/bundle": 1, "intake/invoice": 1,
	"engine/instance/lease": 2, "engine/retention": 2, "engine/timer": 2, "engine/timer/memory": 2, "engine/timer/redis": 2, "engine/stream": 2, "engine/stream/outbox": 2, "engine/stream/kafka": 2,
	"export/zipline": 2, "export/fetch": 2, "intake/invoice/syntax": 2, "intake/invoice/envelope": 3, "intake/invoice/rule": 2, "domain/account": 3, "domain/star": 3, "domain/notice": 3, "domain/growth": 3, "domain/access": 3, "domain/lock": 3, "domain/property": 3, "domain/quota": 3, "domain/tree": 3, "domain/content": 3, "domain/idem": 3, "domain/vault": 3, "engine/stream/dispatch": 3, "engine/trace": 3, "engine/instance": 3,
	"usecase/upload": 4, "usecase/setting": 4, "usecase/upload/claim": 4, "usecase/bulk": 4, "usecase/batch": 4, "usecase/unlink": 4, "usecase/upload/disk": 2, "usecase/upload/combine": 0, "usecase/files": 4, "usecase/thumb": 4, "usecase/link": 4, "usecase/share": 4, "usecase/collect": 4, "export": 4, "intake/ingest": 4, "move/migrate": 4, "move/contents": 4, "usecase/admin": 4, "usecase/signon": 4, "usecase/space": 4, "usecase/handover": 4, "usecase/history": 4, "usecase/webhook": 4, "usecase/notify": 4, "domain/activity": 3, "usecase/fsck": 4, "usecase/backup": 4, "head/problem": 4,
	"head/rest": 5, "head/dav": 5, "head/nextcloud": 5, "head/probe": 5, "head/tus": 5, "head/resumable": 5, "head/server": 5, "head/webui": 5,
	"app": 6,
}

// exceptions are imports within one layer, each with its reason.
var exceptions = map[string]string{
	"base/digest -> base/drive":                      "drive is the vocabulary that everyone imports",
	"base/config -> base/drive":                      "drive is the vocabulary that everyone imports",
	"base/telemetry -> base/drive":                   "drive is the vocabulary that everyone imports",
	"base/config -> base/telemetry":                  "the log format is a setting",
	"engine/blob/local -> engine/blob":               knowsPort,
	"engine/blob/local -> engine/blob/local/wal":     "it is a part of it, with a format of its own",
	"engine/blob/local -> engine/blob/local/pack":    "it is a part of it, with a format of its own",
	"engine/blob/local/pack -> engine/blob":          "the names of what lies in packs",
	"engine/blob/local/pack -> engine/blob/slothead": "the head of what lies in packs",
	"engine/blob/s3 -> engine/blob":                  knowsPort,
	"engine/blob/s3 -> engine/blob/s3/pack":          "it is a part of it, with a format of its own",
	"engine/blob/s3 -> engine/blob/slothead":         "it leaves room for the head",
	"engine/blob/s3/pack -> engine/blob":             "the names of what lies in packs",
	"engine/blob/s3/pack -> engine/blob/slothead":    "the head of what lies in packs",
	"engine/blob/slothead -> engine/blob":            "the names of packs",
	"usecase/bulk -> usecase/files":                  "it does to many nodes, in one transaction, what files does to one",
	"usecase/handover -> usecase/files":              "it begins an operation of files, in a transaction of its own",
	"usecase/batch -> usecase/files":                 "it does to many, in one transaction, what files does to one",
	"usecase/batch -> usecase/upload":                "it stores many files, in one transaction, as upload does one",
	"engine/meta -> engine/sqldb":                    "it is one table of it",
	"domain/activity -> domain/tree":                 "it notes the changes of nodes",
	"usecase/upload -> usecase/upload/claim":         "a room of it: what is asked and checked before it links",
	"move/contents -> move/migrate":                  "it moves bytes in the phases of the one who moves rows",
	"engine/timer/memory -> engine/timer":            knowsPort,
	"engine/timer/redis -> engine/timer":             knowsPort,
	"engine/stream/outbox -> engine/stream":          knowsPort,
	"engine/stream/kafka -> engine/stream":           knowsPort,
	"usecase/signon -> usecase/admin":                "it makes users, in one transaction, as admin does",
	"usecase/signon -> usecase/space":                "it puts users into groups, as administrators do",
	"usecase/share -> usecase/link":                  "a link by which one reads is a link",
	"usecase/collect -> usecase/link":                "a link by which one sends is a link",
	"head/rest -> head/server":                       "the gate and the path rules are the server's",
	"head/resumable -> head/server":                  "what every head needs of a request: its body, its base URL",
	"head/probe -> head/server":                      "what every head needs of a request: its body, its base URL",
	"head/nextcloud -> head/server":                  "what every head needs of a request: its body, its base URL",
	"head/nextcloud -> head/dav":                     "its files are those of WebDAV, with more properties",
	"head/dav -> head/server":                        "what every head needs of a request: its body, its base URL",
	"head/tus -> head/server":                        "what every head needs of a request: its body, its base URL",
}

// forbidden are imports that the layers would allow: heads reach storage and engines through use
// cases only.
var forbidden = map[string][]string{
	"head/rest":      {"engine/blob", "engine/blob/local", "engine/blob/s3", "engine/sqldb", "engine/timer", "engine/timer/memory", "engine/timer/redis", "engine/stream", "engine/stream/outbox"},
	"head/resumable": {"engine/blob", "engine/blob/local", "engine/blob/s3", "engine/sqldb", "engine/timer", "engine/timer/memory", "engine/timer/redis", "engine/stream", "engine/stream/outbox"},
	"head/nextcloud": {"engine/blob", "engine/blob/local", "engine/blob/s3", "engine/sqldb", "engine/timer", "engine/timer/memory", "engine/timer/redis", "engine/stream", "engine/stream/outbox"},
	"head/dav":       {"engine/blob", "engine/blob/local", "engine/blob/s3", "engine/sqldb", "engine/timer", "engine/timer/memory", "engine/timer/redis", "engine/stream", "engine/stream/outbox"},
	"head/tus":       {"engine/blob", "engine/blob/local", "engine/blob/s3", "engine/sqldb", "engine/timer", "engine/timer/memory", "engine/timer/redis", "engine/stream", "engine/stream/outbox"},
}

// allowed are exceptions to forbidden, each with its reason.
var allowed = map[string]string{
	"head/rest -> engine/sqldb":     "the transaction that an idempotency key shares with its effect",
	"head/rest -> engine/blob":      "the words of parts: UnknownSize, Part",
	"head/resumable -> engine/blob": "a word: UnknownSize",
	"head/dav -> engine/blob":       "a word: UnknownSize",
	"head/nextcloud -> engine/blob": "a word: UnknownSize",
	"head/tus -> engine/blob":       "a word: UnknownSize",
	"head/rest -> engine/stream":    "dead letters, shown to administrators",
	"head/rest -> engine/timer":     "timers, shown to administrators",
}

// modules says why each third-party module is here.
var modules = map[string]string{
	"github.com/Shopify/toxiproxy/v2":     "tests: network faults",
	"github.com/anishathalye/porcupine":   "tests: linearizability",
	"github.com/coreos/go-oidc/v3":        "sign-on by an identity provider",
	"github.com/danielgtaylor/huma/v2":    "schemas of the OpenAPI document",
	"github.com/emmansun/gmsm":            "SM3",
	"github.com/go-sql-driver/mysql":      "MySQL and MariaDB",
	"github.com/google/go-cmp":            "tests",
	"github.com/google/uuid":              "UUIDv7",
	"github.com/huandu/skiplist":          "test/compare: a skip list",
	"github.com/tidwall/btree":            "test/compare: a B-tree",
	"github.com/mattn/go-runewidth":       "the width of Chinese text in a terminal",
	"github.com/minio/minio-go/v7":        "S3",
	"github.com/pressly/goose/v3":         "migrations",
	"github.com/prometheus/client_golang": "metrics",
	"github.com/redis/go-redis/v9":        "Redis",
	"github.com/rabbitmq/amqp091-go":      "test/compare: RabbitMQ",
	"github.com/rogpeppe/go-internal":     "tests of the command line",
	"github.com/rs/zerolog":               "tests: toxiproxy asks for its logger",
	"github.com/spf13/cobra":              "the command line",
	"github.com/spf13/pflag":              "flags",
	"github.com/twmb/franz-go":            "Kafka",
	"github.com/twmb/franz-go/pkg/kadm":   "Kafka's topics and their settings",
	"github.com/twmb/franz-go/pkg/kfake":  "tests: a Kafka in the process",
	"github.com/twmb/franz-go/pkg/kmsg":   "Kafka's requests, where kadm has none",
	"github.com/vbauerster/mpb/v8":        "progress bars",
	"go.uber.org/goleak":                  "tests",
	"go.yaml.in/yaml/v3":                  "the settings file",
	"golang.org/x/crypto":                 "argon2id",
	"golang.org/x/image":                  "thumbnails: WebP, BMP, scaling",
	"golang.org/x/oauth2":                 "sign-on by an identity provider",
	"golang.org/x/sync":                   "errgroup",
	"golang.org/x/sys":                    "sync_file_range, punch hole, locks; what confines helpers",
	"golang.org/x/term":                   "passwords without echo",
	"golang.org/x/text":                   "NFC, case folding, languages",
	"golang.org/x/time":                   "rate limits",
	"golang.org/x/tools":                  "scripts: types on other platforms",
	"lukechampine.com/blake3":             "BLAKE3 as a tree",
	"modernc.org/libc":                    "the types of SQLite's file system",
	"modernc.org/sqlite":                  "SQLite without cgo",
	"pgregory.net/rapid":                  "model tests",
}

func TestImportsGoDownwards(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "." || strings.HasSuffix(pkg, "test") {
			return nil
		}
		if _, ok := layers[pkg]; !ok {
			t.Errorf("%s: package %s has no layer; add it to layers in internal/layers_test.go", path, pkg)
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if to, ours := strings.CutPrefix(name, "example.org/smartdrive/internal/"); ours {
				checkImport(t, path, pkg, to)
			} else if strings.HasPrefix(name, "example.org/smartdrive/") && name+" in "+pkg != "example.org/smartdrive/api in head/rest" {
				t.Errorf("%s imports %s: only head/rest knows the wire types of package api, internal packages know nothing else outside", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// clientExceptions are the internal packages that parts of the client still import, each with its
// reason. The list must shrink: a client is a library of its own.
var clientExceptions = map[string]string{
	"client -> base/filelock":                 "locks of partial files, as of the server's data directory",
	"client -> base/wholesync":                "one sync for many small files",
	"client/agent -> base/drive":              "names that the server accepts",
	"client/agent -> base/filelock":           "the lock of the agent's state",
	"client/agent -> intake/bundle":           "the format of bundles",
	"client/agent -> intake/invoice/envelope": "envelopes are recognized before they are sent",
	"client/bucket -> base/config":            "sizes and durations as text",
	"client/bucket -> intake/bundle":          "the format of bundles",
}

// Package api depends on the standard library only, and package client on no internal package but
// the listed ones.
func TestPublicPackagesImportNothingInternal(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, root := range []string{"api", "client"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
			for _, spec := range file.Imports {
				name, _ := strconv.Unquote(spec.Path.Value)
				to, inside := strings.CutPrefix(name, "example.org/smartdrive/internal/")
				arrow := pkg + " -> " + to
				switch {
				case root == "api" && strings.Contains(name, "."):
					t.Errorf("%s imports %s: package api needs only the standard library", path, name)
				case inside && clientExceptions[arrow] == "":
					t.Errorf("%s imports %s: a client knows nothing internal", path, name)
				case inside:
					used[arrow] = true
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for arrow := range clientExceptions {
		if !used[arrow] {
			t.Errorf("%s is not imported any more: remove it from clientExceptions", arrow)
		}
	}
}

func checkImport(t *testing.T, path, from, to string) {
	t.Helper()
	arrow := from + " -> " + to
	if isAdapter(to) && from != "app" {
		t.Errorf("%s: %s: only app names adapters", path, arrow)
	}
	if exceptions[arrow] != "" || allowed[arrow] != "" {
		return
	}
	for _, no := range forbidden[from] {
		if no == to {
			t.Errorf("%s: %s is forbidden", path, arrow)
		}
	}
	if layers[to] >= layers[from] {
		t.Errorf("%s: %s goes up or sideways (layer %d to %d)", path, arrow, layers[from], layers[to])
	}
}

// knowsPort is the reason for exceptions of adapters.
const knowsPort = "an adapter knows its port"

// isAdapter reports whether a package implements the port that it lies below.
func isAdapter(pkg string) bool {
	return exceptions[pkg+" -> "+filepath.ToSlash(filepath.Dir(pkg))] == knowsPort
}

// Without an adapter the check that only app names them would hold for ever.
func TestAdaptersAreKnown(t *testing.T) {
	t.Parallel()
	n := 0
	for pkg := range layers {
		if isAdapter(pkg) {
			n++
		}
	}
	if n < 6 {
		t.Errorf("%d adapters are known", n)
	}
}

// The tables list only packages and modules that exist.
func TestTablesAreCurrent(t *testing.T) {
	t.Parallel()
	for pkg := range layers {
		if _, err := os.Stat(pkg); err != nil {
			t.Errorf("package %s does not exist", pkg)
		}
	}
}

var requireLine = regexp.MustCompile(`(?m)^\s+(\S+) v\S+( // indirect)?$`)

func TestEveryModuleHasAReason(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range requireLine.FindAllStringSubmatch(string(text), -1) {
		if m[2] != "" {
			continue
		}
		seen[m[1]] = true
		if modules[m[1]] == "" {
			t.Errorf("module %s is required without a reason", m[1])
		}
	}
	for name := range modules {
		if !seen[name] {
			t.Errorf("module %s has a reason and is not required", name)
		}
	}
}
