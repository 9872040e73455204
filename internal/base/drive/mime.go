package drive

import "strings"

// UnknownMime is the media type of files of unknown type.
const UnknownMime = "application/octet-stream"

// MimeOf returns the media type for the extension of a name, case-insensitive; UnknownMime for
// unknown or missing extensions. It does not use package mime, whose table depends on the machine.
func MimeOf(name Name) string {
	at := strings.LastIndexByte(string(name), '.')
	if at < 0 || at == len(name)-1 {
		return UnknownMime
	}
	if t, ok := mimes[strings.ToLower(string(name[at+1:]))]; ok {
		return t
	}
	return UnknownMime
}

// mimes maps extensions to media types: registered with IANA if possible, else the ones that
// browsers and desktops use. Text is assumed to be UTF-8. ts is TypeScript, because drives hold
// fewer MPEG transport streams.
var mimes = map[string]string{
	// documents
	"pdf": "application/pdf", "rtf": "application/rtf", "epub": "application/epub+zip", "mobi": "application/x-mobipocket-ebook", "azw3": "application/vnd.amazon.mobi8-ebook",
	"doc": "application/msword", "xls": "application/vnd.ms-excel", "ppt": "application/vnd.ms-powerpoint",
	"docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	"odt":  "application/vnd.oasis.opendocument.text", "ods": "application/vnd.oasis.opendocument.spreadsheet", "odp": "application/vnd.oasis.opendocument.presentation",
	"wps": "application/vnd.ms-works", "pages": "application/vnd.apple.pages", "numbers": "application/vnd.apple.numbers", "key": "application/vnd.apple.keynote",
	"ps": "application/postscript", "eps": "application/postscript", "djvu": "image/vnd.djvu", "xps": "application/vnd.ms-xpsdocument",

	// text and code
	"txt": textPlain, "text": textPlain, "log": textPlain, "conf": textPlain, "cfg": textPlain, "ini": textPlain, "env": textPlain, "diff": "text/x-diff; charset=utf-8",
	"patch": "text/x-diff; charset=utf-8", "srt": textPlain, "nfo": textPlain, "md": "text/markdown; charset=utf-8", "markdown": "text/markdown; charset=utf-8",
	"csv": "text/csv; charset=utf-8", "tsv": "text/tab-separated-values; charset=utf-8", "vtt": "text/vtt; charset=utf-8", "ics": "text/calendar; charset=utf-8",
	"vcf": "text/vcard; charset=utf-8", "html": "text/html; charset=utf-8", "htm": "text/html; charset=utf-8", "xhtml": "application/xhtml+xml",
	"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "mjs": "text/javascript; charset=utf-8", "cjs": "text/javascript; charset=utf-8",
	"ts": textPlain, "tsx": textPlain, "jsx": textPlain, "vue": textPlain, "json": "application/json", "jsonl": "application/jsonl", "map": "application/json",
	"xml": "application/xml", "yaml": "application/yaml", "yml": "application/yaml", "toml": "application/toml", "sql": "application/sql",
	"c": "text/x-c; charset=utf-8", "h": "text/x-c; charset=utf-8", "cc": "text/x-c; charset=utf-8", "cpp": "text/x-c; charset=utf-8", "hpp": "text/x-c; charset=utf-8",
	"go": "text/x-go; charset=utf-8", "rs": "text/rust; charset=utf-8", "py": "text/x-python; charset=utf-8", "java": "text/x-java; charset=utf-8",
	"kt": textPlain, "swift": textPlain, "cs": textPlain, "rb": "text/x-ruby; charset=utf-8", "php": textPlain, "pl": textPlain, "lua": textPlain, "r": textPlain,
	"sh": "text/x-sh; charset=utf-8", "bash": "text/x-sh; charset=utf-8", "bat": textPlain, "ps1": textPlain, "tex": "text/x-tex; charset=utf-8", "proto": textPlain,

	// images
	"jpg": "image/jpeg", "jpeg": "image/jpeg", "jpe": "image/jpeg", "jfif": "image/jpeg", "png": "image/png", "apng": "image/apng", "gif": "image/gif",
	"webp": "image/webp", "bmp": "image/bmp", "ico": "image/x-icon", "svg": "image/svg+xml", "svgz": "image/svg+xml", "tif": "image/tiff", "tiff": "image/tiff",
	"avif": "image/avif", "heic": "image/heic", "heif": "image/heif", "jxl": "image/jxl", "psd": "image/vnd.adobe.photoshop", "dng": "image/x-adobe-dng",
	"cr2": "image/x-canon-cr2", "nef": "image/x-nikon-nef", "arw": "image/x-sony-arw",

	// audio
	"mp3": "audio/mpeg", "m4a": "audio/mp4", "aac": "audio/aac", "ogg": "audio/ogg", "oga": "audio/ogg", "opus": "audio/ogg", "flac": "audio/flac",
	"wav": "audio/wav", "wma": "audio/x-ms-wma", "aif": "audio/aiff", "aiff": "audio/aiff", "mid": "audio/midi", "midi": "audio/midi", "ape": "audio/x-ape", "amr": "audio/amr",

	// video
	"mp4": "video/mp4", "m4v": "video/mp4", "webm": "video/webm", "mkv": "video/matroska", "mov": "video/quicktime", "avi": "video/x-msvideo", "wmv": "video/x-ms-wmv",
	"flv": "video/x-flv", "mpg": "video/mpeg", "mpeg": "video/mpeg", "ogv": "video/ogg", "3gp": "video/3gpp", "m2ts": "video/mp2t", "mts": "video/mp2t",
	"rm": "application/vnd.rn-realmedia", "rmvb": "application/vnd.rn-realmedia-vbr", "m3u8": "application/vnd.apple.mpegurl",

	// archives and images of disks
	"zip": "application/zip", "gz": "application/gzip", "tgz": "application/gzip", "bz2": "application/x-bzip2", "xz": "application/x-xz", "zst": "application/zstd",
	"7z": "application/x-7z-compressed", "rar": "application/vnd.rar", "tar": "application/x-tar", "iso": "application/x-iso9660-image",
	"dmg": "application/x-apple-diskimage", "jar": "application/java-archive", "apk": "application/vnd.android.package-archive",
	"deb": "application/vnd.debian.binary-package", "rpm": "application/x-rpm", "exe": "application/vnd.microsoft.portable-executable",
	"msi": "application/x-msi", "torrent": "application/x-bittorrent", "wasm": "application/wasm", "sqlite": "application/vnd.sqlite3",

	// fonts
	"ttf": "font/ttf", "otf": "font/otf", "woff": "font/woff", "woff2": "font/woff2", "ttc": "font/collection",
}

// textPlain is the type of plain text.
const textPlain = "text/plain; charset=utf-8"
