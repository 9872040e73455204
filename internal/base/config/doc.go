// Package config defines the settings of `smartdrive serve`: their names, sources and allowed
// values.
//
// The table settings defines each setting once. The flags and their help, the SMARTDRIVE_*
// variables, the YAML keys, the defaults, the checks and docs/configuration.md are derived from it.
// A flag overrides a variable, a variable overrides the file, and the file overrides the default.
// The package itself opens no file and reads no environment.
package config
