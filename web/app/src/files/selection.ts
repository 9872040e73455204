// Which of the shown entries are selected, and where the keyboard is. Indexes are those of the shown order.
import { computed, ref, shallowRef, type Ref } from "vue";

export interface Click {
  shiftKey: boolean;
  ctrlKey: boolean;
  metaKey: boolean;
}

export function useSelection<T extends { id: string }>(items: Ref<readonly T[]>) {
  const ids = shallowRef(new Set<string>());
  const focus = ref(-1);
  /** Everything that there is in the place is meant, also what is not loaded; but not what is shown and not selected. */
  const whole = ref(false);
  let anchor = -1;

  const selected = computed(() => items.value.filter((item) => ids.value.has(item.id)));
  const has = (id: string) => ids.value.has(id);
  const idAt = (i: number) => items.value[i]?.id;

  function only(i: number): void {
    const id = idAt(i);
    whole.value = false;
    ids.value = new Set(id ? [id] : []);
    focus.value = anchor = id ? i : -1;
  }

  function toggle(i: number): void {
    const id = idAt(i);
    if (!id) return;
    const next = new Set(ids.value);
    if (!next.delete(id)) next.add(id);
    ids.value = next;
    focus.value = anchor = i;
  }

  /** Selects from the anchor to i, besides what was selected before where keep is set. */
  function extend(i: number, keep = false): void {
    if (anchor < 0) return only(i);
    whole.value &&= keep;
    const next = new Set(keep ? ids.value : []);
    for (let n = Math.min(anchor, i); n <= Math.max(anchor, i); n++) {
      const id = idAt(n);
      if (id) next.add(id);
    }
    ids.value = next;
    focus.value = i;
  }

  function click(i: number, e: Click): void {
    const many = e.ctrlKey || e.metaKey;
    if (e.shiftKey) extend(i, many);
    else if (many) toggle(i);
    else only(i);
  }

  /** Moves the keyboard's place, with Shift the selection's end, with Ctrl alone. */
  function step(to: number, e: Click): void {
    const i = Math.max(0, Math.min(items.value.length - 1, to));
    if (items.value.length === 0) return;
    if (e.shiftKey) extend(i);
    else if (e.ctrlKey || e.metaKey) focus.value = i;
    else only(i);
  }

  function all(): void {
    whole.value = true;
    ids.value = new Set(items.value.map((item) => item.id));
    if (focus.value < 0) focus.value = anchor = 0;
  }

  /** What is shown and not meant, where everything is. */
  const except = () => items.value.filter((item) => !ids.value.has(item.id)).map((item) => item.id);

  function clear(): void {
    whole.value = false;
    ids.value = new Set();
    anchor = focus.value;
  }

  /** Selects these and puts the keyboard on the first of them. */
  function set(wanted: Iterable<string>): void {
    whole.value = false;
    ids.value = new Set(wanted);
    const first = items.value.findIndex((item) => ids.value.has(item.id));
    if (first >= 0) focus.value = anchor = first;
  }

  /** Keeps what is still there after the items changed. */
  function settle(focused?: string, before: readonly { id: string }[] = []): void {
    const there = new Map(items.value.map((item, i) => [item.id, i]));
    const known = whole.value ? new Set(before.map((item) => item.id)) : undefined;
    const kept = [...there.keys()].filter((id) => ids.value.has(id) || (known && !known.has(id)));
    if (kept.length === 0) whole.value = false;
    if (kept.length !== ids.value.size) ids.value = new Set(kept);
    const at = focused === undefined ? undefined : there.get(focused);
    if (at !== undefined) focus.value = anchor = at;
    else focus.value = Math.min(focus.value, items.value.length - 1);
  }

  return { ids, focus, whole, except, selected, has, only, toggle, extend, click, step, all, clear, set, settle };
}

export type Selection = ReturnType<typeof useSelection>;
