// Small files of several kinds, made here so that none has to be kept.
import { deflateSync, inflateRawSync } from "node:zlib";

function crc32(data) {
  let c = ~0;
  for (const b of data) {
    c ^= b;
    for (let k = 0; k < 8; k++) c = (c >>> 1) ^ (0xedb88320 & -(c & 1));
  }
  return ~c >>> 0;
}

/** A picture with a gradient. */
export function png(width, height) {
  const rows = Buffer.alloc(height * (1 + width * 3));
  for (let y = 0, at = 0; y < height; y++) {
    rows[at++] = 0;
    for (let x = 0; x < width; x++) {
      rows[at++] = (x * 255) / width;
      rows[at++] = (y * 255) / height;
      rows[at++] = 160;
    }
  }
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const out = Buffer.alloc(body.length + 8);
    out.writeUInt32BE(data.length, 0);
    body.copy(out, 4);
    out.writeUInt32BE(crc32(body), body.length + 4);
    return out;
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

/** A page with a line of text. */
export function pdf(text) {
  const stream = `BT /F1 36 Tf 60 300 Td (${text}) Tj ET`;
  const objects = [
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[3 0 R]/Count 1>>",
    "<</Type/Page/MediaBox[0 0 420 594]/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
    `<</Length ${stream.length}>>stream\n${stream}\nendstream`,
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
  ];
  let out = "%PDF-1.4\n";
  const places = objects.map((body, i) => {
    const at = out.length;
    out += `${i + 1} 0 obj${body}endobj\n`;
    return at;
  });
  const xref = out.length;
  out += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${places.map((p) => `${String(p).padStart(10, "0")} 00000 n \n`).join("")}`;
  return `${out}trailer<</Size ${objects.length + 1}/Root 1 0 R>>\nstartxref\n${xref}\n%%EOF\n`;
}

/** What is in a zip, by name: by its central directory, as readers do it. */
export function unzip(raw) {
  const end = raw.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
  const files = {};
  for (let at = raw.readUInt32LE(end + 16), left = raw.readUInt16LE(end + 10); left > 0; left--) {
    const [method, packed] = [raw.readUInt16LE(at + 10), raw.readUInt32LE(at + 20)];
    const [name, extra, comment] = [28, 30, 32].map((field) => raw.readUInt16LE(at + field));
    const local = raw.readUInt32LE(at + 42);
    const begin = local + 30 + raw.readUInt16LE(local + 26) + raw.readUInt16LE(local + 28);
    const body = raw.subarray(begin, begin + packed);
    files[raw.toString("utf8", at + 46, at + 46 + name)] = method === 8 ? inflateRawSync(body) : body;
    at += 46 + name + extra + comment;
  }
  return files;
}
