package problem

import (
	"net/http"

	"example.org/smartdrive/internal/base/drive"
)

// stateRows are for requests that are refused because of the current state of the object, such as a
// name that is taken.
var stateRows = []row{
	{
		kind: drive.NameTaken, status: http.StatusConflict,
		title: text{"The name is already taken", "名称已被占用"},
		says: []text{
			{"\"{name}\" already exists here.", "此处已有名为“{name}”的项目。"},
			{"Something with this name already exists here.", "此处已有同名项目。"},
		},
		advice: text{
			"Choose another name, or set conflict to \"rename\" (use a free name) or \"replace\" (add a version). An upload keeps its parts: complete it again.",
			"请换一个名称，或使用 conflict 参数 rename（自动改名）或 replace（新增版本）。已上传的分片仍然保留，可再次完成。",
		},
	},
	{
		kind: drive.ParentGone, status: http.StatusConflict,
		title: text{"The folder no longer exists", "目标文件夹已不存在"},
		says: []text{{
			"The target folder was deleted or moved to the trash in the meantime.",
			"目标文件夹已被删除或移入回收站。",
		}},
		advice: text{
			"Choose another folder. An upload keeps its parts: complete it again with another parent.",
			"请选择其他文件夹。已上传的分片仍然保留，可指定新的 parent 后再次完成。",
		},
	},
	{
		kind: drive.PartDiffers, status: http.StatusConflict,
		title: text{"A different part with this number exists", "该编号的分片内容不同"},
		says: []text{
			{
				"Part {part} has already arrived with different content.",
				"第 {part} 片已经收到，但内容不同。",
			},
			{
				"A part with this number has already arrived with different content.",
				"该编号的分片已经收到，但内容不同。",
			},
		},
		advice: text{
			"The file may have changed while it was being sent. If the new content is right, DELETE the part and send it again.",
			"文件可能在发送过程中被修改。若以新内容为准，请先 DELETE 该分片再重新发送。",
		},
	},
	{
		kind: drive.OffsetMismatch, status: http.StatusConflict,
		title: text{"The offset does not match", "偏移量不符"},
		says: []text{
			{
				"The upload has received its first {offset} bytes; the request starts at byte {sent}.",
				"该上传已收到前 {offset} 字节，而请求从第 {sent} 字节开始。",
			},
			{
				"The request does not start where the upload ends.",
				"请求的起始位置与上传的当前末尾不一致。",
			},
		},
		advice: text{
			"Ask for the offset (HEAD) and continue from there.",
			"请先用 HEAD 查询当前偏移量，再从该处继续发送。",
		},
	},
	{
		kind: drive.PartsMissing, status: http.StatusConflict,
		title: text{"Parts are missing", "缺少分片"},
		says: []text{
			{
				"No file can be made of partial uploads before all bytes of {upload} have arrived.",
				"上传 {upload} 的数据尚未全部到达，无法合并成文件。",
			},
			{
				"The file cannot be completed because some parts have not arrived; \"missing\" lists them.",
				"仍有分片未到达，无法完成；missing 列出了缺少的分片。",
			},
		},
		advice: text{
			"Send the parts listed in \"missing\" (at most the first 1,000), then complete again.",
			"请补发 missing 中列出的分片（最多列出前 1,000 个），然后再次完成。",
		},
	},
	{
		kind: drive.WrongState, status: http.StatusConflict,
		title:  text{"Not possible in this state", "当前状态下无法进行"},
		states: states,
		says: []text{
			{"The operation was refused: {why}", "此操作被拒绝：{why}"},
			{"The server was started with the setting {setting}: it can be changed there alone.", "设置项 {setting} 由服务器启动时指定，只能在那里修改。"},
			{"This is not possible while the state is \"{state}\".", "状态为“{state}”时无法进行此操作。"},
			{"This is not possible in the current state.", "当前状态下无法进行此操作。"},
		},
		advice: text{
			"Read it again to see its state, and continue from there.",
			"请重新读取以了解其状态，再继续操作。",
		},
	},
	{
		kind: drive.VersionChanged, status: http.StatusConflict,
		title: text{"Somebody else changed it", "内容已被他人更改"},
		says: []text{
			{
				"It was changed in the meantime; the current version is {current}.",
				"内容在此期间已被更改，当前版本为 {current}。",
			},
			{"It was changed in the meantime.", "内容在此期间已被更改。"},
		},
		advice: text{
			"Look at the current version, then decide: complete the upload under another name, or replace the new version.",
			"请先查看当前版本再决定：换一个名称完成上传，或替换新版本。",
		},
	},
	{
		kind: drive.Locked, status: http.StatusLocked,
		title: text{"Somebody is working on it", "正在被使用"},
		says: []text{
			{"{by} has locked it, in a program such as Office. The lock ends when that program closes the file, or by itself a while after the program has gone.", "{by} 正在用 Office 等程序编辑，已将其锁定。该程序关闭文件后锁会解除；程序异常退出后，锁也会在一段时间后自动失效。"},
			{"It is locked, by a program such as Office. The lock ends when that program closes the file, or by itself a while after the program has gone.", "正被 Office 等程序锁定。该程序关闭文件后锁会解除；程序异常退出后，锁也会在一段时间后自动失效。"},
		},
		advice: text{
			"Wait until the lock has ended, or save under another name. \"until\" says when it ends at the latest, unless the program extends it. An upload keeps its parts: complete it again.",
			"请等待锁解除，或换一个名称保存。until 给出最迟的失效时间（程序可能会延长）。已上传的分片仍然保留，可再次完成。",
		},
	},
	{
		kind: drive.InProgress, status: http.StatusConflict, retry: 2,
		title: text{"The same request is still running", "相同的请求仍在处理"},
		says: []text{{
			"A request with the same key is still being processed; there is no result so far.",
			"使用相同键的请求正在处理，尚无结果。",
		}},
		advice: text{
			"Wait as long as Retry-After says, then repeat the same request: it gets the result of the first one.",
			"请按 Retry-After 等待后重复同一请求，将得到第一次请求的结果。",
		},
	},
	{
		kind: drive.Cycle, status: http.StatusConflict,
		title: text{"A folder cannot be inside itself", "文件夹不能移入自身"},
		says: []text{{
			"The target is the folder itself, or a folder inside it.",
			"目标是该文件夹本身或其中的子文件夹。",
		}},
		advice: text{"Choose a folder outside of it.", "请选择该文件夹之外的位置。"},
	},
	{
		kind: drive.Gone, status: http.StatusGone,
		title:   text{"No longer available", "已不存在"},
		reasons: goneReasons,
		says:    []text{{"It existed, has ended, and cannot be restored.", "它曾经存在，现已结束，无法恢复。"}},
		advice:  text{"Start again.", "请重新开始。"},
	},
	{
		kind: drive.LengthRequired, status: http.StatusLengthRequired,
		title: text{"The length is missing", "缺少长度"},
		says: []text{{
			"This request requires a Content-Length header.",
			"该请求必须带有 Content-Length 头。",
		}},
		advice: text{
			"Send Content-Length, not Transfer-Encoding: chunked. Send a file of unknown length with PUT /api/v1/files, or as an upload with size null.",
			"请发送 Content-Length，而不是 Transfer-Encoding: chunked。长度未知的文件可用 PUT /api/v1/files 或 size 为 null 的上传。",
		},
	},
	{
		kind: drive.Precondition, status: http.StatusPreconditionFailed,
		title: text{"The condition is not met", "条件不成立"},
		says: []text{{
			"The current content does not meet the condition in If-Match, If-None-Match or If-Unmodified-Since.",
			"现有内容不满足 If-Match、If-None-Match 或 If-Unmodified-Since 的条件。",
		}},
		advice: text{
			"Read it again, look at the new ETag, then decide.",
			"请重新读取并查看新的 ETag，再作决定。",
		},
	},
	{
		kind: drive.TooLarge, status: http.StatusRequestEntityTooLarge,
		title:   text{"Too large", "过大"},
		reasons: sizeReasons,
		says: []text{
			{"{sent} bytes were sent; at most {limit} ({limit:size}) are allowed here.", "发送了 {sent} 字节，此处最多 {limit} 字节（{limit:size}）。"},
			{"At most {limit} bytes ({limit:size}) are allowed here.", "此处最多 {limit} 字节（{limit:size}）。"},
			{"The body or the file is larger than allowed here.", "请求体或文件超过了此处允许的大小。"},
		},
		advice: text{
			"A JSON body can have at most 1 MiB, a file at most 16 TiB. Send large files as uploads in parts.",
			"JSON 请求体最大 1 MiB，文件最大 16 TiB。大文件请使用分片上传。",
		},
	},
	{
		kind: drive.MediaType, status: http.StatusUnsupportedMediaType,
		title: text{"The media type is not supported", "不支持该媒体类型"},
		says: []text{
			{"{sent} is not supported here; send {expected}.", "此处不支持 {sent}，应为 {expected}。"},
			{"The Content-Type is missing; send {expected}.", "缺少 Content-Type，应为 {expected}。"},
			{"The Content-Type of the body is not supported here.", "此处不支持该 Content-Type。"},
		},
		advice: text{
			"Send JSON as \"Content-Type: application/json\" in UTF-8, without Content-Encoding.",
			"请以 UTF-8 编码的 Content-Type: application/json 发送 JSON，不要使用 Content-Encoding。",
		},
	},
	{
		kind: drive.Range, status: http.StatusRequestedRangeNotSatisfiable,
		title: text{"The range is outside the file", "请求的范围超出文件"},
		says: []text{
			{"The file has {size} bytes; the range is outside of them.", "文件共 {size} 字节，所请求的范围不在其中。"},
			{"The range is outside the file.", "所请求的范围不在文件之内。"},
		},
		advice: text{
			"Request bytes below the size in Content-Range. A download that is already complete gets this response, too.",
			"请求的范围须小于 Content-Range 给出的大小。下载已经完成时也会得到此回复。",
		},
	},
	{
		kind: drive.DigestMismatch, status: http.StatusUnprocessableEntity,
		title: text{"The content does not match the digest", "内容与摘要不符"},
		says: []text{
			{
				"The {algorithm} of the content is {computed}, not {declared}.",
				"收到的内容的 {algorithm} 为 {computed}，而不是 {declared}。",
			},
			{"The content does not have the declared {algorithm}.", "收到的内容与声明的 {algorithm} 不符。"},
			{"The content that arrived does not have the declared digest.", "收到的内容与声明的摘要不符。"},
		},
		advice: text{
			"A part with a wrong digest is not kept: send it again. If a whole file does not match, it changed while it was read, or the digest belongs to another file.",
			"摘要不符的分片不会保留，请重新发送。若整个文件不符，说明文件在读取时被修改，或声明的是另一个文件的摘要。",
		},
	},
	{
		kind: drive.KeyReused, status: http.StatusUnprocessableEntity,
		title: text{"The key was used for something else", "该键已用于其他请求"},
		says: []text{{
			"This Idempotency-Key was already used for a different request.",
			"此 Idempotency-Key 已用于内容不同的请求。",
		}},
		advice: text{
			"Use a new key for each new request, and the same key only to repeat an identical one.",
			"每个新请求使用新的键，只有重复完全相同的请求时才使用相同的键。",
		},
	},
	{
		kind: drive.DigestRequired, status: http.StatusPreconditionRequired,
		title: text{"A digest of the whole file is required", "需要整个文件的摘要"},
		says: []text{{
			"Several sessions sent parts of this file, so completing it requires a strong digest of the whole file.",
			"该文件的分片来自多个会话，完成时必须提供整个文件的强摘要。",
		}},
		advice: text{
			"Send \"digests\" with complete: the BLAKE3, SHA-256 or SM3 of the file.",
			"请在完成时提供 digests：文件的 BLAKE3、SHA-256 或 SM3。",
		},
	},
	{
		kind: drive.Rate, status: http.StatusTooManyRequests, retry: 1,
		title: text{"Too many requests", "请求过多"},
		says: []text{
			{
				"At most {limit} are allowed at the same time. Try again in {retry_after} s.",
				"同时最多允许 {limit} 个请求。请在 {retry_after} 秒后重试。",
			},
			{"Too many requests. Try again in {retry_after} s.", "请求过于频繁，请在 {retry_after} 秒后重试。"},
			{"Too many requests in a short time, or at the same time.", "短时间内或同时发出的请求过多。"},
		},
		advice: text{
			"Wait as long as Retry-After says, and send fewer requests at the same time.",
			"请按 Retry-After 等待，并减少同时发出的请求。",
		},
	},
	{
		kind: drive.TooManyOpen, status: http.StatusTooManyRequests,
		title:   text{"Too many at a time", "数量已达上限"},
		reasons: openReasons,
		says: []text{
			{"At most {limit} uploads can be unfinished at a time.", "最多只能同时有 {limit} 个未完成的上传。"},
			{"The account has as many of these as it may have.", "该账户的此类项目数量已达上限。"},
		},
		advice: text{
			"End or delete some. Uploads: complete or cancel them (GET /api/v1/uploads lists them); forgotten ones go away by themselves. The member \"reason\" names what else there is too much of.",
			"请结束或删除一些。上传：完成或取消（GET /api/v1/uploads 可列出），被遗忘的会自动清除。成员 reason 指出其他达到上限的项目。",
		},
	},
}
