import { visible } from "@/format";
import { expect, test } from "vitest";
import { i18n } from ".";
import en from "./en";
import enTeam from "./en-team";
import enWork from "./en-work";
import zh from "./zh-CN";
import zhTeam from "./zh-CN-team";
import zhWork from "./zh-CN-work";

const sources = import.meta.glob<string>(["../**/*.vue", "../**/*.ts", "!../**/*.test.ts"], { query: "?raw", import: "default", eager: true });

type Tree = { [key: string]: string | Tree };
function flat(tree: Tree, above = ""): Map<string, string> {
  const all = new Map<string, string>();
  for (const [key, value] of Object.entries(tree)) {
    if (typeof value === "string") all.set(above + key, value);
    else for (const [k, v] of flat(value, `${above}${key}.`)) all.set(k, v);
  }
  return all;
}
const english = flat({ ...en, ...enWork, ...enTeam });
const chinese = flat({ ...zh, ...zhWork, ...zhTeam });

test("both languages have the same messages", () => expect([...chinese.keys()].sort()).toEqual([...english.keys()].sort()));

test("both fill in the same values", () => {
  const slots = (text: string) => [...new Set(text.match(/\{\w+\}/g) ?? [])].sort();
  for (const [key, text] of english) {
    const missing = slots(text).filter((slot) => !chinese.get(key)!.includes(slot) && slot !== "{n}");
    expect(missing, key).toEqual([]);
  }
});

test("every message that is asked for exists", () => {
  let asked = 0;
  for (const [file, text] of Object.entries(sources)) {
    for (const [, key] of text.matchAll(/\bt\(\s*["']([\w.-]+)["']/g)) {
      asked++;
      expect(english.has(key!), `${key} in ${file}`).toBe(true);
    }
    for (const [, prefix] of text.matchAll(/\bt\(\s*`([\w.-]+)\.\$\{/g)) {
      expect([...english.keys()].some((k) => k.startsWith(prefix + ".")), `${prefix}.* in ${file}`).toBe(true);
    }
  }
  expect(asked).toBeGreaterThan(150);
});

test("pages that load with the first texts ask for no others", () => {
  const first = flat(en);
  const team = new Map([...first, ...flat(enTeam)]);
  for (const [file, text] of Object.entries(sources)) {
    if (/\/(admin|exports|intake)\//.test(file)) continue;
    const loaded = /\/(sharing|activity)\//.test(file) ? team : first;
    for (const [, key] of text.matchAll(/\bt\(\s*["']([\w.-]+)["']/g)) expect(loaded.has(key!), `${key} in ${file}`).toBe(true);
  }
});

test("Chinese is Chinese", () => {
  const same = [...english].filter(([key, text]) => chinese.get(key) === text && /[a-z]{4}/i.test(text.replace(/\{\w+\}/g, "")));
  expect(same.map(([key]) => key)).toEqual([]);
});

test("a sentence spells out what cannot be seen in a name", () => {
  i18n.global.mergeLocaleMessage("en", en);
  expect(i18n.global.t("share.title", { name: "bill\u202egpj.exe" })).toContain("bill\\u202egpj.exe");
  for (const text of [...english.values(), ...chinese.values()]) expect(visible(text)).toBe(text);
});
