import { describe, expect, test } from "vitest";
import { decodeText, guessEncoding } from "./decode";
import { highlight } from "./highlight";
import { renderMarkdown } from "./markdown";
import { showsPdf } from "./pdf";

const bytes = (...b: number[]) => new Uint8Array(b).buffer;

describe("decodeText", () => {
  test("UTF-8", () => expect(decodeText(new TextEncoder().encode("你好 hello").buffer as ArrayBuffer)).toBe("你好 hello"));
  test("UTF-16 by its mark", () => expect(decodeText(bytes(0xff, 0xfe, 0x60, 0x4f))).toBe("你"));
  test("GB 18030, where it is no UTF-8", () => expect(decodeText(bytes(0xc4, 0xe3, 0xba, 0xc3))).toBe("你好"));
  test("Big5 and Shift JIS, by what they say", () => {
    // 我們是中國人, and これはテスト
    const big5 = bytes(0xa7, 0xda, 0xad, 0xcc, 0xac, 0x4f, 0xa4, 0xa4, 0xb0, 0xea, 0xa4, 0x48);
    const sjis = bytes(0x82, 0xb1, 0x82, 0xea, 0x82, 0xcd, 0x83, 0x65, 0x83, 0x58, 0x83, 0x67);
    expect([guessEncoding(big5), decodeText(big5)]).toEqual(["big5", "我們是中國人"]);
    expect([guessEncoding(sjis), decodeText(sjis)]).toEqual(["shift_jis", "これはテスト"]);
  });
  test("what was chosen goes before what is guessed", () => expect(decodeText(bytes(0xe9), "windows-1252")).toBe("é"));
  test("nothing", () => expect(decodeText(bytes())).toBe(""));
});

test("what is highlighted is text, whatever is in it", () => {
  const box = document.createElement("div");
  box.append(highlight('let x = "<img src=x onerror=alert(1)>";</script><script>alert(1)</script>', "js"));
  expect(box.querySelector("img, script")).toBeNull();
  expect(box.textContent).toBe('let x = "<img src=x onerror=alert(1)>";</script><script>alert(1)</script>');
});

test("pictures beside a text are shown, those of other places are not", async () => {
  const asked: string[] = [];
  const box = document.createElement("div");
  box.append(
    renderMarkdown("![one](images/a%20b.png) ![two](../c.png) ![far](https://example.org/x.png) ![odd](//example.org/y.png) ![code](javascript:alert(1))", (path) => {
      asked.push(path);
      return Promise.resolve(path === "../c.png" ? undefined : `/api/${path}`);
    }),
  );
  await new Promise((done) => setTimeout(done));
  expect(asked).toEqual(["images/a b.png", "../c.png"]);
  expect([...box.querySelectorAll("img")].map((i) => [i.alt, i.getAttribute("src")])).toEqual([["one", "/api/images/a b.png"]]);
});

test("browsers that show a PDF in a frame", () => {
  const linux = "Mozilla/5.0 (X11; Linux x86_64)";
  const webkit = "AppleWebKit/605.1.15 (KHTML, like Gecko)";
  const agents = {
    [`${linux} ${webkit} Version/26.0 Safari/605.1.15`]: false, // WebKitGTK
    [`Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${webkit} Version/18.4 Safari/605.1.15`]: true,
    [`${linux} AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0.0.0 Safari/537.36`]: true,
    "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0": true,
  };
  for (const [userAgent, shows] of Object.entries(agents)) expect(showsPdf({ userAgent, pdfViewerEnabled: true }), userAgent).toBe(shows);
  expect(showsPdf({ userAgent: Object.keys(agents)[2]!, pdfViewerEnabled: false })).toBe(false);
});
