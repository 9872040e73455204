package files

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/ticket"
)

func FuzzParseLink(f *testing.F) {
	secret := []byte("the installation's secret")
	good := link{node: drive.NodeID{7}, epoch: 3, expires: 4, disposition: Inline}.token(secret)
	f.Add("")
	f.Add(good)
	f.Add(good[:len(good)-1] + "B")
	f.Fuzz(func(t *testing.T, token string) {
		l, err := parseLink(token, secret)
		if err != nil {
			if !drive.IsKind(err, drive.NotFound) {
				t.Fatalf("%q: %v", token, err)
			}
			return
		}
		if token != good || l.token(secret) != token {
			t.Fatalf("%q was taken for a link", token)
		}
	})
}

// TestParseLinkReadsOldTokens: links from before tokens had a session are valid until they expire.
func TestParseLinkReadsOldTokens(t *testing.T) {
	t.Parallel()
	secret := []byte("the installation's secret")
	want := link{node: drive.NodeID{7}, epoch: 3, expires: 4, disposition: Inline, session: drive.SessionID{9}}
	fields, ok := ticket.Key(secret).Open(want.token(secret), linkSize, linkSize)
	if !ok {
		t.Fatal("a fresh link cannot be read")
	}
	want.session = drive.SessionID{}
	if got, err := parseLink(ticket.Key(secret).Sign(fields[:sessionAt]), secret); err != nil || got != want {
		t.Errorf("it says %+v, %v", got, err)
	}
	if _, err := parseLink(ticket.Key(secret).Sign(fields[:sessionAt+3]), secret); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("half a session: %v", err)
	}
}
