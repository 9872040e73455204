// Away to the page of an identity provider, and back to ours (SignOnPage.vue), in one tab.

/** What is remembered while the browser is at the provider: the tab's own, so that nobody can make it go on with another one's. */
interface Away {
  flow: string;
  /** To connect the user who is logged in; else to log in. */
  connect: boolean;
  next: string;
}

const key = "smartdrive sign-on";

/**
 * Leaves for the provider's page with what the server has begun. The provider sends people back to the address that the server is known by: who has come by
 * another one goes there first, once, as what is remembered here is not remembered there. It fails where the browser keeps nothing for this site.
 */
export function leaveForSignOn(begun: { url: string; flow: string }, connect: boolean, next: string): void {
  const there = new URL(new URL(begun.url).searchParams.get("redirect_uri") ?? location.href);
  if (there.origin !== location.origin && !new URLSearchParams(location.search).has("moved")) {
    there.pathname = there.pathname.replace(/sign-on$/, connect ? "settings" : "login");
    there.search = new URLSearchParams({ moved: "1", ...(next ? { next } : {}) }).toString();
    return location.assign(there.href);
  }
  sessionStorage.setItem(key, JSON.stringify({ flow: begun.flow, connect, next } satisfies Away));
  location.assign(begun.url);
}

/** What was remembered; once, as a code is good once. */
export function backFromSignOn(): Away | undefined {
  try {
    const kept = sessionStorage.getItem(key);
    sessionStorage.removeItem(key);
    return kept ? (JSON.parse(kept) as Away) : undefined;
  } catch {
    return undefined;
  }
}
