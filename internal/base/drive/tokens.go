package drive

import "strings"

// Tokens are the locks whose tokens a request of WebDAV submits. The zero value is that of requests
// by which tokens cannot be submitted: they pass all locks of their user's.
type Tokens string

// Submit returns the tokens of a request that submits these, and passes no other lock.
func Submit(locks []LockID) Tokens {
	var b strings.Builder
	b.WriteByte(' ')
	for _, id := range locks {
		b.WriteString(id.String() + " ")
	}
	return Tokens(b.String())
}

// Pass reports whether a lock of the request's user lets the request pass.
func (t Tokens) Pass(id LockID) bool {
	return t == "" || strings.Contains(string(t), " "+id.String()+" ")
}
