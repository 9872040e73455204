// What two forms of a document say, field by field.

export interface Line {
  field: string; // seller.name, lines[2].net
  old: string;
  new: string;
}

/** All texts of a model, by where they stand. */
export function flat(value: unknown, at = "", into = new Map<string, string>()): Map<string, string> {
  if (Array.isArray(value)) value.forEach((item, i) => flat(item, `${at}[${i + 1}]`, into));
  else if (value !== null && typeof value === "object") {
    for (const [key, item] of Object.entries(value)) flat(item, at ? `${at}.${key}` : key, into);
  } else if (value !== null && value !== undefined && value !== "") into.set(at, String(value));
  return into;
}

/** The fields that differ, in the order of the old form; what only the new one has comes last. */
export function differences(a: unknown, b: unknown): Line[] {
  const [old, now] = [flat(a), flat(b)];
  const fields = [...old.keys(), ...[...now.keys()].filter((f) => !old.has(f))];
  return fields.filter((f) => old.get(f) !== now.get(f)).map((f) => ({ field: f, old: old.get(f) ?? "", new: now.get(f) ?? "" }));
}
