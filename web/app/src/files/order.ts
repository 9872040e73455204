// The order of a list: folders first, then as people of the language sort, numbers by value.
import type { Node } from "@/api/types";
import { extension } from "./kind";

export type SortKey = "name" | "size" | "mtime" | "type";

export interface Sort {
  key: SortKey;
  desc: boolean;
}

export function sorted(nodes: readonly Node[], sort: Sort, lang: string): Node[] {
  const names = new Intl.Collator(lang, { numeric: true, sensitivity: "base" });
  const sign = sort.desc ? -1 : 1;
  const by: Record<SortKey, (a: Node, b: Node) => number> = {
    name: () => 0,
    size: (a, b) => a.size - b.size,
    mtime: (a, b) => (a.mtime < b.mtime ? -1 : a.mtime > b.mtime ? 1 : 0),
    type: (a, b) => (a.type === "file" ? names.compare(extension(a.name), extension(b.name)) : 0),
  };
  const compare = by[sort.key];
  return [...nodes].sort((a, b) => {
    if (a.type !== b.type) return a.type === "folder" ? -1 : 1;
    return sign * (compare(a, b) || names.compare(a.name, b.name) || (a.name < b.name ? -1 : 1));
  });
}
