// The dialog of who has access, with its texts.
import { defineAsyncComponent } from "vue";
import { loadTeamMessages } from "@/i18n";

export const PeopleDialog = defineAsyncComponent(async () => {
  const [dialog] = await Promise.all([import("./PeopleDialog.vue"), loadTeamMessages()]);
  return dialog;
});
