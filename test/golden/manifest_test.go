package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"example.org/smartdrive/test/system/rig"
)

// manifest lists what must be found in the data directory of a release. The release writes it once,
// in plain values that do not depend on its code.
type manifest struct {
	Program string `json:"program"` // "smartdrive version" of the release
	Users   []user `json:"users"`
}

type user struct {
	Name    string     `json:"name"` // logs in with rig.Password
	Token   string     `json:"token"`
	Ledger  rig.Ledger `json:"ledger"`
	Files   []file     `json:"files"`
	Uploads []open     `json:"uploads"`
	Links   []link     `json:"links,omitempty"`
}

// link is a share link of a file.
type link struct {
	Token string `json:"token"`
	Node  string `json:"node"`
}

// file is a file, its newest version first.
type file struct {
	Node     string    `json:"node"`
	Path     string    `json:"path"`
	Trashed  bool      `json:"trashed,omitempty"`
	Versions []version `json:"versions"`
}

type version struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// open is an upload that was not complete. Its content is text(seed, size).
type open struct {
	ID       string `json:"id"`
	Path     string `json:"path"`
	State    string `json:"state"`
	Seed     uint64 `json:"seed"`
	Size     int64  `json:"size"`
	PartSize int64  `json:"part_size"`
	Received []int  `json:"received"`
	SHA256   string `json:"sha256"` // of the whole content
}

func (m *manifest) user(t *testing.T, name string) *user {
	t.Helper()
	for i := range m.Users {
		if m.Users[i].Name == name {
			return &m.Users[i]
		}
	}
	t.Fatalf("no user %s in the manifest", name)
	return nil
}

func readManifest(t *testing.T, path string) (m manifest) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *manifest) write(t *testing.T, path string) {
	t.Helper()
	raw, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(raw, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// text is size bytes that follow from a seed and compress well, while no two blocks of 1 KiB are
// alike: each begins with the seed and its number.
func text(seed uint64, size int64) []byte {
	filling := bytes.Repeat([]byte("SmartDrive golden data. "), 42)
	b := make([]byte, 0, size+1024)
	for n := uint64(0); int64(len(b)) < size; n++ {
		b = binary.LittleEndian.AppendUint64(b, seed)
		b = binary.LittleEndian.AppendUint64(b, n)
		b = append(b, filling...)
	}
	return b[:size]
}

func versionOf(content []byte) version {
	sum := sha256.Sum256(content)
	return version{int64(len(content)), hex.EncodeToString(sum[:])}
}
