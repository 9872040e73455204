package server

import (
	"net/http"
	"net/netip"

	"github.com/google/uuid"
)

const headerRequestID = "X-Request-Id"

// maxRequestID is the length in bytes up to which a proxy's request id is taken over.
const maxRequestID = 128

// nameRequest gives a request a name and puts it into the response's X-Request-Id, where the log
// and problem.Write find it. A trusted proxy's name is kept, so that its log and ours can be read
// together. It comes before findClient, when RemoteAddr is still the peer.
func nameRequest(trusted []netip.Prefix, w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(headerRequestID)
	if !saneID(id) || !containsAddr(trusted, addrOf(r.RemoteAddr)) {
		id = uuid.Must(uuid.NewV7()).String()
	}
	w.Header().Set(headerRequestID, id)
}

// saneID allows what common proxies make: letters, digits and a little punctuation.
func saneID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == ':', c == '+', c == '/', c == '=':
		default:
			return false
		}
	}
	return true
}
