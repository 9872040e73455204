import type { Pick } from "./types.ts";

/** Found is what a drop or a directory holds: files, folders without any, and what cannot be read, by their path below it. */
export interface Found {
  files: Pick[];
  empty: string[];
  unreadable: string[];
}

/**
 * fromDrop reads what was dropped, folders with their structure. It must be called in the drop event itself: the browser forgets
 * the items afterwards.
 */
export async function fromDrop(data: DataTransfer): Promise<Found> {
  const found: Found = { files: [], empty: [], unreadable: [] };
  const items = [...data.items].filter((item) => item.kind === "file");
  // All of this before the first await.
  const drops = items.map((item) => ({ entry: entryOf(item), file: item.getAsFile(), handle: handleOf(item) }));
  for (const { entry, file, handle } of drops) {
    if (entry) await walk(entry, "", found, handle);
    else if (file) found.files.push(await pick(file, file.name, handle));
  }
  return found;
}

/** fromInput reads an <input type="file">, with webkitdirectory or without. */
export function fromInput(files: Iterable<File>): Pick[] {
  return Array.from(files, (file) => ({ file, path: file.webkitRelativePath || file.name }));
}

function entryOf(item: DataTransferItem): FileSystemEntry | null {
  return typeof item.webkitGetAsEntry === "function" ? item.webkitGetAsEntry() : null;
}

type WithHandle = DataTransferItem & { getAsFileSystemHandle?(): Promise<FileSystemHandle | null> };

/** handleOf is undefined where the browser has no handles: all but Chromium's, and pages without a secure context. */
function handleOf(item: DataTransferItem): Promise<FileSystemHandle | null> | undefined {
  return (item as WithHandle).getAsFileSystemHandle?.().catch(() => null);
}

async function pick(file: File, path: string, handle: Promise<FileSystemHandle | null> | undefined): Promise<Pick> {
  const h = await handle;
  return h?.kind === "file" ? { file, path, handle: h as FileSystemFileHandle } : { file, path };
}

/** walk goes on past what the browser may not read, or what has gone meanwhile: the rest is worth having. */
async function walk(entry: FileSystemEntry, above: string, found: Found, handle?: Promise<FileSystemHandle | null>): Promise<void> {
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)).catch(() => null);
    if (file) found.files.push(await pick(file, path, handle));
    else found.unreadable.push(path);
    return;
  }
  const all = await children(entry as FileSystemDirectoryEntry).catch(() => null);
  for (const child of all ?? []) await walk(child, `${path}/`, found);
  if (!all) found.unreadable.push(path);
  else if (all.length === 0) found.empty.push(path);
}

/** children reads a directory to its end: browsers hand out a hundred at a time. */
async function children(dir: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = dir.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
}
