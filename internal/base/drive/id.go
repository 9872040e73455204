package drive

import (
	"database/sql/driver"
	"fmt"

	"github.com/google/uuid"
)

// ID is a UUIDv7 (RFC 9562 §5.7) with a type parameter for the kind of thing it identifies, so that
// ids of different kinds cannot be confused. Its text form in JSON and SQL has 36 lower-case
// characters. The zero ID means none and is SQL NULL.
type ID[Of any] uuid.UUID

// The kinds of ID.
type (
	AccountID   = ID[ofAccount]
	UserID      = ID[ofUser]
	SessionID   = ID[ofSession]
	UploadID    = ID[ofUpload]
	NodeID      = ID[ofNode]
	VersionID   = ID[ofVersion]
	BlobID      = ID[ofBlob]
	OperationID = ID[ofOperation]
	ShareID     = ID[ofShare]
	VisitID     = ID[ofVisit]
	CollectID   = ID[ofCollect]
	SenderID    = ID[ofSender]
	ExportID    = ID[ofExport]
	ArchiveID   = ID[ofArchive]
	ScheduleID  = ID[ofSchedule]
	JobID       = ID[ofJob]
	BundleID    = ID[ofBundle]
	DocumentID  = ID[ofDocument]
	ConflictID  = ID[ofConflict]
	GroupID     = ID[ofGroup]
	PrincipalID = ID[ofPrincipal]
	LockID      = ID[ofLock]

	ofAccount   struct{}
	ofUser      struct{}
	ofSession   struct{}
	ofUpload    struct{}
	ofNode      struct{}
	ofVersion   struct{}
	ofBlob      struct{}
	ofOperation struct{}
	ofShare     struct{}
	ofVisit     struct{}
	ofCollect   struct{}
	ofSender    struct{}
	ofExport    struct{}
	ofArchive   struct{}
	ofSchedule  struct{}
	ofJob       struct{}
	ofBundle    struct{}
	ofDocument  struct{}
	ofConflict  struct{}
	ofGroup     struct{}
	ofPrincipal struct{}
	ofLock      struct{}
)

// NewID returns a new ID: drive.NewID[drive.UploadID](). IDs of one process sort by creation.
func NewID[T ~[16]byte]() T { return T(uuid.Must(uuid.NewV7())) }

// ParseID parses the text form of 36 lower-case characters. Anything else is NotFound.
func ParseID[T ~[16]byte](s string) (T, error) {
	var zero T
	u, err := uuid.Parse(s)
	if err != nil || len(s) != 36 || u.String() != s {
		return zero, Fail(NotFound)
	}
	return T(u), nil
}

// IsZero reports whether id is the zero ID.
func (id ID[Of]) IsZero() bool { return id == ID[Of]{} }

// String returns the text form, also for the zero ID.
func (id ID[Of]) String() string { return uuid.UUID(id).String() }

// MarshalText returns the 36 characters of the text form.
func (id ID[Of]) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the text form of 36 characters. It fails with NotFound for anything else,
// because no object can have such an id, and leaves id unchanged.
func (id *ID[Of]) UnmarshalText(b []byte) error {
	v, err := ParseID[ID[Of]](string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// Value returns the text form for SQL; the zero ID is NULL.
func (id ID[Of]) Value() (driver.Value, error) {
	if id.IsZero() {
		return nil, nil
	}
	return id.String(), nil
}

// Scan reads the text form from SQL; NULL is the zero ID.
func (id *ID[Of]) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*id = ID[Of]{}
		return nil
	case string:
		return id.UnmarshalText([]byte(v))
	case []byte:
		return id.UnmarshalText(v)
	}
	return fmt.Errorf("scan %T into an id", src)
}
