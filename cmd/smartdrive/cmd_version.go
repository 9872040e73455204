package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the release build: -ldflags "-X main.version=v1.2.3".
var version string

// buildVersion returns the version of the release, else of the Go module, else "dev".
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

// buildCommit returns the commit of the binary, with "+" if files were modified.
func buildCommit() string {
	commit, changed := "unknown", ""
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return commit
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	return commit + changed
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
