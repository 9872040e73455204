package files

import "smartdrive/internal/base/drive"

// Until returns d as something that was opened by a link which ends then; zero: never. An address
// of the store ends no later.
func (d Download) Until(end drive.Time) Download {
	d.until = end
	return d
}
