package files_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
)

func TestLinks(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})
	n := d.put(t, "/f", "text")
	open := func(l files.Link, kind drive.Kind, reason string) {
		t.Helper()
		got, disposition, err := d.links.Open(t.Context(), l.Token, "")
		if kind != 0 {
			wantKind(t, err, kind)
			var e *drive.Error
			if !errors.As(err, &e) || reason != "" && e.Args["reason"] != reason {
				t.Errorf("got %v, want the reason %s", err, reason)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Close(); err != nil || got.Node.ID != n.ID || disposition != files.Inline {
			t.Errorf("opened %+v as %v, %v", got.Node, disposition, err)
		}
	}
	link := func() files.Link {
		t.Helper()
		l, err := d.links.Create(t.Context(), d.who, n.ID, time.Hour, files.Inline)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := link()
	open(l, 0, "")
	again := files.NewLinks(d.Files, files.LinkOptions{Epochs: d.users})
	if o, _, err := again.Open(t.Context(), l.Token, ""); err != nil {
		t.Errorf("a link does not outlive the process: %v", err)
	} else if err := o.Close(); err != nil {
		t.Error(err)
	}
	other := "00"
	if l.Token[40:42] == other { // of the user's id, which is random there
		other = "11"
	}
	for _, forged := range []string{"", "x", l.Token + "A", l.Token[:len(l.Token)-1], "B" + l.Token[1:], l.Token[:40] + other + l.Token[42:]} {
		open(files.Link{Token: forged}, drive.NotFound, "")
	}
	for _, life := range []time.Duration{-1, 0, time.Millisecond, files.MaxLinkLife + 1} {
		_, err := d.links.Create(t.Context(), d.who, n.ID, life, files.Attachment)
		wantKind(t, err, drive.BadRequest)
	}
	d.now = d.now.Add(time.Hour)
	open(l, drive.Gone, "link-expired")

	l = link()
	if _, err := d.Trash(t.Context(), d.who, n.ID, tree.Expect{}); err != nil {
		t.Fatal(err)
	}
	open(l, drive.Gone, "link-void")
	if _, err := d.Restore(t.Context(), d.who, n.ID, drive.NodeID{}, ""); err != nil {
		t.Fatal(err)
	}
	open(l, 0, "")
	hash, err := d.users.Hash(t.Context(), "ann", "another long password")
	if err != nil {
		t.Fatal(err)
	}
	d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := d.users.Update(ctx, tx, d.who.User, account.Patch{Password: hash})
		return err
	})
	open(l, drive.Gone, "link-void")
	open(link(), 0, "")
	l = link()
	d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := d.users.Update(ctx, tx, d.who.User, account.Patch{State: account.Disabled})
		return err
	})
	open(l, drive.Gone, "link-void")
}
