package upload_test

import (
	"io"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// BenchmarkAppend brings 256 MiB in one request, and beside it the same in parts of 8 MiB, one
// after the other.
func BenchmarkAppend(b *testing.B) {
	const size, part = 256 * drive.MiB, 8 * drive.MiB
	ways := map[string]func(s *uploadtest.Site, who drive.Who, id drive.UploadID) error{
		"append": func(s *uploadtest.Site, who drive.Who, id drive.UploadID) error {
			_, err := s.Append(b.Context(), who, id, upload.Append{Size: size}, io.LimitReader(zeros{}, int64(size)))
			return err
		},
		"parts": func(s *uploadtest.Site, who drive.Who, id drive.UploadID) error {
			for n := range int(size / part) {
				if err := s.Put(b.Context(), who, id, upload.PutPart{N: n, Size: part}, io.LimitReader(zeros{}, int64(part))); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, way := range ways {
		b.Run(name, func(b *testing.B) {
			s := uploadtest.New(b, uploadtest.Options{Dir: memoryDir(b), Upload: upload.Options{PartSize: part}})
			who := s.Account(b, 0)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				v := s.Start(b, who, "/f", size)
				if err := way(s, who, v.ID); err != nil {
					b.Fatal(err)
				}
				if err := s.Cancel(b.Context(), who, v.ID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("1 KiB each", func(b *testing.B) {
		s := uploadtest.New(b, uploadtest.Options{Dir: memoryDir(b), Upload: upload.Options{PartSize: part}})
		who := s.Account(b, 0)
		v := s.Start(b, who, "/f", drive.GiB)
		at := drive.ByteSize(0)
		for b.Loop() {
			var err error
			if at, err = s.Append(b.Context(), who, v.ID, upload.Append{Offset: at, Size: 1024}, io.LimitReader(zeros{}, 1024)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
