//go:build linux

package tus

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/backing"
	"example.org/smartdrive/test/process"
)

// beside starts another instance on the same backing services.
func (d *drive) beside() *drive {
	d.t.Helper()
	other := *d
	other.data, other.listen, other.log = d.t.TempDir(), process.Address(d.t), &journal{}
	d.t.Cleanup(func() { other.server.Kill() })
	other.start()
	return &other
}

// Any instance takes the next bytes, says the offset, and ends what hangs at another one; an offset
// outlives the instance that said it.
func TestSeveralInstances(t *testing.T) {
	t.Parallel()
	one := newDrive(t, backing.Flags(t, servicetest.MySQL, servicetest.Redis, servicetest.S3)...)
	two := one.beside()
	content := noise(21*mib+77, 90)
	at := one.create(with("Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", metadata("filename", "wandering")))
	there := two.url + at[strings.Index(at, "/tus/"):]
	one.patch(at, chunk(0), content[:mib+1], 204, mib+1)
	if got := two.offset(there); got != fmt.Sprint(mib+1) {
		t.Fatalf("one has %d, two says %s", mib+1, got)
	}
	two.patch(there, chunk(mib+1), content[mib+1:9*mib+3], 204, 9*mib+3)
	one.hang(at, 9*mib+3, len(content)-9*mib-3, content[9*mib+3:10*mib+1]).arrived(t)
	said, err := strconv.Atoi(two.offset(there))
	if err != nil || said < 9*mib+3 || said > 10*mib+1 {
		t.Fatalf("while a request hangs at one, two says %d (%v)", said, err)
	}
	two.patch(there, chunk(said), content[said:18*mib], 204, 18*mib)
	two.server.Kill()
	if got := one.offset(at); got != fmt.Sprint(18*mib) {
		t.Fatalf("two had %d and is dead, one says %s", 18*mib, got)
	}
	one.patch(at, chunk(18*mib), content[18*mib:], 204, len(content))
	one.holds("/wandering", content)

	a, b := one.piece(content[:6*mib]), one.piece(content[6*mib:])
	one.create(with("Upload-Concat", final(a, b), "Upload-Metadata", metadata("filename", "joined")))
	one.holds("/joined", content)
}
