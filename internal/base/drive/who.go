package drive

// Who is the caller of a use case: the user who acts and the account acted on. It is passed as a
// parameter, never through a context.
type Who struct {
	User    UserID
	Account AccountID
	Guest   bool      // the account is not the user's own: package access has let them act on it
	Session SessionID // the login or token that the request came with
	Admin   bool
	Scopes  Scope
	Head    string // by which protocol the request came, for the activity log: api, tus, draft, link
	Address string // where it came from; empty: not known
	Tokens  Tokens // of locks, that a request of WebDAV submits
	Renew   bool   // has to set a new password first: Scopes are none until then
}

// LinkHead is the head of those who were given a link and have no account. They read as the user
// who has made it.
const LinkHead = "link"

// Scope is the set of things a token may do.
type Scope uint8

// The scopes; a login has all that its user has.
const (
	ScopeRead Scope = 1 << iota
	ScopeWrite
	ScopeAdmin
	ScopeSend // of a collect link's senders, and nothing else: their own uploads into its folder
)

// Has reports whether all of want is in s.
func (s Scope) Has(want Scope) bool { return s&want == want }

// Names are the scopes as programs name them; that of senders has no name.
func (s Scope) Names() []string { return names(s, "read", "write", "admin") }

// names are those of the bits that are set, from the lowest on.
func names[T ~uint8](set T, all ...string) []string {
	some := []string{}
	for i, name := range all {
		if set&(1<<i) != 0 {
			some = append(some, name)
		}
	}
	return some
}

// Heads are the protocols that a token may be used for.
type Heads uint8

// The heads. A login is for the native one alone.
const (
	HeadNative    Heads = 1 << iota // the native API, and tus and resumable uploads with its tokens
	HeadDAV                         // WebDAV
	HeadNextcloud                   // the Nextcloud client protocol, its WebDAV included
)

// Has reports whether all of want is in h.
func (h Heads) Has(want Heads) bool { return h&want == want }

// Names are the heads as programs name them.
func (h Heads) Names() []string { return names(h, "native", "dav", "nextcloud") }
