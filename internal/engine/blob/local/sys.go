package local

import (
	"crypto/sha256"
	"os"

	"github.com/google/uuid"
)

// unknownBoot is the id of a boot where the system has none to tell: a new one each time, so that a
// restart of the process is taken for one of the machine and unsynced parts are checked once too
// often instead of once too seldom.
func unknownBoot() string { return uuid.NewString() }

// parseBootID returns the 16 bytes of a UUID, or of a hash where it is none.
func parseBootID(s string) [16]byte {
	if id, err := uuid.Parse(s); err == nil {
		return id
	}
	sum := sha256.Sum256([]byte(s))
	return [16]byte(sum[:16])
}

// cutTail frees a range that reaches to the end of the file or beyond; any other stays.
func cutTail(f *os.File, s span) error {
	info, err := f.Stat()
	if err != nil || info.Size() <= s.off || info.Size() > s.end() {
		return err
	}
	return f.Truncate(s.off)
}

// writeZeros writes them to a range, as far as the file has it.
func writeZeros(f *os.File, off, n int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() <= off {
		return err
	}
	_, err = f.WriteAt(make([]byte, min(n, info.Size()-off)), off)
	return err
}
