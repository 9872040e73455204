// The list of what happened, with its texts.
import { defineAsyncComponent } from "vue";
import { loadTeamMessages } from "@/i18n";

export const ActivityList = defineAsyncComponent(async () => {
  const [list] = await Promise.all([import("./ActivityList.vue"), loadTeamMessages()]);
  return list;
});
