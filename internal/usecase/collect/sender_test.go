package collect

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/ticket"
)

// FuzzPermit checks that only signatures with the key are accepted and that they yield the signed
// value.
func FuzzPermit(f *testing.F) {
	key := ticket.DeriveKey([]byte("secret"), "collect sender")
	// fixed, for the seeds are made in one process and tried in another
	good := senderToken{link: drive.CollectID{1, 2}, sender: drive.SenderID{3, 4}, expires: 1_800_000_000_000, name: "王"}
	f.Add(good.text(key))
	f.Add(good.text([]byte("another key")))
	f.Add("sdc_")
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := parseToken(text, key)
		if ok && (got.text(key) != text || got != good) {
			t.Errorf("%q was taken as %+v", text, got)
		}
		if !ok && text == good.text(key) {
			t.Error("a good one was refused")
		}
	})
}
