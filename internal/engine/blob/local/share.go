package local

import (
	"os"

	"example.org/smartdrive/internal/engine/blob"
)

// shareBlock is the required alignment of shared ranges, in bytes. File systems that can share
// ranges mostly have blocks of 4 KiB; with larger ones the system call fails.
const shareBlock = 4096

// share makes the bytes at off in f refer to those of sources on disk (XFS, Btrfs, bcachefs),
// without reading or copying them. It returns false if that is not possible; the caller must then
// write the bytes.
func (d *Dir) share(f *os.File, off int64, sources []blob.Source) bool {
	if len(sources) == 0 || d.noSharing.Load() {
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
			d.noSharing.Store(true)
		}
		if err != nil {
			return false
		}
		off += int64(s.Size)
	}
	return true
}
