package nextcloud_test

import (
	"database/sql/driver"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// The file is replaced just after the MOVE of its chunks has created it. The response has the ETag
// of the content that the client has sent; with the other tag the client would never fetch the new
// content.
func TestResponseTagIsOfSentContent(t *testing.T) {
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
	s.Do(t, "PUT "+home+"same", "", "sent").Want(t, 201)
	want := strings.ReplaceAll(s.Do(t, "PROPFIND "+home+"same", "Depth: 0", "", ask).Between(t, "<d:getetag>", "</d:getetag>"), "&quot;", `"`)
	between = func() {
		p := upload.PutFile{Path: drive.Path{"f"}, Conflict: drive.ConflictReplace, Size: 5}
		if _, _, err := s.PutFile(t.Context(), s.Who, p, strings.NewReader("other")); err != nil {
			t.Error(err)
		}
	}
	replaced := 0
	for n := int32(1); n <= 4; n++ { // after which commit of the MOVE the file is made is the package upload's business
		id, to := staged+strconv.Itoa(int(n)), "Destination: "+home+"f"
		s.Do(t, "MKCOL "+id, to).Want(t, 201)
		s.Do(t, "PUT "+id+"/1", to, "", "sent").Want(t, 201)
		commits.Store(n)
		made := s.Do(t, "MOVE "+id+"/.file", to)
		commits.Store(0)
		after.Store(false)
		if made.Status != 201 && made.Status != 204 { // somebody came before: it is refused
			s.Do(t, "DELETE "+id)
		} else if made.Header.Get("ETag") != want || made.Exact("OC-ETag") != want {
			t.Errorf("the answer has the headers %v, want the tag %s", made.Header, want)
		} else if s.read(t, "f") == "other" {
			replaced++
		}
		s.Do(t, "DELETE "+home+"f")
	}
	if replaced == 0 {
		t.Error("nobody has come between")
	}
}
