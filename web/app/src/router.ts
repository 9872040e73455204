import { createRouter, createWebHistory, type RouteRecordRaw } from "vue-router";
import { watch } from "vue";
import { i18n, loadTeamMessages, loadWorkMessages } from "./i18n";
import { usePreferences } from "./stores/preferences";
import { useSession } from "./stores/session";

declare module "vue-router" {
  interface RouteMeta {
    /** Anybody may see it. */
    open?: boolean;
    admin?: boolean;
    /** It is about documents or exports: its texts are not loaded with the first page. */
    intake?: boolean;
    /** It is about people to share with, or about what they have done: the same. */
    team?: boolean;
    /** Key of the page's title. */
    title?: string;
  }
}

const inShell: RouteRecordRaw[] = [
  { path: "", redirect: "/files" },
  { path: "files/:path(.*)*", name: "files", component: () => import("./pages/FilesPage.vue"), meta: { title: "nav.files" } },
  { path: "spaces/:place/:path(.*)*", name: "space", component: () => import("./pages/FilesPage.vue"), meta: { title: "places.spaces" } },
  { path: "shared-with-me", name: "shared-with-me", component: () => import("./sharing/WithMePage.vue"), meta: { title: "places.withMe", team: true } },
  { path: "shared-by-me", name: "shared-by-me", component: () => import("./sharing/ByMePage.vue"), meta: { title: "places.byMe", team: true } },
  { path: "space-settings/:id", name: "space-settings", component: () => import("./sharing/SpaceSettingsPage.vue"), meta: { title: "places.settings", team: true } },
  { path: "search", name: "search", component: () => import("./pages/SearchPage.vue"), meta: { title: "nav.search" } },
  { path: "recent", name: "recent", component: () => import("./pages/ShelfPage.vue"), props: { which: "recent" }, meta: { title: "nav.recent" } },
  { path: "starred", name: "starred", component: () => import("./pages/ShelfPage.vue"), props: { which: "starred" }, meta: { title: "nav.starred" } },
  { path: "shares", name: "shares", component: () => import("./pages/SharesPage.vue"), meta: { title: "nav.shares" } },
  { path: "collects", name: "collects", component: () => import("./pages/CollectsPage.vue"), meta: { title: "nav.collects" } },
  { path: "exports", name: "exports", component: () => import("./exports/ExportsPage.vue"), meta: { title: "nav.exports", intake: true } },
  { path: "trash", name: "trash", component: () => import("./pages/TrashPage.vue"), meta: { title: "nav.trash" } },
  { path: "usage", name: "usage", component: () => import("./pages/UsagePage.vue"), meta: { title: "nav.usage" } },
  { path: "documents", name: "documents", component: () => import("./intake/DocumentsPage.vue"), meta: { title: "nav.documents", intake: true } },
  { path: "documents/:id", name: "document", component: () => import("./intake/DocumentPage.vue"), meta: { title: "nav.documents", intake: true } },
  { path: "documents/:id/conflict", name: "conflict", component: () => import("./intake/ConflictPage.vue"), meta: { title: "conflicts.tab", intake: true } },
  { path: "rejections", name: "rejections", component: () => import("./intake/RejectionsPage.vue"), meta: { title: "rejections.tab", intake: true } },
  { path: "strays", name: "strays", component: () => import("./intake/StraysPage.vue"), meta: { title: "strays.tab", intake: true } },
  { path: "conflicts", name: "conflicts", component: () => import("./intake/ConflictsPage.vue"), meta: { title: "conflicts.tab", intake: true } },
  { path: "bundles", name: "bundles", component: () => import("./intake/BundlesPage.vue"), meta: { title: "bundles.tab", intake: true } },
  { path: "sources", name: "sources", component: () => import("./intake/SourcesPage.vue"), meta: { title: "sources.tab", intake: true } },
  { path: "bundles/:id", name: "bundle", component: () => import("./intake/BundlePage.vue"), meta: { title: "bundles.tab", intake: true } },
  { path: "settings", name: "settings", component: () => import("./pages/SettingsPage.vue"), meta: { title: "nav.settings" } },
  { path: "activity", name: "activity", component: () => import("./activity/ActivityPage.vue"), meta: { title: "places.activity", team: true } },
  { path: "notices", name: "notices", component: () => import("./activity/NoticesPage.vue"), meta: { title: "nav.notices", team: true } },
  { path: "webhooks", name: "webhooks", component: () => import("./activity/WebhooksPage.vue"), meta: { title: "places.webhooks", team: true } },
  { path: "admin/users", name: "users", component: () => import("./admin/UsersPage.vue"), meta: { title: "nav.users", admin: true } },
  { path: "admin/groups", name: "groups", component: () => import("./admin/GroupsPage.vue"), meta: { title: "places.groups", admin: true, team: true } },
  { path: "admin/spaces", name: "admin-spaces", component: () => import("./admin/SpacesPage.vue"), meta: { title: "places.spaces", admin: true, team: true } },
  { path: "admin/uploads", name: "all-uploads", component: () => import("./admin/UploadsPage.vue"), meta: { title: "nav.allUploads", admin: true } },
  { path: "admin/system", name: "system", component: () => import("./admin/SystemPage.vue"), meta: { title: "nav.system", admin: true } },
  { path: "admin/migration", name: "migration", component: () => import("./admin/MigrationPage.vue"), meta: { title: "nav.migration", admin: true } },
];

export const router = createRouter({
  history: createWebHistory(), // its base is that of the document
  routes: [
    { path: "/login", name: "login", component: () => import("./pages/LoginPage.vue"), meta: { open: true, title: "login.title" } },
    { path: "/sign-on", name: "sign-on", component: () => import("./pages/SignOnPage.vue"), meta: { open: true, title: "login.title" } },
    { path: "/new-password", name: "new-password", component: () => import("./pages/NewPasswordPage.vue"), meta: { title: "settings.renew" } },
    { path: "/s/:token", name: "public-share", component: () => import("./public/SharePage.vue"), meta: { open: true } },
    { path: "/c/:token", name: "public-collect", component: () => import("./public/CollectPage.vue"), meta: { open: true } },
    { path: "/grant/:page?", name: "grant", component: () => import("./pages/GrantPage.vue"), meta: { title: "grant.title" } },
    { path: "/", component: () => import("./components/AppShell.vue"), children: inShell },
    { path: "/:rest(.*)*", name: "nothing", component: () => import("./pages/NothingPage.vue"), meta: { open: true } },
  ],
});

router.beforeEach(async (to) => {
  if (to.meta.open && to.name !== "login") return true;
  const session = useSession();
  if (!session.known) {
    await session.refresh();
    if (session.loggedIn) void usePreferences().fetchThem();
  }
  if (to.name === "login") return session.loggedIn ? { name: "files" } : true;
  if (!session.loggedIn) return { name: "login", query: to.fullPath === "/files" ? {} : { next: to.fullPath } };
  const renew = session.me?.user.must_change_password ?? false; // nothing else is answered before
  if (renew !== (to.name === "new-password")) return renew ? { name: "new-password", query: to.fullPath === "/files" ? {} : { next: to.fullPath } } : { name: "files" };
  if (to.meta.admin && !session.admin) return { name: "files" };
  if (to.meta.admin || to.meta.intake) await loadWorkMessages();
  if (to.meta.team) await loadTeamMessages();
  return true;
});

/** The address bar and the tab say the same as the page. */
function setTitle(): void {
  const key = router.currentRoute.value.meta.title;
  document.title = key ? `${i18n.global.t(key)} · SmartDrive` : "SmartDrive";
}
router.afterEach(setTitle);
watch(i18n.global.locale, setTitle);
