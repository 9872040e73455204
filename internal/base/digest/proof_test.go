package digest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
)

const now = drive.Time(1_700_000_000_000)

func newChallenge(t testing.TB, size int64) Challenge {
	t.Helper()
	c, err := NewChallenge(rand.Reader, size, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkRanges fails unless all ranges are inside the file, in order of offset.
func checkRanges(t *testing.T, c Challenge, size int64) {
	t.Helper()
	last := int64(0)
	for _, r := range c.Ranges {
		if r.Offset < last || r.Length == 0 || r.Offset+int64(r.Length) > size {
			t.Fatalf("range %v of a file of %d after offset %d", r, size, last)
		}
		last = r.Offset
	}
}

// TestChallengeCoversEveryByte checks that only a client with the whole file can answer.
func TestChallengeCoversEveryByte(t *testing.T) {
	t.Parallel()
	const gib, limit = int64(1 << 30), int64(64 * mib)
	for _, c := range []struct {
		size int64
		want []Range
	}{
		{0, []Range{}},
		{1, []Range{{0, 1}}},
		{limit, []Range{{0, 64 * mib}}},
		{limit + 1, []Range{{0, 64*mib + 1}}},
		{2*gib + 5, []Range{{0, 1 << 30}, {gib, 1 << 30}, {2 * gib, 5}}},
	} {
		ch := newChallenge(t, c.size)
		if diff := cmp.Diff(c.want, ch.Ranges); diff != "" {
			t.Errorf("%d bytes: -want +got:\n%s", c.size, diff)
		}
		checkRanges(t, ch, c.size)
	}
}

func TestChallengeNeedsRandomness(t *testing.T) {
	t.Parallel()
	errSource := errors.New("no entropy")
	for _, good := range []int64{0, 16, 31} {
		random := io.MultiReader(io.LimitReader(rand.Reader, good), iotest.ErrReader(errSource))
		if c, err := NewChallenge(random, 1<<30, now); !errors.Is(err, errSource) || c.Ranges != nil {
			t.Errorf("after %d bytes: %v, %v", good, c, err)
		}
	}
}

func TestChallengeExpires(t *testing.T) {
	t.Parallel()
	c := newChallenge(t, 1)
	if c.ExpiresAt.Sub(now) != ChallengeTTL || c.Expired(now) || c.Expired(c.ExpiresAt-1) || !c.Expired(c.ExpiresAt) {
		t.Errorf("expires at %v", c.ExpiresAt)
	}
}

func TestChallengeJSON(t *testing.T) {
	t.Parallel()
	c := Challenge{Nonce: Nonce(bin32), Ranges: []Range{{0, 4096}, {16 << 40, 1<<32 - 1}}, ExpiresAt: now}
	want := `{"nonce":"` + hex64 + `","ranges":[[0,4096],[17592186044416,4294967295]],"expires_at":"2023-11-14T22:13:20.000Z"}`
	got, err := json.Marshal(c)
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	var back Challenge
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, back); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, bad := range []string{`[]`, `[1]`, `[1,2,3]`, `[-1,2]`, `[1,-2]`, `[1,4294967296]`, `[9223372036854775807,1]`, `[1.5,2]`, `"x"`, `{}`} {
		if err := json.Unmarshal([]byte(bad), new(Range)); err == nil {
			t.Errorf("range %s was taken", bad)
		}
	}
}

// TestAnswerVectors uses answers of testdata/vectors.py, which is independent of this code.
func TestAnswerVectors(t *testing.T) {
	t.Parallel()
	c := Challenge{Ranges: []Range{{0, 4096}, {1000, 17}, {65536, 4464}}}
	for i := range c.Nonce {
		c.Nonce[i] = byte(i)
	}
	for algo, want := range map[ProofAlgo]string{
		ProofHMAC:   "d305f945d209ad687ba35b9691fb498b2a5fed683e17b38a9cfb3854ee017f99",
		ProofBlake3: "e2b50575014892baa2dd57bc556c9e2de6ca97b94baba0c46b4aea3a3d33a655",
	} {
		got, err := Answer(t.Context(), bytes.NewReader(pattern(70000)), c, algo)
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%s: %x, %v; want %s", algo, got, err, want)
		}
	}
}

func TestAnswerDependsOnEverything(t *testing.T) {
	t.Parallel()
	b := content(1 * mib)
	base := Challenge{Nonce: Nonce(bin32), Ranges: []Range{{0, 1000}, {5000, 300000}, {700000, 1}}}
	for _, algo := range []ProofAlgo{ProofHMAC, ProofBlake3} {
		answer := func(b []byte, c Challenge) []byte {
			a, err := Answer(t.Context(), bytes.NewReader(b), c, algo)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		right := answer(b, base)
		if !EqualAnswers(right, answer(bytes.Clone(b), base)) {
			t.Errorf("%s: the same file gives another answer", algo)
		}
		for name, c := range map[string]struct {
			at     int // a byte of the file to change, or -1
			change func(*Challenge)
		}{
			"first byte asked": {0, nil},
			"inner byte":       {304999, nil},
			"last byte asked":  {700000, nil},
			"nonce":            {-1, func(c *Challenge) { c.Nonce[31]++ }},
			"order":            {-1, func(c *Challenge) { c.Ranges[0], c.Ranges[1] = c.Ranges[1], c.Ranges[0] }},
			"split range":      {-1, func(c *Challenge) { c.Ranges = []Range{{0, 500}, {500, 500}, {5000, 300000}, {700000, 1}} }},
		} {
			file, ch := bytes.Clone(b), Challenge{Nonce: base.Nonce, Ranges: append([]Range(nil), base.Ranges...)}
			if c.at >= 0 {
				file[c.at] ^= 1
			}
			if c.change != nil {
				c.change(&ch)
			}
			if EqualAnswers(right, answer(file, ch)) {
				t.Errorf("%s: another %s gives the same answer", algo, name)
			}
		}
		if EqualAnswers(right, right[:31]) || EqualAnswers(right, nil) {
			t.Errorf("%s: a cut answer passes", algo)
		}
	}
}

func TestParseProofAlgo(t *testing.T) {
	t.Parallel()
	for _, a := range []ProofAlgo{ProofHMAC, ProofBlake3} {
		if got, err := ParseProofAlgo(string(a)); got != a || err != nil {
			t.Errorf("%s: %v, %v", a, got, err)
		}
	}
	_, err := ParseProofAlgo("md5")
	wantBad(t, err, "alg", drive.NotAllowed)
	if _, err := Answer(t.Context(), bytes.NewReader(nil), Challenge{}, "md5"); err == nil {
		t.Error("an unknown algorithm gave an answer")
	}
}
