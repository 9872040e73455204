package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

const (
	someDB    = "--db=mysql://ann:sesame@db.example/drive"
	someRedis = "--redis=redis://:sesame@redis.example"
	someS3    = "--blobs=s3://key:sesame@s3.example/bucket"
	someKafka = "--kafka=kafka.example"
)

func TestParseTargets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		env  []string
		get  func(Config) any
		want any
	}{
		{
			args: []string{"--db=mysql://ann:p%2Fw@[::1]:3307/drive?tls=skip-verify&connections=20"}, get: func(c Config) any { return *c.MySQL },
			want: MySQL{Addr: "[::1]:3307", User: "ann", Password: "p/w", Name: "drive", TLS: "skip-verify", Connections: 20},
		},
		{
			args: []string{"--db=mysql://ann@db/drive?tls=false"}, get: func(c Config) any { return *c.MySQL },
			want: MySQL{Addr: "db:3306", User: "ann", Name: "drive"},
		},
		{
			args: []string{someDB, someS3, "--redis=redis://:pw@a:7001,b,[::1]:7003?cluster=true"}, get: func(c Config) any { return *c.Redis },
			want: Redis{Addrs: []string{"a:7001", "b:6379", "[::1]:7003"}, Password: "pw", Cluster: true},
		},
		{
			args: []string{someDB, someS3, "--redis=rediss://me:pw@a,b/2?sentinel=main"}, get: func(c Config) any { return *c.Redis },
			want: Redis{Addrs: []string{"a:26379", "b:26379"}, User: "me", Password: "pw", DB: 2, Sentinel: "main", TLS: true},
		},
		{
			args: []string{someDB, someRedis, "--blobs=s3://k:s@minio:9000/bucket/a/b/?region=eu&insecure=true"}, get: func(c Config) any { return *c.S3 },
			want: S3{Endpoint: "minio:9000", Key: "k", Secret: "s", Bucket: "bucket", Prefix: "a/b", Region: "eu", Insecure: true},
		},
		{
			args: []string{someDB, someRedis, "--blobs=s3://minio/bucket"},
			env:  []string{"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s", "AWS_SESSION_TOKEN=t"}, get: func(c Config) any { return *c.S3 },
			want: S3{Endpoint: "minio", Key: "k", Secret: "s", Session: "t", Bucket: "bucket"},
		},
		{
			args: []string{someDB, someRedis, someS3, "--kafka=a:1,b", "--kafka=c"}, get: func(c Config) any { return *c.Kafka },
			want: Kafka{Brokers: []string{"a:1", "b:9092", "c:9092"}},
		},
		{
			args: []string{someDB, someRedis, someS3, "--kafka=kafka://me:p%2Fw@a:1,b"}, get: func(c Config) any { return *c.Kafka },
			want: Kafka{Brokers: []string{"a:1", "b:9092"}, User: "me", Password: "p/w", SASL: "scram-sha-512"},
		},
		{
			args: []string{someDB, someRedis, someS3, "--kafka=kafka://me:pw@a?tls=true&sasl=plain"}, get: func(c Config) any { return *c.Kafka },
			want: Kafka{Brokers: []string{"a:9092"}, User: "me", Password: "pw", SASL: "plain", TLS: true},
		},
		{
			args: []string{someDB, someRedis, someS3, "--roles=worker, api"}, get: func(c Config) any { return c.Roles },
			want: Roles{API: true, Worker: true},
		},
		{
			env: []string{"SMARTDRIVE_DB_FILE=db.txt"}, get: func(c Config) any { return *c.MySQL },
			want: MySQL{Addr: "db:3306", User: "ann", Password: "from a file", Name: "drive"},
		},
	} {
		c, err := loadWith(tt.args, tt.env)
		if err != nil {
			t.Errorf("%v: %v", tt.args, err)
			continue
		}
		if diff := cmp.Diff(tt.want, tt.get(c)); diff != "" {
			t.Errorf("%v: %s", tt.args, diff)
		}
	}
}

// loadWith is load with a file that contains a secret.
func loadWith(args, env []string) (Config, error) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return Config{}, err
	}
	return Load(flags, append([]string{"HOME=/home/ann"}, env...), func(name string) ([]byte, error) {
		if name == "db.txt" {
			return []byte("mysql://ann:from%20a%20file@db/drive\n"), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	})
}

// TestTargetErrorsHidePasswords checks that errors do not quote passwords.
func TestTargetErrorsHidePasswords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"--db=postgres://ann:sesame@db/drive", "--db: write it as mysql://"},
		{"--db=mysql://ann:ses#ame/sesame@db/drive", "--db: write it as mysql://"},
		{"--db=mysql://ann:sesame/@db:3306/drive", "special characters of a password as %2F"},
		{"--db=mysql://:sesame@db/drive", "user or the name of the database is missing"},
		{"--db=mysql://ann:sesame@db", "user or the name of the database is missing"},
		{"--db=mysql://ann:sesame@db/drive?timeout=3s", `no option "timeout"; there are tls, connections`},
		{"--db=mysql://ann:sesame@db/drive?connections=1", "connections"},
		{"--db=mysql://ann:sesame@db/drive?tls=maybe", "skip-verify"},
		{"--db=mysql://ann:sesame@:3306/drive", "not HOST:PORT"},
		{"--db=mysql://ann:777777/sesame@db/drive", "not HOST:PORT"},
		{"--redis=http://:sesame@redis", "--redis: write it as redis://"},
		{"--redis=redis://:sesame@a,b", "add ?cluster=true or ?sentinel=NAME"},
		{"--redis=redis://:sesame@a/3?cluster=true", "only the database 0"},
		{"--redis=redis://:sesame@a?cluster=true&sentinel=x", "exclude each other"},
		{"--redis=redis://:sesame@a?cluster=perhaps", "neither true nor false"},
		{"--redis=redis://:sesame@a/x", "not the number of a database"},
		{"--redis=redis://:sesame@a,b:99999?cluster=true", "not HOST:PORT"},
		{"--kafka=,", "no broker"},
		{"--kafka=kafka://", "no broker"},
		{"--kafka=me:sesame@a", "not a list of brokers"},
		{"--kafka=a,me:sesame@a", "not a list of brokers"},
		{"--kafka=kafka://me@a", "the user or the password is missing"},
		{"--kafka=kafka://a?sasl=plain", "needs a user"},
		{"--kafka=kafka://me:sesame@a?sasl=plain", "add tls=true"},
		{"--kafka=kafka://me:sesame@a?sasl=gssapi", "there are scram-sha-512"},
		{"--kafka=kafka://me:sesame@a?acks=1", `no option "acks"`},
		{"--kafka=kafka://me:sesame@a:99999", "not HOST:PORT"},
		{"--blobs=gs://bucket", "gs:// is not known"},
		{"--blobs=s3://key:sesame@s3", "bucket is missing"},
		{"--blobs=s3://key@s3/bucket", "the key or its secret is missing"},
		{"--blobs=s3://s3/bucket", "there is no key"},
		{"--namespace=Drive", "a letter first"},
		{"--roles=api,admin", `"admin" is not one of`},
		{"--roles=,", "at least one of"},
		{"--start-wait=2h", "out of range"},
	} {
		_, err := loadWith([]string{tt.args}, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %q in it", tt.args, err, tt.want)
		}
		if err != nil && (strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "ses")) {
			t.Errorf("%s: the error shows the password: %v", tt.args, err)
		}
	}
	_, err := loadWith(nil, []string{"SMARTDRIVE_REDIS_FILE=gone"})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--redis (SMARTDRIVE_REDIS_FILE)") {
		t.Errorf("a file that is not there: %v", err)
	}
	_, err = loadWith(nil, []string{"SMARTDRIVE_DB_FILE=db.txt", "SMARTDRIVE_DB=mysql://a:b@c/d"})
	if err == nil || !strings.Contains(err.Error(), "are both set") {
		t.Errorf("twice: %v", err)
	}
}

func TestSecretFormatsAsStars(t *testing.T) {
	t.Parallel()
	c, err := loadWith([]string{someDB, someRedis, someS3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("settings", "db", *c.MySQL, "redis", c.Redis.Password)
	for _, text := range []string{string(asJSON), logged.String(), fmt.Sprintf("%v %+v %#v %s", *c.MySQL, *c.Redis, *c.S3, c.S3.Secret)} {
		if strings.Contains(text, "sesame") || !strings.Contains(text, "***") {
			t.Errorf("shown: %s", text)
		}
	}
	if string(c.MySQL.Password) != "sesame" {
		t.Error("the password was not kept")
	}
}

// TestModeCombinations checks that each combination of services is a mode or is refused with all
// reasons.
func TestModeCombinations(t *testing.T) {
	t.Parallel()
	allowed := map[string]Mode{
		"": Embedded, "db": Single, "db redis s3": Shared, "db redis s3 kafka": Cluster,
	}
	missing := map[string][]string{
		"s3": {"--db", "--redis"}, "redis": {"--db", "--blobs"}, "kafka": {"--db", "--redis"},
		"redis s3": {"--db"}, "s3 kafka": {"--db", "--redis"}, "redis kafka": {"--db", "--blobs"}, "redis s3 kafka": {"--db"},
		"db s3": {"--redis"}, "db redis": {"--blobs"}, "db kafka": {"--redis"},
		"db s3 kafka": {"--redis"}, "db redis kafka": {"--blobs"},
	}
	all := []struct{ name, arg string }{{"db", someDB}, {"redis", someRedis}, {"s3", someS3}, {"kafka", someKafka}}
	for bits := range 1 << len(all) {
		var names, args []string
		for i, one := range all {
			if bits&(1<<i) != 0 {
				names, args = append(names, one.name), append(args, one.arg)
			}
		}
		combination := strings.Join(names, " ")
		c, err := loadWith(args, nil)
		if mode, ok := allowed[combination]; ok {
			if err != nil || c.Mode() != mode {
				t.Errorf("%q is %q, %v; want %q", combination, c.Mode(), err, mode)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "Possible are") {
			t.Errorf("%q is not refused, or not with what is possible: %v", combination, err)
			continue
		}
		reasons, _, _ := strings.Cut(err.Error(), "Possible are")
		for _, word := range missing[combination] {
			if !strings.Contains(reasons, word+" is") {
				t.Errorf("%q: %v does not say that %s is missing", combination, err, word)
			}
		}
		if len(missing[combination]) == 0 {
			t.Errorf("%q is in neither table", combination)
		}
	}
}

func TestModeChecksOtherSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string // "": allowed
	}{
		{[]string{"--roles=api"}, "leave --roles out"},
		{[]string{someDB, "--roles=api,worker"}, "leave --roles out"},
		{[]string{someDB, someRedis, someS3, "--roles=api"}, ""},
		{[]string{someDB, someRedis, someS3, "--part-size=4MiB"}, "parts on S3 have at least 8MiB"},
		{[]string{"--part-size=4MiB"}, ""},
		{[]string{"--download-redirect=15m"}, "--download-redirect: contents are in a directory"},
		{[]string{someDB, "--download-redirect=15m"}, "it needs --blobs s3://"},
		{[]string{"--download-redirect=0"}, ""},
		{[]string{"--kafka-delay-topics=orders.late"}, "without --kafka"},
		{[]string{"--creation-intervals=POST /exports=5s,POST /nodes=1m"}, ""},
		{[]string{"--creation-intervals=exports=5s"}, "is no interval"},
		{[]string{"--creation-intervals=POST /exports"}, "is no interval"},
		{[]string{"--creation-intervals=POST /exports=2h"}, "1s to 1h"},
		{[]string{someDB, someRedis, someS3, someKafka, "--kafka-delay-topics=orders.late,other"}, ""},
		{[]string{someDB, someRedis, someS3, someKafka, "--kafka-delay-topics=orders.late,smartdrive.delay.5s"}, "SmartDrive's own"},
		{[]string{someDB, someRedis, someS3, "--download-redirect=15m"}, ""},
		{[]string{someDB, someRedis, someS3, "--download-redirect=15m", "--base-url=https://a.example"}, ""},
		{[]string{someDB, someRedis, someS3 + "?insecure=true", "--download-redirect=15m"}, ""},
		{[]string{someDB, someRedis, someS3 + "?insecure=true", "--download-redirect=15m", "--base-url=https://a.example"}, "sent on to HTTP"},
		{[]string{someDB, someRedis, someS3 + "?insecure=true", "--download-redirect=15m", "--tls-cert=a", "--tls-key=b"}, "sent on to HTTP"},
	} {
		_, err := loadWith(tt.args, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %q", tt.args, err, tt.want)
		}
	}
}

// FuzzTarget checks arbitrary targets for panics, and for errors that quote the text before the @.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{
		"mysql://u:p@h/n", "redis://:p@a,b?cluster=true", "s3://k:s@h/b/p?region=x", "redis://@", "s3:///b", "mysql://u:p@[::1]:0/n", "://",
		"redis://a,b@c,d/0", "s3:x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		for _, set := range []func(*Config, string) error{setDB, setRedis, setBlobs, setKafka} {
			var c Config
			if err := set(&c, v); err != nil {
				continue
			}
			if c.MySQL != nil && (c.MySQL.Name == "" || hostPort(c.MySQL.Addr) != nil) {
				t.Errorf("accepted %q as %+v", v, *c.MySQL)
			}
			if c.S3 != nil && c.S3.Bucket == "" {
				t.Errorf("accepted %q as %+v", v, *c.S3)
			}
			if c.Redis != nil && len(c.Redis.Addrs) == 0 {
				t.Errorf("accepted %q as %+v", v, *c.Redis)
			}
		}
	})
}
