// Numbers, sizes and times for people.

const units = ["B", "KB", "MB", "GB", "TB", "PB"];

/** A size in binary units with three digits at most: 0 B, 999 B, 1.5 MB, 12.3 GB. */
export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return "–";
  let unit = 0;
  let value = Math.abs(n);
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${n < 0 ? "-" : ""}${Number(value.toFixed(digits))} ${units[unit]}`;
}

/** Reads "500 MB", "1.5g", "1048576" and "∞" (null). Undefined: it is none. */
export function parseBytes(text: string): number | null | undefined {
  const m = /^\s*(\d+(?:[.,]\d+)?)\s*([kmgtp]?)(?:i?b)?\s*$/i.exec(text);
  if (/^\s*(∞|unlimited|不限|无限)\s*$/i.test(text)) return null;
  if (!m) return undefined;
  const power = " kmgtp".indexOf((m[2] || " ").toLowerCase());
  return Math.round(Number(m[1]!.replace(",", ".")) * 1024 ** power);
}

/** 3 min 20 s as 3:20, 2 h as 2:00:00. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return "–";
  const s = Math.round(seconds);
  const pad = (n: number) => String(n).padStart(2, "0");
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes}:${pad(s % 60)}`;
  return `${Math.floor(minutes / 60)}:${pad(minutes % 60)}:${pad(s % 60)}`;
}

/** A moment: the time today, day and month this year, else the date. */
export function moment(iso: string | null | undefined, lang: string, now = new Date()): string {
  if (!iso) return "–";
  const t = new Date(iso);
  if (!(t.getTime() > 0)) return "–"; // none, or the zero time
  const time: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (t.toDateString() === now.toDateString()) return new Intl.DateTimeFormat(lang, time).format(t);
  if (t.getFullYear() === now.getFullYear()) {
    return new Intl.DateTimeFormat(lang, { month: "short", day: "numeric", ...time }).format(t);
  }
  return new Intl.DateTimeFormat(lang, { year: "numeric", month: "short", day: "numeric" }).format(t);
}

/** A moment in full. */
export function fullMoment(iso: string | null | undefined, lang: string): string {
  if (!iso || !(new Date(iso).getTime() > 0)) return "–";
  return new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "short", hour12: false }).format(new Date(iso));
}

/** "in 3 days", "3 天后". */
export function untilThen(iso: string, lang: string, now = Date.now()): string {
  const seconds = (new Date(iso).getTime() - now) / 1000;
  const steps: [Intl.RelativeTimeFormatUnit, number][] = [
    ["day", 86400],
    ["hour", 3600],
    ["minute", 60],
  ];
  const format = new Intl.RelativeTimeFormat(lang, { numeric: "auto" });
  for (const [unit, length] of steps) {
    if (Math.abs(seconds) >= length) return format.format(Math.round(seconds / length), unit);
  }
  return format.format(Math.round(seconds), "second");
}

/** How full something is, 0 to 100. */
export function percent(part: number, whole: number | null): number {
  if (!whole || whole <= 0) return part > 0 && whole === 0 ? 100 : 0;
  return Math.max(0, Math.min(100, (part / whole) * 100));
}

/** Splits a name so that its end, with the extension, is never cut off. */
export function splitName(name: string): [string, string] {
  const dot = name.lastIndexOf(".");
  const chars = Array.from(name);
  const tail = dot > 0 && name.length - dot <= 8 ? Array.from(name.slice(dot)).length + 4 : 6;
  if (chars.length <= tail + 6) return [name, ""];
  return [chars.slice(0, -tail).join(""), chars.slice(-tail).join("")];
}

// Characters that one cannot see, and that make a name look like another: controls, the bidirectional ones above all (U+202E turns
// "gpj.exe" into "exe.jpg"), spaces without width, fillers. Cf without the Arabic signs that are seen.
const unseen =
  /(?![\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/gu;

/**
 * A name, or a text with names in it, as people are shown it: characters that one cannot see are spelt out, as \u202e. Those that join or
 * part letters stay between letters of other scripts and in pictures, where they belong, and so do line breaks.
 */
export function visible(text: string): string {
  return text.replace(unseen, (c, at: number) => {
    if (c === "\n" || c === "\t") return c;
    if ((c === "\u200c" || c === "\u200d") && joins(text, at)) return c;
    const code = c.codePointAt(0)!.toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
  });
}

const plain = /[\p{ASCII}\p{Cc}\p{Cf}\p{Z}]/u;

/** joins reports whether both neighbours of a joiner are letters or pictures beyond ASCII. */
function joins(text: string, at: number): boolean {
  const before = Array.from(text.slice(Math.max(0, at - 2), at)).at(-1);
  const after = Array.from(text.slice(at + 1, at + 3))[0];
  return !!before && !!after && !plain.test(before) && !plain.test(after);
}
