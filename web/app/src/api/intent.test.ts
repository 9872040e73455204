import { beforeEach, describe, expect, test, vi } from "vitest";
import { forgetKeys, intentOf, somethingElse } from "./intent";

let n = 0;
const prepare = () => Promise.resolve(`pre_${++n}`);

beforeEach(() => {
  vi.useFakeTimers();
  forgetKeys();
  n = 0;
});

describe("intentOf", () => {
  test("two that run at once and mean the same have one key", async () => {
    const [a, b, other] = [intentOf("POST /nodes a", prepare), intentOf("POST /nodes a", prepare), intentOf("POST /nodes b", prepare)];
    expect(await a.key).toBe(await b.key);
    expect(await other.key).not.toBe(await a.key);
  });
  test("a click just after it means the same, one later or after something else does not", async () => {
    const again = async () => {
      const intent = intentOf("POST /nodes a", prepare);
      const key = await intent.key;
      intent.ended(true);
      return key;
    };
    const first = await again();
    expect(await again()).toBe(first);
    somethingElse("POST /nodes b");
    const second = await again();
    expect(second).not.toBe(first);
    vi.advanceTimersByTime(5000);
    expect(await again()).not.toBe(second);
  });
  test("what has failed is asked for under another key", async () => {
    const intent = intentOf("x", prepare);
    const key = await intent.key;
    intent.ended(false);
    expect(await intentOf("x", prepare).key).not.toBe(key);
  });
  test("a key that was handed out before it was needed is used once", async () => {
    const first = intentOf("a", prepare);
    await first.key; // and the next one is on its way
    const keys = await Promise.all([intentOf("b", prepare).key, intentOf("c", prepare).key, first.key]);
    expect(new Set(keys).size).toBe(3);
  });
  test("without the server the page makes one", async () => expect(await intentOf("a", () => Promise.reject(new Error("away"))).key).toMatch(/^[0-9a-f]{32}$/));
});
