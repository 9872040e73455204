package rest

import (
	"smartdrive/internal/base/drive"
	"smartdrive/internal/intake/ingest"
	"smartdrive/internal/usecase/files"
)

const sourcesPath = "/sources"

func (a *API) sourceRoutes() []route {
	one := sourcesPath + "/{name}"
	return []route{
		{
			method: "GET", path: sourcesPath, need: read, act: plain((*call).listSources), query: []param{limitParam, cursor},
			does: "List those who send documents: folders of /intake that have rules or have sent bundles.",
			out:  []outcome{gives[files.Page[ingest.Source]](200, "a page")}, fails: []drive.Kind{drive.CursorInvalid},
		}, {
			method: "GET", path: one, need: read, act: plain((*call).getSource),
			does: "Show the rules of a source.",
			out:  []outcome{gives[ingest.Source](200, "the source")}, fails: []drive.Kind{drive.NotFound},
		}, {
			method: "PUT", path: one, need: write, act: takes((*call).putSource),
			does:  "Say which documents of a source are taken; others are rejected and counted. It holds for bundles that are taken in from now on.",
			out:   []outcome{gives[ingest.Source](200, "the source")},
			fails: []drive.Kind{drive.TooManyOpen},
		}, {
			method: "DELETE", path: one, need: write, act: plain((*call).deleteSource),
			does: "Forget the rules of a source: every document is taken then. Its bundles and documents stay.",
			out:  []outcome{nothing(204, "there are no rules")}, fails: []drive.Kind{drive.NotFound},
		},
	}
}

func (c *call) listSources() (reply, error) {
	all, err := c.Intake.Sources(c.ctx(), c.who)
	if err != nil {
		return reply{}, err
	}
	return pageOf(c, all, func(s ingest.Source) string { return s.Name })
}

func (c *call) getSource() (reply, error) {
	return answer(c.Intake.Source(c.ctx(), c.who, c.r.PathValue("name")))
}

type sourceBody struct {
	Rules ingest.Rules `json:"rules"`
}

func (c *call) putSource(in *sourceBody) (reply, error) {
	return answer(c.Intake.PutSource(c.ctx(), c.who, ingest.Source{Name: c.r.PathValue("name"), Rules: in.Rules}))
}

func (c *call) deleteSource() (reply, error) {
	return empty(c.Intake.DeleteSource(c.ctx(), c.who, c.r.PathValue("name")))
}
