package digest

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/emmansun/gmsm/sm3"
	"github.com/google/go-cmp/cmp"
)

// direct returns the alias digests of b, computed in one call.
func direct(b []byte) Set {
	m, s, z := md5.Sum(b), sha256.Sum256(b), sm3.Sum(b)
	return Set{MD5: m[:], SHA256: s[:], SM3: z[:]}
}

func TestAliasVectors(t *testing.T) {
	t.Parallel()
	for algo, want := range map[Algo]string{ // RFC 1321 A.5, FIPS 180-4, GB/T 32905 A.1: "abc"
		MD5:    "900150983cd24fb0d6963f7d28e17f72",
		SHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		SM3:    "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0",
	} {
		a := NewAlias(algo)
		_, _ = a.Write([]byte("abc"))
		if got := hex.EncodeToString(a.Sum()); got != want || a.Algo() != algo || len(a.Sum()) != algo.Size() {
			t.Errorf("%s = %s, want %s", a.Algo(), got, want)
		}
	}
}

func TestAliasStateResumesAtAnyByte(t *testing.T) {
	t.Parallel()
	b := content(300)
	want := direct(b)
	for _, algo := range []Algo{MD5, SHA256, SM3} {
		for cut := range b {
			before, after := NewAlias(algo), NewAlias(algo)
			_, _ = before.Write(b[:cut])
			state, err := before.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			if err := after.UnmarshalBinary(state); err != nil {
				t.Fatal(err)
			}
			_, _ = after.Write(b[cut:])
			if !bytes.Equal(after.Sum(), want[algo]) {
				t.Fatalf("%s kept at byte %d is wrong at the end", algo, cut)
			}
		}
	}
}

func TestAliasRejectsStateOfOtherAlgorithm(t *testing.T) {
	t.Parallel()
	algos := []Algo{MD5, SHA256, SM3}
	for _, from := range algos {
		state, err := NewAlias(from).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range algos {
			if err := NewAlias(to).UnmarshalBinary(state); (err == nil) != (from == to) {
				t.Errorf("state of %s into %s: %v", from, to, err)
			}
		}
	}
}

// TestRunningHashesPrefix sends parts 0, 2, 1: out-of-order bytes are read back, later bytes in
// order are not.
func TestRunningHashesPrefix(t *testing.T) {
	t.Parallel()
	b := content(3 * 50000)
	r := NewRunning(MD5, SHA256, SM3)
	feed := func(part int) {
		off := part * 50000
		for at := off; at < off+50000; at += 12500 {
			if n, err := r.WriteAt(b[at:at+12500], int64(at)); n != 12500 || err != nil {
				t.Fatalf("WriteAt = %d, %v", n, err)
			}
		}
	}
	for i, step := range []struct {
		part int
		want int64
	}{{0, 50000}, {2, 50000}, {0, 50000}, {1, 100000}} {
		feed(step.part)
		if r.Offset() != step.want {
			t.Fatalf("after step %d at %d, want %d", i, r.Offset(), step.want)
		}
	}
	if diff := cmp.Diff(direct(b[:100000]), r.Sums()); diff != "" {
		t.Errorf("prefix: -want +got:\n%s", diff)
	}
	unread := faultyAt{bytes.NewReader(b), 99999, errState} // fails when anything of the prefix is read again
	if err := r.CatchUp(t.Context(), unread, int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(direct(b), r.Sums()); diff != "" {
		t.Errorf("whole: -want +got:\n%s", diff)
	}
	if err := r.CatchUp(t.Context(), unread, int64(len(b))-1); err == nil {
		t.Error("caught up to a byte that was passed")
	}
}

func TestCatchUpResumesAfterError(t *testing.T) {
	t.Parallel()
	b := content(5 * readBuffer)
	r := NewRunning(SHA256)
	if err := r.CatchUp(t.Context(), faultyAt{bytes.NewReader(b), 3*readBuffer + 9, errState}, int64(len(b))); err == nil {
		t.Fatal("a disk error was not seen")
	}
	if r.Offset() != 3*readBuffer {
		t.Errorf("progress is %d", r.Offset())
	}
	if err := r.CatchUp(t.Context(), bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if want := direct(b)[SHA256]; !bytes.Equal(r.Sums()[SHA256], want) {
		t.Errorf("%x, want %x", r.Sums()[SHA256], want)
	}
}

func TestDiscardedCloneLeavesRunningUnchanged(t *testing.T) {
	t.Parallel()
	b := content(1000)
	r := NewRunning(MD5, SM3)
	_, _ = r.WriteAt(b[:100], 0)
	torn, err := r.Clone()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = torn.WriteAt(bytes.Repeat([]byte("x"), 300), 100)
	again, err := r.Clone()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = again.WriteAt(b[100:], 100)
	if want := direct(b); !bytes.Equal(again.Sums()[MD5], want[MD5]) || !bytes.Equal(again.Sums()[SM3], want[SM3]) {
		t.Error("bytes of the torn part are in the digest")
	}
	if r.Offset() != 100 || torn.Offset() != 400 || again.Offset() != 1000 {
		t.Errorf("offsets %d, %d, %d", r.Offset(), torn.Offset(), again.Offset())
	}
}

func TestStateSurvives(t *testing.T) {
	t.Parallel()
	b := content(10000)
	for _, algos := range [][]Algo{nil, {MD5}, {SM3, SHA256}, {SHA256, MD5, SM3}} {
		for _, cut := range []int{0, 1, 63, 64, 65, 4096, 9999, 10000} {
			r := NewRunning(algos...)
			_, _ = r.WriteAt(b[:cut], 0)
			state, err := r.State()
			if err != nil {
				t.Fatal(err)
			}
			restored, err := Restore(state)
			if err != nil {
				t.Fatalf("%v at %d: %v", algos, cut, err)
			}
			if restored.Offset() != int64(cut) || len(restored.Algos()) != len(algos) {
				t.Fatalf("%v at %d came back as %v at %d", algos, cut, restored.Algos(), restored.Offset())
			}
			_, _ = restored.WriteAt(b[cut:], int64(cut))
			all := direct(b)
			for algo, got := range restored.Sums() {
				if !bytes.Equal(got, all[algo]) {
					t.Errorf("%s kept at %d is wrong at the end", algo, cut)
				}
			}
		}
	}
}

func TestRestoreRejectsDamagedState(t *testing.T) {
	t.Parallel()
	r := NewRunning(SHA256, MD5)
	_, _ = r.WriteAt(content(777), 0)
	state, err := r.State()
	if err != nil {
		t.Fatal(err)
	}
	for i := range state {
		if _, err := Restore(state[:i]); err == nil {
			t.Errorf("cut to %d bytes it was taken", i)
		}
		damaged := bytes.Clone(state)
		damaged[i] ^= 0x10
		if _, err := Restore(damaged); err == nil {
			t.Errorf("with byte %d changed it was taken", i)
		}
	}
	if _, err := Restore(append(bytes.Clone(state), 0)); err == nil {
		t.Error("with a byte more it was taken")
	}
}

// FuzzRestore sets a correct CRC, so that the code behind the check is reached.
func FuzzRestore(f *testing.F) {
	for _, algos := range [][]Algo{nil, {MD5}, {SHA256, SM3}} {
		r := NewRunning(algos...)
		_, _ = r.WriteAt(content(100), 0)
		state, err := r.State()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(state[:len(state)-stateCRC])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Restore(binary.LittleEndian.AppendUint32(bytes.Clone(body), CRC32C(body)))
		if err != nil {
			return
		}
		if _, err := r.WriteAt(content(200), r.Offset()); err != nil {
			t.Fatal(err)
		}
		_ = r.Sums()
		state, err := r.State()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Restore(state); err != nil || !again.Sums().Equal(r.Sums()) {
			t.Fatalf("a state that was taken cannot be kept: %v", err)
		}
	})
}
