// The comparison of pictures sees what it should see.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "./harness.mjs";
import { squares, unlike } from "./golden.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

test("a page that is laid out anew is seen, another word is not", async () => {
  const page = await browser.newPage({ viewport: { width: 640, height: 480 } });
  const look = async (html) => {
    await page.setContent(`<body style="margin:0;font:14px sans-serif">${html}`);
    return squares(page, await page.screenshot());
  };
  const list = (words) => `<header style="height:56px;background:#224">.</header>${words.map((w) => `<p style="margin:8px">${w}`).join("")}`;
  const was = await look(list(["one", "two", "three"]));
  assert.equal(was.length, 15);
  assert.ok(unlike(was, await look(list(["ten", "twenty", "thirty"]))) < 0.02);
  assert.ok(unlike(was, await look(`<nav style="float:left;width:200px;height:480px;background:#224"></nav>${list(["one", "two", "three"])}`)) > 0.2);
  assert.equal(unlike(was, was.slice(1)), 1);
});
