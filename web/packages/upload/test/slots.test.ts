import { describe, expect, it } from "vitest";
import { Problem } from "../src/problem.ts";
import { Slots } from "../src/slots.ts";
import { FakeWorld, random } from "./fake.ts";

/** Clock is a world whose time is set by hand. */
class Clock extends FakeWorld {
  at = 0;
  override now = () => this.at;
}

const never = new AbortController().signal;

/** line simulates a line that carries more with each request up to a number; it returns the bound that was found. */
async function line(useful: number, most: number): Promise<number> {
  const clock = new Clock(random(1));
  const slots = new Slots(clock, () => most);
  let waiting = 0;
  let used = 0;
  const want = () => {
    waiting++;
    void slots.acquire(0, never).then((release) => {
      waiting--;
      used++;
      releases.push(release);
    });
  };
  const releases: (() => void)[] = [];
  for (let i = 0; i < 400; i++) {
    while (waiting < 3) want();
    await new Promise((resolve) => setImmediate(resolve));
    clock.at += 100;
    slots.moved(1000 * Math.min(used, useful));
    const release = releases.shift();
    if (release) {
      used--;
      release();
    }
  }
  return slots.limit;
}

describe("slots", () => {
  it("climb as long as more requests bring more bytes", async () => {
    expect(await line(100, 8)).toBeGreaterThanOrEqual(7);
    expect(await line(100, 4)).toBe(4);
  });

  it("halve when the server refuses, and hold as long as it says", async () => {
    const clock = new Clock(random(1));
    const slots = new Slots(clock, () => 4);
    expect(slots.limit).toBe(3);
    slots.refused(new Problem(429, "rate", "", {}, 5000));
    expect(slots.limit).toBe(1);
    let got = false;
    clock.sleep = async (ms) => void (clock.at += ms);
    await slots.acquire(0, never).then(() => (got = true));
    expect(got).toBe(true);
    expect(clock.at).toBe(5000);
  });

  it("go to the highest priority first, and not to who has gone", async () => {
    const slots = new Slots(new Clock(random(1)), () => 1);
    const release = await slots.acquire(0, never);
    const order: string[] = [];
    const gone = new AbortController();
    const waits = [
      slots.acquire(1, never).then((r) => (order.push("low"), r())),
      slots.acquire(9, gone.signal).catch(() => order.push("gone")),
      slots.acquire(5, never).then((r) => (order.push("high"), r())),
    ];
    gone.abort();
    release();
    await Promise.all(waits);
    expect(order).toEqual(["gone", "high", "low"]);
  });
});
