import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const src = join(import.meta.dirname, "../src");

/** importsOf are the files of the package that a file imports, types included: who reads it needs them, too. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(src, file), "utf8");
  return [...text.matchAll(/ from "(\.[^"]+\.ts)"/g)].map((m) => join(dirname(file), m[1]!));
}

/** circle is a way from a file back to one on it; empty: there is none. */
function circle(file: string, way: readonly string[], done: Set<string>): string[] {
  if (way.includes(file)) return [...way.slice(way.indexOf(file)), file];
  if (done.has(file)) return [];
  for (const next of importsOf(file)) {
    const found = circle(next, [...way, file], done);
    if (found.length > 0) return found;
  }
  done.add(file);
  return [];
}

test("no files import each other in a circle", () => {
  const files = readdirSync(src).filter((f) => f.endsWith(".ts"));
  expect(files.flatMap(importsOf).length).toBeGreaterThan(40);
  const done = new Set<string>();
  for (const file of files) expect(circle(file, [], done)).toEqual([]);
});
