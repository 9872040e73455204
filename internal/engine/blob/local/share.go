package local

import (
	"os"

	"smartdrive/internal/engine/blob"
)

// shareBlock is what ranges must be multiples of that two files are to share, in bytes. File
// systems that can do it have blocks of 4 KiB nearly everywhere; where they are larger the system
// call says no.
const shareBlock = 4096

// share makes the bytes at off in f those of sources, which both files share on the disk from then
// on (XFS, Btrfs, bcachefs), and says whether it could; what it did in vain is written over.
// Nothing is read, and nothing written but where they lie.
func (d *Dir) share(f *os.File, off int64, sources []blob.Source) bool {
	if len(sources) == 0 || d.unshared.Load() {
		return false
	}
	for _, s := range sources {
		o, ok := s.Object.(object)
		end := s.Offset+s.Size == o.size && int64(s.Size)%shareBlock != 0
		if !ok || off%shareBlock != 0 || int64(s.Offset)%shareBlock != 0 || int64(s.Size)%shareBlock != 0 && !end {
			return false
		}
		cannot, err := cloneRange(f, off, o.File, int64(s.Offset), int64(s.Size))
		if cannot {
			d.unshared.Store(true)
		}
		if err != nil {
			return false
		}
		off += int64(s.Size)
	}
	return true
}
