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

async function start(): Promise<void> {
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
  await loadMessages(preferences.language);
  app.use(router);
  app.mount("#app");
}

void start();
