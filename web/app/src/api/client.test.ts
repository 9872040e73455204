import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { call, retryAfter } from "./client";

const sent: { url: string; method: string; key: string | null }[] = [];
let answers: (Response | Error)[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  sent.length = 0;
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (url.endsWith("/prepare")) return Promise.resolve(Response.json({ pre_id: "pre_x" }));
    sent.push({ url, method: init.method!, key: new Headers(init.headers).get("Idempotency-Key") });
    const next = answers.shift()!;
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const later = (status: number, after: string) => new Response("{}", { status, headers: { "Retry-After": after } });

test("what the server asks to be sent again later is, whatever it is, and with one key", async () => {
  for (const [method, once] of [["POST", true], ["DELETE", false], ["GET", false]] as const) {
    sent.length = 0;
    answers = [later(429, "2"), later(503, "1"), Response.json({ id: "1" })];
    const got = call(method, "/x", once ? { once } : {});
    await vi.advanceTimersByTimeAsync(1900);
    expect(sent.length).toBe(1);
    await vi.advanceTimersByTimeAsync(5000);
    expect(await got).toEqual({ id: "1" });
    expect(sent.length).toBe(3);
    expect(new Set(sent.map((s) => s.key)).size).toBe(1);
  }
});
test("a wait of minutes is said and not made", async () => {
  answers = [later(429, "900")];
  await expect(call("POST", "/x")).rejects.toMatchObject({ status: 429, retryAfter: 900 });
});
test("patience ends", async () => {
  answers = Array.from({ length: 20 }, () => later(503, "1"));
  const got = expect(call("GET", "/x")).rejects.toMatchObject({ status: 503 });
  await vi.advanceTimersByTimeAsync(60_000);
  await got;
  expect(sent.length).toBe(7);
});
test("a wait ends when nobody waits any more", async () => {
  answers = [later(503, "10")];
  const stop = new AbortController();
  const got = expect(call("GET", "/x", { signal: stop.signal })).rejects.toThrow();
  await vi.advanceTimersByTimeAsync(100);
  stop.abort();
  await got;
  expect(sent.length).toBe(1);
});
test("a date is a Retry-After, too; without one nothing is repeated", () => {
  vi.setSystemTime("2026-01-01T00:00:00Z");
  expect(retryAfter(later(503, "Thu, 01 Jan 2026 00:00:07 GMT"))).toBe(7);
  expect(retryAfter(later(503, "soon"))).toBeUndefined();
  expect(retryAfter(later(507, "1"))).toBeUndefined();
  expect(retryAfter(new Response("", { status: 429 }))).toBeUndefined();
});
