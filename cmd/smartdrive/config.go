package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// clientConfig is the server and token saved by login.
type clientConfig struct {
	Server string `json:"server"`
	Token  string `json:"token"`
}

// configPath returns $XDG_CONFIG_HOME/smartdrive/config.json, or below ~/.config if the variable is
// unset or relative.
func configPath() (string, error) {
	base := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) { // XDG Base Directory: ignore a relative path
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "smartdrive", "config.json"), nil
}

// loadConfig reads the saved configuration. A missing file is the zero value, not an error.
func loadConfig() (cfg clientConfig, err error) {
	name, err := configPath()
	if err != nil {
		return cfg, nil //nolint:nilerr // without a home directory, only flags and environment apply
	}
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, nil
	}
	if err != nil {
		return cfg, err
	}
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return cfg, fmt.Errorf("read %s: %w", name, err)
	}
	return cfg, nil
}

// save writes the configuration atomically, readable only by this user, and returns the file's
// path.
func (cfg clientConfig) save() (string, error) {
	name, err := configPath()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	raw, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".config-*") // 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // remove the incomplete file
		return "", err
	}
	return name, nil
}
