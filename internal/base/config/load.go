package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// source is where a value comes from.
type source struct {
	value string
	where string // "", or what to add to the flag's name in an error
}

// Load reads the settings from parsed flags (see AddFlags), an environment ("NAME=value", as
// os.Environ) and the file that --config names. All that is wrong is said at once; each error names
// the flag, what is wrong and what is allowed. A variable that is empty counts as not set.
func Load(flags *pflag.FlagSet, environ []string, readFile func(string) ([]byte, error)) (Config, error) {
	env := environment(environ)
	c := Config{Notes: env.notes()}
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
	if errors.Join(errs...) == nil { // else what is missing may be what could not be read
		errs = append(errs, c.agreeMode())
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// gather returns what was given for each setting, by name, from the source that counts most.
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

// fromEnvironment returns what a variable says, or the file that it names.
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

// complete fills in the defaults that depend on other things.
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

// dataDir follows the XDG Base Directory Specification 0.8, which says to ignore a relative
// XDG_DATA_HOME.
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

// agree checks the settings that depend on each other.
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

// environment is a list of "NAME=value"; the last one of a name counts, as in os/exec.
type environment []string

func (e environment) lookup(name string) string {
	for _, v := range slices.Backward(e) {
		if n, v, _ := strings.Cut(v, "="); n == name {
			return v
		}
	}
	return ""
}

// notes names the variables that were probably meant as a setting. Others with the prefix are left
// alone: the client has some, and container systems make up names of their own.
func (e environment) notes() []string {
	var notes []string
	for _, entry := range e {
		name, _, _ := strings.Cut(entry, "=")
		key, ok := strings.CutPrefix(name, variablePrefix)
		if !ok || strings.HasPrefix(key, "TEST_") {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(key, "_", "-"))
		if s := find(strings.TrimSuffix(flag, "-file")); s != nil && s.secret { // fromEnvironment has read the file
			continue
		}
		if near := nearest(flag); find(flag) == nil && near != nil && !foreign[name] {
			notes = append(notes, fmt.Sprintf("%s is not a setting and was ignored; did you mean %s?", name, near.variable()))
		}
	}
	return notes
}

// foreign are the variables with the prefix that are not settings of serve, beside those of tests
// (SMARTDRIVE_TEST_*).
var foreign = map[string]bool{
	"SMARTDRIVE_SERVER": true, "SMARTDRIVE_TOKEN": true, "SMARTDRIVE_ADMIN_PASSWORD": true,
}
