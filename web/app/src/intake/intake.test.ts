import { expect, test } from "vitest";
import { differences } from "./differ";
import { money } from "./money";

test("amounts are grouped and stay exact", () => {
  expect(money("1234567.80", "EUR")).toBe("1,234,567.80 EUR");
  expect(money("1481.4", "EUR")).toBe("1,481.40 EUR");
  expect(money("5", "EUR")).toBe("5.00 EUR");
  expect(money("-1000")).toBe("-1,000");
  expect(money("123456789012345678901.10")).toBe("123,456,789,012,345,678,901.10");
  expect(money("999.005")).toBe("999.005");
  expect(money("")).toBe("–");
  expect(money("n/a", "EUR")).toBe("n/a EUR");
});

test("two forms of a document are compared field by field", () => {
  const old = { number: "1", seller: { name: "A" }, lines: [{ net: "10" }, { net: "5" }], note: "" };
  const now = { number: "1", seller: { name: "B", vat_id: "X" }, lines: [{ net: "10" }] };
  expect(differences(old, now)).toEqual([
    { field: "seller.name", old: "A", new: "B" },
    { field: "lines[2].net", old: "5", new: "" },
    { field: "seller.vat_id", old: "", new: "X" },
  ]);
  expect(differences(old, old)).toEqual([]);
});
