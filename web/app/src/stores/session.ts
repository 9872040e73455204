import { defineStore } from "pinia";
import { computed, ref } from "vue";
import * as api from "@/api/account";
import { baseURL, callFor, calledFor, isProblem } from "@/api/client";
import { forgetKeys } from "@/api/intent";
import { drawnKinds } from "@/files/kind";
import type { Me } from "@/api/types";

/** A channel to the other tabs; undefined where the browser keeps nothing for this site, and so has none. */
function channel(): BroadcastChannel | undefined {
  try {
    return new BroadcastChannel(`smartdrive ${baseURL.pathname}`);
  } catch {
    return undefined;
  }
}

/** Who is logged in, and how much space is used. */
export const useSession = defineStore("session", () => {
  const me = ref<Me>();
  const known = ref(false); // whether it was asked
  const loggedIn = computed(() => me.value !== undefined);
  const name = computed(() => me.value?.user.name ?? "");
  const admin = computed(() => me.value?.user.admin ?? false);
  const left = computed(() => {
    const usage = me.value?.usage;
    return usage?.total == null ? null : Math.max(0, usage.total - usage.used);
  });

  async function refresh(): Promise<void> {
    try {
      me.value = await api.me();
      callFor(me.value.user.id);
      drawnKinds(me.value.pictures ?? []);
    } catch (error) {
      if (!isProblem(error, "unauthenticated")) throw error;
      me.value = undefined;
    } finally {
      known.value = true;
    }
  }

  // Tabs share the cookie: those where somebody was asked for look who it is now, or the files of one stay in sight of the next.
  const tabs = channel();
  if (tabs) tabs.onmessage = () => known.value && void refresh().catch(() => {});
  const tellTabs = () => tabs?.postMessage("login");

  /** Logs in; false: the page holds things of another user, and has to be loaded again. */
  const logIn = async (name: string, password: string) => enter(await api.logIn(name, password));
  /** The same by what an identity provider has sent back. */
  const signOn = async (back: api.SignOnReturn) => enter(await api.finishSignOn(back));

  async function enter({ user }: { user: { id: string } }): Promise<boolean> {
    tellTabs();
    leaving = calledFor() !== undefined && calledFor() !== user.id;
    if (!leaving) await refresh();
    return !leaving;
  }
  let leaving = false;
  /** Whether the page is left for another user: nothing that it still sends would be taken. */
  const isLeft = () => leaving;

  async function logOut(): Promise<void> {
    await api.logOut().catch((error: unknown) => {
      if (!isProblem(error, "unauthenticated")) throw error;
    });
    tellTabs();
    forgetKeys();
    me.value = undefined;
  }

  function forget(): void {
    me.value = undefined;
    known.value = true;
  }

  return { me, name, known, loggedIn, admin, left, refresh, logIn, signOn, logOut, forget, isLeft };
});
