package zipline

import (
	"archive/zip"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/servicetest"
)

func run(t *testing.T, stdin io.Reader, name string, args ...string) string {
	t.Helper()
	servicetest.Tool(t, name)
	cmd := exec.CommandContext(t.Context(), name, args...) //nolint:gosec // programs of this file
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.Stdin = stdin
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%.2000s", name, strings.Join(args, " "), err, fault.String(), out.String())
	}
	return out.String()
}

// lines returns name, size and CRC-32 of the entries, as the readers print them.
func lines(entries []Entry) []string {
	var list []string
	for i := range entries {
		list = append(list, fmt.Sprintf("%s\t%d\t%08x", entries[i].Name, entries[i].Size, entries[i].CRC32))
	}
	return list
}

// unpacked returns the files of a directory in the same form.
func unpacked(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		list = append(list, fmt.Sprintf("%s\t%d\t%08x", filepath.ToSlash(name), len(b), crc32.ChecksumIEEE(b)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func compare(t *testing.T, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-sealed +read:\n%.4000s", diff)
	}
}

func split(out string) []string {
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(out, "\r", ""), "\n"), "\n")
}

// unpackers unpack a file into a directory.
var unpackers = map[string]func(t *testing.T, file, dir string){
	"unzip":  func(t *testing.T, file, dir string) { run(t, nil, "unzip", "-q", file, "-d", dir) },
	"7z":     func(t *testing.T, file, dir string) { run(t, nil, "7z", "x", "-y", "-o"+dir, file) },
	"bsdtar": func(t *testing.T, file, dir string) { run(t, nil, "bsdtar", "-xf", file, "-C", dir) },
	"bsdtar from a pipe": func(t *testing.T, file, dir string) {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		run(t, struct{ io.Reader }{f}, "bsdtar", "-xf", "-", "-C", dir)
	},
}

// printers print a line per entry; with a name they read only that entry.
var printers = map[string]func(t *testing.T, file string, name ...string) string{
	"python3": func(t *testing.T, file string, name ...string) string {
		return run(t, nil, "python3", append([]string{"testdata/zips.py", file}, name...)...)
	},
	"Java's ZipFile": func(t *testing.T, file string, name ...string) string {
		return run(t, nil, "java", append([]string{"-Dsun.jnu.encoding=UTF-8", "-Dfile.encoding=UTF-8", "testdata/Zips.java", "file", file}, name...)...)
	},
}

func javaStream(t *testing.T, stdin io.Reader, file string) string {
	return run(t, stdin, "java", "testdata/Zips.java", "stream", file)
}

func TestReaders(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	entries = append(entries, s.put("文件/报表（一月）.pdf", noise(77, 12_345)), s.put("日本語/한국어 ñ.txt", nil))
	a := mustLayout(t, entries)
	file := filepath.Join(t.TempDir(), "a.zip")
	if err := os.WriteFile(file, mustRead(t, a, s, 0, a.Size(), Options{}), 0o600); err != nil {
		t.Fatal(err)
	}
	files := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.IsFolder() })
	for name, unpack := range unpackers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, file, dir)
			compare(t, lines(files), unpacked(t, dir))
			if info, err := os.Stat(filepath.Join(dir, "盘/空")); err != nil || !info.IsDir() {
				t.Errorf("the empty folder: %v", err)
			}
			if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.ModTime().Unix() != sealed.Std().Unix() {
				t.Errorf("time of last change: %v", info.ModTime())
			}
		})
	}
	for name, show := range printers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, lines(entries), split(show(t, file)))
		})
	}
	t.Run("Java's ZipInputStream", func(t *testing.T) {
		t.Parallel()
		compare(t, lines(entries), split(javaStream(t, nil, file)))
	})
}

func TestReadersOfManyEntries(t *testing.T) {
	t.Parallel()
	depth.Normal(t) // above 65,535 entries another record is used, and reading so many takes seconds
	const n = 70_000
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Text(fmt.Sprintf("目录%03d/%d.txt", i%500, i), sealed, fmt.Appendf(nil, "%d", i))
	}
	a := mustLayout(t, entries)
	file := filepath.Join(t.TempDir(), "many.zip")
	if err := os.WriteFile(file, mustRead(t, a, newShelf(), 0, a.Size(), Options{}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("unzip", func(t *testing.T) {
		t.Parallel()
		run(t, nil, "unzip", "-tqq", file)
		if got := strings.Count(run(t, nil, "unzip", "-Z1", file), "\n"); got != n {
			t.Errorf("%d names", got)
		}
	})
	t.Run("7z", func(t *testing.T) {
		t.Parallel()
		if out := run(t, nil, "7z", "t", file); !strings.Contains(out, fmt.Sprintf("Files: %d", n)) {
			t.Errorf("%.500s", out)
		}
	})
	t.Run("bsdtar", func(t *testing.T) {
		t.Parallel()
		if got := run(t, nil, "bsdtar", "-xOf", file); len(got) != 5*60_000+4*9_000+3*900+2*90+10 {
			t.Errorf("%d bytes", len(got))
		}
	})
	for name, show := range printers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, lines(entries), split(show(t, file)))
		})
	}
	t.Run("Java's ZipInputStream", func(t *testing.T) {
		t.Parallel()
		compare(t, lines(entries), split(javaStream(t, nil, file)))
	})
}

// huge has an entry of more than 4 GiB, followed by one that begins beyond 4 GiB.
func huge() (*memorySource, []Entry) {
	s := newShelf()
	return s, []Entry{s.put("first.txt", []byte("first")), s.putZeros("大文件.bin", 4<<30+12345), s.put("last.txt", []byte("last"))}
}

// The file of this archive has a hole for the large entry. All readers list it and read what lies
// beyond 4 GiB. With SMARTDRIVE_SOAK they also read the large entry, from a pipe if they can.
func TestReadersOfHugeArchives(t *testing.T) {
	t.Parallel()
	s, entries := huge()
	a := mustLayout(t, entries)
	file := sparse(t, a, s)
	names := []string{"first.txt", "大文件.bin", "last.txt"}
	soak := os.Getenv("SMARTDRIVE_SOAK") != ""
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		z, err := zip.OpenReader(file)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		b, err := fs.ReadFile(z, "last.txt")
		if err != nil || string(b) != "last" || z.File[1].UncompressedSize64 != uint64(entries[1].Size) {
			t.Errorf("%q, %d bytes: %v", b, z.File[1].UncompressedSize64, err)
		}
	})
	for name, args := range map[string][3][]string{
		"unzip":  {{"-Z1", file}, {"-p", file, "last.txt"}, {"-tqq", file}},
		"7z":     {{"l", "-ba", "-slt", file}, {"e", "-so", file, "last.txt"}, {"t", file}},
		"bsdtar": {{"-tf", file}, {"-xOf", file, "last.txt"}, {"-xOf", file, "--exclude", "first.txt", "大文件.bin"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := run(t, nil, name, args[0]...)
			for _, n := range names {
				if !strings.Contains(out, n) {
					t.Errorf("%s is not in %s", n, out)
				}
			}
			if got := run(t, nil, name, args[1]...); got != "last" {
				t.Errorf("read %q", got)
			}
			if soak && name != "bsdtar" {
				run(t, nil, name, args[2]...)
			}
		})
	}
	for name, show := range printers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, lines(entries), split(show(t, file, "last.txt")))
			if soak {
				compare(t, lines(entries), split(show(t, file)))
			}
		})
	}
	if !soak {
		return
	}
	t.Run("Java's ZipInputStream", func(t *testing.T) {
		t.Parallel()
		r := a.Open(t.Context(), s, 0, a.Size(), Options{})
		defer r.Close()
		compare(t, lines(entries), split(javaStream(t, r, "-")))
	})
}

// sparse writes an archive without writing the zeros of its large entry.
func sparse(t *testing.T, a *Archive, src Source) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "huge.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(a.Size())); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]drive.ByteSize{{0, 1 << 16}, {a.Size() - 1<<16, a.Size()}} {
		if _, err := f.WriteAt(mustRead(t, a, src, r[0], r[1], Options{}), int64(r[0])); err != nil {
			t.Fatal(err)
		}
	}
	return f.Name()
}
