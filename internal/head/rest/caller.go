package rest

import (
	"net/http"
	"net/netip"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/usecase/collect"
)

// AuthenticateWriter authenticates a request that changes files, for the other protocol heads, by
// the rules of this API. It counts the request against the daily limit of writes, and occupies one
// of the user's slots for concurrent requests. It fails with Unauthenticated or CrossOrigin, with
// Forbidden if the caller may not write, or with Rate. Without an error the head calls release
// after the response.
func (a *API) AuthenticateWriter(r *http.Request) (who drive.Who, release func(), err error) {
	if who, err = a.front.identify(r, write); err != nil {
		return drive.Who{}, nil, err
	}
	if err = a.front.Writes.Take(who.User); err != nil {
		return drive.Who{}, nil, err
	}
	release, err = a.front.Requests.Acquire(who.User)
	return who, release, err
}

// AuthenticateUploader is like AuthenticateWriter, and also accepts the token of a sender, who
// sends files by a collect link without an account. sender is nil for a user. Without an error the
// head calls release after the response.
func (a *API) AuthenticateUploader(r *http.Request) (who drive.Who, sender *Sender, release func(), err error) {
	token := bearer(r)
	if !collect.IsToken(token) {
		who, release, err = a.AuthenticateWriter(r)
		return who, nil, release, err
	}
	by, err := a.front.senders.Authenticate(r.Context(), token)
	if err != nil {
		return drive.Who{}, nil, nil, err
	}
	if err = a.front.Writes.Take(drive.UserID(by.ID)); err != nil {
		return drive.Who{}, nil, nil, err
	}
	release, err = a.front.Requests.Acquire(drive.UserID(by.ID))
	return by.Who(), &Sender{a.uploads, by}, release, err
}

// AuthenticateBasic authenticates a request by user name and password, or by a token that is valid
// for head. It accepts no cookie, because another site could make a browser send one. changes says
// that the request changes something: then it needs the write scope, else the read scope, and must
// pass checkSimpleRequest, because browsers also repeat typed passwords. It fails like
// AuthenticateWriter. Without an error the head calls release after the response.
func (a *API) AuthenticateBasic(r *http.Request, head drive.Heads, changes bool) (who drive.Who, release func(), err error) {
	need := read
	if changes {
		need = write
	}
	if changes {
		err = a.front.checkSimpleRequest(r)
	}
	if err != nil {
		return drive.Who{}, nil, err
	}
	if name, password, ok := r.BasicAuth(); ok {
		who, err = a.front.logins.Basic(r.Context(), account.Basic{Name: name, Password: password, Head: head, Client: clientOf(r)})
	} else {
		who, err = a.front.auth.AuthenticateAt(r.Context(), bearer(r), head)
	}
	if err == nil && !who.Scopes.Has(need.scope()) {
		err = drive.Fail(drive.Forbidden, "scope", need.String())
	}
	if err == nil && changes {
		err = a.front.Writes.Take(who.User)
	}
	if err != nil {
		return drive.Who{}, nil, err
	}
	who.Head, who.Address = "dav", addressOf(r)
	release, err = a.front.Requests.Acquire(who.User)
	return who, release, err
}

// addressOf returns the client's address, also behind proxies; "" on a local socket.
func addressOf(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return at.Addr().Unmap().WithZone("").String()
}

// AdmitVisitor occupies a slot of the client's address for a request without a login, for the other
// heads. It fails with Rate. Without an error the head calls release after the response.
func (a *API) AdmitVisitor(r *http.Request) (release func(), err error) {
	return a.front.Visitors.Acquire((&call{r: r}).network())
}

// identify returns the caller of a request and checks that the caller has the access that need
// states. It fails with drive.Unauthenticated for a missing or invalid secret, or if userHeader
// names another user, and with drive.Forbidden without the scope. A caller who must set a new
// password is returned together with drive.Forbidden.
func (f *front) identify(r *http.Request, need accessLevel) (drive.Who, error) {
	secret, err := f.secret(r)
	if err != nil {
		return drive.Who{}, err
	}
	who, err := f.auth.Authenticate(r.Context(), secret)
	if err != nil {
		return drive.Who{}, err
	}
	if user := r.Header.Get(userHeader); user != "" && user != who.User.String() {
		return drive.Who{}, drive.Fail(drive.Unauthenticated)
	}
	who.Head, who.Address = "api", addressOf(r)
	if who.MustChangePassword {
		return who, drive.Fail(drive.Forbidden, "reason", "new-password")
	}
	if !who.Scopes.Has(need.scope()) || need == admins && !who.Admin {
		return drive.Who{}, drive.Fail(drive.Forbidden, "scope", need.String())
	}
	return who, nil
}
