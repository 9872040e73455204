package nextcloud_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/upload"
)

// raceStack is a stack with a gate before its transactions, the files f and x, and what their tags
// and times are.
type raceStack struct {
	*stack
	gate *sqldbtest.Gate
	tags *strings.Replacer
}

func newRaceStack(t *testing.T) raceStack {
	t.Helper()
	s := raceStack{stack: newStack(t)}
	s.Do(t, "PUT "+home+"f", "", "one").Want(t, http.StatusCreated)
	s.Do(t, "PUT "+home+"x", "", "old").Want(t, http.StatusCreated)
	s.Clock.Advance(time.Minute)
	quote := func(path string) string { return strings.ReplaceAll(s.tag(t, home+path), "&quot;", `"`) }
	s.tags = strings.NewReplacer("{f}", quote("f"), "{x}", quote("x"), "{time}", s.Clock.Now().UTC().Add(-30*time.Second).Format(http.TimeFormat))
	s.gate = sqldbtest.NewGate(s.DB)
	return s
}

// left is which of some names are files, with their contents.
func (s raceStack) left(t *testing.T) string {
	t.Helper()
	var all []string
	for _, name := range []string{"f", "g", "x"} {
		if a := s.Do(t, "GET "+home+name); a.Status == http.StatusOK {
			all = append(all, name+"="+a.Body)
		}
	}
	return strings.Join(all, " ")
}

// The MOVE that ends a chunked upload is decided by what its transactions find: the one that begins
// the seal, and the one that makes the file. What it is refused for leaves the chunks.
func TestChunkedUploadEndComparesInItsTransaction(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]struct {
		to         string
		header     string
		competitor []string
		want       int
		left       string
	}{
		"put":                            {"f", "", []string{"PUT " + home + "f", "", "two"}, 204, "f=chunks x=old"},
		"delete":                         {"f", "", []string{"DELETE " + home + "f"}, 201, "f=chunks x=old"},
		"If-Match, put":                  {"f", "If-Match: {f}", []string{"PUT " + home + "f", "", "two"}, 412, "f=two x=old"},
		"If-Match *, delete":             {"f", "If-Match: *", []string{"DELETE " + home + "f"}, 412, "x=old"},
		"If-None-Match *, put":           {"g", "If-None-Match: *", []string{"PUT " + home + "g", "", "two"}, 412, "f=one g=two x=old"},
		"If-Unmodified-Since, put":       {"f", "If-Unmodified-Since: {time}", []string{"PUT " + home + "f", "", "two"}, 412, "f=two x=old"},
		"Overwrite: F, put":              {"g", "Overwrite: F", []string{"PUT " + home + "g", "", "two"}, 412, "f=one g=two x=old"},
		"If of another, put":             {"f", "If: <" + home + "x> ([{x}])", []string{"PUT " + home + "x", "", "two"}, 412, "f=one x=two"},
		"If of another's name, copy":     {"f", "If: <" + home + "g> (Not [{x}])", []string{"COPY " + home + "x", "Destination: " + home + "g"}, 412, "f=one g=old x=old"},
		"lock by another program":        {"f", "", []string{"LOCK " + home + "f", "", exclusive}, 423, "f=one x=old"},
		"lock of the folder":             {"g", "", []string{"LOCK " + home, "Depth: 0", "", exclusive}, 423, "f=one x=old"},
		"If-Match, move over it":         {"f", "If-Match: {f}", []string{"MOVE " + home + "x", "Destination: " + home + "f"}, 412, "f=old"},
		"If-None-Match of its tag, move": {"f", "If-None-Match: {x}", []string{"MOVE " + home + "x", "Destination: " + home + "f"}, 412, "f=old"},
	} {
		for skip, at := range []string{"before the seal begins", "before the file is there"} {
			t.Run(name+" "+at, func(t *testing.T) {
				t.Parallel()
				s := newRaceStack(t)
				to := "Destination: " + home + r.to
				s.Do(t, "MKCOL "+staged+"t").Want(t, http.StatusCreated)
				s.Do(t, "PUT "+staged+"t/1", "", "chunks").Want(t, http.StatusCreated)
				request := []string{to}
				if r.header != "" {
					request = append(request, s.tags.Replace(r.header))
				}
				var token string
				s.gate.Intercept(skip, func() {
					a := s.Do(t, r.competitor[0], r.competitor[1:]...)
					if a.Status >= 300 {
						t.Errorf("the competitor is answered %d: %s", a.Status, a.Body)
					}
					token = a.Header.Get("Lock-Token")
				})
				if got := s.Do(t, "MOVE "+staged+"t/.file", request...); got.Status != r.want {
					t.Errorf("answered %d, want %d: %s", got.Status, r.want, got.Body)
				}
				if _, met := s.gate.Open(); !met {
					t.Error("no transaction came to the gate")
				}
				if left := s.left(t); left != r.left {
					t.Errorf("there is %q, want %q", left, r.left)
				}
				if r.want >= 300 {
					if token != "" {
						s.Do(t, "MOVE "+staged+"t/.file", to).Want(t, http.StatusLocked)
						_, locked, _ := strings.Cut(r.competitor[0], " ")
						to += "\nIf: <" + locked + "> (" + token + ")"
					}
					s.Do(t, "MOVE "+staged+"t/.file", strings.Split(to, "\n")...)
					if got := s.read(t, r.to); got != "chunks" {
						t.Errorf("a MOVE without the condition makes %q", got)
					}
				}
				s.CheckLedger(t, s.Who)
			})
		}
	}
}

// A lock that the MOVE names must hold when the file is made.
func TestLockExpiresBeforePublication(t *testing.T) {
	t.Parallel()
	for skip := range 2 {
		s := newRaceStack(t)
		token := s.Do(t, "LOCK "+home+"f", "", exclusive).Want(t, 200).Header.Get("Lock-Token")
		s.Do(t, "MKCOL "+staged+"t").Want(t, http.StatusCreated)
		s.Do(t, "PUT "+staged+"t/1", "", "chunks").Want(t, http.StatusCreated)
		s.gate.Intercept(skip, func() {
			if got := s.Do(t, "UNLOCK "+home+"f", "Lock-Token: "+token); got.Status != http.StatusNoContent {
				t.Errorf("UNLOCK is answered %d", got.Status)
			}
		})
		s.Do(t, "MOVE "+staged+"t/.file", "Destination: "+home+"f", "If: <"+home+"f> ("+token+")").Want(t, http.StatusPreconditionFailed)
		if left := s.left(t); left != "f=one x=old" {
			t.Errorf("%d: there is %q", skip, left)
		}
	}
}

// Each file of a bulk upload is decided by what its transaction finds, whether it is stored with
// the others, by itself, or in several parts.
func TestBulkUploadComparesInItsTransaction(t *testing.T) {
	t.Parallel()
	over := []string{"MOVE " + home + "x", "Destination: " + home + "f"}
	for name, r := range map[string]struct {
		path, header string
		competitor   []string
		left         string
	}{
		"If-Match":            {"/f", "If-Match: {f}", over, "f=old"},
		"If-Match *":          {"/f", "If-Match: *", []string{"DELETE " + home + "f"}, "x=old"},
		"If-None-Match *":     {"/g", "If-None-Match: *", []string{"MOVE " + home + "x", "Destination: " + home + "g"}, "f=one g=old"},
		"If-None-Match":       {"/f", "If-None-Match: {x}", over, "f=old"},
		"If-Unmodified-Since": {"/f", "If-Unmodified-Since: {time}", over, "f=old"},
		"lock":                {"/f", "X-Nothing: said", []string{"LOCK " + home + "f", "", exclusive}, "f=one x=old"},
		"lock of the folder":  {"/g", "X-Nothing: said", []string{"LOCK " + home, "Depth: 0", "", exclusive}, "f=one x=old"},
	} {
		for how, size := range map[string]int{"together": 5, "alone": int(upload.MaxUnsyncedSize) + 1, "in parts": 2<<20 + 1} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				s := newRaceStack(t)
				s.gate.Intercept(0, func() {
					if got := s.Do(t, r.competitor[0], r.competitor[1:]...); got.Status >= 300 {
						t.Errorf("the competitor is answered %d: %s", got.Status, got.Body)
					}
				})
				_, got := s.bulk(t, "ann", part(r.path, strings.Repeat("m", size), s.tags.Replace(r.header)), "--b--\r\n")
				if _, met := s.gate.Open(); !met {
					t.Error("no transaction came to the gate")
				}
				if !got[r.path].Error {
					t.Errorf("answered %+v", got)
				}
				if left := s.left(t); left != r.left {
					t.Errorf("there is %.40q, want %q", left, r.left)
				}
				s.CheckLedger(t, s.Who)
			})
		}
	}
}

// A competing request ends between the reads of a request to the trash or to versions and its
// transaction. A file that the competitor restores is not deleted for good. Two deletions for good
// of one account have no case here: with MySQL they run one after the other (package turn).
func TestTrashAndVersionsAreDecidedByWhatTheirTransactionFinds(t *testing.T) {
	t.Parallel()
	const trash, versions = "/remote.php/dav/trashbin/ann/", "/remote.php/dav/versions/ann/"
	restore := []string{"MOVE " + trash + "trash/g.d{id}", "Destination: " + trash + "restore/g"}
	forGood := []string{"DELETE " + trash + "trash/g.d{id}"}
	old := []string{"MOVE {old}", "Destination: " + versions + "restore/target"}
	for name, r := range map[string]struct {
		request, competitor []string
		want                []int
		left                string
	}{
		"delete for good, restored": {forGood, restore, []int{409, 412}, "f=two g=gone x=old"},
		"restore, deleted for good": {restore, forGood, []int{404, 409}, "f=two x=old"},
		"restore, restored":         {restore, restore, []int{201}, "f=two g=gone x=old"},
		"empty the trash, restored": {[]string{"DELETE " + trash + "trash"}, restore, []int{204}, "f=two g=gone x=old"},
		"version, file deleted":     {old, []string{"DELETE " + home + "f"}, []int{404, 409}, "x=old"},
		"version, moved over":       {old, []string{"MOVE " + home + "x", "Destination: " + home + "f"}, []int{201}, "f=one"},
		"version, put":              {old, []string{"PUT " + home + "f", "", "three"}, []int{201}, "f=one x=old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRaceStack(t)
			s.Do(t, "PUT "+home+"f", "", "two").Want(t, http.StatusNoContent)
			s.Do(t, "PUT "+home+"g", "", "gone").Want(t, http.StatusCreated)
			const fileid = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:fileid/></d:prop></d:propfind>`
			number := s.Do(t, "PROPFIND "+home+"f", "Depth: 0", "", fileid).Between(t, "<oc:fileid>", "<")
			list := s.Do(t, "PROPFIND "+versions+"versions/"+number, "Depth: 1").Want(t, http.StatusMultiStatus).Body
			fill := strings.NewReplacer("{id}", s.trash(t, "g").String(),
				"{old}", regexp.MustCompile("<d:href>([^<]+[^/<])</d:href>").FindStringSubmatch(list)[1])
			send := func(c []string) davtest.Response { return s.Do(t, fill.Replace(c[0]), c[1:]...) }
			s.gate.Intercept(0, func() {
				if got := send(r.competitor); got.Status >= 300 {
					t.Errorf("the competitor is answered %d: %s", got.Status, got.Body)
				}
			})
			got := send(r.request)
			if _, met := s.gate.Open(); !met {
				t.Error("no transaction came to the gate")
			}
			if !slices.Contains(r.want, got.Status) {
				t.Errorf("answered %d, want one of %d: %s", got.Status, r.want, got.Body)
			}
			if left := s.left(t); left != r.left {
				t.Errorf("there is %q, want %q", left, r.left)
			}
			s.CheckLedger(t, s.Who)
		})
	}
}
