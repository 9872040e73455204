// One key for each thing that somebody means to make, however often it is clicked or sent.

const life = 1000; // ms after its end for which a second click still means the first one, unless something else was asked for since

interface Intent {
  key: Promise<string>;
  running: number;
  over: boolean; // it has ended, and is remembered for a moment
}

const intents = new Map<string, Intent>();
let prepared: { key: Promise<string | undefined>; until: number } | undefined;

const keptFor = 60 * 60_000; // ms: a prepare id is good for 12 hours, by the server's clock

/** A random key. crypto.randomUUID would need a secure context, getRandomValues does not. */
export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * Takes a key that the server has handed out before it was needed, and has the next one handed out. Where there is none the page
 * makes one by itself: it makes a creation happen once as well, but for a day only.
 */
async function takeKey(prepare: () => Promise<string>): Promise<string> {
  const ready = prepared && prepared.until > Date.now() ? prepared.key : undefined;
  prepared = undefined; // two never take the same one
  const key = await (ready ?? prepare().catch(() => undefined));
  if (key !== undefined) prepared ??= { key: prepare().catch(() => undefined), until: Date.now() + keptFor };
  return key ?? randomKey();
}

/**
 * The key of a creation. The same creation that is asked for while the first one runs, or just after it, gets the same key: the
 * server then answers as the first time. ended says that it is over.
 */
export function intentOf(what: string, prepare: () => Promise<string>): { key: Promise<string>; ended: (worked: boolean) => void } {
  const intent = intents.get(what) ?? { key: takeKey(prepare), running: 0, over: false };
  intents.set(what, intent);
  intent.running++;
  intent.over = false;
  const forget = () => {
    if (intent.running === 0 && intents.get(what) === intent) intents.delete(what);
  };
  return {
    key: intent.key,
    ended: (worked) => {
      intent.over = --intent.running === 0;
      if (worked) setTimeout(forget, life);
      else forget();
    },
  };
}

/** Says that something is asked for: what has ended before it is not meant by a click after it. */
export function somethingElse(what: string): void {
  for (const [other, intent] of intents) if (other !== what && intent.over) intents.delete(other);
}

/** Forgets what was handed out to somebody who has logged out. */
export function forgetKeys(): void {
  prepared = undefined;
  intents.clear();
}
