// Hears of what happens on the server, while the page is looked at. What is lost is no harm: whoever
// comes back to a page after a while reads again.
import { apiURL } from "./client";

/** Something happened; not what. */
export interface Hint {
  account_id: string;
  kinds: string[]; // such as node, grant; access: what is shared with one is another
  folders: string[]; // ids
  many: boolean; // it may be any folder
}
type Listener = (hint: Hint | "reset") => void;

const quietAfter = 10_000; // ms: a page that nobody looks at for so long hears nothing. A browser has six connections for all of its pages
const again = 60_000; // ms after which it is tried again, where the server has refused
const listeners = new Set<Listener>();
let source: EventSource | undefined;
let hidden: ReturnType<typeof setTimeout> | undefined;
let retry: ReturnType<typeof setTimeout> | undefined;
let deaf = false; // a stream was given up: what has happened since, no later stream says

const tell = (hint: Hint | "reset") => listeners.forEach((listener) => listener(hint));

function open(): void {
  if (source || retry || listeners.size === 0 || document.hidden) return;
  const mine = (source = new EventSource(apiURL("/events")));
  mine.addEventListener("changed", (e) => tell(JSON.parse((e as MessageEvent<string>).data) as Hint));
  mine.addEventListener("reset", () => tell("reset"));
  mine.addEventListener("ready", () => {
    if (deaf) tell("reset");
    deaf = false;
  });
  mine.addEventListener("error", () => {
    if (mine.readyState !== EventSource.CLOSED) return; // it comes again by itself, and says how far it was
    // A refusal, such as a proxy's while the server restarts.
    close();
    deaf = true;
    retry = setTimeout(() => {
      retry = undefined;
      open();
    }, again);
  });
}

function close(): void {
  source?.close();
  source = undefined;
}

function onVisible(): void {
  clearTimeout(hidden);
  if (document.hidden) hidden = setTimeout(close, quietAfter);
  else open();
}

/** Calls the listener for each hint, until the function that it returns is called. */
export function onHint(listener: Listener): () => void {
  if (listeners.size === 0) document.addEventListener("visibilitychange", onVisible);
  listeners.add(listener);
  open();
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    document.removeEventListener("visibilitychange", onVisible);
    clearTimeout(hidden);
    clearTimeout(retry);
    retry = undefined;
    close();
  };
}
