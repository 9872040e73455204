import { describe, expect, test } from "vitest";
import { ref } from "vue";
import type { Node } from "@/api/types";
import { hasThumbnail, kindOf, previewOf } from "./kind";
import { sorted } from "./order";
import { childPath, isBelow, joined, nameFault, parentPath, placeOf, segments, stepsTo } from "./path";
import { useSelection } from "./selection";
import { scrollFor, windowOf } from "./window";
import { useGridKeys } from "./keys";

function node(name: string, more: Partial<Node> = {}): Node {
  return {
    id: name, parent_id: "p", name, path: "/" + name, type: "file", size: 1, mime: "", mtime: "2026-01-01T00:00:00Z", created_at: "", updated_at: "",
    trashed_at: null, rev: 1, digests: {}, ...more,
  };
}
const names = (nodes: readonly Node[]) => nodes.map((n) => n.name);

describe("sorted", () => {
  const folder = node("zz", { type: "folder", size: 0 });
  test("folders come first, in either direction", () => {
    expect(names(sorted([node("a"), folder], { key: "name", desc: false }, "en"))).toEqual(["zz", "a"]);
    expect(names(sorted([node("a"), folder], { key: "name", desc: true }, "en"))).toEqual(["zz", "a"]);
  });
  test("numbers in names count by value", () =>
    expect(names(sorted([node("10.txt"), node("9.txt")], { key: "name", desc: false }, "en"))).toEqual(["9.txt", "10.txt"]));
  test("Chinese names are in the order of pinyin", () =>
    expect(names(sorted([node("张"), node("阿"), node("李")], { key: "name", desc: false }, "zh-CN"))).toEqual(["阿", "李", "张"]));
  test("equal sizes are settled by name", () =>
    expect(names(sorted([node("b"), node("a"), node("c", { size: 9 })], { key: "size", desc: true }, "en"))).toEqual(["c", "b", "a"]));
});

describe("kinds", () => {
  test("by extension, then by type", () => {
    expect(kindOf(node("A.JPG"))).toBe("image");
    expect(kindOf(node("noext", { mime: "video/mp4" }))).toBe("video");
    expect(kindOf(node("x", { type: "folder" }))).toBe("folder");
    expect(kindOf(node("what.ever"))).toBe("other");
  });
  test("what is too large to read is not previewed", () => {
    expect(previewOf(node("a.txt"))).toBe("text");
    expect(previewOf(node("a.log", { size: 100 << 20 }))).toBeUndefined();
    expect(previewOf(node("a.html"))).toBe("code"); // as text, never as a page
    expect(previewOf(node("a.zip"))).toBe("archive");
    expect(previewOf(node("a.7z"))).toBeUndefined();
  });
  test("only raster images have thumbnails", () => {
    expect(hasThumbnail(node("a.png"))).toBe(true);
    expect(hasThumbnail(node("a.svg"))).toBe(false);
  });
});

test("paths", () => {
  expect(segments("/a/b")).toEqual(["a", "b"]);
  expect(joined([])).toBe("/");
  expect(parentPath("/a/b")).toBe("/a");
  expect(parentPath("/a")).toBe("/");
  expect(childPath("/", "x")).toBe("/x");
  expect(stepsTo("/a/b")).toEqual(["/", "/a", "/a/b"]);
  // in a space, which stays the place whatever is above
  expect(placeOf("//设计 1/a/b")).toBe("设计 1");
  expect(placeOf("/a//b")).toBe("");
  expect(segments("//S/a/b")).toEqual(["a", "b"]);
  expect(parentPath("//S/a")).toBe("//S");
  expect(parentPath("//S")).toBe("//S");
  expect(childPath("//S", "x")).toBe("//S/x");
  expect(stepsTo("//S/a")).toEqual(["//S", "//S/a"]);
  expect(joined(["a"], "S")).toBe("//S/a");
  expect(isBelow("//S/a", "/")).toBe(false);
  expect(isBelow("//S/ab", "//S/a")).toBe(false);
});

test.each([["", "empty"], ["  ", "empty"], ["a/b", "slash"], ["..", "dots"], ["好".repeat(86), "long"], ["好".repeat(85), undefined], ["ok", undefined]])(
  "the name %s", (name, fault) => expect(nameFault(name)).toBe(fault));

describe("selection", () => {
  const none = { shiftKey: false, ctrlKey: false, metaKey: false };
  const shift = { ...none, shiftKey: true };
  const control = { ...none, ctrlKey: true };
  function make(n = 10) {
    const items = ref(Array.from({ length: n }, (_, i) => ({ id: String(i) })));
    return { items, s: useSelection(items) };
  }
  const chosen = (s: ReturnType<typeof make>["s"]) => s.selected.value.map((i) => i.id).join("");

  test("click, ctrl and shift", () => {
    const { s } = make();
    s.click(2, none);
    s.click(5, control);
    expect(chosen(s)).toBe("25");
    s.click(7, shift);
    expect(chosen(s)).toBe("567");
    s.click(2, { ...control, shiftKey: true });
    expect(chosen(s)).toBe("234567");
    s.click(3, none);
    expect(chosen(s)).toBe("3");
  });
  test("shift with arrows grows and shrinks from the anchor", () => {
    const { s } = make();
    s.step(4, none);
    s.step(5, shift);
    s.step(6, shift);
    s.step(5, shift);
    expect(chosen(s)).toBe("45");
    s.step(3, shift);
    expect(chosen(s)).toBe("34");
  });
  test("what is gone is no longer selected, the focus follows its entry", () => {
    const { items, s } = make();
    s.click(2, none);
    s.click(4, control);
    items.value = items.value.filter((i) => i.id !== "2");
    s.settle("4");
    expect(chosen(s)).toBe("4");
    expect(s.focus.value).toBe(3);
  });
  test("a step does not leave the list", () => {
    const { s } = make(3);
    s.step(99, none);
    expect(s.focus.value).toBe(2);
  });
});

describe("windowOf", () => {
  const rows = { items: 10_000, columns: 1, rowHeight: 46 };
  test("only what is in sight is drawn, wherever it is", () => {
    for (const top of [0, 46 * 5000, 46 * 10_000]) {
      const w = windowOf(rows, top, 800);
      expect(w.end - w.first).toBeLessThan(40);
      expect(w.first * 46).toBeLessThanOrEqual(top);
      expect(w.height).toBe(460_000);
    }
    expect(windowOf(rows, 46 * 9990, 800).end).toBe(10_000);
  });
  test("rows of a grid are whole", () => {
    const w = windowOf({ items: 101, columns: 5, rowHeight: 100 }, 1000, 300);
    expect(w.first % 5).toBe(0);
    expect(w.height).toBe(2100);
  });
  test("scrolling to an item moves as little as is needed", () => {
    expect(scrollFor(rows, 3, 0, 800)).toBe(0);
    expect(scrollFor(rows, 100, 0, 800)).toBe(101 * 46 - 800);
    expect(scrollFor(rows, 3, 5000, 800)).toBe(3 * 46);
  });
  test("what is scrolled to lies neither behind the header nor below the end", () => {
    const list = { items: 1000, columns: 1, rowHeight: 40, above: 38, covered: 38 };
    const at = scrollFor(list, 999, 0, 600);
    expect(38 + 1000 * 40 - at).toBe(600); // the last row ends where the view does
    expect(38 + 500 * 40 - scrollFor(list, 500, at, 600)).toBe(38); // going up, a row begins where the header ends
    expect(scrollFor(list, 0, at, 600)).toBe(0);
    expect(windowOf(list, at, 600).end).toBe(1000);
  });
});

describe("keys", () => {
  function press(keys: string[], columns = 1, items = ["apple", "banana", "berry", "cherry", "date"]) {
    const nodes = ref(items.map((n) => node(n)));
    const selection = useSelection(nodes);
    const opened: string[] = [];
    const handle = useGridKeys(
      { items: () => nodes.value, selection, columns: () => columns, page: () => 3 },
      { open: (n) => opened.push(n.name), menu: () => opened.push("menu"), other: () => opened.push("other") },
    );
    const target = document.createElement("div");
    target.addEventListener("keydown", handle);
    for (const key of keys) target.dispatchEvent(new KeyboardEvent("keydown", { key: key.replace(/^.*\+(?=.)/, ""), ctrlKey: key.startsWith("Ctrl+"), shiftKey: key.startsWith("Shift+") }));
    return { focus: selection.focus.value, chosen: names(selection.selected.value), opened };
  }
  test("arrows, home, end", () => {
    expect(press(["ArrowDown", "ArrowDown"]).chosen).toEqual(["banana"]);
    expect(press(["End", "ArrowUp"]).chosen).toEqual(["cherry"]);
    expect(press(["ArrowDown", "ArrowRight", "ArrowDown"], 2).chosen).toEqual(["cherry"]);
  });
  test("shift and ctrl", () => {
    expect(press(["ArrowDown", "Shift+ArrowDown", "Shift+ArrowDown"]).chosen).toEqual(["apple", "banana", "berry"]);
    expect(press(["Ctrl+a"]).chosen).toHaveLength(5);
    expect(press(["Ctrl+a", "Escape"]).chosen).toEqual([]);
    expect(press(["ArrowDown", "Ctrl+ArrowDown", " "]).chosen).toEqual(["apple", "banana"]);
  });
  test("letters go to a name", () => {
    expect(press(["b"]).chosen).toEqual(["banana"]);
    expect(press(["b", "e"]).chosen).toEqual(["berry"]);
  });
  test("enter opens, F2 is the page's", () => {
    expect(press(["ArrowDown", "Enter"]).opened).toEqual(["apple"]);
    expect(press(["F2"]).opened).toEqual(["other"]);
    expect(press(["Shift+F10"]).opened).toEqual(["menu"]);
  });
});

describe("all of a place", () => {
  const items = ref([node("a"), node("b"), node("c")]);
  const selection = useSelection(items);
  test("is meant, also what comes while it is loading, but for what was taken out", () => {
    selection.all();
    selection.toggle(1);
    const before = items.value;
    items.value = [...before, node("d")];
    selection.settle(undefined, before);
    expect(selection.whole.value).toBe(true);
    expect(selection.selected.value.map((n) => n.id)).toEqual(["a", "c", "d"]);
    expect(selection.except()).toEqual(["b"]);
  });
  test("is not meant any more once something else is selected", () => {
    for (const other of [() => selection.only(0), () => selection.clear(), () => selection.set(["a"]), () => selection.extend(1)]) {
      selection.all();
      other();
      expect(selection.whole.value).toBe(false);
    }
  });
});
