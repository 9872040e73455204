package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// journalTemp is a journal being rewritten. The next rewrite overwrites a file left by a crash.
const journalTemp = journalFile + ".new"

// A journal is rewritten when it is longer than compactMin bytes and compactRatio times its
// shortest form. Otherwise a client that drops and resends one part forever would fill the disk
// with records that no account is charged for.
const (
	compactMin   = 256 << 10 // about 2,000 parts; shorter journals are not worth a sync
	compactRatio = 4
)

// compactLocked rewrites the journal if that makes it much shorter, and sets u.compactAt, the
// length of the next attempt. If rewriting fails, it logs that, the long journal stays in use, and
// the next attempt is made when its length has doubled. The caller holds u.mu.
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
		u.d.log.Warn("journal of an upload not shortened; the long one stays in use", "upload", u.ref.ID, "error", err)
		u.compactAt = 2 * u.journal.end
		return
	}
	u.journal.end, u.journal.boot = int64(len(b)), u.d.boot
}

// replaceJournal replaces the journal by b, atomically. After a crash either of them is in place,
// and both have the same meaning. On an error the old journal stays. If only the final sync of the
// directory fails, it logs that and returns nil.
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
		u.d.log.Warn("directory of a shortened journal not synced; a power loss may bring the old journal back", "upload", u.ref.ID, "error", err) // the rename stands; later records are appended to the new journal
	}
	return nil
}
