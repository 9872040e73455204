import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.zip.*;

/**
 * Reads zips as Java does, and prints name, size and CRC-32 of what came out, a line for each entry:
 * "stream FILE" by ZipInputStream ("-" is stdin), "file FILE [NAME]" by ZipFile (that entry's content alone).
 */
public class Zips {
    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)), false, StandardCharsets.UTF_8);
        if (args[0].equals("stream")) {
            InputStream in = args[1].equals("-") ? System.in : new FileInputStream(args[1]);
            try (ZipInputStream zip = new ZipInputStream(new BufferedInputStream(in, 1 << 20))) {
                for (ZipEntry e; (e = zip.getNextEntry()) != null; ) {
                    print(out, e, zip);
                }
            }
        } else {
            try (ZipFile zip = new ZipFile(args[1])) {
                for (ZipEntry e : Collections.list(zip.entries())) {
                    if (args.length < 3 || e.getName().equals(args[2])) {
                        print(out, e, zip.getInputStream(e));
                    } else {
                        line(out, e.getName(), e.getSize(), e.getCrc());
                    }
                }
            }
        }
        out.flush();
    }

    static final byte[] buf = new byte[1 << 18];

    static void print(PrintStream out, ZipEntry e, InputStream in) throws IOException {
        CRC32 crc = new CRC32();
        long size = 0;
        for (int n; (n = in.read(buf)) >= 0; size += n) {
            crc.update(buf, 0, n);
        }
        line(out, e.getName(), size, crc.getValue());
    }

    static void line(PrintStream out, String name, long size, long crc) {
        out.print(name + "\t" + size + "\t" + Long.toHexString(crc | 1L << 32).substring(1) + "\n");
    }
}
