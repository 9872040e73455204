package main

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/test/history"
)

// fixture is a hand-made data directory and the log of a client.
type fixture struct {
	t       *testing.T
	dir     string
	db      *sql.DB
	records []history.Record
}

const (
	// The last two digits of an id are the directory of its file.
	sealedID = "00000000-0000-7000-8000-0000000000a1" // a completed upload; also the name of its blob's file
	smallID  = "00000000-0000-7000-8000-0000000000a2"
	openID   = "00000000-0000-7000-8000-0000000000a3" // active; part 1 of 2 was received
	quietID  = "00000000-0000-7000-8000-0000000000a4" // parked; part 0 of 1 was received
	goneID   = "00000000-0000-7000-8000-0000000000a5"
	begun    = 1_800_000_000_000 // Unix ms: 2027-01-15
	part     = 1 << 20
)

var (
	sealed = history.Content{Seed: 1, Size: part + 100}
	small  = history.Content{Seed: 2, Size: 3000}
	coming = history.Content{Seed: 3, Size: part + 7}
	parked = history.Content{Seed: 4, Size: 500}
)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	db, err := sql.Open("sqlite", filepath.Join(f.dir, databaseFile))
	if err != nil {
		t.Fatal(err)
	}
	f.db = db
	t.Cleanup(func() { db.Close() })
	f.migrate()
	f.exec(`INSERT INTO accounts VALUES ('acc', 1);
		INSERT INTO users (id, account_id, name, slot, password, admin, state, created_at, updated_at) VALUES ('u', 'acc', 'ann', 'ann', '', 0, 'active', 1, 1);
		INSERT INTO trees (account_id, root_id, seq, forgotten, node_count) VALUES ('acc', 'root', 9, 0, 3);
		INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, version_id, mtime, rev, seq, created_at, updated_at) VALUES
			('root', 'acc', NULL, '', '', '', 'folder', NULL, 0, 1, 1, 0, 0), ('dir', 'acc', 'root', 'c0', 'c0', 'c0', 'folder', NULL, 0, 1, 1, 0, 0)`)
	f.file("n1", "big", sealedID, sealed)
	f.file("n2", "small", "put-3-"+smallID, small)
	f.upload(sealedID, "big", "done", sealed, `node_id = 'n1', ended_at = 5`)
	f.upload(openID, "coming", "active", coming, fmt.Sprintf(`reserved = %d`, coming.Size))
	f.upload(quietID, "quiet", "parked", parked, fmt.Sprintf(`held = %d`, parked.Size))
	f.upload(goneID, "lost", "gone", parked, `reason = 'cancelled', ended_at = 7`)
	f.stage(openID, coming, 1)
	f.stage(quietID, parked, 0)
	f.exec(fmt.Sprintf(`INSERT INTO ledgers VALUES ('acc', 10000000, %d, %d, %d, 1)`, sealed.Size+small.Size, parked.Size, coming.Size))
	for seq := 3; seq <= 9; seq++ {
		f.happened(seq, "node.moved", "{}")
	}
	f.happened(0, "upload.done", `{"upload":"`+sealedID+`"}`)
	f.happened(0, "upload.gone", `{"upload":"`+goneID+`"}`)
	f.tellAll()
	return f
}

func (f *fixture) happened(seq int, verb, data string) {
	f.exec(`INSERT INTO activity (salt, account_id, seq, at, verb, user_id, session_id, head, address, node_id, folder_id, name, data)
		VALUES (1, 'acc', ?, 1, ?, 'u', '', 'api', '', 'x', 'dir', 'x', ?)`, seq, verb, data)
}

func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Exec(query, args...); err != nil {
		f.t.Fatalf("%s: %v", query, err)
	}
}

// migrate runs the SQL of the server's migrations.
func (f *fixture) migrate() {
	names, err := filepath.Glob("../../internal/engine/sqldb/migrations/sqlite/*.sql")
	if err != nil || len(names) == 0 {
		f.t.Fatalf("no migrations: %v", err)
	}
	slices.Sort(names)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.t.Fatal(err)
		}
		_, up, _ := strings.Cut(string(b), "-- +goose Up")
		up, _, _ = strings.Cut(up, "-- +goose Down")
		f.exec(up)
	}
}

func (f *fixture) write(path string, b []byte) {
	f.t.Helper()
	path = filepath.Join(f.dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func blobPath(file string) string { return "blobs/" + file[len(file)-2:] + "/" + file }

// file adds a file with one version and its blob.
func (f *fixture) file(node, name, file string, c history.Content) {
	b := c.Bytes(0, c.Size)
	f.write(blobPath(file), b)
	var parts []byte
	for slice := range slices.Chunk(b, part) {
		parts = append(parts, make([]byte, 32)...)
		parts = binary.LittleEndian.AppendUint32(parts, crc32.ChecksumIEEE(slice))
	}
	f.exec(`INSERT INTO blobs (id, file, algo, digest, size, part_size, crc32, refs, created_at, scrubbed_at, parts) VALUES (?, ?, 'blake3', ?, ?, ?, ?, 1, 1, 1, ?)`,
		"b-"+node, file, c.Digest(), c.Size, part, crc32.ChecksumIEEE(b), parts)
	f.exec(`INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, version_id, mtime, rev, seq, created_at, updated_at)
		VALUES (?, 'acc', 'dir', ?, ?, ?, 'file', ?, 0, 1, 2, 0, 0)`, node, name, name, name, "v-"+node)
	f.exec(`INSERT INTO versions VALUES (?, ?, 'acc', ?, ?, 0, '', 0, 'u')`, "v-"+node, node, "b-"+node, c.Size)
}

// upload adds a row of uploads; set is an SQL list of further columns.
func (f *fixture) upload(id, name, state string, c history.Content, set string) {
	f.exec(`INSERT INTO uploads (id, account_id, user_id, parent_id, name, conflict, size, part_size, mtime, mime, fingerprint, digests, state, gen, reserved, held, created_at, active_at)
		VALUES (?, 'acc', 'u', 'dir', ?, 'fail', ?, ?, 0, '', ?, '{}', ?, 1, 0, 0, ?, ?)`, id, name, c.Size, part, "fp-"+id, state, begun, begun)
	f.exec(`UPDATE uploads SET `+set+` WHERE id = ?`, id)
}

// frame encodes a frame of a journal.
func frame(kind byte, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(len(payload)))
	b = append(append(b, kind, 1), payload...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func partFrame(n int, b []byte) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(n))
	p = append(p, 0)
	p = binary.LittleEndian.AppendUint64(p, 1)
	p = binary.LittleEndian.AppendUint64(p, uint64(len(b)))
	p = binary.LittleEndian.AppendUint32(p, crc32.ChecksumIEEE(b))
	return frame(journalPart, append(p, make([]byte, 56)...))
}

func stagingPath(id string) string {
	return "staging/" + time.UnixMilli(begun).UTC().Format("2006/01/02") + "/" + id + "/"
}

// stage writes part n of an upload to its staging.
func (f *fixture) stage(id string, c history.Content, n int) {
	b := c.Bytes(int64(n)*part, min(part, c.Size-int64(n)*part))
	f.write(stagingPath(id)+"data", append(make([]byte, n*part), b...))
	f.write(stagingPath(id)+"journal", append(frame(journalHeader, []byte("SDJOURNL and more")), partFrame(n, b)...))
}

// tell adds a record to the log.
func (f *fixture) tell(phase history.Phase, r history.Record) {
	r.User, r.Client, r.Phase, r.At = "ann", "c0", phase, begun+1000
	f.records = append(f.records, r)
}

// ack logs an acknowledged action.
func (f *fixture) ack(r history.Record) {
	r.Op = int64(len(f.records) + 1)
	intent := r
	if r.Do == history.Begin {
		intent.Upload = ""
		r.Status = http.StatusCreated
	}
	intent.Node = ""
	f.tell(history.Intent, intent)
	f.tell(history.Done, r)
}

// tellAll logs the history that leads to the fixture's directory.
func (f *fixture) tellAll() {
	f.ack(history.Record{Do: history.Put, Path: "/c0/small", Seed: small.Seed, Size: small.Size, Node: "n2"})
	for _, u := range []struct {
		id, name string
		c        history.Content
		parts    []int
	}{{sealedID, "big", sealed, []int{0, 1}}, {openID, "coming", coming, []int{1}}, {quietID, "quiet", parked, []int{0}}, {goneID, "lost", parked, nil}} {
		f.ack(history.Record{Do: history.Begin, Path: "/c0/" + u.name, Seed: u.c.Seed, Size: u.c.Size, Upload: u.id, Fingerprint: "fp-" + u.id})
		for _, n := range u.parts {
			f.ack(history.Record{Do: history.Part, Upload: u.id, Part: n})
		}
	}
	f.ack(history.Record{Do: history.Complete, Upload: sealedID, Path: "/c0/big", Seed: sealed.Seed, Size: sealed.Size, Node: "n1"})
	f.ack(history.Record{Do: history.Cancel, Upload: goneID})
}

// TestSoundDirectory: a correct directory has no findings. Otherwise all other tests would be
// meaningless.
func TestSoundDirectory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rep, err := check(options{data: f.dir, blobs: f.dir, abandon: time.Second}, f.records)
	if err != nil || len(rep.findings) > 0 {
		t.Fatalf("%v %v", rep.findings, err)
	}
	if rep.hashed != 2 || rep.uploads != 4 || rep.accounts != 1 {
		t.Errorf("it has looked at %+v", rep)
	}
}

// TestDamageIsFound: each kind of damage is reported under its invariant.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	sql := func(query string) func(*fixture) { return func(f *fixture) { f.exec(query) } }
	for name, tc := range map[string]struct {
		want   string // the invariant and a word of the text
		damage func(*fixture)
	}{
		"finished is off by one":           {"Q1: ", sql(`UPDATE ledgers SET finished = finished + 1`)},
		"reserved is off by one":           {"Q2: ", sql(`UPDATE ledgers SET reserved = reserved - 1`)},
		"unfinished is off by one":         {"Q3: ", sql(`UPDATE ledgers SET unfinished = unfinished + 1`)},
		"more than the total":              {"Q4: ", sql(`UPDATE ledgers SET total = 5000`)},
		"an account without a ledger":      {"Q1: ", sql(`DELETE FROM ledgers`)},
		"a reference too many":             {"B2: ", sql(`UPDATE blobs SET refs = 2 WHERE id = 'b-n1'`)},
		"a blob that nobody needs":         {"B2: ", sql(`INSERT INTO blobs SELECT 'x', '` + goneID + `', algo, digest, 1, part_size, crc32, 1, 1, 1, 0, parts FROM blobs WHERE id = 'b-n1'`)},
		"released and in use":              {"B2: ", sql(`INSERT INTO released VALUES ('` + sealedID + `', 1, 1)`)},
		"a parked one with a reservation":  {"Q2: ", sql(`UPDATE uploads SET reserved = 1 WHERE state = 'parked'`)},
		"parked for less than it has":      {"Q3: upload", sql(`UPDATE uploads SET held = 10 WHERE state = 'parked'; UPDATE ledgers SET unfinished = 10`)},
		"done without a node":              {"P4: ", sql(`UPDATE uploads SET node_id = NULL WHERE state = 'done'`)},
		"gone without a reason":            {"P4: ", sql(`UPDATE uploads SET reason = '' WHERE state = 'gone'`)},
		"a file without a version":         {"P3: ", sql(`UPDATE nodes SET version_id = 'nope' WHERE id = 'n1'`)},
		"a node count that is wrong":       {"P3: ", sql(`UPDATE trees SET node_count = 7`)},
		"done again as another node":       {"P4: ", sql(`UPDATE uploads SET node_id = 'n2' WHERE state = 'done'`)},
		"a cancelled one lives":            {"P4: ", sql(`UPDATE uploads SET state = 'reclaiming', reason = 'abandoned', ended_at = 0 WHERE state = 'gone'; UPDATE uploads SET state = 'active', reason = '', reserved = 500 WHERE state = 'reclaiming'`)},
		"nobody has begun it":              {"log: nobody", sql(`UPDATE uploads SET id = 'x-x-x-x-x', fingerprint = 'y' WHERE state = 'gone'`)},
		"one upload made twice":            {"I1: ", sql(`UPDATE uploads SET fingerprint = 'fp'`)},
		"an acknowledged file is missing":  {"log: the files", sql(`DELETE FROM versions WHERE node_id = 'n2'; DELETE FROM nodes WHERE id = 'n2'`)},
		"an acknowledged file is trashed":  {"log: the files", sql(`UPDATE nodes SET trashed_at = 5, slot = '/n2' WHERE id = 'n2'`)},
		"a file has another content":       {"log: the files", sql(`UPDATE versions SET blob_id = 'b-n1' WHERE node_id = 'n2'`)},
		"a file has a version too many":    {"log: the files", sql(`INSERT INTO versions VALUES ('v-0', 'n2', 'acc', 'b-n1', 5, 0, '', 0, 'u')`)},
		"a file has another place":         {"log: the files", sql(`UPDATE nodes SET name = 'other', slot = 'other' WHERE id = 'n2'`)},
		"a folder out of nowhere":          {"log: account", sql(`UPDATE nodes SET name = 'else', slot = 'else' WHERE id = 'dir'`)},
		"the database is of another place": {"SQL: ", sql(`PRAGMA foreign_keys = 0; INSERT INTO ledgers (account_id) VALUES ('nobody')`)},

		"a change that nobody was told of":  {"E1: ", sql(`DELETE FROM activity WHERE seq = 5`)},
		"the last change was not told":      {"E1: ", sql(`DELETE FROM activity WHERE seq = 9`)},
		"a change was told twice":           {"E1: ", sql(`INSERT INTO activity SELECT 100, salt, account_id, 9, at, verb, user_id, session_id, head, address, node_id, folder_id, name, data FROM activity WHERE seq = 9`)},
		"a change was told as another's":    {"E1: ", sql(`UPDATE nodes SET seq = 5 WHERE id = 'n1'`)},
		"a deletion was told as a move":     {"E1: ", sql(`INSERT INTO tombstones VALUES ('acc', 5, 'x', 1)`)},
		"the end of an upload was not told": {"E1: ", sql(`DELETE FROM activity WHERE verb = 'upload.gone'`)},
		"an end was told that has not come": {"E1: ", sql(`INSERT INTO activity (salt, account_id, seq, at, verb, user_id, session_id, head, address, node_id, folder_id, name, data)
			SELECT 1, account_id, 0, 1, 'upload.done', 'u', '', 'api', '', '', '', '', json_object('upload', id) FROM uploads WHERE state = 'active'`)},

		"a number of a node that is gone": {"N6: x (node) has a number", sql(`INSERT INTO node_numbers (node_id) VALUES ('x')`)},
		"a sum of a folder that is gone":  {"N7: x (folder) has a sum", sql(`INSERT INTO folder_sums VALUES ('x', 0, 0, 0, 0)`)},
		"a sum that is wrong":             {"N7: dir (folder) has a sum that", sql(`INSERT INTO folder_sums VALUES ('dir', 9, 1, 0, 1)`)},
		"a sum above one that is missing": {"N7: root (folder) has a sum, and", sql(`INSERT INTO folder_sums VALUES ('root', 9, 2, 1, 3)`)},
		"a lock in another account":       {"N6: l (lock) is", sql(`INSERT INTO dav_locks VALUES ('l', 'n1', 'other', 'u', 'exclusive', 0, 0, '', 1, 1, 9)`)},
		"two exclude each other":          {"N6: m (lock) was", sql(`INSERT INTO dav_locks VALUES ('l', 'n1', 'acc', 'u', 'exclusive', 0, 0, '', 1, 1, 9), ('m', 'n1', 'acc', 'v', 'shared', 0, 0, '', 1, 5, 19)`)},
		"a property of another account":   {"N6: n1 (node) has properties", sql(`INSERT INTO dav_properties VALUES ('n1', 'urn:x', 'a', 'other', 'v', 107)`)},
		"a property of another size":      {"N6: n1 (node) has properties", sql(`INSERT INTO dav_properties VALUES ('n1', 'urn:x', 'a', 'acc', 'v', 106)`)},

		"a bit of a blob flips":          {"B1: blob", func(f *fixture) { f.flip(blobPath(sealedID), 77) }},
		"a blob is cut":                  {"P1: blob", func(f *fixture) { f.cut(blobPath(sealedID), 5) }},
		"a blob is missing":              {"P1: blob", func(f *fixture) { f.remove(blobPath(sealedID)) }},
		"a blob in another directory":    {"B3: ", func(f *fixture) { f.write("blobs/00/"+smallID, nil) }},
		"bytes that nothing explains":    {"B3: nothing", func(f *fixture) { f.write(blobPath(goneID), nil) }},
		"bytes in quarantine":            {"B3: ", func(f *fixture) { f.write("quarantine/2027-01-15/x", nil) }},
		"a small file without a row":     {"leftover B3: ", func(f *fixture) { f.write(blobPath("put-2-"+goneID), nil) }},
		"a staging of one that is gone":  {"leftover B3: the staging", func(f *fixture) { f.stage(goneID, parked, 0) }},
		"a staging without a row":        {"leftover B3: staging", func(f *fixture) { f.stage("00000000-0000-7000-8000-0000000000ff", parked, 0) }},
		"a staging at another date":      {"B3: ", func(f *fixture) { f.write("staging/2027/01/16/"+openID+"/data", nil) }},
		"something else in the stagings": {"B3: ", func(f *fixture) { f.write("staging/2027/notes", nil) }},
		"a staged bit flips":             {"P2: upload", func(f *fixture) { f.flip(stagingPath(quietID)+"data", 3) }},
		"staged bytes are missing":       {"P1: upload", func(f *fixture) { f.remove(stagingPath(openID) + "data") }},
		"a journal is missing":           {"P1: upload", func(f *fixture) { f.remove(stagingPath(openID) + "journal") }},
		"a journal is nonsense":          {"P1: upload", func(f *fixture) { f.write(stagingPath(openID)+"journal", []byte("nonsense nonsense")) }},
		"a part is forgotten":            {"P2: part 1", func(f *fixture) { f.cut(stagingPath(openID)+"journal", 3) }},
		"another upload's part": {"P2: part 1", func(f *fixture) {
			f.stage(openID, history.Content{Seed: 99, Size: coming.Size}, 1)
		}},
		"a part that nobody has sent": {"log: part 0", func(f *fixture) { f.stage(openID, coming, 0) }},
		"a part is not shown to its owner": {"P2: part 1", func(f *fixture) {
			f.tell(history.Seen, history.Record{Do: history.LookUpload, Upload: openID, State: "parked", Received: []int{0}})
		}},
		"given up too early": {"T1: ", func(f *fixture) {
			f.records = slices.DeleteFunc(f.records, func(r history.Record) bool { return r.Do == history.Cancel })
			f.exec(`UPDATE uploads SET reason = 'abandoned', ended_at = ? WHERE state = 'gone'`, begun+1900)
		}},
		"cancelled by nobody": {"P4: ", func(f *fixture) {
			f.records = slices.DeleteFunc(f.records, func(r history.Record) bool { return r.Do == history.Cancel })
		}},
		"completed by nobody": {"P4: ", func(f *fixture) {
			f.records = slices.DeleteFunc(f.records, func(r history.Record) bool { return r.Do == history.Complete })
		}},
		"an acknowledged upload has no row": {"P4: ", sql(`DELETE FROM uploads WHERE state = 'gone'`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tc.damage(f)
			rep, err := check(options{data: f.dir, blobs: f.dir, abandon: time.Second}, f.records)
			if err != nil {
				t.Fatal(err)
			}
			hit := func(found finding) bool { return strings.HasPrefix(found.String(), tc.want) }
			if !slices.ContainsFunc(rep.findings, hit) {
				t.Errorf("want a finding %q, got %v", tc.want, rep.findings)
			}
			if leftover := strings.HasPrefix(tc.want, "leftover"); rep.failed(false) == leftover || !rep.failed(true) {
				t.Errorf("a leftover fails only when it is strict: %v", rep.findings)
			}
		})
	}
}

// change rewrites a file with fn.
func (f *fixture) change(path string, fn func([]byte) []byte) {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, filepath.FromSlash(path)))
	if err != nil {
		f.t.Fatal(err)
	}
	f.write(path, fn(b))
}

func (f *fixture) flip(path string, at int) {
	f.change(path, func(b []byte) []byte { b[at] ^= 1; return b })
}

func (f *fixture) cut(path string, bytes int) {
	f.change(path, func(b []byte) []byte { return b[:len(b)-bytes] })
}

func (f *fixture) remove(path string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, filepath.FromSlash(path))); err != nil {
		f.t.Fatal(err)
	}
}
