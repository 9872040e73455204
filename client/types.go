package client

import (
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"
)

// Node is a file or a folder.
type Node struct {
	ID        string     `json:"id"`
	ParentID  string     `json:"parent_id"`
	Name      string     `json:"name"`
	Path      string     `json:"path"`
	Type      NodeType   `json:"type"`
	Size      int64      `json:"size"` // bytes
	MIME      string     `json:"mime"`
	Mtime     time.Time  `json:"mtime"` // modification time of the file, in milliseconds
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	Rev       int64      `json:"rev"`
	Seq       int64      `json:"seq"`
	Digests   Digests    `json:"digests"`
	TrashedAt *time.Time `json:"trashed_at"`
}

// NodeType is File or Folder.
type NodeType string

// The types of nodes.
const (
	File   NodeType = "file"
	Folder NodeType = "folder"
)

// Digests maps an algorithm ("blake3", "sha256", "sm3", "sha1", "md5") to lower-case hex.
type Digests map[string]string

// blake3Name is the key of the BLAKE3 digest in Digests.
const blake3Name = "blake3"

// Conflict is the policy for a name that is already taken.
type Conflict string

// The conflict policies.
const (
	Fail    Conflict = "fail"
	Rename  Conflict = "rename"  // "name (2).ext"
	Replace Conflict = "replace" // adds a new version to the existing file
)

// Upload is an upload in parts.
type Upload struct {
	ID        string          `json:"id"`
	State     UploadState     `json:"state"`
	Path      string          `json:"path"`
	Conflict  Conflict        `json:"conflict"`
	Size      *int64          `json:"size"` // bytes; nil when unknown
	PartSize  int64           `json:"part_size"`
	Parts     int             `json:"parts"`
	Received  []Span          `json:"received"` // ranges of part numbers
	Reserved  int64           `json:"reserved"`
	ExpiresAt time.Time       `json:"expires_at"`
	MaxSize   *int64          `json:"max_size,omitempty"`
	Challenge *Challenge      `json:"challenge,omitempty"`
	Node      *Node           `json:"node,omitempty"`     // set when done
	Progress  json.RawMessage `json:"progress,omitempty"` // set while sealing
}

// UploadState is the state of an upload.
type UploadState string

// The states of an upload.
const (
	Active  UploadState = "active"
	Parked  UploadState = "parked" // idle, its reservation released; the next part reactivates it
	Sealing UploadState = "sealing"
	// Verifying means that the server checks the answer to a challenge. Parts may still be
	// sent; the upload becomes done if the answer is right.
	Verifying UploadState = "verifying"
	Done      UploadState = "done"
	Gone      UploadState = "gone"
)

// Span is an inclusive range: the first and the last number.
type Span [2]int64

// Challenge asks the client to prove that it has the content whose digest it claims.
type Challenge struct {
	Nonce     string     `json:"nonce"`  // 32 bytes in hex
	Ranges    [][2]int64 `json:"ranges"` // offset and length, in bytes
	ExpiresAt time.Time  `json:"expires_at"`
}

// Part is a part that the server has received.
type Part struct {
	N     int64    `json:"n"`
	Size  int64    `json:"size"`
	CRC32 checksum `json:"crc32"` // IEEE polynomial
	CV    string   `json:"cv"`    // BLAKE3 chaining value in hex; may be empty
}

// checksum is a CRC-32, decoded from a JSON number or a hex string. Known is false if the server
// sent none.
type checksum struct {
	Sum   uint32
	Known bool
}

// UnmarshalJSON decodes a CRC-32 from a number or a string of hexadecimal digits. null and "" leave
// it unknown. Other text fails.
func (c *checksum) UnmarshalJSON(b []byte) error {
	base, text := 10, string(b)
	if len(b) > 1 && b[0] == '"' {
		base, text = 16, text[1:len(text)-1]
	}
	if text == "null" || text == "" {
		return nil
	}
	v, err := strconv.ParseUint(text, base, 32)
	if err != nil {
		return fmt.Errorf("crc32: %w", err)
	}
	*c = checksum{uint32(v), true}
	return nil
}

// Me is the user of a token, the account and its storage usage.
type Me struct {
	User struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Admin bool   `json:"admin"`
	} `json:"user"`
	Account struct {
		ID string `json:"id"`
	} `json:"account"`
	Usage struct {
		Total *int64 `json:"total"`          // bytes; nil is unlimited
		Used  int64  `json:"used"`           // finished files, including trash and old versions
		Owed  int64  `json:"owed,omitempty"` // deleted but still on disk; Used+Owed may reach twice Quota
	} `json:"usage"`
}

// Page selects a page of a list. The zero value is the first 200 items in the server's order.
type Page struct {
	Limit  int    // 1..1000
	Cursor string // NextCursor of the previous page; empty: the first page
	Sort   string // name, size or mtime
	Order  string // asc or desc
}

// List is one page of a list.
type List[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"` // nil on the last page
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
