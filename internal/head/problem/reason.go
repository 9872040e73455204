package problem

import "smartdrive/internal/base/drive"

// fieldReasons has a sentence for each drive.Reason. Where the args of one are not complete, the row's says are used.
var fieldReasons = map[string]text{
	string(drive.Required): {"{field} is missing.", "缺少 {field}。"},
	string(drive.Unknown):  {"There is no {field} here.", "此处没有 {field}。"},
	string(drive.Malformed): {
		"{field} cannot be read; expected is {expected}.",
		"无法识别 {field}，应为 {expected}。",
	},
	string(drive.OutOfRange): {
		"{field} is out of range; possible is {min} to {max}.",
		"{field} 超出范围，允许 {min} 至 {max}。",
	},
	string(drive.NotAllowed): {
		"{field} has a value that is not allowed; possible are {allowed}.",
		"{field} 的值不被允许，可用的有 {allowed}。",
	},
	string(drive.TooLong): {
		"{field} is {sent} bytes long; at most {limit} are possible.",
		"{field} 长 {sent} 字节，最多 {limit} 字节。",
	},
	string(drive.NotTogether): {
		"{field} and {with} cannot be sent together.",
		"{field} 与 {with} 不能同时使用。",
	},
	string(drive.Guessable): {
		"{field} is among the first that somebody would guess: a common word, the user's name, or a simple row. Several unrelated words are good.",
		"{field} 太容易被猜到：常用词、用户名或简单序列。建议使用几个互不相关的词。",
	},
}

// nameReasons has a sentence for each reason of drive.ParseName, drive.ParsePath and drive.ParseSegments.
var nameReasons = map[string]text{
	"not-utf8":      {"The name is not valid UTF-8.", "名称不是有效的 UTF-8。"},
	"empty":         {"A name is empty, or the path has two slashes in a row or one at its end.", "名称为空，或路径中有连续的斜杠或以斜杠结尾。"},
	"dots":          {"\".\" and \"..\" cannot be used as names.", "“.”和“..”不能用作名称。"},
	"too-long":      {"The name is {sent} bytes long; at most {limit} are possible.", "名称长 {sent} 字节，最多 {limit} 字节。"},
	"slash":         {"A name cannot contain \"/\".", "名称不能包含“/”。"},
	"control":       {"A name cannot contain control characters.", "名称不能包含控制字符。"},
	"not-absolute":  {"A path begins with \"/\".", "路径必须以“/”开头。"},
	"too-deep":      {"The path has {sent} levels; at most {limit} are possible.", "路径有 {sent} 级，最多 {limit} 级。"},
	"path-too-long": {"The path is {sent} bytes long; at most {limit} are possible.", "路径长 {sent} 字节，最多 {limit} 字节。"},
	"root":          {"This cannot be done with the root folder.", "不能对根文件夹执行此操作。"},
	"escape":        {"The path has a broken percent-encoding.", "路径中的百分号编码有误。"},
}

// goneReasons has a sentence for each way in which an upload, a prepared id, a share or a collect link ends.
var goneReasons = map[string]text{
	"cancelled": {"The upload was cancelled.", "该上传已取消。"},
	"abandoned": {"Nothing came for too long; what had arrived was deleted.", "长时间没有收到数据，已收到的部分已删除。"},
	"too-old":   {"The upload was not completed in time; what had arrived was deleted.", "上传未能按时完成，已收到的部分已删除。"},
	"expired":   {"It has expired.", "它已过期。"},
	"reset":     {"An administrator reset the upload.", "管理员已重置该上传。"},
	"used-up":   {"It was downloaded as often as its owner allowed.", "下载次数已用完。"},
	"withdrawn": {"Its owner has taken it back.", "所有者已取消。"},
}
