package rest

import (
	"net/http"
	"net/netip"

	"smartdrive/internal/base/drive"
)

// IsAdmin reports whether a request outside the API carries an administrator's token or cookie.
func (a *API) IsAdmin(r *http.Request) bool {
	_, err := a.front.whoIs(r, admins)
	return err == nil
}

// Local returns the same API for the socket of the machine's administrator: whoever can open the
// socket is that caller, and no token is asked for.
func (a *API) Local(who drive.Who) *API {
	local := *a
	local.front.local = &who
	local.front.Gate, local.front.Visitors, local.front.Writes = noGate[drive.UserID]{}, noGate[netip.Prefix]{}, nil
	return &local
}
