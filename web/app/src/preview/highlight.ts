import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const all = { bash, cpp, css, go, ini, java, javascript, json, php, python, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(all)) hljs.registerLanguage(name, language);

const byExtension: Record<string, keyof typeof all> = {
  sh: "bash", bash: "bash", zsh: "bash", c: "cpp", h: "cpp", cc: "cpp", cpp: "cpp", hpp: "cpp", css: "css", scss: "css", less: "css", go: "go",
  ini: "ini", toml: "ini", conf: "ini", cfg: "ini", env: "ini", java: "java", kt: "java", cs: "java", js: "javascript", mjs: "javascript",
  cjs: "javascript", jsx: "javascript", json: "json", jsonc: "json", php: "php", py: "python", rs: "rust", sql: "sql", ts: "typescript", tsx: "typescript",
  html: "xml", htm: "xml", xml: "xml", vue: "xml", svelte: "xml", yaml: "yaml", yml: "yaml",
};
const largest = 300_000; // characters: more takes longer than one waits

/** The text as spans with classes of highlight.js; its HTML is parsed without a document that could load or run anything. */
export function highlight(text: string, extension: string): Node {
  const language = byExtension[extension];
  if (!language || text.length > largest) return document.createTextNode(text);
  const { value } = hljs.highlight(text, { language, ignoreIllegals: true }); // it escapes the text
  const parsed = new DOMParser().parseFromString(`<body>${value}</body>`, "text/html");
  const fragment = document.createDocumentFragment();
  fragment.append(...parsed.body.childNodes);
  return fragment;
}
