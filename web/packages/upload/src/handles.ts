/**
 * Handles remembers, in the browser, which file an open upload is of. It is a convenience: where it is lost or not there, the
 * user picks the file again. Chromium keeps handles of pages in a secure context only.
 */
export interface Handles {
  get(uploadId: string): Promise<FileSystemFileHandle | null>;
  put(uploadId: string, handle: FileSystemFileHandle): Promise<void>;
  delete(uploadId: string): Promise<void>;
  /** tidy drops the old ones: their uploads have ended elsewhere. Other users of this browser keep theirs. */
  tidy(): Promise<void>;
}

const store = "handles";
const oldest = 30 * 24 * 3600_000; // ms: no upload stays open longer, unless the server is told so

interface Kept {
  handle: FileSystemFileHandle;
  /** ms since 1970 */
  at: number;
}

/** openHandles returns the store of this browser, one that holds nothing where there is none. */
export function openHandles(name = "smartdrive-upload"): Handles {
  if (typeof indexedDB === "undefined") return noHandles;
  let db: Promise<IDBDatabase> | undefined;
  const run = async <T>(mode: IDBTransactionMode, act: (s: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> => {
    try {
      db ??= open(name);
      const request = act((await db).transaction(store, mode).objectStore(store));
      return await settled(request);
    } catch {
      return undefined; // private windows and full disks: then there is no memory
    }
  };
  return {
    get: async (id) => (await run<Kept | undefined>("readonly", (s) => s.get(id)))?.handle ?? null,
    put: async (id, handle) => void (await run("readwrite", (s) => s.put({ handle, at: Date.now() } satisfies Kept, id))),
    delete: async (id) => void (await run("readwrite", (s) => s.delete(id))),
    async tidy() {
      for (const key of (await run("readonly", (s) => s.getAllKeys())) ?? []) {
        const kept = await run<Kept | undefined>("readonly", (s) => s.get(key));
        if (kept && kept.at < Date.now() - oldest) await this.delete(String(key));
      }
    },
  };
}

/** noHandles remembers nothing. */
export const noHandles: Handles = { get: async () => null, put: async () => {}, delete: async () => {}, tidy: async () => {} };

function open(name: string): Promise<IDBDatabase> {
  const request = indexedDB.open(name, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(store);
  return settled(request);
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

type Permitted = FileSystemFileHandle & {
  queryPermission?(o: { mode: "read" }): Promise<PermissionState>;
  requestPermission?(o: { mode: "read" }): Promise<PermissionState>;
};

/** fileOf reads a handle; null where leave is lacking (ask: asks for it, which needs a click) or the file is gone. */
export async function fileOf(handle: FileSystemFileHandle, ask: boolean): Promise<File | null> {
  const h: Permitted = handle;
  try {
    let leave = (await h.queryPermission?.({ mode: "read" })) ?? "granted";
    if (leave !== "granted" && ask) leave = (await h.requestPermission?.({ mode: "read" })) ?? leave;
    return leave === "granted" ? await h.getFile() : null;
  } catch {
    return null;
  }
}
