package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// serverCommands are the commands that open the data directory or use the control socket.
var serverCommands = []func() *cobra.Command{newServeCommand, newAdminCommand, newMigrateCommand, newDemoCommand}

// clientCommands are the commands that use the native API, each in its own file cmd_<name>.go.
var clientCommands = []func(*cli) *cobra.Command{
	newLoginCommand, newPasswdCommand, newPutCommand, newGetCommand, newLsCommand, newStarCommand, newUnstarCommand, newMkdirCommand, newMvCommand, newCpCommand, newRmCommand,
	newRestoreCommand, newShareCommand, newCollectCommand, newSpaceCommand, newGroupCommand, newGrantCommand, newActivityCommand, newWebhookCommand, newNoticesCommand, newExportCommand, newUsageCommand, newTokenCommand, newUploadsCommand, newVerifyCommand, newDoctorCommand, newVersionCommand,
	newAgentCommand, newBundlesCommand, newDocsCommand, newKeyConflictsCommand,
}

// rootLong is the help of `smartdrive`.
const rootLong = `SmartDrive is a self-hosted cloud drive. This binary is both the server and its client.

The client takes its server and token from --server and --token, then from SMARTDRIVE_SERVER and SMARTDRIVE_TOKEN, then from
~/.config/smartdrive/config.json, where "smartdrive login" has saved them.

Exit codes: 0 success, 1 failure, 2 usage error, 3 not logged in or not allowed, 4 not found, 5 conflict, 6 no space, 7 some
items failed, 8 fsck findings, 130 interrupted.`

// run executes a command line, prints its error, and returns the exit code.
func run(ctx context.Context, args []string, std streams) int {
	c := &cli{streams: std}
	root := newRootCommand(c)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := codeOf(ctx, err)
	c.report(err, code)
	return code
}

// newRootCommand returns the command `smartdrive`: a self-hosted cloud drive: server and client.
func newRootCommand(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:           "smartdrive",
		Short:         "A self-hosted cloud drive: server and client",
		Long:          rootLong,
		Args:          cobra.NoArgs,
		SilenceErrors: true, // run prints errors
		SilenceUsage:  true,
		RunE:          showHelp,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.AddGroup(&cobra.Group{ID: "client", Title: "Files:"}, &cobra.Group{ID: "server", Title: "Server:"})
	for _, construct := range serverCommands {
		cmd := construct()
		cmd.GroupID = "server"
		root.AddCommand(cmd)
	}
	for _, construct := range clientCommands {
		cmd := construct(c)
		cmd.GroupID = "client"
		c.addCommands(root, cmd)
	}
	root.AddCommand(newDecodeCommand())
	root.SetFlagErrorFunc(usageError)
	return root
}

// addCommands adds client commands below another command, with the common client flags and usage
// errors for wrong arguments.
func (c *cli) addCommands(to *cobra.Command, subs ...*cobra.Command) {
	for _, sub := range subs {
		sub.Args = usageArgs(sub.Args)
		c.flags(sub)
		to.AddCommand(sub)
	}
}

// showHelp is the RunE of a command that only has subcommands: it prints the help.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// usageArgs turns the errors of an argument check into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError(cmd, err)
		}
		return nil
	}
}

// usageError returns err with the usage line of cmd and exitUsage.
func usageError(cmd *cobra.Command, err error) error {
	return withCode(exitUsage, fmt.Errorf("%w\nusage: %s\nsee: %s --help", err, cmd.UseLine(), cmd.CommandPath()))
}
