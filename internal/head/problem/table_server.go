package problem

import (
	"net/http"

	"example.org/smartdrive/internal/base/drive"
)

// serverRows are for a temporary lack of resources.
var serverRows = []row{
	{
		kind: drive.Stopping, status: http.StatusServiceUnavailable, retry: 5,
		title: text{"The server is stopping", "服务器正在停止"},
		says: []text{{
			"The server is being stopped or restarted. What it has acknowledged is kept.",
			"服务器正在停止或重启，已确认的内容不会丢失。",
		}},
		advice: text{"Try again in a moment.", "请稍后重试。"},
	},
	{
		kind: drive.Unavailable, status: http.StatusServiceUnavailable, retry: 5,
		title: text{"Temporarily unavailable", "暂时不可用"},
		reasons: map[string]text{
			"database-damaged": {
				"The server's database is damaged, so that some of your files may not be shown. The files themselves are kept apart from it. The operator has to repair it.",
				"服务器的数据库已损坏，你的部分文件可能无法显示；文件内容单独存放，不在数据库中。需要管理员修复。",
			},
			"store-unwritable": {
				"The server may not write to the directory of the files. The operator has to give it to the server's user, or mount its disk for writing; the log names the path.",
				"服务器无法写入存放文件的目录。需要管理员把它交给服务器的运行用户，或以可写方式挂载磁盘；日志中有路径。",
			},
			"sign-on": {
				"The identity provider does not answer as it should. The log of the server says why.",
				"身份提供方没有正常响应，原因见服务器日志。",
			},
		},
		says: []text{{
			"A service that the server depends on is not responding.",
			"服务器所依赖的某个服务暂时没有响应。",
		}},
		advice: text{
			"Try again in a moment. /readyz tells the operator which service it is.",
			"请稍后重试。管理员可通过 /readyz 查看是哪个服务。",
		},
	},
	{
		kind: drive.Quota, status: http.StatusInsufficientStorage,
		title: text{"Not enough space in the account", "账户空间不足"},
		says: []text{
			{
				"{needed:size} more are needed; {available:size} are available. {owed:size} that were deleted are still on the server's disk, and count until they are gone from it, usually within a quarter of an hour.",
				"还需要 {needed:size}，可用空间为 {available:size}。已删除的 {owed:size} 仍在服务器磁盘上，在清除之前（通常一刻钟内）仍计入用量。",
			},
			{
				"{needed:size} more are needed; {available:size} are available.",
				"还需要 {needed:size}，可用空间为 {available:size}。",
			},
			{"The account does not have enough space.", "账户空间不足。"},
		},
		advice: text{
			"Delete files and empty the trash, cancel unfinished uploads, or ask for more space. Trash and old versions count until they are gone. If more than the account's quota was just deleted permanently, it counts until it has left the disk: try again in a quarter of an hour.",
			"请删除内容并清空回收站、取消未完成的上传，或申请更多空间。回收站和旧版本在清除前都计入用量；刚彻底删除的内容超出账户空间时也是如此，请一刻钟后重试。",
		},
	},
	{
		kind: drive.DiskFull, status: http.StatusInsufficientStorage,
		title: text{"The server's disk is full", "服务器磁盘已满"},
		says: []text{{
			"The server has no space left. Reading and deleting still work.",
			"服务器已无剩余空间，仍可读取和删除。",
		}},
		advice: text{
			"Tell the operator. Nothing that was acknowledged is lost; the upload can continue when there is space again.",
			"请通知管理员。已确认的内容不会丢失，有空间后可继续上传。",
		},
	},
}
