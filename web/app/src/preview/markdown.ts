import DOMPurify from "dompurify";
import { Marked } from "marked";

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** HTML within the Markdown becomes the text that is in it: not even DOMPurify gets to see a tag that a user wrote. */
const textOf = (html: string) => html.replace(/<[^>]*>/g, "").replace(/[&<>"]/g, (c) => escapes[c]!);

const marked = new Marked({ gfm: true, breaks: false, renderer: { html: ({ text }) => textOf(text) } });

/**
 * Renders Markdown. What comes out has no script, style, form, or attribute that acts, and nothing that loads from anywhere:
 * pictures become links, but those that lie in the drive beside the text. The page's CSP would stop what slipped through.
 */
export function renderMarkdown(text: string, picture?: (path: string) => Promise<string | undefined>): DocumentFragment {
  const html = marked.parse(text, { async: false });
  const fragment = DOMPurify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    USE_PROFILES: { html: true },
    FORBID_TAGS: ["style", "form", "input", "button", "textarea", "select", "video", "audio", "source", "picture", "svg", "math", "dialog", "template"],
    FORBID_ATTR: ["style", "id", "name", "class", "srcset", "background", "poster", "tabindex", "autofocus", "popover"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
  });
  for (const image of fragment.querySelectorAll("img")) {
    const link = document.createElement("a");
    const from = image.getAttribute("src") ?? "";
    link.href = from;
    link.textContent = `🖼 ${image.alt || from}`;
    image.replaceWith(link);
    if (picture && isBeside(from)) void show(link, from, image.alt, picture);
  }
  for (const link of fragment.querySelectorAll("a")) {
    const to = link.getAttribute("href") ?? "";
    if (!/^(https?:|mailto:)/i.test(to)) {
      link.removeAttribute("href"); // an address inside the page would be one of ours
      continue;
    }
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  return fragment;
}

/** A path, and no address of anywhere. */
const isBeside = (src: string) => src !== "" && !/^[a-z][a-z0-9+.-]*:|^\/\/|^#|\\/i.test(src);

/** Puts the picture in the place of the link to it, if there is one. */
async function show(link: HTMLAnchorElement, path: string, alt: string, picture: (path: string) => Promise<string | undefined>): Promise<void> {
  try {
    const src = await picture(decodeURIComponent(path.split(/[?#]/)[0]!));
    if (!src) return;
    const image = document.createElement("img");
    image.alt = alt;
    image.src = src;
    link.replaceWith(image);
  } catch {
    // It is not there: the link's text says what it would be.
  }
}
