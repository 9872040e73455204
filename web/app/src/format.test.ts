import { describe, expect, test } from "vitest";
import { bytes, duration, moment, parseBytes, percent, splitName, visible } from "./format";

describe("bytes", () => {
  test.each([
    [0, "0 B"], [999, "999 B"], [1000, "0.98 KB"], [1024, "1 KB"], [1536, "1.5 KB"], [10 * 1024 ** 2, "10 MB"], [12.34 * 1024 ** 3, "12.3 GB"],
    [500 * 1024 ** 4, "500 TB"], [3000 * 1024 ** 5, "3000 PB"], [-2048, "-2 KB"], [null, "–"], [Number.NaN, "–"],
  ])("%s is %s", (n, text) => expect(bytes(n)).toBe(text));

  test("what is written is read back within its digits", () => {
    for (const n of [1, 1000, 123_456, 5 << 20, 7.5 * 1024 ** 3]) {
      const back = parseBytes(bytes(n))!;
      expect(Math.abs(back - n) / n).toBeLessThan(0.03);
    }
  });
});

test.each([
  ["500 MB", 500 << 20], ["1.5g", 1.5 * 1024 ** 3], ["1,5 GiB", 1.5 * 1024 ** 3], ["1048576", 1 << 20], ["10 b", 10], ["∞", null], ["不限", null],
  ["", undefined], ["many", undefined], ["-1", undefined], ["1 XB", undefined],
])("the size %s", (text, n) => expect(parseBytes(text)).toBe(n));

test.each([[0, "0:00"], [59.4, "0:59"], [200, "3:20"], [7200, "2:00:00"], [-1, "–"], [Infinity, "–"]])("%s seconds are %s", (s, text) =>
  expect(duration(s)).toBe(text));

describe("moment", () => {
  const now = new Date("2026-11-21T12:00:00");
  test("today is a time", () => expect(moment("2026-11-21T08:05:00", "en", now)).toBe("08:05"));
  test("this year has no year", () => expect(moment("2026-03-02T08:05:00", "en", now)).toMatch(/^Mar 2.*08:05$/));
  test("another year has one", () => expect(moment("2024-03-02T08:05:00", "zh-CN", now)).toBe("2024年3月2日"));
  test("the zero time is none", () => expect(moment("0001-01-01T00:00:00Z", "en", now)).toBe("–"));
});

test("percent stays within 0 and 100", () => {
  expect(percent(5, 10)).toBe(50);
  expect(percent(20, 10)).toBe(100);
  expect(percent(1, 0)).toBe(100);
  expect(percent(1, null)).toBe(0);
});

describe("splitName", () => {
  test("a short name is whole", () => expect(splitName("a.txt")).toEqual(["a.txt", ""]));
  test("the extension is in the end", () => {
    const [start, end] = splitName("a very long name of a report (final).docx");
    expect(start + end).toBe("a very long name of a report (final).docx");
    expect(end).toMatch(/\.docx$/);
  });
  test("no character is torn apart", () => {
    const name = "😀".repeat(40);
    const [start, end] = splitName(name);
    expect(start + end).toBe(name);
    expect(end).not.toMatch(/^[\udc00-\udfff]/);
  });
});

describe("visible", () => {
  test.each([
    ["bill\u202egpj.exe", "bill\\u202egpj.exe"], // what looks like billexe.jpg
    ["a\u2066b\u2069", "a\\u2066b\\u2069"], ["a\u200bb", "a\\u200bb"], ["a\u200db", "a\\u200db"], ["\ufeffa", "\\ufeffa"], ["a\u001bb", "a\\u001bb"],
    ["a\u061cb\u3164", "a\\u061cb\\u3164"], ["a\u{e0041}", "a\\u{e0041}"], ["a\u2028b", "a\\u2028b"], ["soft\u00adhyphen", "soft\\u00adhyphen"],
  ])("%j is shown as %s", (name, text) => expect(visible(name)).toBe(text));

  test.each(["report (2).pdf", "发票 2026.pdf", "فاتورة.pdf", "می\u200cخواهم", "👩\u200d👩\u200d👧.png", "क्\u200dष", "two\nlines", "\u0601", "a\\b"])("%j stays", (name) =>
    expect(visible(name)).toBe(name));
});
