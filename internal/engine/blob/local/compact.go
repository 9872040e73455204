package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// journalTemp is a journal that is being rewritten; a crash leaves it, and the next one
// overwrites it.
const journalTemp = journalFile + ".new"

// A journal is rewritten when it is longer than compactMin bytes and compactRatio times what it
// has to say. A client that drops and sends one part for ever would otherwise fill the disk with
// records that nobody is charged for.
const (
	compactMin   = 256 << 10 // 2,000 parts, below which it is not worth a sync
	compactRatio = 4
)

// compactLocked rewrites the journal if that makes it much shorter. A failure is no harm: the
// long one goes on, and it is tried again when that has doubled.
func (u *upload) compactLocked() {
	var b []byte
	for _, r := range u.journal.records(u.d.boot) {
		b = r.append(b)
	}
	u.compactAt = max(compactMin, compactRatio*int64(len(b)))
	if u.journal.end < u.compactAt {
		return
	}
	if err := u.replaceJournal(b); err != nil {
		u.d.log.Warn("journal not rewritten", "upload", u.ref.ID, "error", err)
		u.compactAt = 2 * u.journal.end
		return
	}
	u.journal.end, u.journal.boot = int64(len(b)), u.d.boot
}

// replaceJournal puts b in the place of the journal, durably: a crash leaves the old one or the new
// one, which say the same.
func (u *upload) replaceJournal(b []byte) error {
	temp := u.path(journalTemp)
	if err := os.WriteFile(temp, b, fileMode); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := syncPath(temp); err != nil {
		return errors.Join(fmt.Errorf("sync: %w", err), os.Remove(temp))
	}
	if err := os.Rename(temp, u.path(journalFile)); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	if err := syncDir(filepath.Dir(temp)); err != nil {
		u.d.log.Warn("directory not synced", "upload", u.ref.ID, "error", err) // the rename stands; what comes is appended to the new one
	}
	return nil
}
