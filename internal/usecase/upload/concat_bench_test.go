package upload_test

import (
	"io"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// BenchmarkConcat makes a file of 256 MiB of partial uploads, from the request until it is there.
// The first of them is taken over as it lies where its parts are those of the file, and copied
// else; all others are copied (or share their bytes, on XFS and Btrfs).
func BenchmarkConcat(b *testing.B) {
	const size, part = 256 * drive.MiB, 8 * drive.MiB
	for name, partials := range map[string][]upload.Begin{
		"one, taken over":          {{Size: size}},
		"one, copied":              {{Size: size, PartSize: 2 * part}},
		"two halves, taken over":   {{Size: size / 2}, {Size: size / 2}},
		"two halves, both copied":  {{Size: size / 2, PartSize: 2 * part}, {Size: size / 2, PartSize: 2 * part}},
		"most in the first, a bit": {{Size: size - drive.MiB - 5}, {Size: drive.MiB + 5}},
	} {
		b.Run(name, func(b *testing.B) {
			s := uploadtest.New(b, uploadtest.Options{Upload: upload.Options{PartSize: part}})
			who := s.Account(b, 0)
			b.SetBytes(int64(size))
			for b.Loop() {
				b.StopTimer()
				var ids []drive.UploadID
				for _, p := range partials {
					p.Kind, p.Protocol = upload.Partial, upload.Tus
					v, err := s.Begin(b.Context(), who, p, nil)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := s.Append(b.Context(), who, v.ID, upload.Append{Size: p.Size}, io.LimitReader(zeros{}, int64(p.Size))); err != nil {
						b.Fatal(err)
					}
					ids = append(ids, v.ID)
				}
				b.StartTimer()
				v, err := s.Concat(b.Context(), who, upload.Begin{Path: uploadtest.Path(b, "/f"), Conflict: drive.ConflictRename}, ids, nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := s.Complete(b.Context(), who, v.ID, upload.Complete{}); err != nil {
					b.Fatal(err)
				}
				s.Settle()
			}
		})
	}
}
