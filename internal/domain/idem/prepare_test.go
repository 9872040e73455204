package idem

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

func TestPrepareIDLivesTwelveHours(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, expires := f.ids.New(f.user)
	if want := drive.TimeOf(f.clock.Now().Add(12 * time.Hour)); expires != want {
		t.Fatalf("expires %v, want %v", expires, want)
	}
	f.clock.Advance(PrepareLife - time.Millisecond)
	if _, err := f.ids.ParseKey(f.user, `"`+id+`"`); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Millisecond)
	_, err := f.ids.ParseKey(f.user, id)
	wantKind(t, err, drive.Gone)
}

func TestForgedPrepareIDsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, _ := f.ids.New(f.user)
	now := f.clock.Now()
	if err := f.ids.Verify(f.user, id, now); err != nil {
		t.Fatal(err)
	}
	wantKind(t, f.ids.Verify(drive.NewID[drive.UserID](), id, now), drive.BadRequest)
	for i := range id {
		changed := []byte(id)
		if changed[i]++; !drive.IsKind(f.ids.Verify(f.user, string(changed), now), drive.BadRequest) {
			t.Fatalf("%q was taken", changed)
		}
	}
	for _, s := range []string{"", "pre_", id[:len(id)-1], id + "A", id + "=", id[:30] + "\n" + id[30:], id[4:]} {
		wantKind(t, f.ids.Verify(f.user, s, now), drive.BadRequest)
	}
	_, err := f.ids.ParseKey(f.user, "pre_of my own")
	wantKind(t, err, drive.BadRequest)
	elsewhere := newFixture(t)
	wantKind(t, elsewhere.ids.Verify(f.user, id, now), drive.BadRequest)
}

func TestPrepareIDWorksForOneCreation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, _ := f.ids.New(f.user)
	req := f.request(t, id)
	f.once(t, req)
	if resp := f.once(t, req); !resp.Replayed {
		t.Fatal("created twice")
	}
	req.Route = "/uploads" // the same body elsewhere
	_, err := f.keys.Once(t.Context(), req, create)
	wantKind(t, err, drive.KeyReused)
	if n := f.created(t); n != 1 {
		t.Fatalf("created %d", n)
	}
}

// TestPurgeNeverReopensAPrepareID (I3): a purge never makes a used prepare id valid again, at any
// times of creation, use, purge and retry.
func TestPurgeNeverReopensAPrepareID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(what string, limit time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(limit)).Draw(rt, what))
		}
		before := f.created(t)
		id, _ := f.ids.New(f.user)
		f.clock.Advance(draw("used after", PrepareLife-time.Millisecond))
		f.once(t, f.request(t, id))
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			f.clock.Advance(draw("again after", 20*time.Hour))
			if _, err := f.keys.Purge(t.Context(), f.clock.Now()); err != nil {
				rt.Fatal(err)
			}
			key, err := f.ids.ParseKey(f.user, id)
			if drive.IsKind(err, drive.Gone) {
				continue
			} else if err != nil {
				rt.Fatal(err)
			}
			req := Request{User: f.user, Method: "POST", Route: "/nodes", Key: key, Fingerprint: Fingerprint{1}}
			if resp, err := f.keys.Once(t.Context(), req, create); err != nil || !resp.Replayed {
				rt.Fatalf("%+v, %v", resp, err)
			}
		}
		if n := f.created(t) - before; n != 1 {
			rt.Fatalf("created %d", n)
		}
	})
}

// TestLateUseOfAVerifiedPrepareIDIsGone: a request that was verified in time and then delayed for a
// day creates nothing.
func TestLateUseOfAVerifiedPrepareIDIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, _ := f.ids.New(f.user)
	req := f.request(t, id)
	f.once(t, req)
	f.clock.Advance(keyLife)
	_, err := f.keys.Once(t.Context(), req, create)
	wantKind(t, err, drive.Gone)
	if n := f.created(t); n != 1 {
		t.Fatalf("created %d", n)
	}
}

// TestInstallationHasOneSecret: concurrent first starts use one secret (I2), and later starts find
// it.
func TestInstallationHasOneSecret(t *testing.T) {
	t.Parallel()
	db, c := sqldbtest.Open(t), newClock()
	var ids [callers]*PreparedIDs
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var err error
			if ids[i], err = OpenPreparedIDs(t.Context(), db, Options{Now: c.Now}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	user := drive.NewID[drive.UserID]()
	id, _ := ids[0].New(user)
	for _, p := range ids {
		if err := p.Verify(user, id, c.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	user, c := drive.UserID{1}, newClock()
	p := &PreparedIDs{secret: make([]byte, secretBytes), opt: Options{Now: c.Now}}
	good := p.sign(user, drive.TimeOf(c.Now().Add(PrepareLife)), [nonceBytes]byte{})
	f.Add(good)
	f.Add("pre_")
	f.Fuzz(func(t *testing.T, s string) {
		if err := p.Verify(user, s, c.Now()); err == nil && s != good {
			t.Fatalf("%q was taken and never made", s)
		}
		if err := p.Verify(user, s, c.Now().Add(PrepareLife)); err == nil {
			t.Fatalf("%q outlives its life", s)
		}
	})
}
