package fsck_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

const (
	wishes = `INSERT INTO notice_people (user_id, address, state, code, code_until, code_tries, codes, codes_since, language, channels, due_at, sent_at,
		failures, failing_since, updated_at) VALUES `
	noticesAstray = `INSERT INTO users (id, account_id, name, slot, password, admin, state, created_at, updated_at)
		VALUES ('{user}', '{account}', 'ann', 'ann', '', 0, 'active', 1, 1);
		INSERT INTO notices (user_id, id, kind, what, account_id, node_id, by_id, data, at, read_at, mail) VALUES
		('{user}', '{a}', 'share', 'given', '{account}', '', '', '{}', 1, 0, 1), ('{user}', '{root}', 'share', 'given', '{account}', '', '', '{}', 1, 0, 1),
		('{user}', '{active}', 'share', 'given', '{account}', '', '', '{}', 1, 0, 0), ('{active}', '{a}', 'share', 'given', '{account}', '', '', '{}', 1, 0, 1);` +
		wishes + `('{parked}', '', 'none', '', 0, 0, 0, 0, 'en', '{}', 0, 0, 0, 0, 0)`
)

// Planted defects of rows, their findings, and whether they can be repaired.
func TestRows(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		spoil string // {active} {parked} {account} {a} {root} are ids
		want  []string
		stays bool // cannot be repaired
	}{
		{
			name:  "finished",
			spoil: `UPDATE ledgers SET finished = finished + 5`,
			want:  []string{"Q1 account: finished 5242892 | finished 5242897"},
		},
		{
			name:  "reserved",
			spoil: `UPDATE ledgers SET reserved = 0`,
			want:  []string{"Q2 account: reserved 5242880 | reserved 0"},
		},
		{
			name:  "unfinished",
			spoil: `UPDATE ledgers SET unfinished = 1`,
			want:  []string{"Q3 account: unfinished 2097152 | unfinished 1"},
		},
		{
			name:  "a parked upload that reserves",
			spoil: `UPDATE uploads SET reserved = 9 WHERE id = '{parked}'`,
			want:  []string{"Q2 upload: reserved 0 | parked, 9 reserved, 2097152 held"},
		},
		{
			name:  "a done upload that holds",
			spoil: `UPDATE uploads SET held = 9, reserved = 1 WHERE state = 'done'`,
			want:  []string{"Q2 upload: reserved 0 | done, 1 reserved, 9 held", "Q3 upload: held 0 | done, 1 reserved, 9 held"},
		},
		{
			name:  "an active upload that reserves too little",
			spoil: `UPDATE uploads SET reserved = 5 WHERE id = '{active}'; UPDATE ledgers SET reserved = 5`,
			want:  []string{"Q2 upload: at least 5242880 reserved | active, 5 reserved, 0 held"},
			stays: true,
		},
		{
			name: "what came by a collect link",
			spoil: `INSERT INTO collects (id, account_id, user_id, folder_id, token, title, message, expires_at, files, received, created_at)
				VALUES ('{active}', '{account}', '{active}', '{root}', 't', 'x', '', 0, 3, 99, 0);
				INSERT INTO collected (upload_id, collect_id, account_id, sender_id, sender, name, size, digests, state, created_at)
				VALUES ('{parked}', '{active}', '{account}', '{active}', '', 'f', 12, '{}', 'done', 0)`,
			want: []string{"C1 collect: 1 files, 12 bytes | 3 files, 99 bytes"},
		},
		{
			name: "a grant with another account",
			spoil: `INSERT INTO grants (node_id, principal_id, account_id, kind, role, granted_by, note, created_at, updated_at, expires_at)
				VALUES ('{a}', '{parked}', '{active}', 'user', 'viewer', '{parked}', '', 0, 0, 0)`,
			want: []string{"A1 grants: {account} | {active}"},
		},
		{
			name: "a lock and properties with another account, and a number of a node that is gone",
			spoil: `INSERT INTO dav_locks (id, node_id, account_id, user_id, scope, deep, made, owner, lasts, created_at, expires_at)
				VALUES ('{parked}', '{a}', '{active}', '{parked}', 'exclusive', 0, 0, '', 1, 1, 9);
				INSERT INTO dav_properties (node_id, space, name, account_id, value, size) VALUES ('{a}', 'urn:x', 'a', '{active}', 'v', 107),
				('{a}', 'urn:x', 'b', '{active}', 'v', 107);
				INSERT INTO node_numbers (node_id) VALUES ('{a}'), ('{active}')`,
			want: []string{"N6 lock: {account} | {active}", "N6 properties: {account} | {active}", "N6 number: no number | a number of a node that is gone"},
		},
		{
			name:  "notices of a user who is gone, how another one wants to be told, and mails that nobody sends",
			spoil: noticesAstray,
			want: []string{
				"E4 notices: none that wait in vain | 2 that wait to be mailed, and no address", "E4 notices: a user | no such user",
				"E4 notices: a user | no such user",
			},
		},
		{
			name:  "notices that no mail goes with",
			spoil: noticesAstray + `; DELETE FROM notices WHERE user_id = '{active}'; DELETE FROM notice_people;` + wishes + `('{user}', 'ann@example.org', 'confirmed', '', 0, 0, 0, 0, 'en', '{}', 0, 0, 0, 0, 0)`,
			want:  []string{"E4 notices: none that wait in vain | 2 that wait to be mailed, and no mail to go with"},
		},
		{
			name: "what an export holds",
			spoil: `INSERT INTO export_pins (export_id, n, account_id, blob_id, size, crc32, mtime, charged)
				SELECT '{active}', 1, account_id, blob_id, size, 0, 0, 0 FROM versions WHERE size = 12`,
			want: []string{"B2 blob: refs 2 | refs 1"},
		},
		{
			name:  "references too many",
			spoil: `UPDATE blobs SET refs = 3 WHERE size = 12`,
			want:  []string{"B2 blob: refs 1 | refs 3"},
		},
		{
			name:  "a version without its blob",
			spoil: `UPDATE versions SET blob_id = '{root}' WHERE size = 12; UPDATE blobs SET refs = 1`,
			want:  []string{"B2 blob: refs 0 | refs 1", "P1 version: blob {root} | no such blob"},
			stays: true,
		},
		{
			name:  "a version of another size",
			spoil: `UPDATE versions SET size = 13 WHERE size = 12; UPDATE ledgers SET finished = finished + 1; DELETE FROM folder_sums`,
			want:  []string{"P1 version: size 12, as its blob has | size 13"},
			stays: true,
		},
		{
			name:  "a version of nobody's node",
			spoil: `INSERT INTO versions SELECT '{active}', '{active}', account_id, blob_id, size, mtime, mime, created_at, created_by FROM versions WHERE size = 12; UPDATE blobs SET refs = 2 WHERE size = 12; UPDATE ledgers SET finished = finished + 12`,
			want:  []string{"N1 version: node {active} | no such node"},
			stays: true,
		},
		{
			name:  "the count of nodes",
			spoil: `UPDATE trees SET node_count = 9`,
			want:  []string{"N2 tree: node count 2 | node count 9"},
		},
		{
			name:  "the sum of a folder, and one of a folder that is gone",
			spoil: `UPDATE folder_sums SET files = 9; INSERT INTO folder_sums VALUES ('{active}', 0, 0, 0, 0)`,
			want:  []string{"N7 sum: 2 files, 0 folders, 5242892 bytes | 9 files, 0 folders, 5242892 bytes", "N7 sum: no sum | a sum of a folder that is gone"},
		},
		{
			name:  "two roots",
			spoil: `UPDATE nodes SET parent_id = NULL WHERE name = 'a'; DELETE FROM folder_sums`,
			want:  []string{"N1 tree: its root and no other | 2 roots", "N1 tree: 2 nodes below its root | 1 nodes below its root"},
			stays: true,
		},
		{
			name:  "a parent that is not there",
			spoil: `UPDATE nodes SET parent_id = '{active}' WHERE name = 'a'; DELETE FROM folder_sums`,
			want:  []string{"N1 tree: 2 nodes below its root | 1 nodes below its root", "N1 node: parent {active} | no such node"},
			stays: true,
		},
		{
			name:  "a file as parent",
			spoil: `UPDATE nodes SET parent_id = '{a}' WHERE name = 'b'; DELETE FROM folder_sums`,
			want:  []string{"N1 node: a folder of its account as parent | a file of account {account}"},
			stays: true,
		},
		{
			name:  "another file's version",
			spoil: `UPDATE nodes SET version_id = (SELECT version_id FROM nodes WHERE name = 'a') WHERE name = 'b'; DELETE FROM folder_sums`,
			want:  []string{"N1 node: a current version of its own | version {va}"},
			stays: true,
		},
		{
			name:  "no version",
			spoil: `UPDATE nodes SET version_id = '{active}' WHERE name = 'b'; DELETE FROM folder_sums`,
			want:  []string{"N1 node: version {active} | no such version"},
			stays: true,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, uploadtest.Options{})
			ids := strings.NewReplacer(
				"{active}", r.active.ID.String(), "{parked}", r.parked.ID.String(), "{account}", r.who.Account.String(),
				"{a}", r.scalar(t, `SELECT id FROM nodes WHERE name = 'a'`), "{va}", r.scalar(t, `SELECT version_id FROM nodes WHERE name = 'a'`),
				"{root}", r.scalar(t, `SELECT root_id FROM trees`), "{user}", r.who.User.String(),
			)
			r.spoil(t, ids.Replace(c.spoil))
			for i, w := range c.want {
				c.want[i] = ids.Replace(w)
			}
			if got, repaired := r.check(t, fsck.Scope{}); repaired != 0 || cmp.Diff(c.want, got) != "" {
				t.Fatalf("only looking, repaired %d, found (-want +got)\n%s", repaired, cmp.Diff(c.want, got))
			}
			got, repaired := r.check(t, fsck.Scope{Repair: true})
			if c.stays {
				return
			}
			if repaired != len(c.want) || cmp.Diff(c.want, got) != "" {
				t.Fatalf("repairing, repaired %d, found (-want +got)\n%s", repaired, cmp.Diff(c.want, got))
			}
			r.wantClean(t)
			r.carriesOn(t)
		})
	}
}

// carriesOn completes both open uploads and checks all balances.
func (r *rig) carriesOn(t *testing.T) {
	t.Helper()
	for n := range 3 {
		if err := r.Send(t, r.who, r.parked, n, r.data); err != nil {
			// The row was repaired while the upload is in memory: the first request notices, the
			// second continues.
			r.send(t, r.parked, n)
		}
		r.send(t, r.active, n)
	}
	r.complete(t, r.parked)
	r.complete(t, r.active)
	if got := r.Balance(t, r.who); got != "15728652/0/0" {
		t.Errorf("balance %s", got)
	}
	r.wantClean(t)
}

func TestUnreferencedBlobGoesToQuarantine(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	file := r.scalar(t, `SELECT file FROM blobs WHERE size = 12`)
	r.spoil(t, `DELETE FROM folder_sums; DELETE FROM versions WHERE size = 12; DELETE FROM nodes WHERE name = 'b';
		UPDATE trees SET node_count = 1; UPDATE ledgers SET finished = finished - 12`)
	if got, repaired := r.check(t, fsck.Scope{Repair: true}); len(got) != 1 || got[0] != "B2 blob: refs 0 | refs 1" || repaired != 1 {
		t.Fatalf("found %v", got)
	}
	if q := r.quarantined(t); len(q) != 1 || !strings.HasSuffix(q[0], file) {
		t.Errorf("quarantine: %v", q)
	}
	if n := r.scalar(t, `SELECT COUNT(*) FROM released`); n != "0" {
		t.Errorf("%s files wait to be deleted", n)
	}
	r.wantClean(t)
}

func TestTimersAreArmedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	r.Queue.Forget()
	got, repaired := r.check(t, fsck.Scope{Repair: true})
	active, parked := r.active.ID.String(), r.parked.ID.String()
	want := []string{
		"P4 upload: timer abandon/" + parked + " | none", "P4 upload: timer park/" + active + " | none", "P4 upload: timer abandon/" + active + " | none",
	}
	if repaired != 3 || cmp.Diff(want, got) != "" {
		t.Fatalf("(-want +got)\n%s", cmp.Diff(want, got))
	}
	r.wantClean(t)
	r.AdvanceAndFire(t, 2*time.Minute)
	if s := r.scalar(t, `SELECT state FROM uploads WHERE id = ?`, r.active.ID); s != "parked" {
		t.Errorf("the upload that went quiet is %s", s)
	}
	if _, err := r.Queue.Show(t.Context(), timer.Key{Kind: timer.Abandon, ID: r.parked.ID}); err != nil {
		t.Errorf("the abandon timer of a parked upload fired too early and is lost: %v", err)
	}
}
