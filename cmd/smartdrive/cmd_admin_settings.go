package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/usecase/setting"
)

// settingsCommand returns the command `admin settings`: show and change settings while the server
// runs.
func (a *adminCLI) settingsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "Show and change settings while the server runs",
		Long: "Show the settings that can be changed while the server runs. A change is kept in the database and reaches all instances within\n" +
			"five seconds. What a server was started with, as a flag, a variable or in its file, is fixed.",
		Example: "  smartdrive admin settings\n  smartdrive admin settings set default-quota 50GiB\n  smartdrive admin settings reset default-quota",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), func(c *connection) error {
				var all struct{ Items []json.RawMessage }
				if err := c.call(cmd.Context(), http.MethodGet, apiPath+"/admin/settings", nil, &all); err != nil {
					return err
				}
				for _, one := range all.Items {
					if err := show(a, one, settingText); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "set NAME VALUE",
			Short: "Change a setting",
			Args:  usageArgs(cobra.ExactArgs(2)),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.changeSetting(cmd.Context(), http.MethodPut, args[0], map[string]string{"value": args[1]})
			},
		},
		&cobra.Command{
			Use:   "reset NAME",
			Short: "Reset a setting to its default",
			Args:  usageArgs(cobra.ExactArgs(1)),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.changeSetting(cmd.Context(), http.MethodDelete, args[0], nil)
			},
		},
	)
	return cmd
}

// changeSetting sends a request that changes a runtime setting, and prints the setting.
func (a *adminCLI) changeSetting(ctx context.Context, method, name string, in any) error {
	return a.withConnection(ctx, func(c *connection) error {
		var one json.RawMessage
		if err := c.call(ctx, method, apiPath+"/admin/settings/"+url.PathEscape(name), in, &one); err != nil {
			return err
		}
		return show(a, one, settingText)
	})
}

// settingText formats a setting with its value and where the value comes from.
func settingText(s setting.Setting) string {
	from := "default"
	switch {
	case s.Fixed:
		from = "the server was started with it"
	case s.ChangedAt != nil:
		from = "changed " + timeText(s.ChangedAt.Std())
		if s.ChangedBy != nil {
			from += " by " + *s.ChangedBy
		}
	}
	value := s.Value
	if value == "" {
		value = "(not set)"
	}
	return fmt.Sprintf("%-14s  %s  (%s)", s.Name, value, from)
}
