package drive

// Who is the caller of a use case: the acting user and the account acted on. It is passed as a
// parameter, never in a context.
type Who struct {
	User               UserID
	Account            AccountID
	Guest              bool      // the account is not the user's own; package access has granted the access
	Session            SessionID // the login or token of the request
	Admin              bool
	Scopes             Scope
	Head               string // protocol of the request, for the activity log: api, tus, draft, link, ...
	Address            string // client address; empty: unknown
	Tokens             Tokens // locks submitted by a WebDAV request
	MustChangePassword bool   // the user must set a new password first: Scopes is empty until then
}

// LinkHead is the Head of visitors who use a link and have no account. They read with the rights of
// the user who created the link.
const LinkHead = "link"

// Scope is a set of things that a token may do.
type Scope uint8

// The scopes. A login has all scopes of its user.
const (
	ScopeRead Scope = 1 << iota
	ScopeWrite
	ScopeAdmin
	ScopeSend // senders of a collect link: their own uploads into its folder, nothing else
)

// Has reports whether s contains all of want.
func (s Scope) Has(want Scope) bool { return s&want == want }

// Names returns the names of the scopes as used by programs. ScopeSend has no name.
func (s Scope) Names() []string { return names(s, "read", "write", "admin") }

// names returns the names of the set bits, lowest first; all holds a name per bit.
func names[T ~uint8](set T, all ...string) []string {
	some := []string{}
	for i, name := range all {
		if set&(1<<i) != 0 {
			some = append(some, name)
		}
	}
	return some
}

// Heads is a set of protocols (heads) that a token may be used for.
type Heads uint8

// The heads. A login may use the native one only.
const (
	HeadNative    Heads = 1 << iota // the native API; also tus and resumable uploads with its tokens
	HeadDAV                         // WebDAV
	HeadNextcloud                   // the Nextcloud client protocol, including its WebDAV
)

// Has reports whether h contains all of want.
func (h Heads) Has(want Heads) bool { return h&want == want }

// Names returns the names of the heads as used by programs.
func (h Heads) Names() []string { return names(h, "native", "dav", "nextcloud") }
