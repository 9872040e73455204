import type { Messages } from "./en";

const messages: Messages = {
  nav: {
    files: "文件", recent: "最近", starred: "收藏", search: "搜索", searchHint: "搜索文件和文件夹", shares: "我的分享", collects: "收集文件", trash: "回收站",
    usage: "存储空间", settings: "设置", admin: "管理", users: "用户", allUploads: "未完成的上传", system: "系统", migration: "迁移", documents: "单据", exports: "导出",
    menu: "菜单", main: "主导航", home: "SmartDrive，文件", skip: "跳到正文", notices: "通知", noticesUnread: "通知：{n} 条未读", account: "{name} 的账户",
  },
  theme: { toLight: "切换到浅色", toDark: "切换到深色", light: "浅色", dark: "深色", auto: "跟随系统" },
  login: { wrong: "用户名或密码错误。", locked: "失败次数过多，请在 {n} 分钟后重试。", title: "登录", name: "用户名", password: "密码", in: "登录", out: "退出登录" },
  nothing: { title: "这里什么都没有", text: "地址可能有误，或者内容已不存在。", home: "前往文件" },
  error: { page: "无法显示此页面", network: "无法连接服务器，请检查网络后重试。", status: "服务器返回了 {status}。" },
  do: {
    cancel: "取消", close: "关闭", create: "创建", open: "打开", download: "下载", export: "导出", share: "分享", rename: "重命名", move: "移动", copy: "复制",
    moveTo: "移动到…", copyTo: "复制到…", details: "详情", star: "收藏", unstar: "取消收藏", trash: "放入回收站", delete: "删除", restore: "恢复", undo: "撤销", paste: "粘贴",
    reload: "刷新", retry: "重试", upload: "上传", save: "保存", change: "修改", revoke: "撤销", copied: "已复制", copyOf: "复制：{what}",
    copyByHand: "浏览器不允许在此复制：文字已选中，请按 Ctrl+C。", more: "加载更多",
  },
  fault: {
    empty: "请输入名称。", slash: "名称不能包含“/”。", dots: "这个名称不可用。", long: "名称太长。",
    size: "请输入大小，例如 500 MB 或 2 GB。", passwords: "两次输入的密码不同。", short: "至少 10 个字符。",
  },
  files: {
    exported: "正在收集导出内容。",
    selectAll: "选择此处的全部内容", renamed: "已重命名为“{name}”。", chosenAll: "已选全部 {n} 项", name: "名称", size: "大小", changed: "修改时间", select: "选择", selectOne: "选择 {name}", actions: "操作", actionsOf: "{name} 的操作",
    newFolder: "新建文件夹", folderName: "文件夹名称", newName: "新名称", newFolderIn: "“{name}”中新文件夹的名称", into: "目标：", folders: "文件夹",
    where: "路径", tools: "工具栏", clear: "取消选择", chosen: "已选 {n} 项", dragging: "{n} 项", listOf: "{name} 的内容",
    count: "共 {n} 项", countMore: "{n} 项，正在加载…", sort: "排序方式", asList: "列表显示", asGrid: "网格显示",
    sorts: { name: "名称", size: "大小", mtime: "修改时间", type: "类型", folder: "文件夹" },
    emptyDrive: "网盘还是空的", emptyFolder: "文件夹是空的", emptyText: "把文件或文件夹拖到这里，或点击选择。",
    faulty: "无法显示这个文件夹", trashedOne: "“{name}”已放入回收站。",
    moved: "已将 {n} 项移动到“{folder}”。", copied: "已将 {n} 项复制到“{folder}”。", moveTitle: "移动 {n} 项", copyTitle: "复制 {n} 项", moveHere: "移动到这里", copyHere: "复制到这里",
    pasteHere: "粘贴 {n} 项", taken: "名称已存在", takenText: "“{name}”已存在（共 {n} 项重名）。保留两者并在名称后加编号吗？", keepBoth: "保留两者",
  },
  places: {
    spaces: "共享空间", groups: "群组", withMe: "共享给我的", byMe: "我共享的", shared: "共享文件夹", people: "谁有权限", peopleShort: "成员", where: "网盘或共享空间", sharePeople: "共享给用户", trash: "该空间的回收站", activity: "动态", webhooks: "Webhook 通知", settings: "该空间的设置", archived: "已归档", archivedText: "该空间已归档：其中的内容可以查看，但不能更改。",
    roles: { viewer: "查看者", uploader: "上传者", editor: "编辑者", manager: "管理者", none: "无权访问" },
    means: { viewer: "你可以查看和下载这里的全部内容。", uploader: "你可以向这里上传文件，但看不到这里的内容。", editor: "你可以添加、修改和删除。", manager: "你可以进行全部操作，并决定谁有权限。", none: "你没有权限。" },
    only: "你在这里可以查看和下载，不能更改。", blind: "你可以向这里上传文件", blindText: "你上传的文件会送达，但你看不到这里的内容。", made: "已新建文件夹“{name}”。",
    failed: "{n} 项失败，第一项的原因：{why}", noZip: "下载：请只选择文件", trashOf: "“{name}”的回收站", trashIntro: "这里的内容在彻底删除之前仍占用该空间的容量；只有管理者可以彻底删除。",
  },
  details: {
    activity: "动态", about: "详情", contents: "内容", filesIn: "{n} 个文件", foldersIn: "{n} 个文件夹", andMore: "以上", versions: "历史版本", where: "所在文件夹", bytes: "{n} 字节", mime: "类型", created: "添加时间", current: "当前",
    restored: "已恢复为当前版本。",
  },
  preview: {
    none: "这个文件只能下载。", failed: "无法显示这张图片。", cannotPlay: "浏览器无法播放这个文件，可以下载后观看。",
    noPdf: "浏览器无法在此显示 PDF，可以下载。", loading: "正在加载…", empty: "文件是空的。", source: "源代码",
    encoding: "编码", damaged: "无法读取其中的内容：文件已损坏，或与扩展名不符。", entries: "共 {n} 项", entriesMore: "前 {n} 项",
    encodings: { "utf-8": "UTF-8", "gb18030": "GB 18030（简体中文）", "big5": "Big5（繁体中文）", "shift_jis": "Shift JIS（日文）", "euc-jp": "EUC-JP（日文）", "euc-kr": "EUC-KR（韩文）", "windows-1252": "Windows-1252（西欧）", "windows-1251": "Windows-1251（西里尔文）", "utf-16le": "UTF-16 LE", "utf-16be": "UTF-16 BE" },
    zoom: "图片大小", larger: "放大", smaller: "缩小", whole: "适合窗口", before: "上一个文件", next: "下一个文件",
  },
  upload: {
    panel: "传输列表", files: "上传文件", folder: "上传文件夹", dropHere: "松开即上传到“{folder}”",
    standing: "{n} 个上传未完成", running: "正在上传 {n} 个文件", allDone: "已上传 {n} 个文件", offline: "离线：{n} 个文件等待上传", comparing: "正在比对 {n} 个文件", troubled: "{n} 个文件需要处理",
    eta: "剩余 {time}", fold: "收起", unfold: "展开", clear: "清除已完成", pauseAll: "全部暂停", resumeAll: "全部继续", retryAll: "全部重试",
    waiting: { queue: "等待中", offline: "网络断开，恢复后自动继续", retry: "连接中断，正在重试", conflict: "等待你的选择", login: "请重新登录" },
    hashing: "正在比对 {done} / {size}", verifying: "已全部发送，服务器正在校验", instant: "{size} · 秒传", done: "{size} · 已完成",
    keptUntil: "保留至 {when}", parked: { file: "未完成：请重新选择该文件以继续", permission: "未完成：要继续吗？" },
    noSpace: { missing: "空间不足：还需要 {missing}", quota: "账户空间不足", disk: "服务器磁盘已满", owed: "空间暂时不足：已删除的 {owed} 仍在服务器磁盘上，请一刻钟后重试" },
    failed: "失败（{why}）",
    failures: {
      "file-changed": "文件与开始上传时不同", "file-unreadable": "浏览器已无法读取该文件",
      "gave-up": "服务器长时间没有响应", damaged: "数据在传输途中损坏", deleted: "上传已在服务器端被取消",
      proxy: "中间的代理拒绝了请求",
    },
    paused: "已暂停 {done} / {size}", skipped: "已跳过", cancelled: "已取消",
    act: { pause: "暂停 {name}", resume: "继续 {name}", retry: "重试 {name}", cancel: "取消 {name}", remove: "从列表移除 {name}" },
    acts: { pause: "暂停", resume: "继续", retry: "重试", cancel: "取消", remove: "移除" },
    otherFile: "这是另一个文件：大小不同。",
    conflict: {
      there: "网盘中", coming: "将上传", sameSize: "两个文件大小相同。", larger: "新文件大 {size}。", smaller: "新文件小 {size}。", newer: "新文件的修改时间更晚。", older: "新文件的修改时间不晚于原文件。",
      title: "名称已存在", text: "“{path}”已存在，如何处理这个 {size} 的文件？", forAll: "对其余全部文件做同样处理",
      skip: "跳过", rename: "保留两者", replace: "替换",
    },
  },
  zip: { large: "一个 zip 最多包含 {n} 个文件，请逐个下载文件夹。", many: "一个 zip 最多可选择 {n} 项，请减少选择，或选择它们所在的文件夹。", none: "所选内容中没有文件。", busy: "服务器正在生成其他 zip，请一分钟后重试。", preparing: "正在准备下载。", missing: "有 {n} 个文件无法读取，未包含在压缩包中，详见其中的 err.txt。" },
  search: {
    empty: "没有找到", emptyText: "没有名称包含“{q}”的内容。", results: "“{q}”的搜索结果", more: "{n} 项以上", in: "位置", everywhere: "全部",
    type: "类别", any: "不限类别", type_file: "文件", type_folder: "文件夹", ext: "扩展名", size: "大小", sizes: { any: "不限大小", small: "小于 1 MB", middle: "1 至 100 MB", large: "大于 100 MB" },
    when: "修改时间", whens: { any: "不限时间", day: "最近 24 小时", week: "最近 7 天", month: "最近 30 天", year: "最近一年" }, hint: "想找什么？",
    hintText: "在上方输入名称的一部分。", goTo: "在文件夹中显示",
  },
  shelf: {
    intro: { recent: "网盘中的文件，按最近一次修改排列。", starred: "你收藏的内容，不论位于何处。收藏只有你自己可见。" },
    empty: { recent: "还没有文件", starred: "还没有收藏" }, emptyText: { recent: "上传或修改的文件会显示在这里，最新的在前。", starred: "选择文件或文件夹并点击“收藏”，之后一键即可找到。" },
    changed: "最近修改", isStarred: "已收藏",
  },
  share: {
    all: "全选", revokeMany: "删除 {n} 个链接", title: "分享“{name}”", code: "提取码", codeAuto: "随机生成", codeOwn: "自定义", codeNone: "不需要", codeHint: "4 至 16 位字母或数字", expiry: "有效期",
    days: "{n} 天", never: "永久有效", limit: "限制下载次数", unlimited: "不限次数", create: "创建链接", link: "链接", both: "链接和提取码",
    message: "分享文件：{name}\n链接：{url}", messageCode: "分享文件：{name}\n链接：{url} 提取码：{code}", until: "有效期至 {when}", forever: "删除前一直有效", atMost: "最多下载 {n} 次",
    others: "此内容另有 {n} 个链接。", noneOfThis: "还没有分享链接。", empty: "还没有分享", emptyText: "选中文件或文件夹，点“分享”即可创建链接。",
    intro: "拿到链接（和提取码）的人可以查看和下载。", downloads: "下载", views: "浏览", created: "创建时间", state: "状态", what: "文件", expires: "到期",
    states: { open: "有效", expired: "已过期", "used-up": "次数已用完", gone: "文件已不在" }, revokeTitle: "取消这个分享？", revokeText: "链接将立即失效，文件不受影响。",
    revoked: "分享已取消。", show: "查看链接", change: "修改设置", saved: "已修改。", noCode: "无", keep: "保持不变",
  },
  collect: {
    create: "收集文件", into: "收集文件到“{name}”", title: "标题", message: "给提交者的说明（可选）", maxAll: "总大小上限", maxFile: "单个文件上限", noLimit: "不限",
    charged: "收到的文件计入你的存储空间，上限 {all}。提交者看不到别人的文件。", madeText: "拿到链接的人可以向该文件夹提交文件，但看不到其中的内容。",
    empty: "还没有收集任务", emptyText: "通过收集链接，任何人无需账户即可把文件发到你的文件夹。", intro: "没有账户的人也可以通过链接把文件发给你。",
    received: "已收到", state: "状态", revokeTitle: "结束收集？", revokeText: "之后不能再提交文件，已收到的文件保留。", revoked: "收集已结束。", choose: "选择文件夹", chooseThis: "选择此文件夹",
    who: "提交记录", nobody: "还没有收到文件。", anonymous: "未署名", arriving: "传输中", folder: "文件夹", files: "{n} 个文件", states: { open: "进行中", expired: "已过期", full: "已满", gone: "文件夹已不在" },
  },
  operation: {
    list: "服务器正在处理的操作", progress: "{done} / {total}", failures: "{n} 项失败", failed: "失败的项", goOn: "继续", gone: "已不存在",
    cancelled: "已取消：完成 {n} 项，共 {total} 项。", nothing: "全部未能完成。",
    running: {
      trash: "正在将 {n} 项放入回收站…", restore: "正在恢复 {n} 项…", delete: "正在彻底删除 {n} 项…",
      move: "正在移动 {n} 项…", copy: "正在复制 {n} 项…", unshare: "正在删除 {n} 个链接…", subtree: "正在处理文件夹…", undo: "正在撤销…",
    },
    done: {
      trash: "{n} 项已放入回收站。", restore: "已恢复 {n} 项。", delete: "已彻底删除 {n} 项。",
      move: "已移动 {n} 项。", copy: "已复制 {n} 项。", unshare: "已删除 {n} 个链接。", subtree: "已完成。", undo: "已撤销：{n} 项恢复原状。",
    },
  },
  trash: {
    intro: "回收站中的内容在彻底删除之前仍占用空间。", empty: "回收站是空的", emptyText: "删除的内容会先放到这里，可以恢复。", emptyNow: "清空回收站", emptyTitle: "清空回收站？",
    emptyAsk: "回收站中的全部内容将被彻底删除并释放空间。", emptied: "回收站已清空。", deleteTitle: "彻底删除？", deleteText: "“{name}”删除后无法恢复。 | {n} 项删除后无法恢复。",
    destroy: "彻底删除", when: "删除时间", frees: "可释放 {size}",
  },
  usage: {
    space: "存储空间", usedOf: "已用 {used}，共 {total}", usedUnlimited: "已用 {used}", fullness: "已用百分之 {n}", title: "存储空间", free: "剩余 {free}", finishedOnly: "只计算已完成的文件，包括回收站和历史版本。未完成的上传见下方。",
    uploads: "我的未完成上传", uploadsText: "在同一文件夹重新选择同一文件即可断点续传。长期不继续会自动清除。", none: "没有未完成的上传。", file: "文件", progress: "已上传", state: "状态", until: "保留至",
    states: { active: "进行中", parked: "已暂停", sealing: "校验中", done: "已完成" }, cancelTitle: "取消这个上传？", cancelText: "“{name}”已上传的部分将被删除。", keep: "保留", cancelled: "上传已取消。", freeUp: "释放空间", freeUpText: "清空回收站，或按大小排序，删除不需要的文件。", toTrash: "前往回收站", biggest: "查找大文件", unlimited: "不限",
    continue: "继续",
  },
  settings: {
    happens: "网盘动态", happensText: "谁添加、修改、共享或删除了什么，以及会收到通知的地址。",
    look: "外观", language: "语言", theme: "颜色", view: "文件显示方式", list: "列表", grid: "网格", password: "密码", current: "当前密码", new: "新密码", again: "再次输入新密码", passwordText: "修改后，其他登录和全部令牌都会失效。",
    renew: "设置新密码", renewText: "欢迎，{name}。你的密码由管理员设置，请设置只有你自己知道的密码。", given: "管理员提供的密码", renewDo: "设置并继续",
    passwordDone: "密码已修改。", wrongPassword: "当前密码错误。", tokens: "访问令牌", tokensText: "供程序以你的身份访问。令牌只显示一次。", tokenName: "用途", scopes: "权限", scope: { read: "读取", write: "修改", admin: "管理" }, expiry: "有效期", newToken: "新建令牌", tokenMade: "令牌（只显示这一次）", noTokens: "还没有令牌。", forWhat: "用于", kind: { native: "程序和脚本（API）", app: "用用户名和密码登录的应用（应用密码）" }, head: { native: "API", dav: "WebDAV 客户端", nextcloud: "Nextcloud 应用" }, appUser: "用户名", appServer: "服务器地址", appScan: "用手机应用扫描登录：",
    lastUsed: "最近使用：{when}", revokeTitle: "撤销“{name}”？", revokeText: "使用它的程序将无法继续访问。", sessions: "登录设备", sessionsText: "以下设备已登录。", thisOne: "当前", end: "退出", never: "永久", unnamed: "未知客户端",
  },
  grant: {
    title: "连接应用", asks: "有应用请求访问你的文件", calls: "该应用自称：", as: "你已登录为 {name}。", text: "允许后，它会得到一个专用的应用密码，可以读取和修改你网盘中的所有内容。你可以随时在设置中撤销。只有在你刚刚自己开始连接这个应用时才允许。", allow: "允许", granted: "应用已连接", grantedText: "可以关闭此窗口，回到应用。", gone: "此请求已失效", goneText: "请在应用中重新开始。", phone: "手机应用",
  },
  visitor: {
    from: "{owner} 的分享", needsCode: "请输入提取码", codeText: "提取码由分享链接的人提供。", code: "提取码", open: "提取文件", gone: "链接已失效", goneText: "链接已过期、次数已用完，或文件已不存在。", until: "有效期至 {when}", empty: "文件夹是空的", saveAll: "全部下载", saveChosen: "下载（{n}）", tooManyChosen: "一次打包最多选择 {n} 项。不选择任何项即可全部下载。", zipFaults: { empty: "其中没有文件。", late: "停留时间过长，请刷新页面。", gone: "链接已失效，或下载次数已用完。", large: "文件数量超过一个压缩包的上限，请按文件夹分别下载。", busy: "当前下载的人太多，请稍后再试。" }, items: "共 {n} 项", root: "全部文件", wrong: "提取码不正确。",
    collectBy: "{owner} 正在收集文件", sender: "你的名字（可选）", start: "选择文件", more: "继续添加", drop: "或把文件、文件夹拖到这里", left: "还可提交 {left}", maxFile: "单个文件最大 {size}", private: "只有 {owner} 能看到你提交的内容。", resume: "如果中断，重新打开链接并选择相同的文件即可继续。", closed: "收集已结束", thanks: "全部文件已送达，谢谢！",
  },
};

export default messages;
