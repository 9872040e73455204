package rest

import (
	"net/http"
	"net/netip"

	"example.org/smartdrive/internal/base/drive"
)

// IsAdmin reports whether a request outside of the API carries an administrator's token or cookie.
func (a *API) IsAdmin(r *http.Request) bool {
	_, err := a.front.identify(r, admins)
	return err == nil
}

// Local returns the same API for the administrator's local socket. Every request counts as coming
// from who; access to the socket is the only authentication. The limits per user do not apply.
func (a *API) Local(who drive.Who) *API {
	local := *a
	local.front.local = &who
	local.front.Requests, local.front.Visitors, local.front.Writes = noGate[drive.UserID]{}, noGate[netip.Prefix]{}, nil
	return &local
}
