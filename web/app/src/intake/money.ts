// Amounts are exact texts: they are grouped for reading, never computed with.

/** 1234567.8 and EUR as 1,234,567.80 EUR. A number without a currency gets no decimals; what is no number stays as it is. */
export function money(amount: unknown, currency = ""): string {
  if (amount === null || amount === undefined || amount === "") return "–";
  const text = String(amount);
  const m = /^(-?)(\d+)(\.\d+)?$/.exec(text);
  const decimals = currency ? (m?.[3] ?? ".").padEnd(3, "0") : (m?.[3] ?? "");
  const grouped = m ? m[1] + m[2]!.replace(/\B(?=(\d{3})+$)/g, ",") + decimals : text;
  return currency ? `${grouped} ${currency}` : grouped;
}
