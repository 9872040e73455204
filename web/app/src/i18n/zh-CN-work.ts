// Texts of the pages of documents and of administrators. They are not loaded with the first page.
import type { WorkMessages } from "./en-work";

const messages: WorkMessages = {
  users: {
    mustChange: "首次登录时要求设置新密码", lastLogin: "最近登录：{when}", neverIn: "从未登录", given: "临时密码", intro: "每个用户都有自己的账户。", add: "添加用户", name: "用户名", password: "密码", generate: "生成密码", quota: "空间配额", quotaHint: "例如 10 GB；留空为服务器默认值；∞ 为不限", admin: "管理员", state: "状态", states: { active: "正常", disabled: "已停用" }, finished: "已完成", unfinished: "未完成", reserved: "预留",
    of: "共 {total}", unlimited: "不限", disable: "停用", enable: "启用", edit: "修改 {name}", delete: "删除用户", deleteTitle: "删除 {name}？", deleteText: "该用户立即无法登录，数据在 30 天后清除。", added: "已添加 {name}。", addedText: "请把以下信息告诉 {name}：", saved: "已保存。", newPassword: "新密码（留空则不变）", deleted: "已删除 {name}。", ledger: "计入的字节：已完成的文件、未完成上传已保留的部分、进行中上传的预留。", filter: "按用户名筛选",
    hand: "移交文件", handTitle: "移交 {name} 的文件", handText: "{name} 的所有文件（包括回收站里的）将移入接收方的一个新文件夹，并计入接收方的空间：{size}。{name} 会被停用并在所有设备上退出登录，其发出的链接全部失效，未完成的上传会被取消。按用户共享的内容仍然保持共享。",
    handTo: "移交给", handUser: "用户", handSpace: "共享空间", handFolder: "文件夹", handFolderName: "{name} 的文件", handBegin: "移交", handRuns: "已有 {done} / {total} 个文件和文件夹移交给 {to}。关闭此窗口后会继续进行。", handDone: "{to} 已得到 {name} 的所有文件：共 {n} 个文件和文件夹。", handWaits: "{to} 的空间不足以放下其余文件。有空间后会自动继续。", handStill: "其余的内容正在被删除或复制，完成后会自动继续。", handFailed: "因错误而结束。",
  },
  groups: {
    title: "群组", intro: "给予群组的权限，组内成员从加入时起全部拥有。", add: "添加群组", name: "群组名称", none: "没有群组", noneText: "群组用于一次共享给多人。", members: "成员", addMember: "添加成员", take: "移出：{name}", takeShort: "移出", empty: "组里没有成员。",
    deleteTitle: "删除群组“{name}”？", deleteText: "其成员会失去给予该组的权限，用户本身不受影响。",
  },
  adminSpaces: {
    intro: "共享空间是多人共用的网盘，有自己的容量，由其管理者决定成员。", add: "添加空间", none: "没有共享空间", noneText: "添加一个空间，并指定管理者。", members: "成员", membersOf: "“{name}”的成员", archive: "归档", unarchive: "恢复", manager: "首位管理者", managerText: "不选择则由你担任。",
    deleteTitle: "删除空间“{name}”？", deleteText: "成员会立即无法访问。30 天内可以恢复，之后连同其中的内容一起彻底删除。", deleted: "已删除的空间", deletedText: "在彻底删除之前可以恢复。", until: "{when} 前可恢复", back: "恢复",
  },
  uploads: { intro: "所有账户未完成的上传，按时间先后排列。", user: "用户", held: "占用", reserved: "预留", last: "最近活动", reset: "全部取消", resetTitle: "取消全部未完成的上传？", resetText: "所有用户已上传的部分都将删除。仅供维护使用。", resetDone: "已取消 {n} 个上传。", none: "没有未完成的上传。", resetOne: "取消该用户的全部上传" },
  growth: {
    title: "存储与增长", stored: "全部账户已用", free: "磁盘剩余", accounts: "用户与空间", pace: "近 {n} 天增长", full: "照此速度存满还有", none: "暂无数据：每小时记录一次。", tomorrow: "有两天的数据后显示图表。", most: "最高 {size}", from: "{name}：{since} 为 {from}，今天为 {to}",
  },
  serverSettings: {
    title: "服务器设置", intro: "修改立即生效。服务器启动时指定的设置只能在启动处修改。", changed: "已修改", fixed: "服务器启动时已指定 {flag}", changedBy: "{by} 修改于 {at}", changedAt: "在服务器上修改于 {at}", isDefault: "默认值", reset: "恢复默认",
    "default-quota": { title: "新账户和新空间的配额", help: "未指定配额时使用；已有账户和空间不受影响。", example: "50GiB，或 unlimited（不限）" },
    "instant-scope": { title: "秒传", help: "已有哪些内容时不必重新上传。", instance: "所有用户的内容（需证明持有）", user: "仅自己的内容", off: "关闭" },
    "dav-litter": { title: "桌面系统产生的附带文件", help: "如何处理通过 WebDAV 传来的 ._*、.DS_Store、Thumbs.db 等文件。", keep: "保留", hide: "保留，但不在列表中显示", refuse: "拒绝" },
    "export-hosts": { title: "允许导出抓取的主机", help: "用逗号分隔。留空则导出不抓取任何文档。", example: "例如 docs.example.org, *.example.org" },
    "log-level": { title: "日志", help: "写入日志的最低级别。", debug: "全部（用于排查问题）", info: "常规", warn: "警告和错误", error: "仅错误" },
  },
  mailServer: {
    title: "邮件", asking: "正在询问邮件服务器……", again: "重新检查", none: "不发送邮件：服务器启动时未设置 --mail。通知只显示在网页上。", ok: "{server} 接受来自 {from} 的邮件，连接已加密。", near: "本机的 {server} 接受来自 {from} 的邮件。",
    reach: "{server} 没有响应。", secure: "无法加密到 {server} 的连接。", login: "{server} 拒绝 --mail 中的登录信息。", sender: "{server} 不接受来自 {from} 的邮件。",
  },
  system: {
    status: "状态", mode: "模式", modes: { embedded: "单进程", single: "单实例加数据库", "cluster-without-kafka": "集群（无 Kafka）", cluster: "集群" }, installation: "安装标识", instances: "实例", host: "主机", version: "版本", roles: "角色", since: "启动", seen: "最近可见", alive: "在线", silent: "无响应", leases: "只由一个实例执行", lease: "任务", generation: "实例",
    timers: "定时器", kind: "种类", minute: "一分钟内", hour: "一小时内", day: "一天内", later: "一天以上", running: "执行中", consumers: "事件消费者", consumer: "消费者", topic: "主题", behind: "落后", waiting: "等待", unsent: "{n} 个事件等待发送到消息系统，最早的已等待 {age}。", failing: "暂时无法查询：{what}", restored: "已从备份恢复：在 \"smartdrive admin fsck\" 未发现问题且服务器重新启动之前，不会删除任何内容。", findings: "审计发现", noFindings: "审计没有发现问题。", invariant: "不变式", subject: "对象", expected: "应为", found: "实为", when: "时间", repaired: "已修复", open: "未修复",
    letters: "死信", noLetters: "没有死信：所有事件都已处理。", replay: "重放", replayAll: "全部重放（{n}）", replayed: "已重新投递。", forget: "丢弃", forgetTitle: "丢弃这个事件？", forgetText: "它将不再被处理。", failures: "失败次数", event: "事件", noTimers: "没有等待中的定时器。", timerId: "所监视对象的编号，例如上传编号", lookUp: "查询", noTimer: "没有这个定时器。", notPending: "它已不再等待。", way: "经过", steps: { armed: "开始计时", fired: "触发", published: "已发布", consumed: "送达处理者", applied: "处理完成", snoozed: "稍后再看", waited: "等待：依赖暂时不可用", failed: "失败", dead: "彻底失败" }, due: "到期", armed: "开始", lastActive: "最近活动", pushBacks: "推后次数", indexed: "下次检查", attempts: "失败次数", noConsumers: "事件在进程内处理。", none: "–",
  },
  docs: {
    tab: "单据", intro: "通过 /intake 下的数据包收到的发票和其他单据。", q: "号码或名称", month: "月份", source: "来源", state: "状态", any: "全部", more: "更多条件", sellerId: "销售方识别号", buyerId: "购买方识别号", min: "金额不低于", max: "金额不高于", currency: "币种", show: "查询", all: "显示全部", export: "导出", exportHint: "把所列单据的 PDF、源文件和清单打包为一个 zip",
    sums: { title: "合计", by: "汇总方式", ways: { currency: "币种", seller: "销售方", month: "月份", vat: "税率" }, credits: "（含 {n} 张贷记单）", others: "另有 {n} 行，见 CSV", hint: "金额精确，不同币种分别合计；贷记单作为减项。" },
    states: { accepted: "已接收", conflict: "有冲突" }, empty: "没有单据", emptyText: "数据包处理完成后，单据会显示在这里。", emptyNarrow: "没有符合条件的单据。", faulty: "无法显示", bundle: "所属数据包", inConflict: "收到了这张单据的另一个版本，需要人工决定以哪个为准。", compare: "对比",
    types: { t380: "发票", t381: "贷记单（红字）", t384: "更正发票", t386: "预付款发票", t389: "自开票", t326: "部分发票", t875: "工程进度发票", t876: "工程进度结算发票", t877: "工程最终发票" },
    parties: { seller: "销售方", buyer: "购买方" }, fields: { date: "开票日期", due: "付款期限", tax_point: "纳税日期", buyer_reference: "购买方参考号", purchase_order: "订单", contract: "合同" }, lines: "明细", line: { name: "项目", quantity: "数量", price: "单价", rate: "税率", net: "金额" },
    totals: { lines: "明细合计", allowances: "折扣", charges: "附加费", net: "不含税金额", tax: "税额", gross: "价税合计", prepaid: "已付", rounding: "舍入", payable: "应付" }, files: "文件", noFiles: "文件已不存在。", itsPdf: "PDF 版式文件", itsFile: "原始文件", enclosed: "嵌入在源文件中", history: "历史", events: { accepted: "已接收", conflict: "收到另一个版本", duplicate: "再次收到，内容相同", "accepted-by-hand": "人工接收", "kept-old": "已裁定：保留先收到的", "kept-new": "已裁定：改用后收到的" }, data: "全部数据",
  },
  rejections: {
    tab: "已拒收", intro: "数据包申报但未接收的单据及原因。更正后的单据直接再发一次即可。", empty: "没有被拒收的单据", emptyText: "未接收的单据会显示在这里。", reason: "原因", language: "问题说明的语言",
    accept: "仍然接收", acceptTitle: "{number} 已被拒收，仍要接收吗？", acceptText: "理由与你的名字会随单据保存，存在的问题仍会显示。", why: "理由", accepted: "已接收。", because: "{when} 人工接收：{reason}",
  },
  conflicts: {
    all: "已显示 {n} 个", allTitle: "裁决 {n} 个冲突？", allText: { old: "所显示的单据保持原样。", new: "所显示的单据由后到的替换。" },
    tab: "冲突", intro: "号码和日期相同、内容却不同的单据。", empty: "没有冲突", emptyText: "没有等待裁定的单据。", text: "两者的来源、销售方、号码和日期都相同。保留的一份生效，另一份仍在原始文件中。", differs: "{n} 个字段不同", field: "字段", old: "先收到的", new: "后收到的",
    keep: { old: "保留先收到的", new: "改用后收到的" }, sure: "确定以这一份为准？", sureText: { old: "单据 {number} 保持不变。", new: "单据 {number} 将替换为后收到的版本。" }, settled: "已裁定。",
  },
  exports: {
    intro: "由服务器在后台收集并保留至到期的大批文档压缩包。如需立即下载文件或文件夹，请在“文件”中选择。",
    fromList: "按清单导出", faulty: "无法显示导出", empty: "没有导出", emptyText: "可在此按文件夹或清单导出，也可设为每月自动导出。",
    states: { pending: "等待中", running: "进行中", sealed: "可下载", aborted: "将重试", failed: "失败", cancelled: "已取消", expired: "已到期" },
    packed: "已打包 {n} / {total}", missing: "失败 {n}", eta: "剩余 {time}", made: "创建于 {when}", until: "保留至 {when}", progressOf: "{name} 的进度", downloadOf: "下载 {name}", soFar: "下载已收集部分", soFarOf: "下载 {name} 目前已收集的部分",
    link: "链接", linkUntil: "在 {when} 之前，持有链接的人均可下载该压缩包。", supplement: "补充失败项", supplemented: "正在收集下一修订版。", supply: "提供文件", supplyOf: "为 {name} 提供文件", supplyFor: "代替", supplyFrom: "来自", supplyWays: { drive: "网盘中的文件", upload: "上传的文件", url: "网址" }, address: "网址", supplyAll: "用 {n} 个文件补充",
    failures: "失败项", hideFailures: "收起失败项", saveErrTxt: "另存为 err.txt", end: "结束", ended: "已结束。", endTitle: "结束 {name}？", endText: "之后无法再下载，其链接一并失效。网盘中的文件不受影响。",
    cancelTitle: "取消 {name}？", cancelText: "已收集的内容将被放弃。", nth: "序号", id: "编号", document: "文档", why: "原因",
    fromFolder: "导出文件夹", chooseFolder: "选择文件夹", choose: "选择", when: "哪些文件", ways: { all: "全部", month: "在某个月内修改的", days: "在某段日期内修改的", since: "自上次导出以来有变化的", monthly: "每月：当月的文件", monthlySince: "每月：自上次导出以来有变化的" },
    monthlyHint: "每月 1 日 02:00（{zone}）导出上个月最后修改的文件。当前月份是第一个。", from: "从", to: "到", documents: "已接收的发票：PDF，按发票日期（用于 intake 及各来源的文件夹）", xml: "PDF 旁附上 XML",
    ext: "扩展名", pattern: "名称形如", names: "zip 内的名称", namesHint: "留空则保持原样。可用字段：", index: "在 zip 内附上清单（index.csv）", split: "内容超过一个压缩包的上限，将分成 {n} 个。", month: "月份", joinedTitle: "{name} 已存在", joinedText: "此前已按相同设置导出过该月份，该导出在到期前一直可用。要按现在的内容再导出一份吗？", anew: "再次导出", plan: "每月导出", plans: "每月导出", planNext: "{month}，于 {when}（{zone}）",
    planSkipped: "缺少 {month}：{why}", planEndTitle: "结束 {name} 的每月导出？", planEndText: "已创建的导出保留。", skips: { "not-found": "文件夹或清单已不存在", state: "文件夹或清单在回收站中", "too-large": "文件过多，或清单超出限额", "too-many-open": "导出过多", quota: "导出占用的空间已达配额", damaged: "清单已损坏", "bad-request": "清单中有无效的行" },
    name: "压缩包名称", list: "清单", file: "或选择清单文件", make: "导出",
    listMonthly: "每月按网盘中的清单导出", listMonthlyHint: "每月 1 日 02:00（{zone}）读取清单当时的内容。清单缺失时会通知您。", listPath: "清单的路径",
    listHint: "带标题行的 CSV，或每行一个 JSON 对象。每行含网盘路径 path、允许的主机上的 url 或 node 之一，还可带自定的 id 和包内名称 name。",
    reasons: {
      missing: "没有该文件", folder: "是文件夹", damaged: "内容已损坏", unreadable: "内容目前无法读取", quota: "空间不足", "not-allowed": "地址不被允许", redirected: "跳转到不被允许的地址", private: "地址属于本网络",
      refused: "来源拒绝", "too-large": "过大", encoded: "使用了未请求的编码", unreachable: "无法连接来源", "timed-out": "来源过慢", busy: "来源繁忙", "broken-off": "传输中断",
      empty: "来源未返回内容", "not-pdf": "来源返回的不是 PDF，例如登录页面", "odd-response": "来源的应答异常", "disk-full": "等待磁盘空间", "user-disabled": "等待其用户重新启用",
    },
  },
  bundles: {
    numbers: "应为 {expected}，实为 {found}", line: "第 {n} 行",
    tab: "数据包", intro: "数据包声明的每一张单据都有去向。", faulty: "无法显示", empty: "没有数据包", emptyText: "“smartdrive agent”等程序会把数据包发送到 /intake 下的文件夹。", states: { sealed: "等待处理", running: "处理中", done: "已完成", rejected: "已拒收" }, outcomes: { accepted: "已接收", rejected: "已拒收", duplicate: "重复", conflict: "冲突" },
    declared: "声明 {n} 张", members: "{n} 个文件", documents: "{n} 张单据", id: "编号", sealed: "封包时间", ended: "完成时间", attempts: "处理次数", memberList: "文件", records: "单据", noRecords: "没有。", nth: "第 {n} 张", retry: "重新处理", retried: "已重新处理。",
    surplus: "另有 {n} 张未声明的单据，均未接收。",
    reasons: {
      gone: "文件夹或其中的 meta.json 已被删除", "wrong-place": "meta.json 属于其他数据包或来源", "members-missing": "缺少文件", "members-differ": "文件与声明的不一致", damaged: "文件已损坏", failed: "多次处理失败",
      invalid: "单据不符合规则", "no-key": "缺少开票方、号码或日期", absent: "已声明但不存在", surplus: "存在但未声明", unsupported: "不支持该格式", "known-conflict": "此前已裁定以哪个版本为准",
      "filtered-type": "该来源不接收这种类型", "filtered-date": "日期不在该来源的接收范围内", "filtered-seller": "该来源不接收这个销售方", "filtered-buyer": "该来源不接收这个购买方", "filtered-amount": "金额不在该来源的接收范围内",
      malformed: "文件不完整或结构不正确", refused: "含有发票不需要、攻击者常用的内容", limit: "超过可接收的大小或层数", "bad-value": "日期或数字无效", "booking-aid": "没有明细行的 Factur-X 记账辅助文件，不是发票",
    },
  },
  strays: {
    tab: "未接收", intro: "放在 /intake 下但不属于任何数据包的内容。不处理就不会被接收。", empty: "没有遗漏的文件", emptyText: "/intake 下不属于数据包的文件会显示在这里。",
    reasons: { "loose-file": "不在数据包内的文件", "no-manifest": "没有 meta.json 的文件夹", "folder-name": "有 meta.json，但文件夹名称不是数据包编号", "too-deep": "文件夹层级太深", "source-name": "这个名称不能用作来源" },
    advice: { "loose-file": "用“smartdrive agent”发送，或修改来源的规则：可以接收没有 meta.json 的文件。", "no-manifest": "最后补发 meta.json，或修改来源的规则：可以接收没有 meta.json 的文件。", "folder-name": "把文件夹改名为 meta.json 中的编号。", "too-deep": "移动到 /intake/来源/编号。", "source-name": "给文件夹改名：不超过 100 字节，且不以点开头。" },
  },
  sources: {
    tab: "来源", intro: "谁在发送单据，以及接收其中哪些。其余的会被拒收并计数。", empty: "没有来源", emptyText: "来源是 /intake 下的一个文件夹。收到第一个数据包或设置第一条规则后，会显示在这里。", every: "接收全部单据。", add: "添加来源", name: "文件夹名称", nameHint: "例如 supplier-7", title: "“{name}”接收哪些单据", from: "开票日期从", to: "到", types: "类型", typesHint: "UNTDID 1001 代码，例如 380 和 381", sellers: "销售方识别号", buyers: "购买方识别号", idsHint: "每行一个：增值税号或税号", min: "价税合计从", max: "到",
    hint: "留空即不限制。规则对此后处理的数据包生效。", saved: "已保存。", forget: "接收全部", forgetTitle: "接收“{name}”的全部单据？", forgetText: "其规则将被清除，已有的数据包和单据不变。", forgotten: "此后接收全部单据。", listed: { types: "类型 {list}", sellers: "销售方 {list}", buyers: "购买方 {list}" }, days: "开票日期 {from} 至 {to}", amount: "价税合计 {min} 至 {max}", profile: "规则", core: "EN 16931", xrechnung: "同时检查 XRechnung 3（德国）的规则", peppol: "同时检查 Peppol BIS Billing 3 的规则", conflicts: "单据相互矛盾时", decide: "由人裁决", settles: { old: "冲突时以先到的为准", new: "冲突时以后到的为准" }, open: "…", others: "{list} 等，另有 {n} 个",
    plain: "接收全部文件，无需 meta.json", plainHint: "文件夹（含子文件夹）一分钟内没有新文件后，其中的文件会移入数据包。不是发票的文件会被拒收并列出。", takesPlain: "接收没有 meta.json 的文件", gathered: "由没有 meta.json 的文件组成",
  },
  migration: {
    intro: "在系统使用期间迁移到其他数据库和存储。进入最后一个阶段之前都可以回退。", phases: "阶段", old: "旧", new: "新", names: { p0: "准备", p1: "回填", p2: "双写", p3: "读新", p4: "以新为主", p5: "只用新" },
    write: { u0: "–", u1: "后写", u2: "写" }, read: { u0: "–", u1: "读", u2: "读" },
    texts: { p0: "冻结表结构，检查是否具备条件。", p1: "复制已有的数据。", p2: "每次修改都写入两侧。", p3: "越来越多的账户从新侧读取。", p4: "先写新侧。", p5: "保留旧侧，只读。" },
    begin: "开始迁移", beginText: "填写新数据库、内容的新位置，或两者都填。试运行不会改变任何内容。", toDB: "新数据库", toBlobs: "内容的新位置", toRedis: "新位置的上传日志所用的 Redis", look: "试运行", start: "开始", startTitle: "开始迁移？", startText: "立即开始回填，暂时不会从新侧读取。", started: "已开始。", report: "{tables} 张表共 {rows} 行，回填约需 {time}。", holds: "满足", holdsNot: "不满足",
    lag: "落后的修改", mismatches: "不一致", checksum: "全量比对", eta: "剩余时间", pause: "写入最长停顿", deferred: "事后补写", readsNew: "读新侧 / 退回旧侧", noChecksum: "尚未进行", comparing: "进行中", equal: "一致", unequal: "不一致", rows: "数据行", blobs: "内容", paused: "已暂停：回填和比对停止，修改照常写入。",
    gate: "进入第 {n} 阶段的条件", gateEnd: "结束的条件", share: "{n} % 的账户读新侧", epoch: "纪元", ours: "主侧", theirs: "另一侧", waits: "等待原因", asked: "已执行。",
    explain: "说明原因", explainTitle: "为什么无关紧要？", explainText: "对 {subject} 的说明会连同你的名字一起保存，此后不再计入条件。", explainedBy: "{who} 的说明", equalLater: "后来的比对一致。",
    paceRows: "每秒行数", paceBytes: "每秒字节数", paceNone: "不限", paceSet: "设置上限",
    oldSide: "旧侧", oldStates: { kept: "只读，保留至 {when}。", dropping: "正在清除。", dropped: "已清除。" }, oldRemoved: "已删除 {n} 份内容，{size}。", oldKept: "保留了 {n} 份内容，因为新位置没有：{worst}",
    dropOld: "清除旧侧", dropOldTitle: "清除旧侧？", dropOldText: "删除其数据行和内容，新位置没有的会保留。此操作无法撤销。", dropOldEarly: "原定保留至 {when}。现在就删除其数据行和内容，新位置没有的会保留。此操作无法撤销。",
    do: { advance: "进入下一阶段", finish: "结束迁移", drop: "清除迁移记录", verify: "全量比对", resume: "继续", pause: "暂停", rollback: "回退一个阶段" },
    ask: { advance: "进入第 {to} 阶段？", rollback: "回退到第 {to} 阶段？", finish: "结束迁移？", drop: "清除迁移记录？", giveUp: "放弃迁移？" }, askText: { advance: "从第 {from} 阶段进入第 {to} 阶段，写入可能短暂等待。", rollback: "从第 {from} 阶段回退到第 {to} 阶段，已确认的写入不会丢失。", finish: "离开旧侧，它从此拒绝任何修改，之后无法回退。", drop: "清除迁移记录。请在所有实例都已用新配置启动之后进行。", giveUp: "清空已写入新侧的数据，旧侧保持不变。" },
    gates: { "contents-waiting": "没有等待复制的内容", kept: "已保留到约定的时间", "old-rows": "旧的数据行可以清除", "old-contents": "旧的内容可以清除", target: "另一侧就是已回填的那一个", contents: "内容已全部复制", uploads: "没有会被中断的上传", mode: "迁移后的配置可以启动", "one instance": "只有一个实例在运行", switch: "没有正在进行的切换", lag: "没有落后的修改", checksum: "最近的全量比对一致", mismatches: "没有未解释的不一致", instances: "所有实例都在本阶段的纪元", fill: "数据行已全部回填" },
  },
};

export default messages;
