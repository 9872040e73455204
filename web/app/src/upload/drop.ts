/**
 * What was dropped, so that it can be read later: a browser forgets the items of a drop when its event has ended. What the uploader asks
 * of each is asked here, and answered there again.
 */
export function holdDrop(what: DataTransfer): DataTransfer {
  const items = [...what.items].filter((item) => item.kind === "file").map(hold);
  return { items } as unknown as DataTransfer;
}

type WithHandle = DataTransferItem & { getAsFileSystemHandle?(): Promise<FileSystemHandle | null> };

function hold(item: WithHandle) {
  const entry = item.webkitGetAsEntry?.() ?? null;
  const file = item.getAsFile();
  const handle = item.getAsFileSystemHandle?.().catch(() => null);
  return { kind: item.kind, webkitGetAsEntry: () => entry, getAsFile: () => file, ...(handle && { getAsFileSystemHandle: () => handle }) };
}
