package main

import (
	"cmp"
	"runtime"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/base/telemetry"
)

// newVersionCommand returns the command `version`: show version, commit and Go version of this
// binary.
func newVersionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show version, commit and Go version of this binary",
		Example: "  smartdrive version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, platform := telemetry.ReadBuild(), runtime.GOOS+"/"+runtime.GOARCH
			commit := cmp.Or(b.Revision, "unknown")
			return c.show(map[string]string{
				"version": b.Version, "commit": commit, "go": b.Go, "platform": platform,
			}, "smartdrive %s, commit %s, %s, %s", b.Version, commit, b.Go, platform)
		},
	}
}
