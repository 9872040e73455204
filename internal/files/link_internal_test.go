package files

import (
	"testing"

	"smartdrive/internal/drive"
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
