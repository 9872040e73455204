// Bundles of documents, as a sender makes them: the members first, meta.json last.
import { createHash, randomBytes } from "node:crypto";

/** A UUIDv7 (RFC 9562 §5.7). */
export function uuid7() {
  const hex = Date.now().toString(16).padStart(12, "0") + "7" + randomBytes(2).toString("hex").slice(1) + "8" + randomBytes(8).toString("hex").slice(1);
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** An invoice that breaks no rule, over net and a fifth of it as tax. */
export function invoice(number, net, more = {}) {
  const amount = (n) => n.toFixed(2);
  const totals = { lines: amount(net), net: amount(net), tax: amount(net * 0.2), gross: amount(net * 1.2), payable: amount(net * 1.2) };
  const party = (name, vat_id, city) => ({ name, vat_id, address: { city, zone: "10115", country: "DE" } });
  return {
    profile: "urn:cen.eu:en16931:2017", number, date: "2026-10-05", type: "380", currency: "EUR", due: "2026-11-05",
    seller: party("测试贸易有限公司 Muster AG", "DE123456789", "Berlin"), buyer: party("Beispiel GmbH", "DE987654321", "Bonn"), totals,
    taxes: [{ category: "S", rate: "20", base: amount(net), amount: totals.tax }],
    lines: [{ id: "1", name: "A rather long name of what was delivered, 交付的货物", quantity: "1", unit: "C62", price: amount(net), net: amount(net), category: "S", rate: "20" }],
    ...more,
  };
}

/** Sends a bundle: members are [name, content, number of documents]. Waits until it has ended, and returns it. */
export async function sendBundle(call, source, members, wrong = {}) {
  const id = uuid7();
  const at = (name) => `/files/intake/${source}/${id}/${encodeURIComponent(name)}?parents=true`;
  for (const [name, content] of members) await call("PUT", at(name), content);
  const list = members.map(([name, content, documents]) => {
    const raw = Buffer.from(content);
    return { name, size: raw.length, sha256: createHash("sha256").update(raw).digest("hex"), documents };
  });
  await call("PUT", at("meta.json"), JSON.stringify({ schema: 1, id, source, created_at: new Date().toISOString(), members: list, ...wrong }));
  const { id: folder } = await call("GET", `/nodes?path=/intake/${source}/${id}`);
  for (const until = Date.now() + 60_000; Date.now() < until; ) {
    const found = (await call("GET", `/bundles?source=${source}`)).items.find((b) => b.folder === folder);
    if (found?.ended_at) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`bundle ${id} of ${source} has not ended`);
}

/** What the pages of documents are looked at with: an accepted one, a rejected one, a conflict, a refused bundle. */
export async function sendSamples(call, source, pdf) {
  const lines = (...all) => all.map((d) => JSON.stringify(d)).join("\n");
  const bad = invoice(`${source}-2`, 50);
  bad.totals.gross = "61.00";
  const first = await sendBundle(call, source, [["documents.ndjson", lines(invoice(`${source}-1`, 1234.5), bad), 2], [`${source}-1.pdf`, pdf, 0]]);
  const second = await sendBundle(call, source, [["documents.ndjson", lines(invoice(`${source}-1`, 1234.5), invoice(`${source}-1`, 2000)), 2]]);
  const refused = await sendBundle(call, source, [["documents.ndjson", lines(invoice(`${source}-3`, 1)), 1]], { source: "another" });
  return { first, second, refused };
}
