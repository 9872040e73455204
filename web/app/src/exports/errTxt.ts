// What failed, as a file: the same lines that err.txt in the zip has.
import { failuresOf, type Failure } from "@/api/batches";

const atOnce = 1000; // of a page, the most that the server gives

/** Makes a text of failures: a mark by which editors know UTF-8, then id, path and reason, parted by tabs. */
export function errTxt(failures: Failure[]): string {
  const lines = failures.map((f) => `${f.id}\t${f.path}\t${f.reason}${f.detail ? ` (${f.detail})` : ""}\r\n`);
  return "\ufeffid\tpath\treason\r\n" + lines.join("");
}

/** Reads all that failed of an export, and saves it as err.txt. */
export async function saveErrTxt(batch: string): Promise<void> {
  const all: Failure[] = [];
  for (let cursor: string | null = null; ; ) {
    const page = await failuresOf(batch, cursor, atOnce);
    all.push(...page.items);
    cursor = page.next_cursor ?? null;
    if (!cursor) break;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([errTxt(all)], { type: "text/plain;charset=utf-8" }));
  link.download = "err.txt";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // ms; the browser reads it by then
}
