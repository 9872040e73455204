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
	armScript      = load("arm", "prelude", "index")
	cancelScript   = load("cancel", "prelude", "index")
	leaseScript    = load("lease", "prelude", "index")
	settleScript   = load("settle", "prelude", "index")
	touchScript    = load("touch", "prelude")
	showScript     = load("show", "prelude")
	countScript    = load("count", "prelude")
	helloScript    = load("hello", "prelude")
	announceScript = load("announce")
)

// scripts returns all scripts.
func scripts() []*script {
	return []*script{
		armScript, cancelScript, leaseScript, settleScript, touchScript, showScript, countScript, helloScript, announceScript,
	}
}
