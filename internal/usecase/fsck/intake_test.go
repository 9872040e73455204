package fsck_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// taken inserts the rows of a bundle {done} with a document {doc}; of another with a conflicting
// document of the same key, {torn}; and of a restarted one with its old rows, {anew}.
const taken = `
	INSERT INTO bundles (id, account_id, source, sender_id, folder_id, meta_id, meta_version, state, reason, detail, declared, accepted, rejected,
		surplus, members, checked, save_member, worker, due_at, sealed_at, waits_until, ended_at)
		VALUES ('{done}', '{account}', 'acme', 's1', '{done}', '{done}', '{done}', 'done', '', '', 5, 1, 4, 2, 2, 1, 2, '', 0, {now}, {now}, {now});
	INSERT INTO bundles (id, account_id, source, sender_id, folder_id, meta_id, meta_version, state, reason, detail, declared, conflicts,
		members, checked, save_member, worker, due_at, sealed_at, waits_until)
		VALUES ('{torn}', '{account}', 'acme', 's2', '{torn}', '{torn}', '{torn}', 'running', '', '', 2, 1, 1, 1, 0, '', {now}, {now}, {now});
	INSERT INTO bundles (id, account_id, source, sender_id, folder_id, meta_id, meta_version, state, reason, detail, worker, due_at, sealed_at,
		waits_until)
		VALUES ('{anew}', '{account}', 'acme', 's3', '{anew}', '{anew}', '{anew}', 'sealed', '', '', '', {now}, {now}, {now});
	INSERT INTO bundle_members (bundle_id, n, name, size, type, sha256, documents, node_id, state, reason)
		VALUES ('{done}', 1, 'a.ndjson', 9, '', '', 5, '{a}', 'pending', ''), ('{done}', 2, 'a.pdf', 9, '', '', 0, '{b}', 'pending', ''),
		('{torn}', 1, 'a.ndjson', 9, '', '', 2, '{a}', 'pending', ''), ('{anew}', 1, 'x', 9, '', '', 7, '{a}', 'pending', '');
	INSERT INTO documents (id, account_id, source, doc_key, hash, bundle_id, member, idx, type, number, dated, seller_id, seller_name, buyer_id,
		buyer_name, currency, total, payable, total_e4, state, file_id, pdf_id, search, body, created_at, updated_at)
		VALUES ('{doc}', '{account}', 'acme', 'key', 'hash', '{done}', 1, 0, '380', '1', '2026-10-31', '', '', '', '', 'EUR', '1', '1', 10000,
		'conflict', '{a}', '{b}', '', 'body', {now}, {now});
	INSERT INTO document_conflicts (id, account_id, document_id, hash, bundle_id, member, idx, file_id, body, state, created_at)
		VALUES ('{side}', '{account}', '{doc}', 'other', '{torn}', 1, 0, '{a}', 'body', 'open', {now});
	INSERT INTO bundle_records (bundle_id, member, idx, outcome, reason, counts, document_id, number, findings)
		VALUES ('{done}', 1, 0, 'accepted', '', 1, '{doc}', '1', ''), ('{done}', 1, 1, 'rejected', 'absent', 4, NULL, '', ''),
		('{done}', 1, 5, 'rejected', 'surplus', 2, NULL, '', ''), ('{torn}', 1, 0, 'conflict', '', 1, '{doc}', '1', ''),
		('{anew}', 1, 0, 'duplicate', '', 7, '{doc}', '1', '')`

// Planted defects of intake rows, their findings, and whether they can be repaired.
func TestRowsOfTheIntake(t *testing.T) {
	t.Parallel()
	const ledger = "5 = 1 accepted + 4 rejected + 0 duplicates + 0 conflicts"
	cases := []struct {
		name    string
		spoil   string
		want    []string
		repairs int
		sqlite  bool // the CHECK of a MySQL server prevents it
	}{
		{name: "nothing"},
		{name: "a file that its owner has purged", spoil: `UPDATE documents SET file_id = '{side}', pdf_id = NULL`},
		{name: "an account that is being purged", spoil: `UPDATE bundles SET account_id = '{side}'; DELETE FROM bundle_records;
			UPDATE documents SET account_id = '{side}'; UPDATE document_conflicts SET account_id = '{side}'; DELETE FROM documents`},
		{
			name:  "counts that no record has",
			spoil: `UPDATE bundles SET accepted = 2, rejected = 3 WHERE id = '{done}'`,
			want:  []string{"K2 bundle: " + ledger + " | 5 = 2 accepted + 3 rejected + 0 duplicates + 0 conflicts"},
		},
		{
			name:  "a record that is gone, of a bundle on its way",
			spoil: `DELETE FROM bundle_records WHERE bundle_id = '{torn}'`,
			want: []string{
				"K2 bundle: 2 = 0 accepted + 0 rejected + 0 duplicates + 0 conflicts | 2 = 0 accepted + 0 rejected + 0 duplicates + 1 conflicts",
			},
		},
		{
			name:   "documents that are not counted",
			spoil:  `UPDATE bundles SET rejected = 3 WHERE id = '{done}'; UPDATE bundle_records SET counts = 3 WHERE counts = 4`,
			want:   []string{"K2 bundle: every declared document counted | 5 = 1 accepted + 3 rejected + 0 duplicates + 0 conflicts"},
			sqlite: true,
		},
		{
			name:  "a member that is gone",
			spoil: `DELETE FROM bundle_members WHERE bundle_id = '{done}' AND n = 2`,
			want:  []string{"K2 bundle: 1 members that declare 5 | 2 members that declare 5"},
		},
		{
			name:  "a member that declares something else",
			spoil: `UPDATE bundle_members SET documents = 6 WHERE bundle_id = '{done}' AND n = 1`,
			want:  []string{"K2 bundle: 2 members that declare 6 | 2 members that declare 5"},
		},
		{
			name:  "an end before the last member",
			spoil: `UPDATE bundles SET save_member = 1 WHERE id = '{done}'`,
			want:  []string{"K2 bundle: 2 members dealt with | done with 1"},
		},
		{
			name:  "no end",
			spoil: `UPDATE bundles SET waits_until = {now} - 86400001, reason = 'members-missing' WHERE id = '{anew}'`,
			want:  []string{"K5 bundle: an end within a day | sealed members-missing"},
		},
		{
			name:  "a document that is gone",
			spoil: `DELETE FROM documents`,
			want: []string{
				"K6 bundle: a document for each record that names one | 1 of them without",
				"K6 bundle: a document for each record that names one | 1 of them without",
				"K6 bundle: a document for each record that names one | 1 of them without",
				"K6 conflict: a document of its account | none",
			},
		},
		{
			name: "a document that was accepted twice",
			spoil: `UPDATE bundle_records SET outcome = 'accepted' WHERE bundle_id = '{torn}';
				UPDATE bundles SET accepted = 1, conflicts = 0 WHERE id = '{torn}'`,
			want: []string{"K3 document: accepted once | accepted 2 times"},
		},
		{
			name:  "a document and a conflict of no bundle",
			spoil: `UPDATE documents SET bundle_id = '{side}'; UPDATE document_conflicts SET bundle_id = '{side}'`,
			want:  []string{"K6 document: a bundle that it came with | none", "K6 conflict: a bundle of its account | none"},
		},
		{
			name:  "a folder as file, and another account's",
			spoil: `UPDATE documents SET file_id = '{root}', account_id = '{second}'; UPDATE document_conflicts SET account_id = '{second}'`,
			want: []string{
				"K6 document: a bundle of its account | one of account {account}",
				"K6 document: files of its account | a folder of account {account}",
				"K6 document: files of its account | a file of account {account}",
				"K6 conflict: a bundle of its account | one of account {account}",
			},
		},
		{
			name: "files of an account that are on their way to another one",
			spoil: `INSERT INTO operations (id, account_id, user_id, kind, args, state, done, total, error, created_at, updated_at)
				VALUES ('{torn}', '{account}', '{account}', 'handover', '{}', 'running', 0, 0, '', {now}, {now});
				UPDATE nodes SET account_id = '{second}', parent_id = (SELECT root_id FROM trees WHERE account_id = '{second}') WHERE id IN ('{a}', '{b}');
				UPDATE versions SET account_id = '{second}' WHERE node_id IN ('{a}', '{b}');
				UPDATE ledgers SET finished = (SELECT SUM(size) FROM versions) - finished WHERE account_id IN ('{account}', '{second}');
				UPDATE trees SET node_count = 2 - node_count WHERE account_id IN ('{account}', '{second}'); DELETE FROM folder_sums`,
		},
		{
			name:    "a conflict that its document does not know of",
			spoil:   `UPDATE documents SET state = 'accepted'`,
			want:    []string{"K6 document: conflict, as its conflicts say | accepted"},
			repairs: 1,
		},
		{
			name:    "a document in conflict with nothing",
			spoil:   `UPDATE document_conflicts SET state = 'discarded'`,
			want:    []string{"K6 document: accepted, as its conflicts say | conflict"},
			repairs: 1,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.sqlite {
				sqldbtest.SQLiteOnly(t, "a CHECK of the database keeps it from being done")
			}
			r := newRig(t, uploadtest.Options{})
			r.Clock.Advance(time.Minute)
			id := func() string { return drive.NewID[drive.BundleID]().String() }
			ids := strings.NewReplacer(
				"{account}", r.who.Account.String(), "{second}", r.Account(t, 0).Account.String(), "{now}", strconv.FormatInt(int64(drive.TimeOf(r.Clock.Now())), 10),
				"{a}", r.scalar(t, `SELECT id FROM nodes WHERE name = 'a'`), "{b}", r.scalar(t, `SELECT id FROM nodes WHERE name = 'b'`),
				"{root}", r.scalar(t, `SELECT root_id FROM trees WHERE account_id = ?`, r.who.Account),
				"{done}", id(), "{torn}", id(), "{anew}", id(), "{doc}", id(), "{side}", id(),
			)
			r.spoil(t, ids.Replace(taken))
			r.wantClean(t)
			if c.spoil != "" {
				r.spoil(t, ids.Replace(c.spoil))
			}
			for i, w := range c.want {
				c.want[i] = ids.Replace(w)
			}
			if got, repaired := r.check(t, fsck.Scope{}); repaired != 0 || cmp.Diff(c.want, got) != "" {
				t.Fatalf("only looking, repaired %d, found (-want +got)\n%s", repaired, cmp.Diff(c.want, got))
			}
			if got, repaired := r.check(t, fsck.Scope{Repair: true}); repaired != c.repairs || cmp.Diff(c.want, got) != "" {
				t.Fatalf("repairing, repaired %d, found (-want +got)\n%s", repaired, cmp.Diff(c.want, got))
			}
			if c.repairs > 0 {
				r.wantClean(t)
			}
		})
	}
}
