import { createPinia } from "pinia";
import { createApp } from "vue";
import "element-plus/theme-chalk/base.css";
import "element-plus/theme-chalk/dark/css-vars.css";
import "./styles/theme.css";
import "./styles/base.css";
import App from "./App.vue";
import { whenUnauthenticated } from "./api/client";
import { i18n, loadMessages } from "./i18n";
import { router } from "./router";
import { usePreferences } from "./stores/preferences";
import { useSession } from "./stores/session";

/** What the address needs is fetched at once, and not one after the other as each asks for the next. */
function fetchPage(): void {
  for (const { components } of router.resolve(router.options.history.location).matched) {
    const page: unknown = components?.["default"];
    if (typeof page === "function") (page as () => Promise<unknown>)().catch(() => {}); // the router asks again, and says it
  }
}

async function start(): Promise<void> {
  fetchPage();
  const app = createApp(App);
  app.use(createPinia());
  app.use(i18n);
  const preferences = usePreferences();
  const session = useSession();
  whenUnauthenticated(() => {
    if (!session.loggedIn) return;
    session.forget();
    void router.push({ name: "login", query: { next: router.currentRoute.value.fullPath } });
  });
  app.use(router); // it asks who is logged in
  await Promise.all([loadMessages(preferences.language), router.isReady().catch(() => {})]);
  app.mount("#app"); // in place of what index.html shows until now
}

void start();
