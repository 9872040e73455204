import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { onHint } from "./events";

/** A stream that does what the test says. */
class Stream extends EventTarget {
  static readonly CLOSED = 2;
  static last: Stream;
  readyState = 1;
  constructor() {
    super();
    Stream.last = this;
  }
  close(): void {
    this.readyState = Stream.CLOSED;
  }
  say(type: string, data = "{}"): void {
    this.dispatchEvent(new MessageEvent(type, { data }));
  }
  fail(readyState: number): void {
    this.readyState = readyState;
    this.dispatchEvent(new Event("error"));
  }
}

let heard: unknown[];
let end: () => void;
beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("EventSource", Stream);
  heard = [];
  end = onHint((hint) => heard.push(hint === "reset" ? hint : hint.folders));
  Stream.last.say("ready");
});
afterEach(() => {
  end();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it("looks at everything when a new stream takes the place of one that was given up", () => {
  const first = Stream.last;
  first.fail(Stream.CLOSED);
  vi.advanceTimersByTime(60_000);
  expect(Stream.last).not.toBe(first);
  expect(heard).toEqual([]); // not before it is heard what happens from now on
  Stream.last.say("ready");
  Stream.last.say("changed", JSON.stringify({ folders: ["a"] }));
  expect(heard).toEqual(["reset", ["a"]]);
});

it("leaves a stream alone that comes again by itself", () => {
  const first = Stream.last;
  first.fail(0);
  vi.advanceTimersByTime(60_000);
  expect(Stream.last).toBe(first);
  first.say("ready");
  expect(heard).toEqual([]);
});
