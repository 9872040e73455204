package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
	"example.org/smartdrive/client/doctor"
)

// errUnwell reports that the doctor found a failure or a warning.
var errUnwell = errors.New("something between this computer and the server is not as it should be")

// newDoctorCommand returns the command `doctor`: check an installation from outside, through its
// proxy.
func newDoctorCommand(c *cli) *cobra.Command {
	var base string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation from outside, through its proxy",
		Long: `Send requests as clients do, and say what a proxy in between does to them: limits of body size, buffering, time-outs, lost
headers and methods, chunked bodies, ranges, paths, event streams, TLS, clock; and whether the server's disk has room. For what is wrong, the line of nginx, Caddy, Apache
and Traefik to change is shown. It needs a login, of anybody, and changes nothing. An administrator is also told whether the
server for mail would take one; none is sent.`,
		Example: `  smartdrive doctor
  smartdrive doctor --base-url https://drive.example.org --wait 0s`,
		Args: cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			if base == "" {
				base = api.BaseURL()
			}
			bad := false
			for _, f := range doctor.Run(ctx, doctor.Options{BaseURL: base, Token: api.Token(), SlowReply: wait, HTTP: nil}) {
				bad = bad || f.Level == doctor.Failure || f.Level == doctor.Warning
				if err := c.showFinding(f); err != nil {
					return err
				}
			}
			if bad {
				return errUnwell
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&base, "base-url", "", "the address to look at (default: that of the login)")
	cmd.Flags().DurationVar(&wait, "wait", 70*time.Second, "how long to wait for an answer that is late on purpose, at most 90s; 0s: do not")
	return cmd
}

// showFinding prints a finding and the configuration lines for each proxy that fix it.
func (c *cli) showFinding(f doctor.Finding) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %s: %s", f.Level, f.Check, f.Message)
	for _, proxy := range slices.Sorted(maps.Keys(f.ConfigLines)) {
		fmt.Fprintf(&b, "\n           %-8s %s", proxy, f.ConfigLines[proxy])
	}
	return c.show(f, "%s", b.String())
}
