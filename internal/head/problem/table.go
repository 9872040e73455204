package problem

import (
	"net/http"
	"slices"

	"example.org/smartdrive/internal/base/drive"
)

// row declares status, texts and retry time of one kind of error.
type row struct {
	kind    drive.Kind
	status  int
	title   text
	reasons map[string]text // sentences by the arg "reason"; tried before says
	states  map[string]text // sentences by the arg "state"; tried before says
	fields  map[string]text // sentences by the arg "field"; tried before says
	says    []text          // the first one with complete {args} is used; the last has no args and explains the kind
	advice  text            // what to do, for the page
	retry   int             // default Retry-After in seconds; 0: none
}

// rows has a row for each kind of error; TestEveryKindHasARow verifies that. In the texts, {name}
// is replaced by an arg, and {name:size} by an arg in bytes formatted as in "8MiB".
var rows = slices.Concat(requestRows, stateRows, serverRows)

// requestRows are for requests that are refused regardless of the server's state. The first row is
// the fallback.
var requestRows = []row{
	{
		kind: drive.Internal, status: http.StatusInternalServerError,
		title: text{"Something went wrong in the server", "服务器内部出错"},
		says: []text{{
			"An error occurred in the server. It is not your fault, and has been logged under the request id.",
			"服务器遇到了与你无关的错误，已按请求编号记入日志。",
		}},
		advice: text{
			"Try again. If the error persists, give the operator the request id, which leads to the cause in the log.",
			"请重试。若仍然出错，请把请求编号告诉管理员，据此可在日志中找到原因。",
		},
	},
	{
		kind: drive.BadRequest, status: http.StatusBadRequest,
		title:   text{"The request is invalid", "请求有误"},
		reasons: fieldReasons,
		says: []text{
			{"{field} is invalid.", "{field} 有误。"},
			{"The request cannot be understood.", "无法理解该请求。"},
		},
		advice: text{
			"\"field\" names the part of the request that was refused, \"reason\" says why. Correct it and send the request again.",
			"field 指出请求中被拒绝的部分，reason 说明原因。请改正后重新发送。",
		},
	},
	{
		kind: drive.BadName, status: http.StatusBadRequest,
		title:   text{"The name or path cannot be used", "名称或路径不可用"},
		reasons: nameReasons,
		says: []text{{
			"A name has 1 to 255 bytes of UTF-8, contains no \"/\" and no control characters, and is neither \".\" nor \"..\".",
			"名称须为 1 至 255 字节的 UTF-8，不含“/”和控制字符，也不能是“.”或“..”。",
		}},
		advice: text{
			"Choose another name. A path has at most 4096 bytes and 128 levels; in a URL each name is percent-encoded by itself.",
			"请换一个名称。路径最长 4096 字节、最多 128 级；在 URL 中须对每个名称单独进行百分号编码。",
		},
	},
	{
		kind: drive.PartSize, status: http.StatusBadRequest,
		title: text{"The part has the wrong size", "分片大小不对"},
		says: []text{
			{
				"The part is {sent} bytes; parts of this upload are {part_size} bytes and the last one {last}.",
				"该分片为 {sent} 字节；本次上传的分片为 {part_size} 字节，最后一片为 {last} 字节。",
			},
			{
				"The part is {sent} bytes; it must be {expected}.",
				"该分片为 {sent} 字节，应为 {expected} 字节。",
			},
			{
				"Each part of an upload has exactly the part size of that upload; only the last one may be shorter.",
				"每个分片必须正好等于本次上传的分片大小，只有最后一片可以更短。",
			},
		},
		advice: text{
			"Split the file at multiples of the upload's \"part_size\" (GET the upload to see it) and send the part again.",
			"请按上传任务给出的 part_size 的整数倍切分文件（可 GET 该任务查看），然后重发该分片。",
		},
	},
	{
		kind: drive.PartRange, status: http.StatusBadRequest,
		title: text{"The part number is out of range", "分片编号超出范围"},
		says: []text{
			{
				"The upload has parts 0 to {max}; there is no part {sent}.",
				"本次上传的分片编号为 0 到 {max}，没有第 {sent} 片。",
			},
			{
				"The part number is outside the range of this upload. Parts are numbered from 0.",
				"分片编号超出本次上传的范围。分片从 0 开始编号。",
			},
		},
		advice: text{
			"Number the parts from 0 to \"parts\" - 1. If the size was unknown when the upload began, the file can have at most \"max_size\" bytes.",
			"请将分片从 0 编号到 parts - 1。开始时大小未知的文件最多为 max_size 字节。",
		},
	},
	{
		kind: drive.CursorInvalid, status: http.StatusBadRequest,
		title: text{"The cursor is no longer valid", "游标已失效"},
		says: []text{{
			"The cursor is damaged, or belongs to a list with a different order or filter.",
			"游标已损坏，或属于另一种排序或筛选的列表。",
		}},
		advice: text{
			"Request the list again without a cursor, and use the same sort and order for every page.",
			"请不带游标重新开始列举，并在翻页时保持 sort 和 order 不变。",
		},
	},
	{
		kind: drive.Unauthenticated, status: http.StatusUnauthorized,
		title: text{"Please log in", "请先登录"},
		says: []text{{
			"The request carries no valid token, or the name and password do not match.",
			"请求未携带有效令牌，或用户名与密码不匹配。",
		}},
		advice: text{
			"Log in (POST /api/v1/sessions) and send the token as \"Authorization: Bearer TOKEN\". A token ends after 30 days without use, or when the password is changed.",
			"请登录（POST /api/v1/sessions），并以 Authorization: Bearer TOKEN 发送令牌。令牌闲置 30 天或修改密码后失效。",
		},
	},
	{
		kind: drive.Forbidden, status: http.StatusForbidden,
		title: text{"Not allowed", "没有权限"},
		says: []text{
			{"The token lacks the scope {scope}.", "令牌缺少 {scope} 权限。"},
			{"This requires an administrator or a token with more rights.", "此操作需要管理员身份或权限更高的令牌。"},
		},
		reasons: map[string]text{
			"new-password": {"An administrator chose the password. Set one of your own first.", "密码由管理员设置，请先设置自己的新密码。"},
			"role":         {"Your role here is {role}; this needs at least {needs}.", "你在此处的角色是 {role}，此操作至少需要 {needs}。"},
			"links":        {"Nobody may give out links of this space: its managers have decided so.", "空间的管理者规定：任何人都不能从此空间发出链接。"},
			"outward":      {"Nothing in this space is shared with people who are not its members: its managers have decided so.", "空间的管理者规定：此空间的内容不与非成员共享。"},
			"shared-top":   {"This was shared with you as it is: what is in it can be changed, and only its owner can move or delete it.", "这是共享给你的顶层项目：可以更改其中的内容，但只有所有者可以移动或删除它本身。"},
			"layout":       {"This folder is part of how the drive is laid out: nothing can be added to it, taken away or renamed here.", "该文件夹属于固定的目录结构，不能在此添加、移走或重命名。"},
			"same":         {"A file or folder cannot be moved or copied onto itself.", "文件或文件夹不能移动或复制到自身。"},
			"litter":       {"This server keeps no files that desktops leave behind, such as .DS_Store, Thumbs.db and ~$ files.", "本服务器不保存桌面系统留下的文件，例如 .DS_Store、Thumbs.db 和 ~$ 文件。"},
			"finite-depth": {"Folders are listed one at a time: ask with Depth: 0 or 1.", "文件夹只能逐个列出，请使用 Depth: 0 或 1。"},
			"password":     {"The password is not the one of this account.", "密码不是此账户的密码。"},
			"sign-on-group": {
				"The identity provider knows you, and none of your groups there may use this server.",
				"身份提供方认识你，但你在那里的用户组无权使用本服务器。",
			},
			"sign-on-unknown": {
				"The identity provider knows you, and there is no user here that is connected with it.",
				"身份提供方认识你，但本服务器上没有与之关联的用户。",
			},
			"sign-on-taken": {
				"There is a user {name} here already. If it is you, log in with your name and password, and connect it in the settings; else ask an administrator.",
				"本服务器上已有用户 {name}。如果是你本人，请用用户名和密码登录，然后在设置中关联；否则请联系管理员。",
			},
			"sign-on-disabled": {"Your user on this server is disabled.", "你在本服务器上的用户已被停用。"},
			"finished":         {"The upload has become a file. To remove it, delete the file.", "该上传已成为文件，文件会保留；如需删除，请删除文件本身。"},
		},
		advice: text{
			"Ask an administrator, or who manages what was shared with you, or use a token with that scope.",
			"请联系管理员或共享内容的管理者，或使用具有相应权限的令牌。",
		},
	},
	{
		kind: drive.WrongCode, status: http.StatusForbidden,
		title: text{"The extraction code is wrong", "提取码错误"},
		says:  []text{{"This is not the extraction code of the share.", "提取码不正确。"}},
		advice: text{
			"Ask the person who sent you the link for the code. Upper and lower case make no difference.",
			"请向分享者索取提取码。不区分大小写。",
		},
	},
	{
		kind: drive.CrossOrigin, status: http.StatusForbidden,
		title: text{"The request came from another site", "请求来自其他网站"},
		says: []text{{
			"The browser added a login that it keeps (a cookie, or a name and password), and the page that sent the request does not belong to this server.",
			"浏览器附上了其保存的登录（Cookie 或用户名和密码），而发出该请求的网页不属于本服务器。",
		}},
		advice: text{
			"Open the server's own address. Behind a proxy the server must know that address: set --base-url, or forward the Host header. Programs should send a token instead of the cookie.",
			"请直接访问本服务器的地址。若经由反向代理，须让服务器知道该地址：设置 --base-url，或转发 Host。程序应使用令牌而非 Cookie。",
		},
	},
	{
		kind: drive.NotFound, status: http.StatusNotFound,
		title: text{"Not found", "没有找到"},
		says: []text{
			{"No {what} that you can see was found here.", "这里没有你可以查看的 {what}。"},
			{"It does not exist, or it is not yours.", "它不存在，或者不属于你。"},
		},
		advice: text{
			"Check the path or the id. Things that belong to others are reported as not existing.",
			"请检查路径或编号。属于他人的内容与不存在的内容看起来相同。",
		},
	},
	{
		kind: drive.NoThumbnail, status: http.StatusNotFound,
		title: text{"No thumbnail", "没有缩略图"},
		reasons: map[string]text{
			"type":      {"Thumbnails are made for JPEG, PNG, GIF, WebP and BMP images only, and not for all variants of them.", "仅为 JPEG、PNG、GIF、WebP 和 BMP 图片生成缩略图，不包括它们的某些变体。"},
			"too-large": {"The image is too large for a thumbnail.", "图片过大，无法生成缩略图。"},
			"damaged":   {"The file cannot be read as an image.", "该文件无法作为图片读取。"},
		},
		says: []text{{
			"The server makes no thumbnail for this file.",
			"服务器没有为该文件生成缩略图。",
		}},
		advice: text{
			"Show an icon instead. The file itself is not affected.",
			"请改为显示图标。文件本身不受影响。",
		},
	},
	{
		kind: drive.Method, status: http.StatusMethodNotAllowed,
		title: text{"Method not allowed", "此地址不支持该方法"},
		says: []text{
			{"{method} is not allowed here; allowed are {allow}.", "此处不支持 {method}，可用的有 {allow}。"},
			{"The address exists, but does not support this method.", "地址存在，但不支持该方法。"},
		},
		advice: text{
			"The header Allow lists the methods of this address.",
			"响应头 Allow 列出该地址支持的方法。",
		},
	},
	{
		kind: drive.TooSlow, status: http.StatusRequestTimeout,
		title: text{"The request body arrived too slowly", "请求体发送过慢"},
		says: []text{
			{
				"Only {sent} bytes arrived in {seconds} s; at least {limit} are required in that time.",
				"{seconds} 秒内只收到 {sent} 字节，至少需要 {limit} 字节。",
			},
			{
				"A request body must arrive at 4 KiB/s or more on average.",
				"请求体的平均速度不得低于 4 KiB/s。",
			},
		},
		advice: text{
			"Send it again. Accepted parts of an upload are kept; only the interrupted part has to be sent again.",
			"请重新发送。已接收的分片仍然保留，只需重发中断的那一片。",
		},
	},
}
