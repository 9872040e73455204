import { defineStore } from "pinia";
import { ref, shallowRef } from "vue";
import * as api from "@/api/operations";
import type { Operation, OperationFailure, Request } from "@/api/operations";
import { isProblem } from "@/api/client";
import { useSession } from "./session";

/** An operation that the page shows. */
export interface Shown {
  op: Operation;
  /** What the one thing is called, where it is one, and where things go. */
  name: string;
  folder: string;
  open: boolean; // its failures are shown
  failures: OperationFailure[];
  more: string | null; // the cursor of further failures
  busy: boolean;
}

const firstPoll = 250; // ms; then longer and longer
const longestPoll = 2000;
const quiet = 8000; // ms for which one that ended well stays, unless somebody has been at it

/** Work on many items, from the request to what failed. */
export const useOperations = defineStore("operations", () => {
  const shown = ref<Shown[]>([]);
  /** The operation that ended last: what is shown of its items may have changed. */
  const ended = shallowRef<Operation>();
  const timers = new Map<string, ReturnType<typeof setTimeout>>();
  const kept = new Set<string>(); // those somebody has been at

  const find = (id: string) => shown.value.find((s) => s.op.id === id);

  function show(op: Operation, about: { name?: string; folder?: string } = {}): Shown {
    clearTimeout(timers.get(op.id));
    const known = find(op.id);
    if (known) known.op = op;
    else shown.value.unshift({ op, name: about.name ?? "", folder: about.folder ?? "", open: false, failures: [], more: null, busy: false });
    return find(op.id)!;
  }

  /** Follows an operation to its end. */
  async function follow(op: Operation, about: { name?: string; folder?: string } = {}): Promise<Operation> {
    show(op, about);
    for (let wait = firstPoll; op.state === "running"; wait = Math.min(longestPoll, wait * 1.5)) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      if (!find(op.id)) break; // nobody looks at it any more
      try {
        op = await api.operationOf(op.id);
      } catch (error) {
        if (isProblem(error, "not-found")) op = { ...op, state: "done" };
        else if (!isProblem(error, "network", "unavailable", "stopping")) throw error;
      }
      const s = find(op.id);
      if (s) s.op = op;
    }
    settle(op);
    return op;
  }

  function settle(op: Operation): void {
    if (op.state === "running") return;
    ended.value = op;
    void useSession().refresh().catch(() => {}); // the figures come with the next page
    if (op.failed === 0 && op.state === "done" && !kept.has(op.id)) timers.set(op.id, setTimeout(() => hide(op.id), quiet));
  }

  function hide(id: string): void {
    clearTimeout(timers.get(id));
    timers.delete(id);
    kept.delete(id);
    shown.value = shown.value.filter((s) => s.op.id !== id);
  }

  /** Keeps one that would go by itself: somebody is at it, be it before its end. */
  function keep(id: string): void {
    kept.add(id);
    clearTimeout(timers.get(id));
  }

  const start = async (request: Request, about: { name?: string; folder?: string } = {}) => follow(await api.startOperation(request), about);

  async function guarded(s: Shown, act: () => Promise<unknown>): Promise<void> {
    s.busy = true;
    try {
      await act();
    } finally {
      s.busy = false;
    }
  }

  const cancel = (s: Shown) => guarded(s, async () => show(await api.cancelOperation(s.op.id)));

  const retry = (s: Shown) =>
    guarded(s, async () => {
      s.failures = [];
      s.open = false;
      void follow(await api.retryOperation(s.op.id));
    });

  const undo = (s: Shown) =>
    guarded(s, async () => {
      const back = await api.undoOperation(s.op.id);
      hide(s.op.id);
      void follow(back, { name: s.name });
    });

  async function readFailures(s: Shown): Promise<void> {
    keep(s.op.id);
    s.open = true;
    const page = await api.failuresPage(s.op.id, s.more);
    s.failures = [...s.failures, ...page.items];
    s.more = page.next_cursor ?? null;
  }

  /** Takes up what went on while the page was closed. */
  async function restore(): Promise<void> {
    const { items } = await api.recentOperations();
    for (const op of items.reverse()) if (op.state === "running" && !find(op.id)) void follow(op).catch(() => {});
  }

  return { shown, ended, start, cancel, retry, undo, hide, keep, readFailures, restore };
});
