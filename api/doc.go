// Package api declares the JSON of the native API: requests, replies and problem codes, each once.
// The server sends these types and package client returns them. Sizes are bytes, digests lower-case
// hex, ids UUIDs as text, and times RFC 3339 in UTC with milliseconds.
//
// The tags doc, enum, minimum, maximum and nullable describe a field in the OpenAPI document.
package api
