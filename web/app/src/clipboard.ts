// Copying text also where there is no Clipboard API: it needs a secure context, and http://nas.lan is none.

/** Reports whether it worked; if not, the text must be shown so that it can be copied by hand. */
export async function copyText(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard && window.isSecureContext) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // Not allowed just now: the old way may be.
  }
  return copyBySelection(text);
}

function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sd-offscreen";
  area.setAttribute("readonly", "");
  const before = document.activeElement as HTMLElement | null;
  (document.querySelector("dialog[open], [role=dialog]") ?? document.body).append(area);
  area.select();
  try {
    return document.execCommand("copy");
  } finally {
    area.remove();
    before?.focus();
  }
}
