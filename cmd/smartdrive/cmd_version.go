package main

import (
	"cmp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/base/telemetry"
)

// buildVersion returns the version of the release, else of the Go module, else "dev".
func buildVersion() string {
	if v := telemetry.ReadBuild().Version; v != "(devel)" {
		return v
	}
	return "dev"
}

// buildCommit returns the commit of the binary, with "+" if files were modified.
func buildCommit() string {
	return cmp.Or(strings.Replace(telemetry.ReadBuild().Revision, "+dirty", "+", 1), "unknown")
}

// newVersionCommand returns the command `version`: show version, commit and Go version of this
// binary.
func newVersionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show version, commit and Go version of this binary",
		Example: "  smartdrive version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			return c.show(map[string]string{
				"version": buildVersion(), "commit": buildCommit(), "go": runtime.Version(), "platform": platform,
			}, "smartdrive %s, commit %s, %s, %s", buildVersion(), buildCommit(), runtime.Version(), platform)
		},
	}
}
