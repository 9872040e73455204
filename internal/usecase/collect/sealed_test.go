package collect_test

import (
	"context"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// seen fails unless the owner sees the link unchanged and a sender can use it.
func (d *fixture) seen(t testing.TB, l collect.View, inDump bool) {
	t.Helper()
	got, err := d.Find(t.Context(), d.who, l.ID)
	if err != nil || got.Token != l.Token {
		t.Errorf("the owner sees %q, %v; want %q", got.Token, err, l.Token)
	}
	list, err := d.Links.List(t.Context(), d.who, collect.Query{Limit: 10})
	if err != nil || len(list) != 1 || list[0].Token != l.Token {
		t.Errorf("the list: %v, %v", list, err)
	}
	d.sender(t, l)
	if strings.Contains(sqldbtest.Dump(t, d.DB), l.Token) != inDump {
		t.Errorf("a copy of the database tells the token; want %v", inDump)
	}
}

// A link of an older version works at once and is sealed while in use; a key rotation does not
// change it.
func TestDatabaseCopyOpensNoCollectLink(t *testing.T) {
	t.Parallel()
	d := newFixture(t, uploadtest.Options{})
	l := d.link(t, 100)
	d.seen(t, l, false)
	var hash string
	if err := d.DB.QueryRow(t.Context(), "SELECT token FROM collects").Scan(&hash); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Describe(t.Context(), hash); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("what a thief can read is a token: %v", err)
	}
	err := d.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE collects SET token = ?", l.Token); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM collect_texts")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	d.seen(t, l, true)
	for range 2 {
		if err := d.SealAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.seen(t, l, false)
		if err := vault.New(vault.Options{DB: d.DB, Keys: []vault.Key{d.key}}).Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.Links = d.links()
		d.seen(t, l, false)
	}
	if _, err := d.Delete(t.Context(), d.who, l.ID); err != nil || strings.Contains(sqldbtest.Dump(t, d.DB), "collect_texts") {
		t.Errorf("something is left of a link that was deleted: %v", err)
	}
}
