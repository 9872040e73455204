package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/cmd/smartdrive/demo"
)

// demoLong is the help of `smartdrive demo`.
const demoLong = `Start a server in a temporary directory, act as its users, and print what the disk, the delayed tasks, the database and
the ledger hold after each step. Every figure is read from the running server. Nothing is left behind.

The stories are those of the articles that SmartDrive follows (docs/walkthrough.md). A story that does not end as it is told ends
the command with exit code 1.

With --cluster, two instances share MySQL, Redis, Kafka and S3, and the stories show the keys, records and rows there. The demo makes
a database, a namespace and a prefix of the bucket of its own and removes them at the end. "make services" starts the services
(set -a; . .services/env).`

// newDemoCommand returns the command `demo`: show how uploads, quotas, exports and intake work,
// step by step.
func newDemoCommand() *cobra.Command {
	var o demo.Options
	lang, inCluster := "", false
	var services demo.Services
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Show how uploads, quotas, exports and intake work, step by step",
		Long:    demoLong,
		Example: "  smartdrive demo\n  smartdrive demo --story upload --lang zh-CN\n  smartdrive demo --fast --json\n  smartdrive demo --cluster --story redis",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			o.Binary, o.Out, o.Chinese = binary, cmd.OutOrStdout(), strings.HasPrefix(lang, "zh")
			if inCluster {
				o.Services = &services
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Stories, "story", nil, "play only these stories: "+strings.Join(demo.Names(false), ", ")+"; with --cluster: "+strings.Join(demo.Names(true), ", "))
	flags.BoolVar(&o.Fast, "fast", false, "use smaller files and an idle limit of 1 s instead of 5 s")
	flags.BoolVar(&o.JSON, "json", false, "print one JSON object per line")
	flags.BoolVar(&inCluster, "cluster", false, "start two instances that share services")
	for _, service := range []struct {
		url              *string
		name, test, help string
	}{
		{&services.DB, "db", "MYSQL", "MySQL, on which a database is created"},
		{&services.Redis, "redis", "REDIS", "Redis"},
		{&services.Kafka, "kafka", "KAFKA", "brokers of Kafka"},
		{&services.Blobs, "blobs", "S3", "bucket in S3"},
	} {
		url := firstNonEmpty(os.Getenv("SMARTDRIVE_"+strings.ToUpper(service.name)), os.Getenv("SMARTDRIVE_TEST_"+service.test))
		flags.StringVar(service.url, service.name, "", "with --cluster: "+service.help+", as serve takes it; default SMARTDRIVE_"+strings.ToUpper(service.name)+", then SMARTDRIVE_TEST_"+service.test)
		*service.url = url
	}
	flags.StringVar(&lang, "lang", firstNonEmpty(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG")), "language of the text: en or zh-CN; default is the locale's")
	return cmd
}
