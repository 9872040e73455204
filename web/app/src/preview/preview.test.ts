import { describe, expect, test } from "vitest";
import { decodeText } from "./decode";
import { highlight } from "./highlight";

const bytes = (...b: number[]) => new Uint8Array(b).buffer;

describe("decodeText", () => {
  test("UTF-8", () => expect(decodeText(new TextEncoder().encode("你好 hello").buffer as ArrayBuffer)).toBe("你好 hello"));
  test("UTF-16 by its mark", () => expect(decodeText(bytes(0xff, 0xfe, 0x60, 0x4f))).toBe("你"));
  test("GB 18030, where it is no UTF-8", () => expect(decodeText(bytes(0xc4, 0xe3, 0xba, 0xc3))).toBe("你好"));
  test("nothing", () => expect(decodeText(bytes())).toBe(""));
});

test("what is highlighted is text, whatever is in it", () => {
  const box = document.createElement("div");
  box.append(highlight('let x = "<img src=x onerror=alert(1)>";</script><script>alert(1)</script>', "js"));
  expect(box.querySelector("img, script")).toBeNull();
  expect(box.textContent).toBe('let x = "<img src=x onerror=alert(1)>";</script><script>alert(1)</script>');
});
