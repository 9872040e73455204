package files

import "example.org/smartdrive/internal/base/drive"

// ExpireWith returns a copy of d that expires with the link that opened it; zero means never.
// Presigned store URLs for d expire no later.
func (d Download) ExpireWith(end drive.Time) Download {
	d.until = end
	return d
}
