package sqldb

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// mysqlScheme is the prefix of the URL of a MySQL or MariaDB database.
const mysqlScheme = "mysql://"

// defaultMySQLPort is the port of a URL without one.
const defaultMySQLPort = "3306"

// databaseName matches the database names that need no quotes in our statements.
var databaseName = regexp.MustCompile(`^[0-9A-Za-z_$-]{1,64}$`)

// parseMySQL parses Options.MySQL: mysql://user:password@host:port/name?tls=true, or the driver's
// syntax. Its errors never contain the password.
func parseMySQL(source string) (*mysql.Config, error) {
	if !strings.HasPrefix(source, mysqlScheme) {
		cfg, err := mysql.ParseDSN(source)
		if err != nil {
			return nil, errors.New("the data source is neither mysql://user:password@host:port/name nor one of the driver's")
		}
		if err := checkDatabase(cfg.DBName); err != nil {
			return nil, err
		}
		if cfg.User == "" {
			return nil, errNoUser
		}
		return cfg, nil
	}
	u, err := url.Parse(source)
	if err != nil { // the text of err contains the URL
		return nil, errors.New("the database's URL is malformed: it is mysql://user:password@host:port/name, special characters in % form")
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr = "tcp", address(u)
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	switch {
	case cfg.User == "":
		return nil, errNoUser
	case u.Hostname() == "":
		return nil, errors.New("the database's URL names no host")
	case u.Fragment != "":
		return nil, errors.New("the database's URL has a #: special characters in % form")
	}
	if err := readParams(cfg, u.RawQuery); err != nil {
		return nil, err
	}
	return cfg, checkDatabase(cfg.DBName)
}

// errNoUser reports a URL without a user.
var errNoUser = errors.New("the database's URL names no user")

// address returns host and port of u, with the default port.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = defaultMySQLPort
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// checkDatabase returns an error with a remedy if name is empty or does not match databaseName.
func checkDatabase(name string) error {
	switch {
	case name == "":
		return errors.New("the database's URL names no database: .../name")
	case !databaseName.MatchString(name):
		return fmt.Errorf("%q is not a name of a database: 1 to 64 letters, digits, _, $ or -", name)
	}
	return nil
}

// readParams sets cfg.TLSConfig from the query of the URL: tls=true (verified), tls=skip-verify
// (encrypted, not verified) or tls=false. It fails for other parameters and values.
func readParams(cfg *mysql.Config, raw string) error {
	params, err := url.ParseQuery(raw)
	if err != nil {
		return errors.New("what follows the ? of the database's URL is malformed")
	}
	for name, values := range params {
		switch value := values[len(values)-1]; {
		case name != "tls":
			return fmt.Errorf("the database's URL has the parameter %q, and only tls is known", name)
		case value != "true" && value != "skip-verify" && value != "false":
			return fmt.Errorf("tls of the database's URL is %q: true, skip-verify or false", value)
		default:
			cfg.TLSConfig = value
		}
	}
	return nil
}
