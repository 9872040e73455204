// The folders of a drive as a tree: what is in a folder is asked for when it is opened, a page at a time.
import { computed, reactive, ref, type ComputedRef, type Ref } from "vue";
import { foldersPage, nodeAt } from "@/api/nodes";
import type { Node } from "@/api/types";
import { explain } from "@/components/notify";
import { sorted } from "./order";
import { stepsTo } from "./path";

export interface Branch {
  node: Node;
  level: number; // of the root: 1
  parent: Branch | undefined;
  open: boolean;
  loading: boolean;
  folders: Branch[];
  next: string | null | undefined; // where the next page begins; undefined: nothing was asked for
  fault: string;
}

/** A line of the tree: a folder, or what stands at the end of one that has more. */
export interface Line {
  key: string;
  branch: Branch;
  more: boolean;
}

export interface Tree {
  root: Ref<Branch | undefined>;
  lines: ComputedRef<Line[]>;
  at: Ref<string>; // key of the line that has the focus
  chosen: ComputedRef<Branch | undefined>;
  reach: (path: string) => Promise<void>;
  toggle: (branch: Branch) => Promise<void>;
  more: (branch: Branch) => Promise<void>;
  add: (parent: Branch, node: Node) => void;
  key: (name: string) => boolean;
}

export function useTree(lang: () => string, forbidden: (id: string) => boolean = () => false): Tree {
  const root = ref<Branch>();
  const at = ref("");
  const lines = computed(() => (root.value ? linesOf(root.value as Branch) : []));
  const chosen = computed(() => lines.value.find((line) => line.key === at.value)?.branch);
  const blocked = (branch: Branch): boolean => forbidden(branch.node.id) || (!!branch.parent && blocked(branch.parent));

  /** Adds what is not there yet: a folder on the way to the first one may have come before its page. */
  function fill(branch: Branch, nodes: readonly Node[]): void {
    const known = new Map(branch.folders.map((b) => [b.node.id, b]));
    const all = sorted([...branch.folders.map((b) => b.node), ...nodes.filter((n) => !known.has(n.id))], { key: "name", desc: false }, lang());
    branch.folders = all.map((node) => known.get(node.id) ?? branchOf(node, branch));
  }

  async function more(branch: Branch): Promise<void> {
    if (branch.loading || branch.next === null) return;
    branch.loading = true;
    branch.fault = "";
    try {
      const page = await foldersPage(branch.node.id, branch.next);
      const folders = page.items.filter((n) => n.type === "folder");
      fill(branch, folders);
      branch.next = folders.length < page.items.length ? null : (page.next_cursor ?? null); // folders come first
    } catch (error) {
      branch.fault = explain(error);
    } finally {
      branch.loading = false;
    }
  }

  async function unfold(branch: Branch): Promise<void> {
    if (blocked(branch)) return;
    branch.open = true;
    if (branch.next === undefined) await more(branch);
  }

  async function toggle(branch: Branch): Promise<void> {
    if (!branch.open) return unfold(branch);
    branch.open = false;
    if (!lines.value.some((line) => line.key === at.value)) at.value = branch.node.id; // the focus was in it
  }

  /** Opens all that is above a folder, and goes to it. */
  async function reach(path: string): Promise<void> {
    const [home, ...steps] = stepsTo(path);
    const top = reactive(branchOf(await nodeAt(home!), undefined));
    root.value = top;
    at.value = top.node.id;
    let branch: Branch = top;
    await unfold(branch);
    for (const step of steps) {
      const node = await nodeAt(step).catch(() => undefined);
      if (!node || blocked(branch)) return;
      fill(branch, [node]);
      branch = branch.folders.find((b) => b.node.id === node.id)!;
      at.value = node.id;
      await unfold(branch);
    }
  }

  function add(parent: Branch, node: Node): void {
    fill(parent, [node]);
    parent.open = true;
    parent.next ??= null;
    at.value = node.id;
  }

  const step = (from: number, by: number) => {
    const to = lines.value[Math.min(lines.value.length - 1, Math.max(0, from + by))];
    if (to) at.value = to.key;
  };

  /** What a key does, as the ARIA practices have it for a tree; false: nothing. */
  function key(name: string): boolean {
    const i = lines.value.findIndex((line) => line.key === at.value);
    const line = lines.value[i];
    if (!line) return false;
    const { branch } = line;
    const moves: Record<string, () => void> = {
      ArrowDown: () => step(i, 1),
      ArrowUp: () => step(i, -1),
      PageDown: () => step(i, 8),
      PageUp: () => step(i, -8),
      Home: () => step(0, 0),
      End: () => step(lines.value.length, 0),
      ArrowRight: () => (line.more ? void more(branch) : branch.open ? branch.folders.length && step(i, 1) : void unfold(branch)),
      ArrowLeft: () => {
        if (!line.more && branch.open && branch.folders.length) void toggle(branch);
        else at.value = line.more ? branch.node.id : (branch.parent ?? branch).node.id;
      },
    };
    const move = moves[name];
    if (move) move();
    else return letter(i, name);
    return true;
  }

  function letter(from: number, name: string): boolean {
    if ([...name].length !== 1 || name === " ") return false;
    const order = [...lines.value.slice(from + 1), ...lines.value.slice(0, from + 1)];
    const hit = order.find((line) => !line.more && line.branch.node.name.toLocaleLowerCase().startsWith(name.toLocaleLowerCase()));
    if (hit) at.value = hit.key;
    return !!hit;
  }

  return { root: root as Ref<Branch | undefined>, lines, at, chosen, reach, toggle, more, add, key };
}

function branchOf(node: Node, parent: Branch | undefined): Branch {
  return { node, level: (parent?.level ?? 0) + 1, parent, open: false, loading: false, folders: [], next: undefined, fault: "" };
}

function linesOf(branch: Branch): Line[] {
  const lines: Line[] = [{ key: branch.node.id, branch, more: false }];
  if (!branch.open) return lines;
  for (const folder of branch.folders) lines.push(...linesOf(folder));
  if (branch.next) lines.push({ key: `${branch.node.id} more`, branch, more: true });
  return lines;
}
