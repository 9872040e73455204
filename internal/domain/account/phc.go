package account

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Cost holds the Argon2id parameters of a password hash.
type Cost struct {
	MemoryKiB uint32
	Passes    uint32
	Threads   uint8
}

// DefaultCost is the first choice of OWASP's Password Storage Cheat Sheet: 19 MiB, 2 passes, 1
// thread.
var DefaultCost = Cost{MemoryKiB: 19 << 10, Passes: 2, Threads: 1}

// Bounds of an accepted hash. They include RFC 9106's second recommendation (64 MiB, 3 passes, 4
// lanes) with a margin, and prevent one stored string from exhausting memory or time.
const (
	maxMemoryKiB = 256 << 10
	maxPasses    = 16
	maxThreads   = 16
	minSalt      = 8
	maxSalt      = 64
	minSum       = 16
	maxSum       = 64

	newSalt = 16 // bytes, as RFC 9106 §3.1 recommends
	newSum  = 32
)

// phc is a parsed "$argon2id$v=19$m=19456,t=2,p=1$salt$sum" (PHC string format; base64 without
// padding).
type phc struct {
	cost Cost
	salt []byte
	sum  []byte // the hash
}

// errPHC reports that a stored hash is not a valid Argon2id PHC string.
var errPHC = errors.New("not a usable argon2id PHC string")

// phcBase64 is the encoding of salt and hash in a PHC string: standard, unpadded, without stray
// bits.
var phcBase64 = base64.RawStdEncoding.Strict()

// parsePHC parses an argon2id hash in PHC string format. It fails with errPHC if s is not exactly
// what String writes, or if a cost, the salt or the hash is outside of the bounds of this package.
func parsePHC(s string) (phc, error) {
	fields := strings.Split(s, "$")
	if len(fields) != 6 || fields[0] != "" || fields[1] != "argon2id" || fields[2] != "v="+strconv.Itoa(argon2.Version) {
		return phc{}, errPHC
	}
	var p phc
	var err error
	if p.cost, err = parseCost(fields[3]); err != nil {
		return phc{}, err
	}
	if p.salt, err = phcBase64.DecodeString(fields[4]); err != nil || len(p.salt) < minSalt || len(p.salt) > maxSalt {
		return phc{}, fmt.Errorf("%w: salt", errPHC)
	}
	if p.sum, err = phcBase64.DecodeString(fields[5]); err != nil || len(p.sum) < minSum || len(p.sum) > maxSum {
		return phc{}, fmt.Errorf("%w: sum", errPHC)
	}
	if p.String() != s { // a leading zero, a line break inside base64
		return phc{}, errPHC
	}
	return p, nil
}

// parseCost parses "m=…,t=…,p=…". It fails with errPHC if a value is missing, out of order, zero or
// above its maximum, or if m is below 8p (RFC 9106).
func parseCost(s string) (Cost, error) {
	params := strings.Split(s, ",")
	if len(params) != 3 {
		return Cost{}, errPHC
	}
	memory, err1 := parseParam(params[0], "m=", maxMemoryKiB)
	passes, err2 := parseParam(params[1], "t=", maxPasses)
	threads, err3 := parseParam(params[2], "p=", maxThreads)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Cost{}, err
	}
	if memory < 8*threads { // RFC 9106 §3.1
		return Cost{}, fmt.Errorf("%w: m is below 8p", errPHC)
	}
	return Cost{MemoryKiB: uint32(memory), Passes: uint32(passes), Threads: uint8(threads)}, nil
}

// parseParam parses a decimal number from 1 to limit after prefix. It fails with errPHC if the
// prefix is missing or the number is not in the range.
func parseParam(s, prefix string, limit uint64) (uint64, error) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return 0, fmt.Errorf("%w: %s is missing", errPHC, prefix)
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n < 1 || n > limit {
		return 0, fmt.Errorf("%w: %s is not in 1..%d", errPHC, prefix, limit)
	}
	return n, nil
}

// String returns the canonical PHC string.
func (p phc) String() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.cost.MemoryKiB, p.cost.Passes, p.cost.Threads,
		phcBase64.EncodeToString(p.salt), phcBase64.EncodeToString(p.sum))
}

// compute hashes a password with the salt and cost of p.
func (p phc) compute(password string) []byte {
	return argon2.IDKey([]byte(password), p.salt, p.cost.Passes, p.cost.MemoryKiB, p.cost.Threads, uint32(len(p.sum)))
}

// matches hashes the password with the cost and salt of p, which takes the full work of argon2, and
// compares in constant time. It reports whether the hash is that of p.
func (p phc) matches(password string) bool {
	return subtle.ConstantTimeCompare(p.compute(password), p.sum) == 1
}
