// Package rest serves the native API: JSON over HTTP under /api/v1, directly on the use cases.
//
// A resource is a struct that holds the use cases its handlers call, and a method that returns its
// routes. The table of routes (route.go, and one file for each resource) says everything about an
// address: method, pattern, required access, query parameters, body, responses and problems. The
// mux, the checks before a handler, the OpenAPI document at /api/openapi.json and docs/api.md are
// all derived from the table, so that they cannot disagree.
//
// A request passes these steps, in this order (call.go):
//
//	token      who it is, by bearer token or cookie (401; cookie.go), and whether that may call this route (403)
//	gate       no more than so many requests of one user at a time (429)
//	clicks     no more than so many creations of one kind by one user in a second (429)
//	query      unknown, repeated, malformed and out of range parameters are 400
//	key        Idempotency-Key: a repeated creation gets the first one's answer (idempotency.go)
//	body       strict JSON of at most 1 MiB (decode.go): 400, 413, 415
//	handler    one call of a use case
//
// Putting a part does not access the database in any of these steps (P5): the token is cached, and
// a part has no key and no click limit.
//
// Handlers return a drive.Error, and package problem renders it. Malformed ids, missing objects and
// objects of other accounts all get the same 404, so that a client cannot tell them apart.
package rest
