package collect_test

import (
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func (d *fixture) unlimited(t testing.TB) collect.Sender {
	t.Helper()
	l, err := d.Create(t.Context(), d.who, collect.Request{Folder: d.folder, Title: "in"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.sender(t, l)
}

// Senders by links without a limit can declare at most half of the owner's free quota, over any
// number of links and pauses.
func TestSendersLeaveOwnerHalfTheQuota(t *testing.T) {
	t.Parallel()
	d := newFixture(t, uploadtest.Options{})
	d.SetTotal(t, d.who, 1000)
	send := func(by collect.Sender, name string, size drive.ByteSize) error {
		_, err := begin(t.Context(), d.Sessions, d.Links, by, name, size)
		return err
	}
	one, other := d.unlimited(t), d.unlimited(t)
	wantKind(t, send(one, "all", 1000), drive.Quota)
	if err := send(one, "a", 300); err != nil {
		t.Fatal(err)
	}
	wantKind(t, send(other, "b", 300), drive.Quota)
	d.AdvanceAndFire(t, time.Minute) // parked: nothing is reserved, and it would be again
	wantKind(t, send(other, "b", 300), drive.Quota)
	if err := send(other, "c", 200); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Begin(t.Context(), d.who, upload.Begin{Path: uploadtest.Path(t, "/mine"), Size: 500}, nil); err != nil {
		t.Errorf("the owner has no room: %v", err)
	}
	d.AdvanceAndFire(t, time.Hour) // what never received a byte goes after minutes
	if err := send(one, "d", 400); err != nil {
		t.Errorf("when the others have gone: %v", err)
	}
	limited := d.sender(t, d.link(t, 1000))
	if err := send(limited, "e", 600); err != nil {
		t.Errorf("by a link whose limit the owner has set: %v", err)
	}
}
