package cluster

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"lukechampine.com/blake3"

	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/process"
)

// judge checks the state of a cluster directly, without its instances and the faulty network.
type judge struct {
	t      *testing.T
	db     *sql.DB
	s3     *minio.Core
	bucket string
}

func newJudge(t *testing.T, c *rig.Cluster) *judge {
	t.Helper()
	j := &judge{t: t, db: mysqlClient(t, c)}
	j.s3, j.bucket = s3Client(t, c)
	return j
}

// judge stops the instances in order, fails the test for every inconsistency, and restarts the last
// instance to run fsck. A repair deletes the leftovers of killed instances that an auditor may
// delete.
func (j *judge) judge(nodes ...*node) {
	j.t.Helper()
	for _, n := range nodes {
		n.End(j.t)
	}
	j.sums()
	j.contents()
	j.strays()
	if j.t.Failed() {
		return
	}
	n := nodes[len(nodes)-1]
	n.Server = n.site.Start(j.t)
	if r := n.site.Admin(j.t, "", "fsck", "--repair", "--deep"); r.Code != 0 {
		j.t.Errorf("fsck --repair --deep: %s", r)
	}
	if left := j.strays(); left > 0 {
		j.t.Errorf("%d leftovers stay after a repair", left)
	}
	if r := n.site.Admin(j.t, "", "fsck", "--deep"); r.Code != 0 {
		j.t.Errorf("fsck --deep after a repair: %s", r)
	}
}

// rules maps names to queries that count violations.
var rules = map[string]string{
	"Q1 finished":   "SELECT COUNT(*) FROM ledgers l WHERE finished <> (SELECT COALESCE(SUM(size), 0) FROM versions v WHERE v.account_id = l.account_id)",
	"Q2 reserved":   "SELECT COUNT(*) FROM ledgers l WHERE reserved <> (SELECT COALESCE(SUM(reserved), 0) FROM uploads u WHERE u.account_id = l.account_id AND state IN ('active', 'sealing'))",
	"Q3 unfinished": "SELECT COUNT(*) FROM ledgers l WHERE unfinished <> (SELECT COALESCE(SUM(held), 0) FROM uploads u WHERE u.account_id = l.account_id AND state IN ('parked', 'reclaiming'))",
	"Q4 total":      "SELECT COUNT(*) FROM ledgers WHERE finished + unfinished + reserved > total",
	"P1 lost":       "SELECT COUNT(*) FROM uploads WHERE reason = 'lost'",
	"P4 amounts":    "SELECT COUNT(*) FROM uploads WHERE state IN ('done', 'gone') AND (reserved <> 0 OR held <> 0) OR state IN ('parked', 'reclaiming') AND reserved <> 0 OR state IN ('active', 'sealing') AND held <> 0",
	"P4 ending":     "SELECT COUNT(*) FROM uploads WHERE (state = 'done') <> (node_id IS NOT NULL) OR (state IN ('reclaiming', 'gone')) <> (reason <> '') OR (state IN ('done', 'gone')) <> (ended_at > 0)",
	"B2 refs":       "SELECT COUNT(*) FROM blobs b WHERE refs <> (SELECT COUNT(*) FROM versions v WHERE v.blob_id = b.id) OR damaged_at > 0",
	"P1 versions":   "SELECT COUNT(*) FROM versions v LEFT JOIN blobs b ON b.id = v.blob_id WHERE b.id IS NULL OR b.size <> v.size",
	"B3 released":   "SELECT COUNT(*) FROM released r JOIN blobs b ON b.file = r.file",
	"N1 parents":    "SELECT COUNT(*) FROM nodes n LEFT JOIN nodes up ON up.id = n.parent_id WHERE n.parent_id IS NOT NULL AND (up.id IS NULL OR up.type <> 'folder' OR up.account_id <> n.account_id)",
	"N1 versions":   "SELECT COUNT(*) FROM nodes n LEFT JOIN versions v ON v.id = n.version_id AND v.node_id = n.id WHERE n.type = 'file' AND v.id IS NULL",
	"N2 count":      "SELECT COUNT(*) FROM trees t WHERE node_count <> (SELECT COUNT(*) - 1 FROM nodes n WHERE n.account_id = t.account_id)",
	"dead letters":  "SELECT COUNT(*) FROM dead_letters",
}

// sums compares balances with the rows that they summarize, and rows with each other.
func (j *judge) sums() {
	j.t.Helper()
	for what, query := range rules {
		var wrong int64
		if err := j.db.QueryRowContext(j.t.Context(), query).Scan(&wrong); err != nil || wrong != 0 {
			j.t.Errorf("%s: %d rows are wrong, %v", what, wrong, err)
		}
	}
}

// contents reads the object of every content and compares its BLAKE3 (P1, B1).
func (j *judge) contents() {
	j.t.Helper()
	n, sum := 0, int64(0)
	j.each(`SELECT file, digest, size FROM blobs`, func(scan func(...any) error) error {
		var file, digest string
		var size int64
		if err := scan(&file, &digest, &size); err != nil {
			return err
		}
		got, read, err := j.hash(file)
		if err != nil || got != digest || read != size {
			j.t.Errorf("P1: %s of %d bytes has %d, digest %s instead of %s, %v", file, size, read, got, digest, err)
		}
		n, sum = n+1, sum+read
		return nil
	})
	j.t.Logf("read %d contents of %d bytes", n, sum)
}

// place returns the object key of a content: the directory is the last two digits of its name, or
// of its pack's name.
func place(file string) string {
	stem, _, _ := strings.Cut(file, ".")
	return "blobs/" + stem[len(stem)-2:] + "/" + file
}

// hash returns the BLAKE3 and the size of a content.
func (j *judge) hash(file string) (digest string, size int64, err error) {
	body, err := j.open(file)
	if err != nil {
		return "", 0, err
	}
	defer body.Close()
	h := blake3.New(32, nil)
	size, err = io.Copy(h, body)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// open opens a content in its own object or in a pack.
func (j *judge) open(file string) (io.ReadCloser, error) {
	if stem, _, packed := strings.Cut(file, "."); packed {
		for key := range j.objectsOf(place(stem + packSuffix)) { // usually one; more after a rewrite
			if content, there := j.pack(key)[file]; there {
				return io.NopCloser(bytes.NewReader(content)), nil
			}
		}
	}
	body, _, _, err := j.s3.GetObject(j.t.Context(), j.bucket, place(file), minio.GetObjectOptions{})
	return body, err
}

// packSuffix ends the name of an object with several contents. A rewritten pack has a dot and
// digits after it.
const packSuffix = ".pack"

// pack returns the contents of a pack by their names (docs/formats/pack.md).
func (j *judge) pack(key string) map[string][]byte {
	j.t.Helper()
	all := map[string][]byte{}
	body, _, _, err := j.s3.GetObject(j.t.Context(), j.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return all
	}
	defer body.Close()
	object, err := io.ReadAll(body)
	if err != nil || len(object) < 4096 || string(object[:4]) != "SDPI" {
		j.t.Errorf("%s of %d bytes is no pack, %v", key, len(object), err)
		return all
	}
	le := binary.LittleEndian
	stem, _, _ := strings.Cut(path.Base(key), packSuffix)
	for i := range le.Uint32(object[24:]) {
		e := object[32+8*i:]
		first, at, size := le.Uint16(e), 512*int(le.Uint16(e[2:])), int(le.Uint32(e[4:]))
		all[fmt.Sprintf("%s.%04x.%02x", stem, first, (size+40+511)/512)] = object[at+40 : at+40+size]
	}
	return all
}

// strays reports objects that no row explains, and returns the number of leftovers that an auditor
// may delete later.
func (j *judge) strays() (leftovers int) {
	j.t.Helper()
	explained := map[string]bool{}
	j.each(`SELECT file FROM blobs UNION SELECT file FROM released UNION SELECT id FROM uploads WHERE state NOT IN ('done', 'gone')`, func(scan func(...any) error) error {
		var file string
		err := scan(&file)
		explained[place(file)] = true
		return err
	})
	for key := range j.keys() {
		switch {
		case explained[key], key == "installation":
		case strings.HasPrefix(path.Base(key), "put-"):
			j.t.Logf("leftover %s", key)
			leftovers++
		default:
			j.t.Errorf("B3: nothing explains %s", key)
		}
	}
	for key := range j.multiparts() {
		id := path.Base(key)
		switch story := j.story(id); {
		case explained[key]:
		case story == "" && young(id):
			j.t.Logf("begun and never told: %s", key)
		default:
			j.t.Logf("leftover: parts of %s, %s", key, story)
			leftovers++
		}
	}
	return leftovers
}

// young reports whether the row of an upload may still be missing, from an auditor's view: the
// clocks of instances may differ by 10 min.
func young(id string) bool {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return false
	}
	sec, nsec := parsed.Time().UnixTime() // UUIDv7: RFC 9562 §5.7
	return time.Since(time.Unix(sec, nsec)) < 10*time.Minute
}

// story describes an upload's row; "" if there is none.
func (j *judge) story(id string) string {
	var state, reason string
	var gen int64
	err := j.db.QueryRowContext(j.t.Context(), `SELECT state, gen, reason FROM uploads WHERE id = ?`, id).Scan(&state, &gen, &reason)
	if errors.Is(err, sql.ErrNoRows) {
		return ""
	}
	if err != nil {
		j.t.Fatal(err)
	}
	return fmt.Sprintf("upload %s, gen %d %s", state, gen, reason)
}

// keys returns the keys of all objects, and the keys that contents in packs would have.
func (j *judge) keys() map[string]bool {
	j.t.Helper()
	all := map[string]bool{}
	for key := range j.objects() {
		if !strings.Contains(path.Base(key), packSuffix) {
			all[key] = true
			continue
		}
		for name := range j.pack(key) {
			all[place(name)] = true
		}
	}
	return all
}

func (j *judge) objects() map[string]int64 { return j.objectsOf("") }

// objectsOf returns the sizes of objects by key, for keys with the prefix.
func (j *judge) objectsOf(prefix string) map[string]int64 {
	j.t.Helper()
	all := map[string]int64{}
	for o := range j.s3.Client.ListObjects(j.t.Context(), j.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			j.t.Fatal(o.Err)
		}
		all[o.Key] = o.Size
	}
	return all
}

// multiparts returns the ids of unfinished multipart uploads by key.
func (j *judge) multiparts() map[string]string {
	j.t.Helper()
	all := map[string]string{}
	for m := range j.s3.ListIncompleteUploads(j.t.Context(), j.bucket, "", true) {
		if m.Err != nil {
			j.t.Fatal(m.Err)
		}
		all[m.Key] = m.UploadID
	}
	return all
}

// each calls row for every row of a query.
func (j *judge) each(query string, row func(scan func(...any) error) error) {
	j.t.Helper()
	rows, err := j.db.QueryContext(j.t.Context(), query)
	if err != nil {
		j.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			j.t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		j.t.Fatal(err)
	}
}

// quiet waits until no background work is left: idle uploads are abandoned and unused files
// deleted.
func (j *judge) quiet(within time.Duration) {
	j.t.Helper()
	process.Eventually(j.t, within, "nothing is left to do", func() error {
		var open, released, running int
		err := j.db.QueryRowContext(j.t.Context(), `SELECT (SELECT COUNT(*) FROM uploads WHERE state NOT IN ('done', 'gone')), (SELECT COUNT(*) FROM released),
			(SELECT COUNT(*) FROM operations WHERE state = 'running')`).Scan(&open, &released, &running)
		if err == nil && open+released+running > 0 {
			err = fmt.Errorf("%d uploads are open, %d files released, %d operations running", open, released, running)
		}
		return err
	})
}

// neverEarly fails the test if an upload was abandoned too early (T1), counted from the last
// request that delivered bytes.
func (j *judge) neverEarly(l *load) {
	j.t.Helper()
	n := 0
	j.each(`SELECT id, ended_at FROM uploads WHERE state = 'gone' AND reason = 'abandoned'`, func(scan func(...any) error) error {
		var id string
		var ended int64
		if err := scan(&id, &ended); err != nil {
			return err
		}
		if early := l.early(id, ended); early > 0 {
			j.t.Errorf("T1: upload %s was given up %s too early", id, early)
		}
		n++
		return nil
	})
	j.t.Logf("%d uploads were given up in their time", n)
}
