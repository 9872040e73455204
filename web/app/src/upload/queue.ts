// The uploader's list, made visible to Vue.
import type { Uploader, ConflictAnswer, ConflictQuestion, ItemView, Summary, UploaderOptions } from "@smartdrive/upload";
import { computed, ref, shallowRef } from "vue";
import { baseURL } from "@/api/client";
import { fail } from "@/components/notify";
import { i18n } from "@/i18n";
import { holdDrop } from "./drop";
import { finalKinds } from "./state";

export type Act = "pause" | "resume" | "retry" | "cancel" | "remove";

/** How often what is shown follows what is: a thousand small files change in a second. */
const showEvery = 80; // ms

export interface Watch {
  finished?: (item: ItemView) => void;
  idle?: () => void;
  /** Whether the page is left for good: nobody is asked. */
  left?: () => boolean;
}

export function useQueue(options: Omit<UploaderOptions, "base" | "language" | "onConflict">, watch: Watch = {}) {
  const items = shallowRef<readonly ItemView[]>([]);
  const total = shallowRef<Summary>();
  const shown = ref(false);
  const folded = ref(false);
  const question = shallowRef<ConflictQuestion>();
  const unfinished = computed(() => items.value.filter((i) => !finalKinds.has(i.state.kind)).length);
  let answer: ((a: ConflictAnswer) => void) | undefined;
  let made: Uploader | undefined;
  let coming: Promise<Uploader> | undefined;
  let timer = 0;

  /** The items are live objects: a new list tells that they changed. */
  function changed(): void {
    timer ||= window.setTimeout(show, showEvery);
  }

  function show(): void {
    clearTimeout(timer);
    timer = 0;
    items.value = made?.items ?? [];
    total.value = made?.summary();
  }

  /** The uploader, which is fetched when it is needed first: a list can be looked at before. */
  const uploader = () => (coming ??= make().catch((error: unknown) => ((coming = undefined), Promise.reject(error))));

  async function make(): Promise<Uploader> {
    const { Uploader } = await import("@smartdrive/upload");
    made = new Uploader({
      ...options,
      base: new URL("api/v1", baseURL).href,
      language: i18n.global.locale.value,
      onConflict: (q) =>
        new Promise<ConflictAnswer>((resolve) => {
          question.value = q;
          answer = resolve;
        }),
    });
    made.on("added", changed);
    made.on("removed", changed);
    made.on("progress", changed);
    made.on("state", ({ item }) => {
      changed();
      if (item.state.kind === "done" || item.state.kind === "instant") watch.finished?.(item);
    });
    made.on("idle", () => {
      changed();
      watch.idle?.();
    });
    addEventListener("beforeunload", (e) => {
      if (!watch.left?.() && items.value.some((i) => ["sending", "waiting", "hashing", "verifying"].includes(i.state.kind))) e.preventDefault();
    });
    return made;
  }

  function respond(a: ConflictAnswer): void {
    question.value = undefined;
    answer?.(a);
  }

  function open(): void {
    shown.value = true;
    folded.value = false;
  }

  /** Does something with the uploader, and says what goes wrong. */
  const use = (what: (it: Uploader) => unknown) => void uploader().then(what).catch(fail);

  const addFiles = (files: Iterable<File>, folder: string) => use((it) => it.addFiles(files, { folder }).length > 0 && open());

  /** Must be called within the drop event. */
  function addDrop(what: DataTransfer, folder: string): void {
    const held = holdDrop(what); // before anything is waited for
    open();
    use((it) => it.addDrop(held, { folder }));
  }

  /** Lets the user choose files, or a folder. */
  function choose(how: { folder?: boolean; many?: boolean }, take: (files: File[]) => void): void {
    const input = document.createElement("input");
    input.type = "file";
    input.multiple = how.many ?? true;
    input.webkitdirectory = how.folder ?? false;
    input.className = "sd-offscreen";
    input.tabIndex = -1;
    input.setAttribute("aria-hidden", "true");
    document.body.append(input);
    input.addEventListener("change", () => {
      take([...(input.files ?? [])]);
      input.remove();
    });
    input.addEventListener("cancel", () => input.remove());
    input.click();
  }
  const pick = (folder: string, whole: boolean) => choose({ folder: whole }, (files) => addFiles(files, folder));

  /** A click on an item: there is an uploader, and what the browser asks for a permission for is asked within the click. */
  function act(how: Act, id: string): void {
    const item = made?.get(id);
    if (!made || !item) return;
    if (how === "resume" && item.state.kind === "parked") return void goOn(made, id, item.state.needs);
    Promise.resolve(made[how](id)).catch(fail);
    changed();
  }

  /** A parked item goes on with its file: the remembered one, or one that is picked again. */
  async function goOn(it: Uploader, id: string, needs: "file" | "permission"): Promise<void> {
    if (needs === "permission" && (await it.permit(id))) return;
    choose({ many: false }, ([file]) => file && it.provide(id, file));
  }

  const all = (how: "pause" | "resume" | "retry") => use((it) => it[how]());
  const clear = () => made?.clear();

  /** Finds what an earlier visit left open. It is shown by its headline: nobody has asked for it now. */
  async function restore(places: readonly string[] = []): Promise<void> {
    if ((await (await uploader()).restore(places)).length === 0) return;
    if (!shown.value && matchMedia("(max-width: 640px)").matches) return; // it would lie over the list; the button on top has the number
    show();
    folded.value = !shown.value;
    shown.value = true;
  }

  return { items, total, shown, folded, question, unfinished, respond, addFiles, addDrop, pick, act, all, clear, restore };
}
