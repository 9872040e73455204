package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

// sumsFile is the name of the checksums; its signature has .minisig appended.
const sumsFile = "SHA256SUMS"

// writeSums writes the SHA-256 of every file of the release, in the form of sha256sum.
func (r *release) writeSums(context.Context) error {
	entries, err := os.ReadDir(r.dist) // sorted by name
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(r.dist, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(r.dist, sumsFile), []byte(lines.String()), 0o644)
}

// sumOf returns the SHA-256 of a file.
func sumOf(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), errors.Join(err, f.Close())
}

// sign signs the checksums with the key of the environment. Without a key it says so and succeeds.
func (r *release) sign(context.Context) error {
	text := []byte(os.Getenv("SMARTDRIVE_MINISIGN_KEY"))
	if name := os.Getenv("SMARTDRIVE_MINISIGN_KEY_FILE"); name != "" {
		var err error
		if text, err = os.ReadFile(name); err != nil {
			return err
		}
	}
	if len(text) == 0 {
		fmt.Fprintf(os.Stderr, "\nNOT SIGNED: neither SMARTDRIVE_MINISIGN_KEY nor SMARTDRIVE_MINISIGN_KEY_FILE is set. Do not publish this release.\n\n")
		return nil
	}
	key, err := secretKey(text)
	if err != nil {
		return fmt.Errorf("the key of minisign: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(r.dist, sumsFile))
	if err != nil {
		return err
	}
	public, ok := key.Public().(minisign.PublicKey)
	if !ok {
		return fmt.Errorf("the key of minisign has a public key of type %T", key.Public())
	}
	// No time in the comments: two signatures of the same files are the same.
	comment := fmt.Sprintf("smartdrive %s, commit %s", r.version, r.commit)
	signature := minisign.SignWithComments(key, sums, comment, "signature by key "+public.String())
	if !minisign.Verify(public, sums, signature) {
		return errors.New("the signature does not verify")
	}
	return os.WriteFile(filepath.Join(r.dist, sumsFile+".minisig"), signature, 0o644)
}

// secretKey parses a secret key, which may be encrypted with a password.
func secretKey(text []byte) (key minisign.PrivateKey, err error) {
	if minisign.IsEncrypted(text) {
		return minisign.DecryptKey(os.Getenv("SMARTDRIVE_MINISIGN_PASSWORD"), text)
	}
	err = key.UnmarshalText(text)
	return key, err
}
