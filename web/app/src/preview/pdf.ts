/**
 * Whether a browser shows a PDF in a frame of the page. WebKit on Linux (GNOME Web) says that it does, but its viewer is a page itself, for
 * which our CSP holds: the frame stays white. Safari's and Chromium's are none, and Firefox lets its own pass.
 */
export function showsPdf(browser: { pdfViewerEnabled?: boolean; userAgent: string }): boolean {
  return browser.pdfViewerEnabled !== false && !/X11; .*AppleWebKit\/(?!.*Chrome\/)/.test(browser.userAgent);
}
