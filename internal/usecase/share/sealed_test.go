package share_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/share"
)

// inPlain converts the row of a share to the form of older versions.
func (d *fixture) inPlain(t testing.TB, v share.View) {
	t.Helper()
	d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE shares SET token = ?, code = ? WHERE id = ?", v.Token, v.Code, v.ID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM share_texts WHERE share_id = ?", v.ID)
		return err
	})
}

// seen fails unless the owner sees the share unchanged, a visitor can open it, and a database copy
// reveals neither token nor code.
func (d *fixture) seen(t testing.TB, v share.View, inDump bool) {
	t.Helper()
	got, err := d.Find(t.Context(), d.who, v.ID)
	if err != nil || got.Token != v.Token || got.Code != v.Code || got.NeedsCode() != (v.Code != "") {
		t.Errorf("the owner sees %q, %q, %v; want %q, %q", got.Token, got.Code, err, v.Token, v.Code)
	}
	list, err := d.List(t.Context(), d.who, share.Query{Limit: 100})
	if err != nil || len(list) == 0 || list[0].Token == "" {
		t.Errorf("the list: %v, %v", list, err)
	}
	d.enter(t, v)
	dump := sqldbtest.Dump(t, d.db)
	if strings.Contains(dump, v.Token) != inDump || v.Code != "" && strings.Contains(dump, v.Code) != inDump {
		t.Errorf("a copy of the database tells the token or the code; want %v", inDump)
	}
}

func (d *fixture) rotate(t testing.TB) {
	t.Helper()
	v := vault.New(vault.Options{DB: d.db, Keys: []vault.Key{d.key}, Now: d.clock})
	if err := v.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDatabaseCopyOpensNoShare(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	v := d.share(t, share.Request{Node: d.folder(t, "a"), Code: "Kq7Zw9xT"})
	d.seen(t, v, false)
	code := "Vb3Nm5Lp"
	v, err := d.Change(t.Context(), d.who, v.ID, share.Change{Code: &code})
	if err != nil {
		t.Fatal(err)
	}
	d.seen(t, v, false)
	var hash string
	if err := d.db.QueryRow(t.Context(), "SELECT token FROM shares WHERE id = ?", v.ID).Scan(&hash); err != nil {
		t.Fatal(err)
	}
	_, err = d.Describe(t.Context(), hash, "") // what a thief can read is not a token
	wantKind(t, err, drive.NotFound)
	none := ""
	if v, err = d.Change(t.Context(), d.who, v.ID, share.Change{Code: &none}); err != nil || v.NeedsCode() {
		t.Fatalf("a code is asked for, %v", err)
	}
	d.seen(t, v, false)
	if err := d.Delete(t.Context(), d.who, v.ID); err != nil || strings.Contains(sqldbtest.Dump(t, d.db), "share_texts") {
		t.Errorf("something is left of a share that was deleted: %v", err)
	}
}

// Shares of an older version work at once and are sealed while in use by several instances.
func TestOldVersionSharesAreSealed(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	node := d.folder(t, "a")
	all := []share.View{
		d.share(t, share.Request{Node: node}), d.share(t, share.Request{Node: node, Code: "Kq7Zw9xT"}),
		d.share(t, share.Request{Node: node, Code: "Hd4Rj8Sc"}),
	}
	for _, v := range all {
		d.inPlain(t, v)
		d.seen(t, v, true)
	}
	code := "Vb3Nm5Lp"
	changed, err := d.Change(t.Context(), d.who, all[2].ID, share.Change{Code: &code})
	if err != nil {
		t.Fatal(err)
	}
	all[2] = changed
	d.seen(t, changed, false)
	var both sync.WaitGroup
	for _, s := range []*share.Shares{d.Shares, d.twin} {
		both.Go(func() {
			if err := s.SealAll(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	for _, v := range all {
		d.seen(t, v, false)
	}
	d.inPlain(t, all[0]) // what is done is not looked at again
	if err := d.SealAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.seen(t, all[0], true)
}

func (d *fixture) texts(t testing.TB) (all []string) {
	t.Helper()
	rows, err := d.db.Query(t.Context(), "SELECT sealed FROM share_texts ORDER BY share_id")
	all, err = sqldb.Scan(rows, err, func(s *string, scan func(...any) error) error { return scan(s) })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestKeyRotationKeepsShares(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	v := d.share(t, share.Request{Node: d.folder(t, "a"), Code: "Kq7Zw9xT"})
	plain := d.share(t, share.Request{Node: d.folder(t, "b"), Code: "Hd4Rj8Sc"})
	d.inPlain(t, plain)
	before := d.texts(t)
	d.rotate(t)
	d.advance(vaultTrust)
	d.seen(t, v, false) // also before it is sealed again
	if err := d.SealAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := func(sealed string) string { return strings.Split(sealed, ":")[1] }
	after := d.texts(t)
	if len(before) != 1 || len(after) != 2 || name(after[0]) == name(before[0]) || name(after[1]) != name(after[0]) {
		t.Errorf("%q became %q", before, after)
	}
	d.seen(t, v, false)
	d.seen(t, plain, false)
}

const vaultTrust = 5e9 // ns, as long as the vault believes what it has read

// After a restore without the key, shares continue to work; owners must set new codes.
func TestSharesSurviveLostKey(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	open, coded := d.share(t, share.Request{Node: d.folder(t, "a")}), d.share(t, share.Request{Node: d.folder(t, "b"), Code: "Kq7Zw9xT"})
	d.key = vault.NewKey()
	d.rotate(t)
	d.Shares = d.shares(t)
	if err := d.SealAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.enter(t, open)
	for _, code := range []string{"", " ", "*", coded.Code} {
		_, err := d.Open(t.Context(), coded.Token, code, home)
		wantKind(t, err, drive.WrongCode)
	}
	got, err := d.Find(t.Context(), d.who, coded.ID)
	if err != nil || got.Token != "" || got.Code != "" || !got.NeedsCode() {
		t.Errorf("the owner sees %q, %q, %v", got.Token, got.Code, err)
	}
	code := "Vb3Nm5Lp"
	if _, err := d.Change(t.Context(), d.who, coded.ID, share.Change{Code: &code}); err != nil {
		t.Fatal(err)
	}
	coded.Code = code
	d.enter(t, coded)
}
