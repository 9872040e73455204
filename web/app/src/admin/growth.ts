// How an installation grows, from the figures of its days.
import type { GrowthDay } from "@/api/types";

const dayMs = 86_400_000;

/** What was charged more at the end than 30 days before, or than on the first day that is known. */
export function grown(days: GrowthDay[]): { bytes: number; days: number } | undefined {
  const last = days.at(-1);
  if (!last) return undefined;
  const since = Date.parse(last.day) - 30 * dayMs;
  const first = days.find((d) => Date.parse(d.day) >= since)!;
  const passed = Math.round((Date.parse(last.day) - Date.parse(first.day)) / dayMs);
  return passed > 0 ? { bytes: last.finished - first.finished, days: passed } : undefined;
}

/** In how many days the disk is full at the pace of the last 30 days; undefined: it does not fill, or nobody knows. */
export function fullIn(days: GrowthDay[]): number | undefined {
  const pace = grown(days);
  const free = days.at(-1)?.free;
  if (!pace || free === undefined || pace.bytes <= 0) return undefined;
  return Math.floor(free / (pace.bytes / pace.days));
}

/** The points of a line through figures of days, in a box; a day without figures is bridged. The least is 0. */
export function points(days: { day: string; value: number }[], width: number, height: number): [number, number][] {
  if (days.length === 0) return [];
  const from = Date.parse(days[0]!.day);
  const span = Math.max(Date.parse(days.at(-1)!.day) - from, 1);
  const most = Math.max(...days.map((d) => d.value), 1);
  return days.map((d) => [((Date.parse(d.day) - from) / span) * width, height - (d.value / most) * height]);
}
