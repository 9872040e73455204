package redis

import (
	"crypto/sha1" // EVALSHA identifies scripts by SHA-1
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua
var sources embed.FS

// script is a Lua script; servers identify it by the SHA-1 of its text.
type script struct{ name, text, sha string }

// load reads a script from the embedded files: the parts, then the file of its name.
func load(name string, parts ...string) *script {
	var all strings.Builder
	for _, part := range append(parts, name) {
		b, err := sources.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // the file is embedded
		}
		all.Write(b)
	}
	text := all.String()
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

var (
	armScript      = load("arm", "prelude", "index")    // arms timers
	cancelScript   = load("cancel", "prelude", "index") // cancels timers
	leaseScript    = load("lease", "prelude", "index")  // leases due timers
	settleScript   = load("settle", "prelude", "index") // ends leases
	touchScript    = load("touch", "prelude")           // records activity
	showScript     = load("show", "prelude")            // returns the state of a timer
	countScript    = load("count", "prelude")           // counts timers, one page per call
	helloScript    = load("hello", "prelude")           // returns epoch and clock of a shard
	announceScript = load("announce")                   // announces an instance and returns the live ones
)

// scripts returns all scripts.
func scripts() []*script {
	return []*script{
		armScript, cancelScript, leaseScript, settleScript, touchScript, showScript, countScript, helloScript, announceScript,
	}
}
