package local

import (
	"crypto/sha256"
	"os"

	"github.com/google/uuid"
)

// randomBootID returns a random boot id for systems without one. A process restart then counts as a
// reboot, so that unsynced parts are verified once too often rather than too seldom.
func randomBootID() string { return uuid.NewString() }

// parseBootID returns the bytes of a UUID, or of a hash of any other string.
func parseBootID(s string) [16]byte {
	if id, err := uuid.Parse(s); err == nil {
		return id
	}
	sum := sha256.Sum256([]byte(s))
	return [16]byte(sum[:16])
}

// truncateTail truncates the file to s.off if the file ends inside s. If it ends before or after s,
// it does nothing. It is not durable.
func truncateTail(f *os.File, s span) error {
	info, err := f.Stat()
	if err != nil || info.Size() <= s.off || info.Size() > s.end() {
		return err
	}
	return f.Truncate(s.off)
}

// writeZeros overwrites n bytes from off with zeros, but never beyond the end of the file, so its
// length stays. It is not durable.
func writeZeros(f *os.File, off, n int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() <= off {
		return err
	}
	_, err = f.WriteAt(make([]byte, min(n, info.Size()-off)), off)
	return err
}
