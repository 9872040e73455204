"""Prints name, size and CRC-32 of what Python reads from a zip; with a name only that entry's content is read."""
import sys, zipfile, zlib

sys.stdout.reconfigure(encoding="utf-8")
with zipfile.ZipFile(sys.argv[1]) as z:
    for info in z.infolist():
        size, crc = info.file_size, info.CRC
        if len(sys.argv) < 3 or info.filename == sys.argv[2]:
            size = crc = 0
            with z.open(info) as f:
                while piece := f.read(1 << 20):
                    size, crc = size + len(piece), zlib.crc32(piece, crc)
        print(f"{info.filename}\t{size}\t{crc:08x}")
