// Package export downloads zips of the real binary, as people do, while the server is killed. It
// has tests only.
package export
