// Firefox for the tests of the pages, where SMARTDRIVE_TEST_BROWSER is firefox: Mozilla's own, which people have, not Playwright's build of
// it. It is driven by WebDriver BiDi; a test that needs more than that says so with onlyChromium or onlyWithBodies, and is skipped.
import { firefox } from "playwright-core";

export const chosen = process.env.SMARTDRIVE_TEST_BROWSER === "firefox";

/** Why a test that needs CDP is skipped, as node:test wants it. */
export const onlyChromium = chosen && "it needs Chromium's protocol (CDP)";

/** The same for one that reads what a page has sent. */
export const onlyWithBodies = chosen && "Playwright does not see what a page sends by BiDi";

/** What is behind an object of Playwright's: it runs in this process. */
const inner = (object) => object._connection.toImpl(object);

/** Whether it is dark and whether there are fingers are settings of a whole Firefox: each look has one of its own, started when it is asked for. */
export function launch() {
  const looks = new Map();
  const browser = {
    async newContext({ colorScheme, reducedMotion, ...options }) {
      const dark = colorScheme === "dark";
      const look = `${dark} ${options.hasTouch}`;
      if (!looks.has(look)) looks.set(look, start(dark, options.hasTouch));
      const context = await (await looks.get(look)).newContext(options);
      await context.addInitScript(tell);
      context.on("page", adapt);
      return context;
    },
    newPage: async (options) => (await browser.newContext(options)).newPage(),
    close: () => Promise.all([...looks.values()].map(async (browser) => (await browser).close())),
  };
  return browser;
}

async function start(dark, touch) {
  const browser = await firefox.launch({
    channel: "moz-firefox",
    executablePath: process.env.FIREFOX ?? "/usr/bin/firefox-esr",
    firefoxUserPrefs: {
      "layout.css.prefers-color-scheme.content-override": dark ? 0 : 1,
      "ui.prefersReducedMotion": 1,
      "browser.sessionhistory.max_total_viewers": 0, // a page that was kept and is shown again is not seen to be loaded
      "dom.w3c_touch_events.enabled": touch ? 1 : 0,
      ...(touch && { "ui.primaryPointerCapabilities": 1, "ui.allPointerCapabilities": 1 }), // coarse: a finger
    },
  });
  // TODO: when Firefox ESR knows this command, delete this: Playwright sends it with each context, and what it says is set above.
  const session = inner(browser)._browserSession;
  const send = session.send.bind(session);
  session.send = (method, ...rest) => (method === "emulation.setMediaFeaturesOverride" ? Promise.resolve({}) : send(method, ...rest));
  return browser;
}

/** Makes good what Playwright does otherwise by BiDi than by CDP. */
function adapt(page) {
  const { delegate, mouse } = inner(page);
  delegate.shouldToggleStyleSheetToSyncAnimations = () => false; // by a style that the CSP forbids
  const click = mouse.click.bind(mouse);
  mouse.click = (progress, x, y, options = {}) => {
    if (options.clickCount !== 2) return click(progress, x, y, options);
    const once = [{ type: "pointerDown", button: 0 }, { type: "pointerUp", button: 0 }];
    return delegate.rawMouse._performActions(progress, [{ type: "pointerMove", x: Math.floor(x), y: Math.floor(y) }, ...once, ...once]); // two commands are two clicks
  };
  page.mainFrame().dragAndDrop = async (from, to) => {
    const target = await page.locator(to).elementHandle();
    await page.locator(from).evaluate(drag, target);
  };
}

/** Drags one element onto another, as the page is told of it: a drag that BiDi begins goes no further than its beginning. */
function drag(from, to) {
  const dataTransfer = new DataTransfer();
  const tell = (element, type) => element.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
  if (!tell(from, "dragstart")) return;
  tell(to, "dragenter");
  if (!tell(to, "dragover")) tell(to, "drop"); // what may be dropped there has been cancelled
  tell(from, "dragend");
}

/** Runs in every page before its own scripts: what the CSP blocks is no message of the console that BiDi passes on. */
function tell() {
  document.addEventListener("securitypolicyviolation", (e) => console.error(`Content Security Policy: ${e.effectiveDirective} blocked ${e.blockedURI} of ${e.sourceFile}`));
}
