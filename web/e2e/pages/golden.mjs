// Golden screenshots with a tolerance: a picture is kept as a text of the brightness of its squares, 0 to f, so that a page that is laid out
// anew is seen, and another font, another time of day or a blinking cursor is not. UPDATE_GOLDEN=1 writes them; look at the pictures first.
import assert from "node:assert/strict";
import { readFile, writeFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const kept = join(dirname(fileURLToPath(import.meta.url)), "golden");
const square = 32; // px
const near = 2; // of 15: what a square may differ by
const most = 0.08; // of the squares that may differ by more: a name that is longer, a list of another length

/** The brightness of each square of a picture in PNG, one line of text for each row of them. */
export const squares = (page, shot) =>
  page.evaluate(
    async ([data, square]) => {
      const image = new Image();
      image.src = `data:image/png;base64,${data}`;
      await image.decode();
      const width = Math.ceil(image.width / square);
      const height = Math.ceil(image.height / square);
      const canvas = new OffscreenCanvas(width, height).getContext("2d");
      canvas.imageSmoothingQuality = "high";
      canvas.drawImage(image, 0, 0, width, height);
      const { data: rgba } = canvas.getImageData(0, 0, width, height);
      const level = (i) => Math.round((rgba[i] * 0.3 + rgba[i + 1] * 0.59 + rgba[i + 2] * 0.11) / 17).toString(16);
      return Array.from({ length: height }, (_, y) => Array.from({ length: width }, (_, x) => level((y * width + x) * 4)).join(""));
    },
    [shot.toString("base64"), square],
  );

/** Which part of the squares differs; 1 where the pictures are of different sizes. */
export function unlike(golden, now) {
  if (golden.length !== now.length || golden.some((row, y) => row.length !== now[y].length)) return 1;
  const levels = (rows) => [...rows.join("")].map((c) => parseInt(c, 16));
  const was = levels(golden);
  return levels(now).filter((level, i) => Math.abs(level - was[i]) > near).length / was.length;
}

/** Compares all pictures of a look with those that are kept, and says which differ. */
export async function compare(look, pictures) {
  const file = join(kept, `${look}.json`);
  if (process.env.UPDATE_GOLDEN) {
    await mkdir(kept, { recursive: true });
    await writeFile(file, JSON.stringify(pictures, null, 1) + "\n");
    return;
  }
  const golden = JSON.parse(await readFile(file, "utf8").catch(() => "{}"));
  const names = new Set([...Object.keys(golden), ...Object.keys(pictures)]);
  const faults = [...names].flatMap((name) => {
    if (!golden[name] || !pictures[name]) return [`${name}: ${golden[name] ? "there is no such page any more" : "it is new"}`];
    const part = unlike(golden[name], pictures[name]);
    return part > most ? [`${name}: ${(part * 100).toFixed(0)} % of it differs`] : [];
  });
  assert.deepEqual(faults, [], `pages that do not look as they did (${look}); if they should: look at the screenshots, then UPDATE_GOLDEN=1`);
}
