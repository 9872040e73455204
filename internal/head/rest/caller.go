package rest

import (
	"net/http"
	"net/netip"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/usecase/collect"
)

// Writer finds out for the other protocol heads who sends a request that changes files, by the
// rules of this API: who it is (Unauthenticated, CrossOrigin), whether that may write (Forbidden),
// and no more than so many requests of one user at a time (Rate). The head calls release when the
// request has been answered.
func (a *API) Writer(r *http.Request) (who drive.Who, release func(), err error) {
	if who, err = a.front.whoIs(r, write); err != nil {
		return drive.Who{}, nil, err
	}
	if err = a.front.Writes.Spend(who.User); err != nil {
		return drive.Who{}, nil, err
	}
	release, err = a.front.Gate.Acquire(who.User)
	return who, release, err
}

// Uploader is Writer for a head that the senders of collect links may use, too: sender is nil for a
// user.
func (a *API) Uploader(r *http.Request) (who drive.Who, sender *Sender, release func(), err error) {
	token := bearer(r)
	if !collect.IsToken(token) {
		who, release, err = a.Writer(r)
		return who, nil, release, err
	}
	by, err := a.front.senders.Authenticate(r.Context(), token)
	if err != nil {
		return drive.Who{}, nil, nil, err
	}
	if err = a.front.Writes.Spend(drive.UserID(by.ID)); err != nil {
		return drive.Who{}, nil, nil, err
	}
	release, err = a.front.Gate.Acquire(drive.UserID(by.ID))
	return by.Who(), &Sender{a.uploads, by}, release, err
}

// Basic is Writer for a head whose protocol sends a name and a password with each request, or a
// token that is good for that head. A cookie lets nobody in: what a browser adds by itself another
// site could use. It adds a name and a password that somebody has typed in, too: see
// ownForm. What only reads needs no more than the scope for it.
func (a *API) Basic(r *http.Request, head drive.Heads, changes bool) (who drive.Who, release func(), err error) {
	need := read
	if changes {
		need = write
	}
	if changes {
		err = a.front.ownForm(r)
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
		err = a.front.Writes.Spend(who.User)
	}
	if err != nil {
		return drive.Who{}, nil, err
	}
	who.Head, who.Address = "dav", addressOf(r)
	release, err = a.front.Gate.Acquire(who.User)
	return who, release, err
}

// addressOf is the address that a request comes from, behind proxies too; empty: a local socket.
func addressOf(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return at.Addr().Unmap().WithZone("").String()
}

// Visitor takes a place for somebody who has not logged in, for heads that answer them.
func (a *API) Visitor(r *http.Request) (release func(), err error) {
	return a.front.Visitors.Acquire((&call{r: r}).network())
}

// whoIs returns the caller of a request and checks that they may do what needs this access.
func (f *front) whoIs(r *http.Request, need admission) (drive.Who, error) {
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
	if who.Renew {
		return who, drive.Fail(drive.Forbidden, "reason", "new-password")
	}
	if !who.Scopes.Has(need.scope()) || need == admins && !who.Admin {
		return drive.Who{}, drive.Fail(drive.Forbidden, "scope", need.String())
	}
	return who, nil
}
