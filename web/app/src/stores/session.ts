import { defineStore } from "pinia";
import { computed, ref } from "vue";
import * as api from "@/api/account";
import { isProblem } from "@/api/client";
import { forgetKeys } from "@/api/intent";
import { drawnKinds } from "@/files/kind";
import type { Me } from "@/api/types";

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
      drawnKinds(me.value.pictures ?? []);
    } catch (error) {
      if (!isProblem(error, "unauthenticated")) throw error;
      me.value = undefined;
    } finally {
      known.value = true;
    }
  }

  async function logIn(name: string, password: string): Promise<void> {
    await api.logIn(name, password);
    await refresh();
  }

  async function logOut(): Promise<void> {
    await api.logOut().catch((error: unknown) => {
      if (!isProblem(error, "unauthenticated")) throw error;
    });
    forgetKeys();
    me.value = undefined;
  }

  function forget(): void {
    me.value = undefined;
    known.value = true;
  }

  return { me, name, known, loggedIn, admin, left, refresh, logIn, logOut, forget };
});
