package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// source is a value and its origin.
type source struct {
	value string
	where string // suffix for the flag's name in errors: "" for a flag, else the variable or file
}

// Load reads the settings from parsed flags (see AddFlags), an environment ("NAME=value", as
// os.Environ), and the file named by --config. It reports all errors at once; each names the flag,
// the problem and the allowed values. An empty variable counts as not set.
func Load(flags *pflag.FlagSet, environ []string, readFile func(string) ([]byte, error)) (Config, error) {
	env := environment(environ)
	c := Config{Warnings: env.warnings()}
	given, err := gather(flags, env, readFile)
	if err != nil {
		return Config{}, err
	}
	var errs []error
	for i := range settings {
		s := &settings[i]
		from, ok := given[s.name]
		if !ok {
			from.value = s.def
		} else if s.live != "" {
			if c.given == nil {
				c.given = map[string]string{}
			}
			c.given[s.name] = from.value
		}
		if from.value == "" && s.def == "" {
			continue
		}
		if err := s.set(&c, from.value); err != nil {
			errs = append(errs, fmt.Errorf("--%s%s: %w", s.name, from.where, err))
		}
	}
	errs = append(errs, c.complete(env), c.agree())
	if errors.Join(errs...) == nil { // else the missing setting may be one that could not be read
		errs = append(errs, c.agreeMode())
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// gather returns, by name, the value of each setting that is given and where it comes from. A flag
// beats the environment, which beats the file that the setting config names; an empty value counts
// as not given. It fails if a file cannot be read or has an unknown key.
func gather(flags *pflag.FlagSet, env environment, readFile func(string) ([]byte, error)) (map[string]source, error) {
	given := make(map[string]source)
	for i := range settings {
		s := &settings[i]
		from, err := fromEnvironment(s, env, readFile)
		if err != nil {
			return nil, err
		}
		if from.value != "" {
			given[s.name] = from
		}
		if f := flags.Lookup(s.name); f != nil && f.Changed {
			given[s.name] = source{f.Value.String(), ""}
		}
	}
	name := given["config"].value
	if name == "" {
		return given, nil
	}
	text, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	keys, err := parseFile(text)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", name, err)
	}
	for key, value := range keys {
		if _, ok := given[key]; !ok && value != "" {
			given[key] = source{value, " (in " + name + ")"}
		}
	}
	return given, nil
}

// fromEnvironment returns the value of the setting's variable, or the content of the file named by
// the variable with _FILE appended.
func fromEnvironment(s *setting, env environment, readFile func(string) ([]byte, error)) (source, error) {
	from := source{env.lookup(s.variable()), " (" + s.variable() + ")"}
	inFile := s.variable() + "_FILE"
	file := env.lookup(inFile)
	if !s.secret || file == "" {
		return from, nil
	}
	if from.value != "" {
		return source{}, fmt.Errorf("--%s: %s and %s are both set; keep one", s.name, s.variable(), inFile)
	}
	text, err := readFile(file)
	if err != nil {
		return source{}, fmt.Errorf("--%s (%s): %w", s.name, inFile, err)
	}
	return source{strings.TrimSpace(string(text)), " (" + inFile + ")"}, nil
}

// complete sets c.Data, c.Blobs and the keys of buckets, where they are empty, from the environment
// or each other. It fails if no directory for data is known or a key is missing.
func (c *Config) complete(env environment) error {
	if c.Data == "" {
		dir, err := dataDir(env)
		if err != nil {
			return err
		}
		c.Data = dir
	}
	if c.Blobs == "" {
		c.Blobs = c.Data
	}
	return errors.Join(c.S3.credentials(env, "blobs"), c.ExportBucket.credentials(env, "export-bucket"))
}

// dataDir returns the default data directory by the XDG Base Directory Specification 0.8, which
// requires ignoring a relative XDG_DATA_HOME.
func dataDir(env environment) (string, error) {
	if dir := env.lookup("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "smartdrive"), nil
	}
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if home := env.lookup(name); home != "" {
			return filepath.Join(home, ".local", "share", "smartdrive"), nil
		}
	}
	return "", errors.New("--data: there is no home directory to put it in; say which directory to use")
}

// agree returns the joined errors of all settings that contradict each other, with a remedy; nil if
// there are none. It changes nothing.
func (c *Config) agree() error {
	var errs []error
	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key: one of them is missing; set both or none"))
	}
	if c.UploadAbandon != 0 && c.UploadMaxAge != 0 && c.UploadMaxAge < c.UploadAbandon {
		errs = append(errs, fmt.Errorf("--upload-max-age: %s is less than --upload-abandon (%s); use at least that",
			short(c.UploadMaxAge), short(c.UploadAbandon)))
	}
	return errors.Join(append(errs, c.agreeSignOn())...)
}

// environment is a list of "NAME=value"; the last entry of a name counts, as in os/exec.
type environment []string

// lookup returns the value of a variable, the last one if it occurs several times; "" if it is
// missing.
func (e environment) lookup(name string) string {
	for _, v := range slices.Backward(e) {
		if n, v, _ := strings.Cut(v, "="); n == name {
			return v
		}
	}
	return ""
}

// warnings returns a warning for each variable with a name similar to a setting. Other variables
// with the prefix are ignored: the client has some, and container systems add their own.
func (e environment) warnings() []string {
	var warnings []string
	for _, entry := range e {
		name, _, _ := strings.Cut(entry, "=")
		key, ok := strings.CutPrefix(name, variablePrefix)
		if !ok || strings.HasPrefix(key, "TEST_") {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(key, "_", "-"))
		if s := find(strings.TrimSuffix(flag, "-file")); s != nil && s.secret { // fromEnvironment reads the file
			continue
		}
		if near := nearest(flag); find(flag) == nil && near != nil && !foreign[name] {
			warnings = append(warnings, fmt.Sprintf("%s is not a setting and was ignored; did you mean %s?", name, near.variable()))
		}
	}
	return warnings
}

// foreign lists variables with the prefix that are not settings of serve, besides those of tests
// (SMARTDRIVE_TEST_*).
var foreign = map[string]bool{
	"SMARTDRIVE_SERVER": true, "SMARTDRIVE_TOKEN": true, "SMARTDRIVE_ADMIN_PASSWORD": true,
}
