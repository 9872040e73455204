package problem

import "example.org/smartdrive/internal/base/drive"

// fieldReasons holds a sentence for each drive.Reason. If the args of one are incomplete, the row's
// says are used.
var fieldReasons = map[string]text{
	string(drive.Required): {"{field} is missing.", "缺少 {field}。"},
	string(drive.Unknown):  {"{field} is not known here.", "无法识别字段 {field}。"},
	string(drive.Malformed): {
		"{field} cannot be parsed; expected: {expected}.",
		"无法识别 {field}，应为 {expected}。",
	},
	string(drive.OutOfRange): {
		"{field} is out of range; allowed: {min} to {max}.",
		"{field} 超出范围，允许 {min} 至 {max}。",
	},
	string(drive.NotAllowed): {
		"The value of {field} is not allowed; allowed: {allowed}.",
		"{field} 的值无效，可用的值：{allowed}。",
	},
	string(drive.TooLong): {
		"{field} is {sent} bytes long; at most {limit} are allowed.",
		"{field} 长 {sent} 字节，最多 {limit} 字节。",
	},
	string(drive.TooManyChars): {
		"{field} has {sent} characters; at most {limit} are allowed.",
		"{field} 有 {sent} 个字符，最多 {limit} 个字符。",
	},
	string(drive.NotTogether): {
		"{field} and {with} cannot be sent together.",
		"{field} 与 {with} 不能同时使用。",
	},
	string(drive.Guessable): {
		"{field} is too easy to guess: a common word, the user's name, or a simple sequence. Use several unrelated words.",
		"{field} 太容易被猜到：常用词、用户名或简单序列。建议使用几个互不相关的词。",
	},
}

// nameReasons holds a sentence for each reason of drive.ParseName, drive.ParsePath and
// drive.ParseSegments.
var nameReasons = map[string]text{
	"not-utf8":      {"The name is not valid UTF-8.", "名称不是有效的 UTF-8。"},
	"empty":         {"A name is empty, or the path has two slashes in a row or one at its end.", "名称为空，或路径中有连续的斜杠或以斜杠结尾。"},
	"dots":          {"\".\" and \"..\" cannot be used as names.", "“.”和“..”不能用作名称。"},
	"too-long":      {"The name is {sent} bytes long; at most {limit} are allowed.", "名称长 {sent} 字节，最多 {limit} 字节。"},
	"slash":         {"A name cannot contain \"/\".", "名称不能包含“/”。"},
	"control":       {"A name cannot contain control characters.", "名称不能包含控制字符。"},
	"not-absolute":  {"A path must begin with \"/\".", "路径必须以“/”开头。"},
	"too-deep":      {"The path has {sent} levels; at most {limit} are allowed.", "路径有 {sent} 级，最多 {limit} 级。"},
	"path-too-long": {"The path is {sent} bytes long; at most {limit} are allowed.", "路径长 {sent} 字节，最多 {limit} 字节。"},
	"root":          {"This cannot be done with the root folder.", "不能对根文件夹执行此操作。"},
	"escape":        {"The path contains an invalid percent-encoding.", "路径中的百分号编码有误。"},
}

// states holds sentences for values of "state" that describe the environment instead of the object
// itself.
var states = map[string]text{
	"last-admin":   {"No other active administrator would be left.", "这样就没有其他可用的管理员了。"},
	"connected":    {"One of the two is connected with somebody else already.", "其中一方已与他人关联。"},
	"last-manager": {"The space would be left without a manager.", "这样该空间就没有管理者了。"},
	"empty":        {"No file matches: the export would be empty.", "没有符合条件的文件，导出将为空。"},
	"unchanged":    {"Nothing has changed since the last export.", "自上次导出以来没有变化。"},
}

// goneReasons holds a sentence for each way in which an upload, a prepared id, a share or a collect
// link ends.
var goneReasons = map[string]text{
	"cancelled": {"The upload was cancelled.", "该上传已取消。"},
	"abandoned": {"Nothing arrived for too long; the received parts were deleted.", "长时间没有收到数据，已收到的部分已删除。"},
	"too-old":   {"The upload was not completed in time; the received parts were deleted.", "上传未能按时完成，已收到的部分已删除。"},
	"expired":   {"It has expired.", "它已过期。"},
	"revoked":   {"Whoever began the upload may not add files to its folder any more.", "发起上传的人已不能再向该文件夹添加文件。"},
	"reset":     {"An administrator reset the upload.", "管理员已重置该上传。"},
	"used-up":   {"The number of downloads that its owner allowed has been reached.", "下载次数已用完。"},
	"withdrawn": {"Its owner has withdrawn it.", "所有者已取消。"},
	"sign-on":   {"This login was begun elsewhere, or too long ago. Begin again.", "此次登录不是在此处发起的，或已超时，请重新开始。"},
	"sign-on-failed": {
		"The identity provider has not done its part of this login. The log of the server says why. Begin again.",
		"身份提供方没有正常完成此次登录，原因见服务器日志。请重新开始。",
	},
}

// openReasons holds a sentence for each limit on the number of things other than uploads.
var openReasons = map[string]text{
	"exports":         {"At most {limit} exports can be kept at a time. End one that is not needed any more, or wait until one expires.", "最多只能同时保留 {limit} 个导出。请结束不再需要的导出，或等待其到期。"},
	"export-jobs":     {"At most {limit} zips can be on their way into the drive or the bucket, or lie in the bucket, at a time.", "最多只能同时有 {limit} 个压缩包正在写入网盘或存储桶，或存放于存储桶中。"},
	"schedules":       {"At most {limit} schedules of exports are possible. Delete one that is not needed any more.", "最多只能有 {limit} 个定期导出。请删除不再需要的定期导出。"},
	"locks":           {"At most {limit} locks of WebDAV programs can be held at a time. Close files that are not needed any more.", "WebDAV 程序最多只能同时持有 {limit} 个锁。请关闭不再需要的文件。"},
	"shares":          {"At most {limit} share links are possible. Delete some that are not needed any more.", "最多只能有 {limit} 个分享链接。请删除不再需要的链接。"},
	"collects":        {"At most {limit} file requests are possible. Delete some that are not needed any more.", "最多只能有 {limit} 个文件收集链接。请删除不再需要的链接。"},
	"collect-uploads": {"At most {limit} uploads of senders can be unfinished at a time. Wait until others have ended.", "最多只能同时有 {limit} 个未完成的收集上传。请等待其他上传结束。"},
	"sources":         {"At most {limit} sources of documents are possible. Delete one that is not needed any more.", "最多只能有 {limit} 个单据来源。请删除不再需要的来源。"},
	"operations":      {"At most {limit} operations can run or wait at a time. Wait until one of them has ended, or cancel it.", "最多只能同时有 {limit} 个后台操作正在运行或等待。请等待其中一个结束，或取消它。"},
	"webhooks":        {"At most {limit} webhooks are possible in one drive or space. Delete some that are not needed any more.", "每个网盘或空间最多只能有 {limit} 个 Webhook。请删除不再需要的 Webhook。"},
	"grants":          {"At most {limit} roles can be given in one drive or space. Take some away that are not needed any more.", "每个网盘或空间最多只能授予 {limit} 个角色。请撤销不再需要的角色。"},
	"grants-of-one":   {"At most {limit} files and folders of one drive or space can be shared with the same person or group. Share a folder that they are in.", "同一网盘或空间最多只能将 {limit} 个文件和文件夹共享给同一用户或群组。请改为共享它们所在的文件夹。"},
	"mounts":          {"At most {limit} shared items can have a name of your own or be hidden. Show some again under their own names.", "最多只能为 {limit} 个共享项目另取名称或将其隐藏。请先恢复其中一些。"},
	"groups":          {"At most {limit} groups are possible. Delete some that are not needed any more.", "最多只能有 {limit} 个群组。请删除不再需要的群组。"},
	"members":         {"A group can have at most {limit} members. Make another group.", "每个群组最多只能有 {limit} 名成员。请新建另一个群组。"},
	"spaces":          {"At most {limit} spaces are possible. Delete some that are not needed any more.", "最多只能有 {limit} 个空间。请删除不再需要的空间。"},
	"stars":           {"At most {limit} files and folders can be starred. Take some stars away.", "最多只能收藏 {limit} 个文件和文件夹。请取消一些收藏。"},
	"tokens":          {"At most {limit} tokens are possible. Delete some that are not needed any more.", "最多只能有 {limit} 个令牌。请删除不再需要的令牌。"},
}

// sizeReasons holds a sentence for each limit that counts things instead of bytes, or that has a
// text of its own.
var sizeReasons = map[string]text{
	"properties":    {"The properties that programs have given the file, or all files of the account, are more than is kept.", "程序为该文件或该账户所有文件设置的属性超过了可保存的上限。"},
	"entries":       {"At most {limit} entries are possible in one list. Split it into several.", "一个列表最多 {limit} 项，请拆分为多个。"},
	"files":         {"At most {limit} files and as many folders are possible in one zip. Download its folders one by one.", "一个压缩包最多包含 {limit} 个文件和同样多的文件夹，请按文件夹分别下载。"},
	"picked":        {"At most {limit} files and folders can be chosen at a time; a folder counts once.", "一次最多选择 {limit} 个文件和文件夹，文件夹只计一次。"},
	"folders":       {"At most {limit} folders are possible below one that is exported. Export folders below it.", "所导出的文件夹之下最多 {limit} 个文件夹，请分别导出其下的文件夹。"},
	"size":          {"The files are {sent:size} together; the zips of one request can have at most {limit:size}. Request fewer at a time.", "这些文件合计 {sent:size}，一次请求的压缩包合计最多 {limit:size}，请分批导出。"},
	"names":         {"The names in one zip or list are {sent:size} together; at most {limit:size} are possible. Split it into several.", "一个压缩包或列表中的名称合计 {sent:size}，最多 {limit:size}，请拆分为多个。"},
	"lists":         {"The lists of all exports of the account are too much with this one of {sent:size}: together at most {limit:size} are possible. End an export that is not needed any more.", "该账户所有导出的列表连同此列表超过上限：此列表 {sent:size}，合计最多 {limit:size}。请结束不再需要的导出。"},
	"nodes":         {"The account has as many files and folders as it may have: {limit}, those in the trash included.", "该账户的文件和文件夹数量已达上限 {limit}（含回收站）。"},
	"changes":       {"At most {limit} files and folders can be created, changed or moved in one account on one day. Continue tomorrow (after 00:00 UTC); deleting permanently is possible at any time.", "每个账户每天最多可新建、修改或移动 {limit} 个文件和文件夹。请明天（UTC 零点之后）继续；永久删除不受此限制。"},
	"collect-files": {"By one file request at most {limit} files can be sent. The owner can make another one.", "通过一个文件收集链接最多可发送 {limit} 个文件。其创建者可以另建一个链接。"},
	"versions":      {"The account has as many older versions of files as it may have: {limit}. Delete some of them.", "该账户的历史版本数量已达上限 {limit}，请删除一些历史版本。"},
}
