package client

import (
	"iter"

	"example.org/smartdrive/api"
)

// Types of the API. Package api declares them.
type (
	Access           = api.Access
	AccessGrant      = api.AccessGrant
	Challenge        = api.Challenge
	ChangeEvent      = api.Change
	ChangeList       = api.ChangePage
	Code             = api.Code
	Collect          = api.Collect
	Conflict         = api.Conflict
	Digests          = api.Digests
	Grant            = api.Grant
	Group            = api.Group
	KeyConflict      = api.KeyConflict
	Link             = api.Link
	LinkTarget       = api.LinkTarget
	Me               = api.Me
	Member           = api.Member
	Node             = api.Node
	NodeType         = api.NodeType
	Operation        = api.Operation
	OperationFailure = api.OperationFailure
	OperationKind    = api.OperationKind
	Part             = api.Part
	Principal        = api.Principal
	Share            = api.Share
	SharedByName     = api.SharedByName
	Space            = api.Space
	Span             = api.Span
	Time             = api.Time
	Upload           = api.Upload
	UploadState      = api.UploadState
	Version          = api.Version
	Webhook          = api.Webhook
)

// List is one page of a list.
type List[T any] = api.Page[T]

// The types of nodes.
const (
	File   = api.File
	Folder = api.Folder
)

// The conflict policies.
const (
	Fail    = api.Fail
	Rename  = api.Rename  // "name (2).ext"
	Replace = api.Replace // adds a new version to the existing file
)

// The states of an upload, see package api.
const (
	Active    = api.Active
	Parked    = api.Parked
	Sealing   = api.Sealing
	Verifying = api.Verifying
	Done      = api.Done
	Gone      = api.Gone
)

// blake3Name is the key of the BLAKE3 digest in Digests.
const blake3Name = "blake3"

// Page selects a page of a list. The zero value is the first 200 items in the server's order.
type Page struct {
	Limit  int    // 1..1000
	Cursor string // NextCursor of the previous page; empty: the first page
	Sort   string // name, size or mtime
	Order  string // asc or desc
}

// pages yields the pages returned by fetch, 1,000 items each. If a request fails, the last pair is
// a zero value and the error.
func pages[T any](fetch func(Page) (List[T], error)) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		for page := (Page{Limit: 1000}); ; {
			list, err := fetch(page)
			if !yield(list.Items, err) || err != nil || list.NextCursor == nil || *list.NextCursor == "" {
				return
			}
			page.Cursor = *list.NextCursor
		}
	}
}

// all yields the items of all pages returned by fetch. If a request fails, the last pair is a zero
// value and the error.
func all[T any](fetch func(Page) (List[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for items, err := range pages(fetch) {
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}
