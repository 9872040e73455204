import type { TeamMessages } from "./en-team";

const messages: TeamMessages = {
  people: {
    title: "“{name}”的访问权限", add: "授予权限", who: "用户或群组", whoHint: "输入名称开头，至少两个字", searching: "正在搜索…", nobody: "没有找到，或已有权限。", many: "可能还有更多，请输入更完整的名称。",
    found: "找到 {n} 个", group: "群组", groupOf: "组内全部成员", you: "你", role: "角色", roleOf: "{name} 的角色", until: "期限", ends: { never: "永久", day: "一天", week: "一周", month: "30 天", quarter: "90 天" }, note: "备注（可选）", noteHint: "对方会在共享内容旁看到",
    give: "授予权限", given: "{name} 现在有权限了。", changed: "角色已更改。", list: "谁有权限", owner: "所有者：可以操作该网盘的全部内容", take: "收回：{name}", takeShort: "收回", takeTitle: "收回权限？", takeText: "“{name}”会立即失去该角色，以及只由该角色带来的权限。", taken: "已收回。",
    leave: "退出", leaveTitle: "确定退出？", leaveText: "你会立即失去这里的角色，只有管理者可以重新授予。", left: "你已退出。", endsAt: "到 {when} 为止", noEnd: "永久",
    from: { here: "在此处授予", space: "空间成员", folder: "来自文件夹“{name}”", above: "来自上级文件夹" }, overridden: "在这里不起作用：以更近的角色为准",
    rights: { viewer: "可以查看和下载", uploader: "可以上传，但看不到内容", editor: "可以添加、修改和删除", manager: "可以进行全部操作并授予权限", none: "不继承上级文件夹给予的权限" },
    yours: "你的角色：{role}", onlyManagers: "由管理者决定谁有权限。", alone: "没有其他人有权限。", busy: "搜索过于频繁，请稍候。",
  },
  shared: {
    tabs: "共享内容", links: "链接", withIntro: "别人按名称共享给你的文件夹和文件。你起的名称和隐藏的内容只有你自己看到。", withEmpty: "没有共享给你的内容", withEmptyText: "别人把文件夹或文件共享给你之后，会显示在这里。",
    byIntro: "你的网盘中共享出去的文件夹和文件，以及谁有权限。别人放进去的内容占用你的空间。", byEmpty: "你没有共享任何内容", byEmptyText: "选择一个文件或文件夹，然后点“共享给用户”。",
    by: "由 {name} 共享", inSpace: "位于空间“{name}”", called: "所有者称之为“{name}”", through: "通过群组“{name}”", hidden: "已隐藏", hide: "隐藏", show: "取消隐藏", showHidden: "显示已隐藏的", newName: "你给它起的名称", renamed: "已改用你起的名称。", hid: "已隐藏。", shown: "已重新显示。",
  },
  spaceSettings: {
    space: "空间", name: "空间名称", files: "查看文件", saved: "已保存。", quotaText: "容量由系统管理员决定。", archive: "归档", archiveTitle: "归档这个空间？", archiveText: "此后其中的内容只能查看，不能更改。", archivedBack: "系统管理员可以恢复。",
    members: "成员", membersText: "成员在整个空间拥有一个角色。空间里的某个文件夹可以给某人更多、更少的权限，或者不给权限。",
  },
};

export default messages;
