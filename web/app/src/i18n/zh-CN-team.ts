import type { TeamMessages } from "./en-team";

const messages: TeamMessages = {
  people: {
    title: "“{name}”的访问权限", add: "授予权限", who: "用户或群组", whoHint: "输入名称开头，至少两个字", searching: "正在搜索…", nobody: "没有找到，或已有权限。", many: "可能还有更多，请输入更完整的名称。",
    found: "找到 {n} 个", group: "群组", groupOf: "组内全部成员", you: "你", role: "角色", roleOf: "{name} 的角色", until: "期限", ends: { never: "永久", day: "一天", week: "一周", month: "30 天", quarter: "90 天" }, note: "备注（可选）", noteHint: "对方会在共享内容旁看到",
    give: "授予权限", given: "{name} 现在有权限了。", changed: "角色已更改。", list: "谁有权限", owner: "所有者：可以操作该网盘的全部内容", take: "收回：{name}", takeShort: "收回", takeTitle: "收回权限？", takeText: "“{name}”会立即失去该角色，以及只由该角色带来的权限。", taken: "已收回。",
    leave: "退出", leaveTitle: "确定退出？", leaveText: "你会立即失去这里的角色，只有管理者可以重新授予。", left: "你已退出。", endsAt: "到 {when} 为止", noEnd: "永久",
    from: { here: "在此处授予", space: "空间成员", folder: "来自文件夹“{name}”", above: "来自上级文件夹" }, overridden: "在这里不起作用：以更近的角色为准", idle: "目前不起作用：该空间只与成员共享",
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
    rules: "规则", links: "谁可以发出链接", outward: "谁可以与非成员共享", trashDays: "回收站保留天数", versionDays: "旧版本保留天数", who: { editors: "编辑者和管理者", managers: "管理者", nobody: "任何人都不可以" },
    linksText: "无权发出链接的人，其链接无法打开。", outwardText: "设为“任何人都不可以”后，之前与非成员的共享也会失效。", daysText: "0 表示按服务器的期限保留。", versionsText: "每个文件的最近五个版本始终保留。0 表示其余版本按服务器的期限保留。",
  },
  activity: {
    intro: "你的网盘里发生了什么，是谁做的。", inSpace: "空间“{name}”里发生了什么，是谁做的。", atNode: "对它以及直接位于其中的内容所做的操作", empty: "还没有动态", emptyText: "添加、修改、共享和删除都会列在这里。", nobody: "系统或访客", somebody: "有人", takenBack: "已撤回。",
    whole: "整个空间", kind: "显示内容", kinds: { all: "除上传和下载外的全部", files: "文件和文件夹", people: "角色和空间", links: "链接", documents: "单据", exports: "导出", webhooks: "Webhook", account: "登录、令牌和设置", uploads: "上传", downloads: "下载" },
    back: { trash: "恢复", version: "恢复之前的内容", move: "移回原处" }, heads: { api: "网页或程序", tus: "通过 tus", draft: "断点续传", dav: "通过 WebDAV", nextcloud: "通过 Nextcloud 应用", link: "通过链接" },
    did: {
      node: {
        created: "添加了“{name}”", copied: "通过复制创建了“{name}”", changed: "修改了“{name}”", moved: "移动了“{name}”", renamed: "把“{was}”重命名为“{name}”", movedRenamed: "移动了“{was}”并改名为“{name}”", trashed: "把“{name}”移到了回收站", restored: "从回收站恢复了“{name}”",
        shown: "完成了“{name}”的复制", doomed: "开始彻底删除“{name}”", deleted: "彻底删除了“{name}”", left: "移交了“{name}”", arrived: "收到移交的“{name}”",
      },
      grant: { set: "授予 {whom} 在“{name}”的角色：{role}", setGroup: "授予群组 {whom} 在“{name}”的角色：{role}", taken: "收回了 {whom} 在“{name}”的角色", takenGroup: "收回了群组 {whom} 在“{name}”的角色" },
      space: { created: "创建了空间“{name}”", changed: "修改了空间“{name}”" },
      drive: { handed: "开始把 {name} 的所有文件移交给 {whom}" },
      share: { created: "创建了分享链接", changed: "修改了分享链接", ended: "结束了分享链接" },
      collect: { created: "创建了收集链接", changed: "修改了收集链接", ended: "结束了收集链接" },
      webhook: { created: "创建了 Webhook“{name}”", changed: "修改了 Webhook“{name}”", disabled: "停用了 Webhook“{name}”", deleted: "删除了 Webhook“{name}”" },
      upload: { begun: "开始了一次上传", parked: "搁置了一次长时间没有动静的上传", resumed: "继续了一次上传", done: "完成了一次上传", gone: "结束了一次上传" },
      download: { begun: "下载了“{name}”", often: "下载了“{name}”（{times} 次）", many: "还下载了许多文件（{times} 次）" },
      bundle: { sealed: "接收了一个数据包" }, document: { accepted: "接收了一份单据", conflict: "发现一份单据与另一份矛盾", rejected: "拒收了一份单据", allowed: "接收了被拒收的单据 {name}" },
      login: { created: "登录了", failed: "用错误的密码尝试登录（{times} 次）", ended: "结束了一次登录", endedAll: "结束了其他所有登录" },
      identity: { connected: "现在可以通过身份提供方 {name} 登录", ended: "不能再通过身份提供方 {name} 登录" },
      token: { created: "创建了令牌或应用密码“{name}”", ended: "撤销了令牌或应用密码“{name}”" },
      password: { changed: "更换了密码，其他登录随之失效" }, setting: { changed: "修改了服务器设置 {name}" },
      notice: { told: "通知了你：见“通知”" },
      export: { sealed: "完成了一次导出", failed: "结束了一次失败的导出", ending: "即将删除一次导出", late: "仍在准备一次导出" },
    },
  },
  notices: {
    empty: "没有通知", emptyText: "有人与你共享内容、角色变更、导出完成或收集链接收到文件时，会在这里通知你。", readAll: "全部标为已读", readOne: "标为已读", fresh: "未读", somebody: "有人", something: "某项内容", until: "（到 {when} 为止）",
    how: "通知方式", kinds: { share: "共享给我", role: "我的角色变更或到期", space: "加入空间", group: "群组", export: "导出", collect: "收集链接收到文件", quota: "存储空间快满", webhook: "Webhook 被停用", operation: "批量操作部分失败" },
    channels: { off: "关闭", page: "网页", mail: "邮件" },
    mail: { address: "邮件地址", none: "未填写地址时不发送邮件。", again: "重新发送验证码", code: "验证码", confirm: "确认", confirmed: "今后的邮件将发送到此地址。", states: { asked: "六位验证码正在发往此地址。", confirmed: "已确认。", refused: "该地址的邮件服务器多次拒收。重新保存即可恢复。" } },
    gone: { share: "曾有内容与你共享，现已取消。", role: "你的一个角色有变更，但你已看不到相应内容。", space: "你曾是某个空间的成员。", group: "你曾在某个群组中。", export: "一个不再属于你的导出。", collect: "收集链接收到了文件，但你已看不到该文件夹。", quota: "你曾管理的一个空间快满了。", webhook: "你曾管理的位置有一个 Webhook 被停用。", operation: "批量操作部分失败。" },
    says: {
      share: { given: "{by} 与你共享了“{name}”：{role}{until}", more: "还有更多与你共享或为你更改的内容，不再逐条通知：请见“共享给我的”" }, space: { given: "{by} 将你加入了空间“{name}”：{role}{until}" },
      role: { changed: "{by} 更改了你在“{name}”的角色：{role}{until}", taken: "{by} 取消了你在“{name}”的角色", ending: "你在“{name}”的角色即将到期：{role}{until}", ended: "你在“{name}”的角色已到期" },
      group: { given: "{by} 将你加入了群组“{name}”", taken: "{by} 将你移出了群组“{name}”" },
      export: { ready: "导出“{name}”已完成{until}", failed: "导出“{name}”失败", ending: "导出“{name}”即将删除{until}", late: "导出“{name}”用时超出预期", skipped: "定时导出“{name}”已跳过：其来源缺失或无法使用" },
      collect: { arrived: "“{name}”通过收集链接收到了文件" }, quota: { full: "存储空间快满了" }, webhook: { disabled: "Webhook“{name}”已被停用" },
      operation: { failed: "批量操作已结束：其中 {n} 项失败" },
    },
  },
  hooks: {
    intro: "这些地址会收到你的网盘里发生的事件：发生后依次发送，并带有签名。", introSpace: "这些地址会收到空间“{name}”里发生的事件：发生后依次发送，并带有签名。",
    create: "新建 Webhook", change: "修改 Webhook", empty: "还没有 Webhook", emptyText: "Webhook 会在事件发生后立即通知另一个程序。", url: "地址（https）", name: "名称（可选）", types: "通知内容", all: "除上传外的全部",
    of: { node: "文件和文件夹", grant: "角色", space: "空间", share: "分享链接", collect: "收集链接", bundle: "数据包", document: "单据", export: "导出", upload: "上传", webhook: "Webhook 本身", notice: "通知", login: "登录", token: "令牌", identity: "身份提供方", password: "密码", setting: "服务器设置" },
    secret: "密钥（只显示这一次）", secretText: "每个事件都用它签名（Standard Webhooks）。请把它交给接收事件的程序。",
    states: { active: "启用", disabled: "已停用" }, disable: "停用", enable: "启用", deleteTitle: "删除这个 Webhook？", deleteText: "之后不再向该地址发送任何内容。",
    rotate: "更换密钥", rotateText: "一天之内，事件同时用新旧两个密钥签名。请在此期间把新密钥交给接收事件的程序。", rotateDo: "更换", oldUntil: "旧密钥签名到 {when} 为止",
    replay: "重发最近一天", replayText: "最近 24 小时内发生的全部事件会以相同的编号再次发送。", replayDo: "发送", replayed: "正在发送。",
    never: "还没有发送过", fine: "最近发送：{when}", failed: "{when} 发送失败：{why}（连续 {n} 次）。", next: "下次尝试：{when}。", skipped: "接收方拒绝并跳过了 {n} 个事件",
    why: { status: "对方返回 {n}", timeout: "10 秒内没有回应", unreachable: "无法连接", address: "该地址不被允许" },
    reasons: { failing: "连续失败三天，已停用。", right: "创建者已失去权限，已停用。", secret: "密钥无法再读取，已停用：请重新创建。", gone: "接收方表示已不存在，已停用。" },
  },
};

export default messages;
