package files

import (
	"context"

	"smartdrive/internal/drive"
)

// Secret returns the installation's secret for links, of which other kinds of link make keys of their own.
func (f *Files) Secret(ctx context.Context) ([]byte, error) { return f.linkSecret(ctx) }

// Until returns d as something that was opened by a link which ends then; zero: never. An address of the store ends no later.
func (d Download) Until(end drive.Time) Download {
	d.until = end
	return d
}
