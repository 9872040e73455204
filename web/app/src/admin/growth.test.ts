import { expect, test } from "vitest";
import type { GrowthDay } from "@/api/types";
import { fullIn, grown, points } from "./growth";

const day = (day: string, finished: number, free?: number): GrowthDay => ({ day, at: `${day}T12:00:00Z`, accounts: 1, finished, unfinished: 0, free });

test("growth is that of the last 30 days, or of what is known", () => {
  expect(grown([])).toBeUndefined();
  expect(grown([day("2026-11-25", 5)])).toBeUndefined();
  expect(grown([day("2026-11-20", 5), day("2026-11-25", 15)])).toEqual({ bytes: 10, days: 5 });
  expect(grown([day("2026-01-01", 0), day("2026-10-26", 50), day("2026-11-25", 40)])).toEqual({ bytes: -10, days: 30 });
});

test("a disk is full when what is free is used up at that pace", () => {
  expect(fullIn([day("2026-11-20", 0, 200), day("2026-11-25", 50, 105)])).toBe(10);
  expect(fullIn([day("2026-11-20", 50, 100), day("2026-11-25", 50, 100)])).toBeUndefined();
  expect(fullIn([day("2026-11-20", 0), day("2026-11-25", 50)])).toBeUndefined();
});

test("a line goes through its days in time, from 0 at the bottom", () => {
  expect(points([], 100, 10)).toEqual([]);
  expect(points([{ day: "2026-11-25", value: 3 }], 100, 10)).toEqual([[0, 0]]);
  const days = [{ day: "2026-11-01", value: 0 }, { day: "2026-11-02", value: 5 }, { day: "2026-11-05", value: 10 }];
  expect(points(days, 100, 10)).toEqual([[0, 10], [25, 5], [100, 0]]);
});
