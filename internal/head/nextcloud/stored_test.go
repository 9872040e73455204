package nextcloud_test

import (
	"database/sql/driver"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/usecase/upload"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// Somebody replaces the file in the moment after a MOVE of chunks has made it: the answer has the
// tag of what the client has sent, and not of the other content, which the client would then never
// fetch.
func TestTheTagIsOfWhatWasSent(t *testing.T) {
	t.Parallel()
	var commits atomic.Int32 // until somebody comes between: 1 is the next one; 0: nobody does
	var after atomic.Bool    // it was committed
	var between func()
	connector := func(dsn string) (driver.Connector, error) {
		return sqldbtest.Connect(dsn, func(call sqldbtest.Call, do func() error) error {
			if call == sqldbtest.Query && after.CompareAndSwap(true, false) {
				between()
			}
			err := do()
			if call == sqldbtest.Commit && commits.Load() > 0 && commits.Add(-1) == 0 {
				after.Store(true)
			}
			return err
		})
	}
	s := newStackAt(t, uploadtest.Options{DB: sqldb.Options{Connector: connector}})
	s.do(t, "PUT "+home+"same", "", "sent").want(t, 201)
	want := strings.ReplaceAll(s.do(t, "PROPFIND "+home+"same", "Depth: 0", "", ask).between(t, "<D:getetag>", "</D:getetag>"), "&#34;", `"`)
	between = func() {
		p := upload.PutFile{Path: drive.Path{"f"}, Conflict: drive.ConflictReplace, Size: 5}
		if _, _, err := s.PutFile(t.Context(), s.who, p, strings.NewReader("other")); err != nil {
			t.Error(err)
		}
	}
	replaced := 0
	for n := int32(1); n <= 4; n++ { // after which commit of the MOVE the file is made is the package upload's business
		id, to := staged+strconv.Itoa(int(n)), "Destination: "+home+"f"
		s.do(t, "MKCOL "+id, to).want(t, 201)
		s.do(t, "PUT "+id+"/1", to, "", "sent").want(t, 201)
		commits.Store(n)
		made := s.do(t, "MOVE "+id+"/.file", to)
		commits.Store(0)
		after.Store(false)
		if made.status != 201 && made.status != 204 { // somebody came before: it is refused
			s.do(t, "DELETE "+id)
		} else if made.header.Get("ETag") != want || made.exact("OC-ETag") != want {
			t.Errorf("the answer has the headers %v, want the tag %s", made.header, want)
		} else if s.read(t, "f") == "other" {
			replaced++
		}
		s.do(t, "DELETE "+home+"f")
	}
	if replaced == 0 {
		t.Error("nobody has come between")
	}
}
