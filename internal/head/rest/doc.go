// Package rest is the native API: JSON over HTTP under /api/v1, on the use cases as they are.
//
// A resource is a struct with the use cases that its handlers call, and a method that returns its
// rows of the table of routes. The table (route.go, and one file for each resource) says everything
// about an address: method, pattern, who may call it, its query parameters, body, answers and
// problems. The mux, the checks before a handler, the OpenAPI document at /api/openapi.json and
// docs/api.md are all made from it, so that none of them can say something else than the others.
//
// A request goes through, in this order (call.go):
//
//	token      who it is, by bearer token or cookie (401; cookie.go), and whether that may call this route (403)
//	gate       no more than so many requests of one user at a time (429)
//	clicks     no more than so many creations of one kind by one user in a second (429)
//	query      unknown, repeated, malformed and out of range parameters are 400
//	key        Idempotency-Key: a repeated creation gets the first one's answer (once.go)
//	body       strict JSON of at most 1 MiB (decode.go): 400, 413, 415
//	handler    one call of a use case
//
// Putting a part takes none of these steps to the database (P5): the token is cached, and a part
// has no key and no clicks.
//
// What goes wrong is a drive.Error, rendered by package problem. Ids that cannot be one, things
// that are not there and things of other accounts are the same 404.
package rest
