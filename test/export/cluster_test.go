//go:build unix

package export

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the test asks the database itself
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/services"
	system "example.org/smartdrive/test/system/rig"
)

// library is an HTTP server of documents. It counts requests and, after a number of documents,
// stops replying until it is released.
type library struct {
	*httptest.Server
	mu    sync.Mutex
	gets  map[string]int
	stood chan struct{} // closed when it stands still
	let   chan struct{} // closed to let it go on
}

const (
	documents = 40
	givenOut  = 12 // before it stands still
)

func newLibrary(t *testing.T) *library {
	t.Helper()
	l := &library{gets: map[string]int{}, stood: make(chan struct{}), let: make(chan struct{})}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.gets[r.URL.Path]++
		if len(l.gets) == givenOut+1 && l.gets[r.URL.Path] == 1 {
			close(l.stood)
		}
		stand := len(l.gets) > givenOut
		l.mu.Unlock()
		if stand {
			select {
			case <-l.let:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "%PDF-1.7 the document "+r.URL.Path)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *library) got(path string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gets[path]
}

// arrived returns the URLs that are recorded as fetched.
func arrived(t *testing.T, db *sql.DB) (paths []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT w.url FROM export_pins p JOIN export_wants w ON w.export_id = p.export_id AND w.n = p.n WHERE w.url <> ''")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // it was only read
	for rows.Next() {
		var address string
		if err := rows.Scan(&address); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, u.Path)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return paths
}

// An instance that does nothing but exports is stopped in the middle of a batch for longer than its
// lease. Another one takes the batch over and fetches nothing that was recorded; the first one
// wakes, changes nothing, and works on. The zip is the same from every instance, and in the bucket.
func TestAStoppedWorkerIsFenced(t *testing.T) {
	t.Parallel()
	depth.Deep(t)
	c := rig.New(t, rig.Options{NoKafka: true})
	lib := newLibrary(t)
	flags := []string{"--export-hosts", strings.TrimPrefix(lib.URL, "http://"), "--export-addresses", "any"}
	start := func(roles string) *system.Server {
		site := c.Site(t, roles, flags...)
		site.Env = append(site.Env, "SMARTDRIVE_EXPORT_BUCKET="+c.S3.URL())
		return site.Start(t)
	}
	api, slow := start("api,scheduler,worker"), start("export")
	ann := api.NewUser(t, "ann", 1<<30)
	ann.Put(t, "/in/here.pdf", history.Content{Seed: 1, Size: 100_000})
	db := database(t, c)

	var list bytes.Buffer
	line := json.NewEncoder(&list)
	for n := range documents {
		_ = line.Encode(map[string]string{"url": fmt.Sprintf("%s/%02d.pdf", lib.URL, n), "name": fmt.Sprintf("web/%02d.pdf", n)})
	}
	_ = line.Encode(map[string]string{"path": "/in/here.pdf"})
	_ = line.Encode(map[string]string{"path": "/in/gone.pdf"})
	id := ann.Post(t, "/exports/manifest?name=disk", list.Bytes()).JSON(t, http.StatusCreated)["id"].(string)
	waitFor(t, lib.stood, "the first worker is in the middle")
	process.Eventually(t, system.Patience, "what was given out is recorded", func() error {
		if n := len(arrived(t, db)); n < givenOut {
			return fmt.Errorf("%d documents of %d", n, givenOut)
		}
		return nil
	})
	signal(t, slow, syscall.SIGSTOP)
	if err := services.AwaitPaused(t.Context(), slow.PID()); err != nil {
		t.Fatal(err)
	}
	before := arrived(t, db)
	close(lib.let)

	heir := start("api,export")
	sealed := map[string]any{}
	process.Eventually(t, time.Minute+system.Patience, "the batch is sealed by another", func() error {
		if sealed = ann.Get(t, "/exports/"+id).JSON(t, http.StatusOK); sealed["state"] != "sealed" {
			return fmt.Errorf("it is %v with %v", sealed["state"], sealed["collected"])
		}
		return nil
	})
	if sealed["collected"] != documents+1.0 || sealed["failed"] != 1.0 {
		t.Errorf("it has %v and lacks %v", sealed["collected"], sealed["failed"])
	}
	if figure(t, heir, "smartdrive_exports_taken_over_total") != "1" {
		t.Error("the other one has not counted a take-over")
	}
	epoch := row(t, db, id)
	signal(t, slow, syscall.SIGCONT)
	process.Eventually(t, system.Patience, "the first one notices", func() error {
		// Its connection breaks during a COMMIT; it gets no other information.
		lost, aborted := figure(t, slow, "smartdrive_exports_lost_total"), figure(t, slow, "smartdrive_exports_aborted_total")
		if lost != "1" && aborted != "1" {
			return fmt.Errorf("it has lost %s batches and aborted %s", lost, aborted)
		}
		return nil
	})
	if now := row(t, db, id); now != epoch {
		t.Errorf("the row was %s, and is %s after the first one woke", epoch, now)
	}
	for _, path := range before {
		if n := lib.got(path); n != 1 {
			t.Errorf("%s was recorded and fetched %d times", path, n)
		}
	}
	for n := range documents {
		if got := lib.got(fmt.Sprintf("/%02d.pdf", n)); got < 1 || got > 2 {
			t.Errorf("document %d was fetched %d times", n, got)
		}
	}
	whole := ann.Get(t, "/exports/"+id+"/content").Is(t, http.StatusOK).Bytes
	if other := ann.At(heir).Get(t, "/exports/"+id+"/content").Is(t, http.StatusOK).Bytes; !bytes.Equal(whole, other) {
		t.Errorf("one instance gives %d bytes, another %d, or others", len(whole), len(other))
	}
	inBucket(t, c, ann, id, whole)
}

// inBucket has the zip published and reads it there.
func inBucket(t *testing.T, c *rig.Cluster, ann system.User, id string, whole []byte) {
	t.Helper()
	object := ann.Post(t, "/exports/"+id+"/files", map[string]any{"bucket": true}).JSON(t, http.StatusCreated)["object"].(string)
	process.Eventually(t, system.Patience, "the zip is in the bucket", func() error {
		if job := ann.Get(t, "/exports/"+id+"/files").Items(t)[0]; job["state"] != "done" {
			return fmt.Errorf("it is %v", job)
		}
		return nil
	})
	u, err := url.Parse(c.S3.URL())
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := u.User.Password()
	s3, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4(u.User.Username(), secret, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := s3.GetObject(t.Context(), strings.Trim(u.Path, "/"), "exports/"+object, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(obj)
	if err != nil || !bytes.Equal(got, whole) {
		t.Errorf("in the bucket are %d bytes of %d, or others: %v", len(got), len(whole), err)
	}
	ann.Do(t, http.MethodDelete, "/exports/"+id, nil).Is(t, http.StatusNoContent)
	process.Eventually(t, system.Patience, "the object has gone with its batch", func() error {
		_, err := s3.StatObject(t.Context(), strings.Trim(u.Path, "/"), "exports/"+object, minio.StatObjectOptions{})
		if minio.ToErrorResponse(err).Code != minio.NoSuchKey {
			return fmt.Errorf("it is there: %v", err) //nolint:errorlint // there may be none
		}
		return nil
	})
}

func waitFor(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	late := time.NewTimer(system.Patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		t.Fatalf("%s: not within %s", what, system.Patience)
	}
}

func signal(t *testing.T, s *system.Server, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.PID(), sig); err != nil {
		t.Fatal(err)
	}
}

func database(t *testing.T, c *rig.Cluster) *sql.DB {
	t.Helper()
	u, err := url.Parse(c.MySQL.URL())
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")/smartdrive")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // it was only read
	return db
}

// row formats the columns of a batch that a worker may change.
func row(t *testing.T, db *sql.DB, id string) (text string) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT CONCAT_WS(' ', state, epoch, worker, due_at, collected, failed, list_epoch, etag,
		(SELECT COUNT(*) FROM export_lists l WHERE l.export_id = e.id), (SELECT COUNT(*) FROM outbox WHERE topic = 'smartdrive.exports')) FROM exports e WHERE id = ?`, id).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// figure reads a counter of an instance.
func figure(t *testing.T, s *system.Server, name string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("there is no %s", name)
	return ""
}
