// What is dragged: entries of the drive, or files from outside.

export const nodesType = "application/x-smartdrive-nodes";

/** Fills the drag with entries; text is shown beside the pointer. */
export function dragged(e: DragEvent, ids: string[], text: string): void {
  const transfer = e.dataTransfer!;
  transfer.effectAllowed = "copyMove";
  transfer.setData(nodesType, JSON.stringify(ids));
  const image = document.createElement("div");
  image.textContent = text;
  image.className = "sd-drag-image";
  document.body.append(image);
  transfer.setDragImage(image, -12, -8);
  setTimeout(() => image.remove());
}

export function hasDragged(e: DragEvent): boolean {
  const types = e.dataTransfer?.types ?? [];
  return types.includes(nodesType) || types.includes("Files");
}

export const hasFiles = (e: DragEvent): boolean => (e.dataTransfer?.types ?? []).includes("Files");

/** The dragged entries; undefined: it is files from outside. */
export function droppedNodes(transfer: DataTransfer): string[] | undefined {
  const text = transfer.getData(nodesType);
  return text ? (JSON.parse(text) as string[]) : undefined;
}
