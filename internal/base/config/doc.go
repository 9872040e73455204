// Package config is the settings of `smartdrive serve`: what there is, how it is read and what is
// allowed.
//
// One table (settings) holds each setting once. From it come the flags and their help, the
// SMARTDRIVE_* variables, the YAML keys, the defaults, the checks and docs/configuration.md, so
// that they cannot drift apart. A flag beats a variable, a variable beats the file, the file beats
// the default. The package opens no file and reads no environment by itself.
package config
