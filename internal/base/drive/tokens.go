package drive

import "strings"

// Tokens is the set of locks whose tokens a WebDAV request submits. The zero value belongs to
// protocols without lock tokens; such requests pass all locks of their user.
type Tokens string

// SubmitTokens returns the Tokens of a request that submits exactly these locks.
func SubmitTokens(locks []LockID) Tokens {
	var b strings.Builder
	b.WriteByte(' ')
	for _, id := range locks {
		b.WriteString(id.String() + " ")
	}
	return Tokens(b.String())
}

// Passes reports whether a request with these Tokens may pass a lock of its own user.
func (t Tokens) Passes(id LockID) bool {
	return t == "" || strings.Contains(string(t), " "+id.String()+" ")
}
