// The keyboard in a list of entries, whose rows have `columns` entries each.
import type { Node } from "@/api/types";
import type { Selection } from "./selection";

export interface GridKeys {
  items: () => readonly Node[];
  selection: Selection;
  columns: () => number;
  page: () => number; // entries that are seen at once
}

export interface KeyActions {
  open: (node: Node) => void;
  menu: () => void;
  other: (e: KeyboardEvent) => void;
}

const typingPause = 800; // ms: longer, and typing begins a new word

export function useGridKeys(grid: GridKeys, act: KeyActions): (e: KeyboardEvent) => void {
  let typed = "";
  let typedAt = 0;

  function target(key: string): number | undefined {
    const at = grid.selection.focus.value;
    const last = grid.items().length - 1;
    const columns = grid.columns();
    switch (key) {
      case "ArrowDown":
        return at < 0 ? 0 : at + columns > last && columns === 1 ? last : Math.min(last, at + columns);
      case "ArrowUp":
        return at < 0 ? 0 : at - columns < 0 ? at : at - columns;
      case "ArrowRight":
        return columns > 1 ? Math.min(last, at + 1) : undefined;
      case "ArrowLeft":
        return columns > 1 ? Math.max(0, at - 1) : undefined;
      case "Home":
        return 0;
      case "End":
        return last;
      case "PageDown":
        return Math.min(last, Math.max(0, at) + grid.page());
      case "PageUp":
        return Math.max(0, at - grid.page());
      default:
        return undefined;
    }
  }

  /** Goes to the next name that begins with what is being typed. */
  function typeAhead(key: string): void {
    const now = Date.now();
    typed = now - typedAt > typingPause ? key : typed + key;
    typedAt = now;
    const items = grid.items();
    const word = typed.toLocaleLowerCase();
    const from = Math.max(0, grid.selection.focus.value) + (typed.length === 1 ? 1 : 0);
    for (let n = 0; n < items.length; n++) {
      const i = (from + n) % items.length;
      if (items[i]!.name.toLocaleLowerCase().startsWith(word)) return grid.selection.only(i);
    }
  }

  return (e) => {
    if (e.defaultPrevented || (e.target as HTMLElement).closest("input[type=text], input:not([type])")) return;
    const { selection } = grid;
    const to = target(e.key);
    const control = e.ctrlKey || e.metaKey;
    const focused = grid.items()[selection.focus.value];
    if (to !== undefined && !e.altKey) selection.step(to, e);
    else if (e.key === "Enter" && focused) act.open(focused);
    else if (e.key === " " && focused) selection.toggle(selection.focus.value);
    else if (control && e.key.toLowerCase() === "a") selection.all();
    else if (e.key === "Escape" && selection.ids.value.size > 0) selection.clear();
    else if (e.key === "ContextMenu" || (e.key === "F10" && e.shiftKey)) act.menu();
    else if (e.key.length === 1 && !control && !e.altKey && e.key !== "/") typeAhead(e.key);
    else return act.other(e);
    e.preventDefault();
  };
}
