package api

// Upload is an upload in parts.
type Upload struct {
	ID        string        `json:"id" format:"uuid"`
	State     UploadState   `json:"state"`
	Path      string        `json:"path"`
	Conflict  Conflict      `json:"conflict"` // applies if the name is taken
	Size      *int64        `json:"size"`     // bytes; nil: not declared
	PartSize  int64         `json:"part_size"`
	Parts     int           `json:"parts"`              // number of parts of the whole file; 0: size not declared
	Received  []Span        `json:"received"`           // ranges of part numbers
	Reserved  int64         `json:"reserved"`           // bytes reserved in the quota
	ExpiresAt Time          `json:"expires_at"`         // when the upload is reclaimed without further activity
	MaxSize   int64         `json:"max_size,omitempty"` // set while the size is not declared
	Challenge *Challenge    `json:"challenge,omitempty"`
	Progress  *SealProgress `json:"progress,omitempty"` // of a running seal; nil: none runs
	Node      *Node         `json:"node,omitempty"`     // set when done
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
	ExpiresAt Time       `json:"expires_at"`
}

// SealProgress counts the bytes that a seal has read, of those that it may have to read.
type SealProgress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// Part is a part that the server has received.
type Part struct {
	N     int     `json:"n"`
	Size  int64   `json:"size"`
	CRC32 uint32  `json:"crc32"` // IEEE 802.3, as a number
	CV    *string `json:"cv"`    // BLAKE3 chaining value in hex; nil: not known
}

// AdminUpload is an upload as administrators see it.
type AdminUpload struct {
	Upload
	AccountID  string `json:"account_id" format:"uuid"`
	UserID     string `json:"user_id" format:"uuid"`
	Held       int64  `json:"held"` // bytes charged as unfinished
	CreatedAt  Time   `json:"created_at"`
	LastActive Time   `json:"last_active"` // as stored; activity since then may be buffered
}
