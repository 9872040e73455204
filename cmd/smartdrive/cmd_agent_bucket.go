package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client/bucket"
	"example.org/smartdrive/internal/base/config"
)

// newAgentBucketCommand returns the command `bucket s3://KEY:SECRET@HOST/BUCKET/PREFIX`: forward
// document bundles from a bucket that another program fills.
func newAgentBucketCommand(c *cli) *cobra.Command {
	var (
		every  time.Duration
		events string
		once   bool
	)
	cmd := &cobra.Command{
		Use:   "bucket s3://KEY:SECRET@HOST/BUCKET/PREFIX",
		Short: "Forward document bundles from a bucket that another program fills",
		Long: `Forward document bundles from an S3 bucket. The bundle PREFIX/SOURCE/ID/ is copied to /intake/SOURCE/ID/ when its meta.json has
arrived: the members first, each checked against the manifest, meta.json last. The bucket is only read.

The bucket is listed every --every. With --events, S3 event notifications in a Kafka topic start a copy at once; an event that is lost
delays a bundle until the next listing. The key can also come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.`,
		Example: `  smartdrive agent bucket 's3://s3.example.org/exchange/invoices?region=eu-central-1'
  smartdrive agent bucket s3://store:9000/exchange?insecure=true --events kafka:9092/bucket-events`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := config.ParseS3(args[0], os.Environ())
			if err != nil {
				return usageError(cmd, err)
			}
			opt := bucket.Options{Bucket: *at, Every: every, Log: slog.New(slog.NewTextHandler(c.err, nil))}
			if events != "" {
				hosts, topic, ok := strings.Cut(events, "/")
				if !ok || hosts == "" || topic == "" {
					return usageError(cmd, errors.New("--events: write it as HOST:PORT[,HOST:PORT]/TOPIC"))
				}
				opt.Brokers, opt.Topic = strings.Split(hosts, ","), topic
			}
			if opt.Client, err = c.connect(); err != nil {
				return err
			}
			f, err := bucket.New(opt)
			if err != nil {
				return err
			}
			if !once {
				return f.Run(cmd.Context())
			}
			counts, err := f.RunPass(cmd.Context())
			if err == nil {
				err = c.show(counts, "%d forwarded, %d waiting for members, %d failed", counts.Forwarded, counts.Waiting, counts.Failed)
			}
			if err == nil && counts.Failed > 0 {
				err = withCode(exitPartial, fmt.Errorf("%d bundles could not be forwarded", counts.Failed))
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&every, "every", time.Minute, "time between two listings")
	flags.StringVar(&events, "events", "", "Kafka topic with the bucket's event notifications, as HOST:PORT[,HOST:PORT]/TOPIC")
	flags.BoolVar(&once, "once", false, "list once, forward what is sealed, and exit, for cron")
	return cmd
}
