package digest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Running computes the alias digests of a file whose parts may arrive in any order. It hashes the
// contiguous prefix as it arrives; CatchUp reads out-of-order bytes from the staged file.
//
// Danger: hashed bytes cannot be undone. The bytes of a part in flight may be sent again with other
// content. Feed a Clone while a part streams in, and keep the clone only once the part is accepted.
type Running struct {
	aliases []*Alias
	offset  int64 // number of bytes hashed
}

// NewRunning returns a Running at offset 0 for the given alias algorithms (Set.Aliases). Without
// algorithms it only counts bytes.
func NewRunning(algos ...Algo) *Running {
	r := new(Running)
	for _, algo := range algos {
		r.aliases = append(r.aliases, NewAlias(algo))
	}
	return r
}

// Offset returns the number of bytes hashed, the length of the prefix that Sums covers.
func (r *Running) Offset() int64 { return r.offset }

// Algos returns the algorithms of r.
func (r *Running) Algos() []Algo {
	algos := make([]Algo, len(r.aliases))
	for i, a := range r.aliases {
		algos[i] = a.algo
	}
	return algos
}

// WriteAt hashes p if off equals Offset, and ignores p otherwise; Offset tells the difference. It
// implements io.WriterAt, always returns len(p) and does not fail.
func (r *Running) WriteAt(p []byte, off int64) (int, error) {
	if off != r.offset {
		return len(p), nil
	}
	for _, a := range r.aliases {
		if _, err := a.Write(p); err != nil {
			return 0, err
		}
	}
	r.offset += int64(len(p))
	return len(p), nil
}

// CatchUp hashes from Offset up to size bytes of src, which must contain the accepted bytes of the
// same file. After an error the progress remains, and a later call continues. To checkpoint the
// state of a long file, call CatchUp with growing sizes.
func (r *Running) CatchUp(ctx context.Context, src io.ReaderAt, size int64) error {
	if size < r.offset {
		return fmt.Errorf("catch up to byte %d: already at %d", size, r.offset)
	}
	err := readRange(ctx, src, r.offset, size-r.offset, nil, func(p []byte) error {
		_, err := r.WriteAt(p, r.offset)
		return err
	})
	if err != nil {
		return fmt.Errorf("catch up at byte %d: %w", r.offset, err)
	}
	return nil
}

// Sums returns the digests of the first Offset bytes.
func (r *Running) Sums() Set {
	set := make(Set, len(r.aliases))
	for _, a := range r.aliases {
		set[a.algo] = a.Sum()
	}
	return set
}

// Clone returns an independent copy of r, which continues from the same bytes. It fails if the
// state of a hash cannot be stored.
func (r *Running) Clone() (*Running, error) {
	state, err := r.State()
	if err != nil {
		return nil, err
	}
	return Restore(state)
}

// The stored state of a Running; integers are little-endian:
//
//	version 1 | offset 8 | count 1 | count × ( algorithm 1 | length 2 | state of the hash ) | CRC-32C of all before 4
//
// Without the CRC, a damaged state would go unnoticed, and the client's correct digest would be
// rejected.
const (
	stateVersion  = 1
	stateHeader   = 1 + 8 + 1
	stateCRC      = 4
	stateMaxAlias = 1 << 10 // longest hash state, in bytes; today's longest has 108
)

// stateCodes maps codes to algorithms. It is part of the format: append, never reorder.
var stateCodes = []Algo{1: SHA256, 2: MD5, 3: SM3}

// errState reports a state that State did not return.
var errState = errors.New("digest: damaged hash state")

// State returns the state for Restore. It contains up to 63 bytes of the content per algorithm in
// plain, so protect it like content.
func (r *Running) State() ([]byte, error) {
	b := []byte{stateVersion}
	b = binary.LittleEndian.AppendUint64(b, uint64(r.offset))
	b = append(b, byte(len(r.aliases)))
	for _, a := range r.aliases {
		state, err := a.MarshalBinary()
		if err != nil {
			return nil, err
		}
		b = append(b, byte(slices.Index(stateCodes, a.algo)))
		b = binary.LittleEndian.AppendUint16(b, uint16(len(state)))
		b = append(b, state...)
	}
	return binary.LittleEndian.AppendUint32(b, CRC32C(b)), nil
}

// Restore returns the Running whose State was state; it continues after the same bytes. It fails
// with errState if the state is damaged, cut off or of another format.
func Restore(state []byte) (*Running, error) {
	if len(state) < stateHeader+stateCRC || state[0] != stateVersion {
		return nil, errState
	}
	body := state[:len(state)-stateCRC]
	if CRC32C(body) != binary.LittleEndian.Uint32(state[len(body):]) {
		return nil, errState
	}
	r := &Running{offset: int64(binary.LittleEndian.Uint64(body[1:]))}
	if r.offset < 0 {
		return nil, errState
	}
	rest := body[stateHeader:]
	for range body[stateHeader-1] {
		var err error
		if rest, err = r.restoreAlias(rest); err != nil {
			return nil, err
		}
	}
	if len(rest) > 0 {
		return nil, errState
	}
	return r, nil
}

// restoreAlias decodes the first alias of b, adds it to r, and returns the rest of b.
func (r *Running) restoreAlias(b []byte) ([]byte, error) {
	const head = 1 + 2
	if len(b) < head || b[0] == 0 || int(b[0]) >= len(stateCodes) {
		return nil, errState
	}
	algo, n := stateCodes[b[0]], int(binary.LittleEndian.Uint16(b[1:]))
	if n > stateMaxAlias || len(b) < head+n || slices.Contains(r.Algos(), algo) {
		return nil, errState
	}
	a := NewAlias(algo)
	if err := a.UnmarshalBinary(b[head : head+n]); err != nil {
		return nil, err
	}
	r.aliases = append(r.aliases, a)
	return b[head+n:], nil
}
