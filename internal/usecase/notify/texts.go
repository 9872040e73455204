package notify

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/mail"
)

// texts are the texts of mails in one language.
type texts struct {
	code, codeText  string
	one, many, more string // subjects, and the line for further notices
	end, page       string // below all mails, and the link to the notices
	until, somebody string
	roles           map[string]string
	says            map[notice.Kind]map[notice.Event]string // placeholders: {by} {name} {role} {until} {n}
}

// english holds the texts of mails in English.
var english = texts{
	code:     "{code} is your code for mail from SmartDrive",
	codeText: "Somebody with an account has given this address for notices of SmartDrive.\n\nThe code is {code}. It is good for 30 minutes. Type it in under Notices.\n\nIf that was not you, do nothing: no further mail comes.\n",
	one:      "SmartDrive: {text}", many: "SmartDrive: {n} notices", more: "and {n} more",
	end: "You choose under Notices in SmartDrive what is mailed.", page: "All notices: {url}", until: " (until {until})", somebody: "Somebody",
	roles: map[string]string{"viewer": "viewer", "uploader": "uploader", "editor": "editor", "manager": "manager"},
	says: map[notice.Kind]map[notice.Event]string{
		notice.Share: {notice.Given: "{by} shared “{name}” with you: {role}{until}", notice.MoreShares: "More was shared with you or changed for you than is told one by one: see “Shared with me”"},
		notice.Role: {
			notice.Changed: "{by} changed your role at “{name}”: {role}{until}", notice.Taken: "{by} took your role at “{name}” away",
			notice.Ending: "Your role at “{name}” ends soon: {role}{until}", notice.Ended: "Your role at “{name}” has ended",
		},
		notice.Space:     {notice.Given: "{by} made you a member of the space “{name}”: {role}{until}"},
		notice.Group:     {notice.Given: "{by} added you to the group “{name}”", notice.Taken: "{by} removed you from the group “{name}”"},
		notice.Export:    {notice.Ready: "The export “{name}” is ready{until}", notice.Failed: "The export “{name}” has failed", notice.Ending: "The export “{name}” will be deleted soon{until}", notice.Late: "The export “{name}” takes longer than expected", notice.Skipped: "The scheduled export “{name}” was skipped: its source is missing or cannot be used"},
		notice.Collect:   {notice.Arrived: "Files have come into “{name}” by a collect link"},
		notice.Quota:     {notice.Full: "Your storage is nearly full"},
		notice.Webhook:   {notice.Disabled: "The webhook “{name}” was switched off"},
		notice.Operation: {notice.Failed: "Work on many files has ended, and {n} of them failed"},
	},
}

// chinese holds the texts of mails in Chinese.
var chinese = texts{
	code:     "SmartDrive 邮件验证码：{code}",
	codeText: "有用户把此地址设为 SmartDrive 通知的接收邮箱。\n\n验证码：{code}，30 分钟内有效。请在“通知”页面输入。\n\n如果不是您本人操作，请忽略此邮件，不会再有后续邮件。\n",
	one:      "SmartDrive：{text}", many: "SmartDrive：{n} 条通知", more: "还有 {n} 条",
	end: "可在 SmartDrive 的“通知”页面选择哪些内容通过邮件发送。", page: "全部通知：{url}", until: "（到 {until} 为止）", somebody: "有人",
	roles: map[string]string{"viewer": "查看者", "uploader": "上传者", "editor": "编辑者", "manager": "管理者"},
	says: map[notice.Kind]map[notice.Event]string{
		notice.Share: {notice.Given: "{by} 与您共享了“{name}”：{role}{until}", notice.MoreShares: "还有更多与您共享或为您更改的内容，不再逐条通知：请见“共享给我的”"},
		notice.Role: {
			notice.Changed: "{by} 更改了您在“{name}”的角色：{role}{until}", notice.Taken: "{by} 取消了您在“{name}”的角色",
			notice.Ending: "您在“{name}”的角色即将到期：{role}{until}", notice.Ended: "您在“{name}”的角色已到期",
		},
		notice.Space:     {notice.Given: "{by} 将您加入了空间“{name}”：{role}{until}"},
		notice.Group:     {notice.Given: "{by} 将您加入了群组“{name}”", notice.Taken: "{by} 将您移出了群组“{name}”"},
		notice.Export:    {notice.Ready: "导出“{name}”已完成{until}", notice.Failed: "导出“{name}”失败", notice.Ending: "导出“{name}”即将删除{until}", notice.Late: "导出“{name}”用时超出预期", notice.Skipped: "定时导出“{name}”已跳过：其来源缺失或无法使用"},
		notice.Collect:   {notice.Arrived: "“{name}”通过收集链接收到了文件"},
		notice.Quota:     {notice.Full: "您的存储空间快满了"},
		notice.Webhook:   {notice.Disabled: "Webhook“{name}”已被停用"},
		notice.Operation: {notice.Failed: "批量操作已结束，其中 {n} 项失败"},
	},
}

// textsFor returns the texts of a language; English by default.
func textsFor(language string) *texts {
	if language == "zh-CN" {
		return &chinese
	}
	return &english
}

// fill replaces each {key} in text by its value; pairs alternates keys and values, and is changed
// in place. Other text in brackets stays.
func fill(text string, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		pairs[i] = "{" + pairs[i] + "}"
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// sentence returns the text of a notice for mail. Names from users are sanitized.
func (t *texts) sentence(s Notification) string {
	until, by := "", s.By
	if s.Expires != nil {
		until = fill(t.until, "until", s.Expires.Std().UTC().Format("2006-01-02 15:04 UTC"))
	}
	if by == "" {
		by = t.somebody
	}
	name := s.Name
	if name == "" {
		name = "…"
	}
	return fill(t.says[s.Kind][s.What], "by", sanitize(by), "name", sanitize(name), "role", t.roles[s.Role], "until", until, "n", strconv.FormatInt(s.Failed, 10))
}

// sanitize replaces characters of a name that break lines or change the text direction.
func sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return '�'
		}
		return r
	}, s)
}

// codeMail returns the mail with a confirmation code.
func (p *Mailer) codeMail(one notice.Preferences) mail.Message {
	w := textsFor(one.Language)
	return mail.Message{
		ID: fmt.Sprintf("code-%s-%d-%d", one.User, int64(one.CodeExpires), one.Codes), To: one.Address, Language: one.Language,
		Subject: fill(w.code, "code", one.Code), Text: fill(w.codeText, "code", one.Code),
	}
}

// digest returns a mail of several notices, newest first. Its Message-ID derives from the newest
// one, so a repeated mail has the same.
func (p *Mailer) digest(one notice.Preferences, all []Notification) mail.Message {
	w := textsFor(one.Language)
	var b strings.Builder
	for i, s := range all {
		if i == maxMailLines {
			fmt.Fprintf(&b, "%s\n", fill(w.more, "n", strconv.Itoa(len(all)-i)))
			break
		}
		fmt.Fprintf(&b, "- %s\n", w.sentence(s))
	}
	b.WriteString("\n")
	if p.opt.BaseURL != "" {
		b.WriteString(fill(w.page, "url", p.opt.BaseURL+"/notices") + "\n")
	}
	b.WriteString(w.end + "\n")
	m := mail.Message{ID: "notice-" + all[0].ID.String() + "-" + one.User.String(), To: one.Address, Text: b.String(), Language: one.Language}
	if m.Subject = fill(w.many, "n", strconv.Itoa(len(all))); len(all) == 1 {
		m.Subject = fill(w.one, "text", w.sentence(all[0]))
	}
	return m
}
