package digest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Running computes the alias digests of a file whose parts may come in any order: it hashes the
// contiguous prefix as it arrives, and CatchUp reads from the staged bytes what came out of order.
//
// Danger: what was hashed cannot be taken back. Bytes of a part that is still in flight may come
// again with other content, so feed a Clone while a part streams in and keep the clone only once
// the part is accepted.
type Running struct {
	aliases []*Alias
	offset  int64
}

// NewRunning returns a Running at offset 0 for the given alias algorithms (Set.Aliases). None is
// allowed: it then only counts.
func NewRunning(algos ...Algo) *Running {
	r := new(Running)
	for _, algo := range algos {
		r.aliases = append(r.aliases, NewAlias(algo))
	}
	return r
}

// Offset returns the number of bytes hashed: the prefix of the file that the next Sums is of.
func (r *Running) Offset() int64 { return r.offset }

// Algos returns the algorithms that are being computed.
func (r *Running) Algos() []Algo {
	algos := make([]Algo, len(r.aliases))
	for i, a := range r.aliases {
		algos[i] = a.algo
	}
	return algos
}

// WriteAt hashes p if off is exactly Offset and ignores it otherwise; Offset tells which. It
// implements io.WriterAt, takes every p as written and does not fail.
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

// CatchUp hashes from Offset to size bytes of src, which must hold the accepted bytes of the same
// file. When it returns an error, the progress made up to then stays, so that State can be kept and
// a later call goes on. A caller that wants to keep the state of a long file now and then calls it
// with growing sizes.
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

// Clone returns an independent Running in the same state.
func (r *Running) Clone() (*Running, error) {
	state, err := r.State()
	if err != nil {
		return nil, err
	}
	return Restore(state)
}

// The state of a Running, integers little-endian:
//
//	version 1 | offset 8 | count 1 | count × ( algorithm 1 | length 2 | state of the hash ) | CRC-32C of all before 4
//
// The CRC is there because a damaged state would be taken for a working one, and then a client's
// right digest for a wrong one.
const (
	stateVersion  = 1
	stateHeader   = 1 + 8 + 1
	stateCRC      = 4
	stateMaxAlias = 1 << 10 // bytes; today's longest is 108
)

// stateCodes are part of the format: append, never reorder.
var stateCodes = []Algo{1: SHA256, 2: MD5, 3: SM3}

// errState is what Restore says of anything that State did not return.
var errState = errors.New("digest: damaged hash state")

// State returns what Restore needs to go on. It holds up to 63 bytes of the content for each
// algorithm: treat it as content.
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

// Restore returns the Running whose State it is given.
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

// restoreAlias adds the first alias in b and returns what follows it.
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
