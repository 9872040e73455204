package server

import (
	"net/http"
	"net/netip"

	"github.com/google/uuid"
)

// headerRequestID is the header of the request id, in requests and responses.
const headerRequestID = "X-Request-Id"

// maxRequestID is the longest request id in bytes that is accepted from a proxy.
const maxRequestID = 128

// assignRequestID sets X-Request-Id in the response, where the access log and problem.Write find
// it. The id of a trusted proxy is kept, so that both logs can be correlated; other requests get a
// new id. It must run before findClient, while r.RemoteAddr is still the peer of the connection.
func assignRequestID(trusted []netip.Prefix, w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(headerRequestID)
	if !validID(id) || !containsAddr(trusted, addrOf(r.RemoteAddr)) {
		id = uuid.Must(uuid.NewV7()).String()
	}
	w.Header().Set(headerRequestID, id)
}

// validID reports whether an id has only letters, digits and some punctuation, as common proxies
// generate.
func validID(id string) bool {
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
